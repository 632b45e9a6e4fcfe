"""What a mode is: a function from a request to an answer, and which model it needs."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from mergewise.defaults import MAX_TOKENS
from mergewise.generate.sources import DocumentLookup
from mergewise.models.decoding import Decoded
from mergewise.protocols import CausalModel, ChatModel, Embedder, TokenCounter, UtilityPredictor
from mergewise.types import Answer, Context

Show: TypeAlias = Callable[[str], None]
"""Called with each piece of an answer as it arrives, from the thread of the event loop."""

Needs: TypeAlias = Literal["none", "chat", "causal"]


@dataclass(frozen=True, slots=True)
class Request:
    """What a mode may use to answer `context.question`. A model is None where there is none.

    `max_tokens` is what a model may write in one call. With `show` the answer arrives in pieces on the way. `backgrounds`, by
    their questions, are what the causal model wrote before: they are read from there, and new ones are put there.
    """

    context: Context
    document: DocumentLookup
    count_tokens: TokenCounter
    embedder: Embedder | None = None
    chat: ChatModel | None = None
    causal: CausalModel[Any] | None = None
    max_tokens: int = MAX_TOKENS
    show: Show | None = None
    predictor: UtilityPredictor | None = None
    backgrounds: MutableMapping[str, Decoded] | None = None


@dataclass(frozen=True, slots=True)
class Mode:
    """One way to answer. `summary` says what the answer is made from, `needs` which model the mode cannot do without.

    A mode with `reads_context=False` is given an empty context; one with `alone` answers also where a context has no passages.
    `answer` may be a coroutine function, which then runs in the event loop. It leaves `Answer.mode` alone:
    `mergewise.generate.answer` sets it. `answer_all` answers many questions at once, where that costs less than one by one.
    `otherwise` names a mode for models of another kind.
    """

    answer: Callable[[Request], Answer | Coroutine[Any, Any, Answer]]
    summary: str
    needs: Needs = "none"
    reads_context: bool = True
    alone: bool = False
    reads_evidence: bool = False  # whether it needs `Context.evidence`
    answer_all: Callable[[Sequence[Request]], list[Answer]] | None = None
    otherwise: str = ""
