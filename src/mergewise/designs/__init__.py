"""The designs, a wing for each, and what they bring together: `VIEWS`, `STRATEGIES`, `MODES` and `PROMPTS`, by name.

A wing says what it brings in one value, `DESIGN`. It imports the rooms that all share, and no other wing. Other packages bring
designs by entry points of the group `mergewise.designs`. Importing this imports no wing: a wing comes when one of them is
first looked into.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any, TypeVar

from mergewise.designs.design import Design, Lazy, Strategy
from mergewise.errors import UsageError
from mergewise.lazy import lazy_names

if TYPE_CHECKING:
    from mergewise.assemble.budget import pack as pack
    from mergewise.assemble.fragments import Candidate as Candidate
    from mergewise.assemble.fragments import Fragment as Fragment
    from mergewise.designs.specs import assignments as assignments
    from mergewise.designs.specs import search_settings as search_settings
    from mergewise.designs.specs import split_spec as split_spec
    from mergewise.designs.specs import split_specs as split_specs
    from mergewise.designs.specs import view_settings as view_settings
    from mergewise.designs.specs import with_parameters as with_parameters
    from mergewise.designs.strategies import preferred_mode as preferred_mode
    from mergewise.designs.strategies import resolve as resolve
    from mergewise.generate.mode import CAUSAL as CAUSAL
    from mergewise.generate.mode import CHAT as CHAT
    from mergewise.generate.mode import NO_MODEL as NO_MODEL
    from mergewise.generate.mode import Mode as Mode
    from mergewise.generate.mode import Request as Request
    from mergewise.store.tables import Table as Table
    from mergewise.store.views import View as View
    from mergewise.types import PromptTemplate

# What a design of your own is written with, by the module that has it; imported when it is first used.
_HOMES = {
    "mergewise.assemble.budget": "pack",
    "mergewise.assemble.fragments": "Candidate Fragment",
    "mergewise.generate.mode": "CAUSAL CHAT NO_MODEL Mode Request",
    "mergewise.store.tables": "Table",
    "mergewise.store.views": "View",
}
__all__ = ["DESIGNS", "MODES", "PROMPTS", "STRATEGIES", "VIEWS", "Design", "Strategy"]
__all__ += [name for names in _HOMES.values() for name in names.split()]
# What the evaluation, the server and the command line need besides.
_SPECS = {
    "specs": "assignments search_settings split_spec split_specs view_settings with_parameters",
    "strategies": "preferred_mode resolve",
}
__getattr__ = lazy_names(__name__, _HOMES | _SPECS)

log = logging.getLogger("mergewise")

DESIGNS = ("weave", "auto_merge", "macrag", "mergerag", "mrag", "aed", "raptor", "tree_rag", "crag", "self_rag")
GROUP = "mergewise.designs"

Part = TypeVar("Part")


@cache
def _designs() -> dict[str, Design]:
    """All designs by what brings them: the wings, then what other packages bring."""
    return {
        **{f"the wing {wing}": import_module(f"{__name__}.{wing}").DESIGN for wing in DESIGNS},
        **_designs_of_packages(),
    }


def _designs_of_packages() -> dict[str, Design]:
    """The designs of other packages. One that cannot be loaded is left out, with a warning in the log.

    Raises UsageError where an entry point leads to something else than a `Design`.
    """
    designs: dict[str, Design] = {}
    for point in sorted(entry_points(group=GROUP), key=_origin):
        try:
            design = point.load()
        except Exception as error:  # whatever a foreign module does when it is imported
            log.warning("%s is left out, it cannot be loaded: %s", _origin(point), error)
            continue
        if not isinstance(design, Design):
            raise UsageError(
                f"what {_origin(point)} brings is no mergewise.designs.Design",
                "see docs/architecture.md, or uninstall it",
            )
        designs[_origin(point)] = design
    return designs


def _origin(point: EntryPoint) -> str:
    """The entry point and its package, for people."""
    return f"the design {point.name} of the package {point.dist.name if point.dist else 'without a name'}"


def _together(*brought: tuple[str, Mapping[str, Part]]) -> dict[str, Part]:
    """All parts, each brought by what is named beside it. Raises UsageError where two have the same name."""
    together: dict[str, Part] = {}
    for origin, parts in brought:
        if taken := together.keys() & parts.keys():
            raise UsageError(f"{origin} brings {min(taken)!r}, which is there already", "uninstall that package")
        together.update(parts)
    return together


def _views() -> dict[str, View]:
    from mergewise.index import tree

    return _together(("the tree", {"leaf": tree.VIEW}), *((origin, one.views) for origin, one in _designs().items()))


def _strategies() -> dict[str, Strategy]:
    return dict(sorted(_together(*((origin, one.strategies) for origin, one in _designs().items())).items()))


def _modes() -> dict[str, Mode[Any]]:
    from mergewise.generate import modes

    brought = ((origin, one.modes) for origin, one in _designs().items())
    return dict(sorted(_together(("the house", modes.MODES), *brought).items()))


def _prompts() -> dict[str, PromptTemplate]:
    from mergewise.generate import prompts

    return _together(("the house", prompts.TEMPLATES), *((origin, one.prompts) for origin, one in _designs().items()))


VIEWS: Lazy[View] = Lazy(_views)
"""By the names that `--views` takes. A view is built from the document and the rows of those before it."""
STRATEGIES: Lazy[Strategy] = Lazy(_strategies)
MODES: Lazy[Mode[Any]] = Lazy(_modes)
PROMPTS: Lazy[PromptTemplate] = Lazy(_prompts)
