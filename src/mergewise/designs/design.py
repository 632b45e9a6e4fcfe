"""The types that describe a design: its views, strategies, modes and prompts. Importing this module is cheap."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, Any

from mergewise.lazy import Later as Later
from mergewise.lazy import Lazy as Lazy
from mergewise.types import frozen

if TYPE_CHECKING:
    from mergewise.generate.mode import Mode, Need
    from mergewise.models.record import Models
    from mergewise.protocols import IndexReader
    from mergewise.store.views import Presets, View
    from mergewise.types import Context, PromptTemplate


def later(module: str, attribute: str, *names: str) -> Lazy[Any]:
    """Return the parts of these names, imported from a module when they are first read: a view and a strategy on their own."""
    return Lazy(partial(dict.fromkeys, names, Later(module, attribute)))


@frozen
class Strategy:
    """A way from a question to a context.

    Attributes:
        assemble: A function `assemble(question, reader, budget, models, parameters)` that returns the context.
        parameters: A frozen dataclass with a default for every field.
        summary: A one-line description.
        merge: A function `merge(context, budget, models, parameters)` for a strategy that can also merge what another one
            selected.
        views: Views that the index must have besides the leaves.
        mode: The mode that answers from these contexts by default, if its models are available.
        presets: Named sets of parameters for `preset=NAME`, such as those of the paper.
        needs: The model that the strategy requires.
    """

    assemble: Callable[[str, IndexReader, int, Models, Any], Context]
    parameters: Any
    summary: str
    merge: Callable[[Context, int, Models, Any], Context] | None = None
    views: tuple[str, ...] = ()
    mode: str = ""
    presets: Presets = field(default_factory=dict)
    needs: Need[Any] | None = None


@frozen
class Design:
    """The views, strategies, modes and prompts of a design, each by its name.

    A package provides a design through an entry point of the group `mergewise.designs` whose object is a `Design`.

    Attributes:
        views: Additional tables of an index.
        strategies: Ways from a question to a context.
        modes: Ways from a context to an answer.
        prompts: Prompt templates that users can replace.
    """

    views: Mapping[str, View] = field(default_factory=dict)
    strategies: Mapping[str, Strategy] = field(default_factory=dict)
    modes: Mapping[str, Mode[Any]] = field(default_factory=dict)
    prompts: Mapping[str, PromptTemplate] = field(default_factory=dict)
