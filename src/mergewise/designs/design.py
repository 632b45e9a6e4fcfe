"""What a design brings to the house: views, strategies and modes, in one value. Importing this costs nothing."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pickle import PicklingError
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from mergewise.generate.mode import Mode, Need
    from mergewise.models.record import Models
    from mergewise.protocols import IndexReader
    from mergewise.store.views import Presets, View
    from mergewise.types import Context, PromptTemplate

Part = TypeVar("Part")


class Lazy(UserDict[str, Part]):
    """A dictionary that `make` gives when it is first looked into: opening an index imports no strategy and no mode."""

    def __init__(self, make: Callable[[], Mapping[str, Part]]) -> None:
        self._make = make

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process makes its own, which must be the same."""
        if self.data != dict(self._make()):
            raise PicklingError("it was changed in this process")
        return Lazy, (self._make,)

    @cached_property
    def data(self) -> dict[str, Part]:  # type: ignore[override]
        return dict(self._make())


@dataclass(frozen=True, slots=True)
class Strategy:
    """One way from a question to its context.

    `assemble(question, reader, budget, models, parameters)` is a function, and `parameters` a frozen dataclass with a default for
    every field. `summary` says in a line what the strategy does. `merge(context, budget, models, parameters)` is set if the
    strategy can also merge what another one selected. `views` are those that an index must have besides the leaves. `mode` is the
    mode that answers from its contexts where the user names none, if its models are at hand. `presets` are parameters that
    `preset=NAME` sets at once, such as those of the paper. `needs` is the model that it cannot do without.
    """

    assemble: Callable[[str, IndexReader, int, Models, Any], Context]
    parameters: Any
    summary: str
    merge: Callable[[Context, int, Models, Any], Context] | None = None
    views: tuple[str, ...] = ()
    mode: str = ""
    presets: Presets = field(default_factory=dict)
    needs: Need[Any] | None = None


@dataclass(frozen=True, slots=True)
class Design:
    """Views of an index, strategies over them, modes that answer from their contexts, and prompts, each by its name.

    A package brings designs of its own by an entry point of the group `mergewise.designs`, whose object is a `Design`.
    """

    views: Mapping[str, View] = field(default_factory=dict)
    strategies: Mapping[str, Strategy] = field(default_factory=dict)
    modes: Mapping[str, Mode[Any]] = field(default_factory=dict)
    prompts: Mapping[str, PromptTemplate] = field(default_factory=dict)
