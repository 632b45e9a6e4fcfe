"""Registry of the designs. `VIEWS`, `STRATEGIES`, `MODES` and `PROMPTS` map names to what the designs provide.

Each design is a package here and exports one value, `DESIGN`. It imports the shared packages and no other design. Other
distributions add designs through entry points of the group `mergewise.designs`. Importing this module imports no design: the
designs are loaded when one of the four dictionaries is first read.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from mergewise.designs.design import Design, Lazy, Strategy
from mergewise.lazy import lazy_names
from mergewise.plugins import merge_parts, plugins

if TYPE_CHECKING:
    from mergewise.assemble.budget import pack as pack
    from mergewise.assemble.fragments import Candidate as Candidate
    from mergewise.assemble.fragments import Fragment as Fragment
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
__getattr__ = lazy_names(__name__, _HOMES)

DESIGNS = "weave auto_merge macrag mergerag mrag aed raptor tree_rag crag self_rag".split()
GROUP = "mergewise.designs"


@cache
def _designs() -> dict[str, Design]:
    """Return all designs by origin: first the built-in ones, then those of other packages."""
    return {
        **{f"the built-in design {wing}": import_module(f"{__name__}.{wing}").DESIGN for wing in DESIGNS},
        **{one.origin: one.part for one in plugins(GROUP, Design, "mergewise.designs.Design")},
    }


def _parts_by_origin(kind: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the parts of each design with its origin. Parts that were not read yet are not imported."""
    for origin, one in _designs().items():
        parts = getattr(one, kind)
        yield origin, parts.data if isinstance(parts, Lazy) else parts


def _views() -> dict[str, View]:
    from mergewise.index import tree

    return merge_parts(("the tree", {"leaf": tree.VIEW}), *_parts_by_origin("views"))


def _strategies() -> dict[str, Strategy]:
    return dict(sorted(merge_parts(*_parts_by_origin("strategies")).items()))


def _modes() -> dict[str, Mode[Any]]:
    from mergewise.generate import modes

    return dict(sorted(merge_parts(("mergewise", modes.MODES), *_parts_by_origin("modes")).items()))


def _prompts() -> dict[str, PromptTemplate]:
    from mergewise.generate import prompts

    return merge_parts(("mergewise", prompts.TEMPLATES), *_parts_by_origin("prompts"))


VIEWS: Lazy[View] = Lazy(_views)
"""Views by the names that `--views` takes. Each is built from the document and the rows of the views before it."""
STRATEGIES: Lazy[Strategy] = Lazy(_strategies)
MODES: Lazy[Mode[Any]] = Lazy(_modes)
PROMPTS: Lazy[PromptTemplate] = Lazy(_prompts)
