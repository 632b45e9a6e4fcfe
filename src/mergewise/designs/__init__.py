"""Registry of the designs. `VIEWS`, `STRATEGIES`, `MODES` and `PROMPTS` map names to what the designs provide.

Each design is a package here and exports one value, `DESIGN`. It imports the shared packages and no other design. Other
distributions add designs through entry points of the group `mergewise.designs`. Importing this module imports no design: the
designs are loaded when one of the four dictionaries is first read.
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

# Names for authors of designs, by module. Each is imported on first use.
_HOMES = {
    "mergewise.assemble.budget": "pack",
    "mergewise.assemble.fragments": "Candidate Fragment",
    "mergewise.generate.mode": "CAUSAL CHAT NO_MODEL Mode Request",
    "mergewise.store.tables": "Table",
    "mergewise.store.views": "View",
}
__all__ = ["DESIGNS", "MODES", "PROMPTS", "STRATEGIES", "VIEWS", "Design", "Strategy"]
__all__ += [name for names in _HOMES.values() for name in names.split()]
# Names for the evaluation, the server and the command line.
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
    """Return all designs by origin: first the built-in ones, then those of other packages."""
    return {
        **{f"the built-in design {wing}": import_module(f"{__name__}.{wing}").DESIGN for wing in DESIGNS},
        **_designs_of_packages(),
    }


def _designs_of_packages() -> dict[str, Design]:
    """Load the designs of other packages. Skip a design that fails to load, with a warning in the log.

    Raises UsageError if an entry point does not lead to a `Design`.
    """
    designs: dict[str, Design] = {}
    for point in sorted(entry_points(group=GROUP), key=_origin):
        try:
            design = point.load()
        except Exception as error:  # a foreign module may raise anything on import
            log.warning("%s is skipped, it failed to load: %s", _origin(point), error)
            continue
        if not isinstance(design, Design):
            raise UsageError(
                f"{_origin(point)} is not a mergewise.designs.Design",
                "see docs/how-to/write-a-design.md, or uninstall the package",
            )
        designs[_origin(point)] = design
    return designs


def _origin(point: EntryPoint) -> str:
    """Describe the entry point and its package, for messages."""
    return f"the design {point.name} of the package {point.dist.name if point.dist else 'without a name'}"


def _merge_parts(*provided: tuple[str, Mapping[str, Part]]) -> dict[str, Part]:
    """Merge the parts of all origins into one dictionary. Raises UsageError if two parts have the same name."""
    merged: dict[str, Part] = {}
    for origin, parts in provided:
        if duplicates := merged.keys() & parts.keys():
            raise UsageError(f"duplicate name {min(duplicates)!r} in {origin}", "uninstall that package")
        merged.update(parts)
    return merged


def _views() -> dict[str, View]:
    from mergewise.index import tree

    return _merge_parts(("the tree", {"leaf": tree.VIEW}), *((origin, one.views) for origin, one in _designs().items()))


def _strategies() -> dict[str, Strategy]:
    return dict(sorted(_merge_parts(*((origin, one.strategies) for origin, one in _designs().items())).items()))


def _modes() -> dict[str, Mode[Any]]:
    from mergewise.generate import modes

    provided = ((origin, one.modes) for origin, one in _designs().items())
    return dict(sorted(_merge_parts(("mergewise", modes.MODES), *provided).items()))


def _prompts() -> dict[str, PromptTemplate]:
    from mergewise.generate import prompts

    return _merge_parts(
        ("mergewise", prompts.TEMPLATES), *((origin, one.prompts) for origin, one in _designs().items())
    )


VIEWS: Lazy[View] = Lazy(_views)
"""Views by the names that `--views` takes. Each is built from the document and the rows of the views before it."""
STRATEGIES: Lazy[Strategy] = Lazy(_strategies)
MODES: Lazy[Mode[Any]] = Lazy(_modes)
PROMPTS: Lazy[PromptTemplate] = Lazy(_prompts)
