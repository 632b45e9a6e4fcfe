"""The designs, a wing for each, and what they bring together: `VIEWS`, `STRATEGIES` and `MODES`, by name.

A wing says what it brings in one value, `DESIGN`. It imports the rooms that all share, and no other wing. Other packages bring
designs by entry points of the group `mergewise.designs`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import cache
from importlib.metadata import entry_points
from typing import Any, TypeVar

from mergewise.assemble.strategy import Strategy
from mergewise.designs import aed, auto_merge, macrag, mergerag, mrag, weave
from mergewise.designs.design import Design, Lazy
from mergewise.errors import UsageError
from mergewise.generate.mode import Mode
from mergewise.index import tree
from mergewise.store.views import View

__all__ = ["DESIGNS", "MODES", "STRATEGIES", "VIEWS", "Design", "installed_designs"]

log = logging.getLogger("mergewise")

Part = TypeVar("Part")

DESIGNS: tuple[Design, ...] = (
    weave.DESIGN,
    auto_merge.DESIGN,
    macrag.DESIGN,
    mergerag.DESIGN,
    mrag.DESIGN,
    aed.DESIGN,
)


@cache
def installed_designs() -> tuple[Design, ...]:
    """The designs that installed packages bring. One that cannot be loaded is left out, with a warning in the log."""
    designs: list[Design] = []
    for point in sorted(entry_points(group="mergewise.designs"), key=lambda point: point.name):
        try:
            design = point.load()
        except Exception as error:  # whatever a foreign module does when it is imported
            log.warning("the design %s of another package cannot be loaded: %s", point.name, error)
            continue
        if not isinstance(design, Design):
            raise UsageError(
                f"the entry point {point.name!r} is no mergewise.designs.Design", "see docs/architecture.md"
            )
        designs.append(design)
    return tuple(designs)


def _shared_modes() -> dict[str, Mode[Any]]:
    from mergewise.generate.modes import MODES

    return MODES


def _together(*parts: Mapping[str, Part]) -> dict[str, Part]:
    """All of them. Raises UsageError where two have the same name."""
    together: dict[str, Part] = {}
    for named in parts:
        if twice := together.keys() & named.keys():
            raise UsageError(f"two designs bring {min(twice)!r}", "uninstall the package that brings the second one")
        together.update(named)
    return together


def _views() -> dict[str, View]:
    return _together({"leaf": tree.VIEW}, *(design.views for design in (*DESIGNS, *installed_designs())))


def _strategies() -> dict[str, Strategy]:
    return dict(sorted(_together(*(design.strategies for design in (*DESIGNS, *installed_designs()))).items()))


def _modes() -> dict[str, Mode[Any]]:
    brought = (design.modes for design in (*DESIGNS, *installed_designs()))
    return dict(sorted(_together(_shared_modes(), *brought).items()))


VIEWS: Lazy[View] = Lazy(_views)
"""By the names that `--views` takes. A view is built from the document and the rows of those before it."""
STRATEGIES: Lazy[Strategy] = Lazy(_strategies)
MODES: Lazy[Mode[Any]] = Lazy(_modes)
