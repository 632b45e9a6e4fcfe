"""What a strategy is: a function from a question to its context, and what it needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mergewise.models.record import Models
from mergewise.protocols import IndexReader
from mergewise.types import Context


@dataclass(frozen=True, slots=True)
class Strategy:
    """`assemble(question, reader, budget, models, parameters)` with the parameters that it has by default.

    `merge(context, budget, models, parameters)` is set if the strategy can also merge what another one selected.
    `views`: what an index must have besides the leaves. `mode`: the mode that answers from its contexts where the user names
    none, if its models are at hand.
    """

    assemble: Callable[[str, IndexReader, int, Models, Any], Context]
    parameters: Any
    summary: str
    merge: Callable[[Context, int, Models, Any], Context] | None = None
    views: tuple[str, ...] = ()
    mode: str = ""
