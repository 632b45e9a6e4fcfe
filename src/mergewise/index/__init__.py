"""From documents to the rows of views. A view is one room here, and one line of the registry."""

from __future__ import annotations

from mergewise.index import chunks, markers, slices, tree, triplets
from mergewise.store.views import View

__all__ = ["VIEWS"]

VIEWS: dict[str, View] = {
    "leaf": tree.VIEW,
    "slice": slices.VIEW,
    "fixed": chunks.FIXED_VIEW,
    "semantic": chunks.SEMANTIC_VIEW,
    "pic": chunks.PIC_VIEW,
    "marker": markers.VIEW,
    "triplet": triplets.VIEW,
}
"""By the names that `--views` takes. A view is built from the document and the rows of those before it."""
