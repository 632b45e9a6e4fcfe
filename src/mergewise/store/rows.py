"""What every store does to rows before it keeps them."""

from __future__ import annotations

from dataclasses import replace

from mergewise.types import DocumentRows


def moved(rows: DocumentRows, by: int) -> DocumentRows:
    """The same rows with `by` added to every id."""
    leaves = tuple(replace(x, id=x.id + by, ancestors=tuple(a + by for a in x.ancestors)) for x in rows.leaves)
    sections = tuple(
        replace(x, id=x.id + by, parent=None if x.parent is None else x.parent + by, first_leaf=x.first_leaf + by)
        for x in rows.sections
    )
    return replace(rows, leaves=leaves, sections=sections)
