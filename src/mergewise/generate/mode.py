"""What a mode is: a function from a request to an answer, and the model that it cannot do without."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

from mergewise.defaults import MAX_TOKENS
from mergewise.generate.sources import DocumentLookup
from mergewise.models.decoding import Decoded
from mergewise.models.record import Models
from mergewise.protocols import CausalModel, ChatModel, Embedder, Reranker
from mergewise.types import Answer, Context

Show: TypeAlias = Callable[[str], None]
"""Called with each piece of an answer as it arrives, from the thread of the event loop."""

Needed = TypeVar("Needed")


@dataclass(frozen=True, slots=True)
class Request:
    """What a mode may use to answer `context.question`.

    `document` gives the documents of its passages, by their ids. `max_tokens` is what a model may write in one call. With `show`
    the answer arrives in pieces on the way. `backgrounds`, by their questions, are what the causal model wrote before: they are
    read from there, and new ones are put there.
    """

    context: Context
    document: DocumentLookup
    models: Models
    max_tokens: int = MAX_TOKENS
    show: Show | None = None
    backgrounds: MutableMapping[str, Decoded] | None = None


@dataclass(frozen=True, slots=True)
class Need(Generic[Needed]):
    """A kind of model that a mode or a strategy cannot do without.

    `of` finds it, None where there is none; `what` and `hint` then say so.
    """

    name: str
    of: Callable[[Models], Needed | None]
    what: str
    hint: str


NO_MODEL: Need[Models] = Need("", lambda models: models, "no model", "")
"""The mode does without a model, and gets all that there are."""
CHAT: Need[ChatModel] = Need("chat", lambda models: models.chat, "a chat model", "name one: --chat openai:MODEL")
EMBEDDER: Need[Embedder] = Need(
    "embedder", lambda models: models.embedder, "vectors", "index with an embedder, for example --embedder minilm"
)
RERANKER: Need[Reranker] = Need(
    "reranker", lambda models: models.reranker, "a reranker", "name one: --reranker cross-encoder:PATH"
)
CAUSAL: Need[CausalModel[Any]] = Need(
    "causal",
    lambda models: models.causal,
    "a causal model, whose next-token probabilities can be read",
    "name one: --chat hf:PATH or --causal hf:PATH; with any chat model --mode aed-best takes the best stream alone",
)


@dataclass(frozen=True, slots=True)
class Mode(Generic[Needed]):
    """One way to answer. `summary` says what the answer is made from.

    `answer` is given the model that the mode `needs`. It may be a coroutine function, which then runs in the event loop. It
    leaves `Answer.mode` alone, which the caller sets. `answer_all` answers many questions with the same models at
    once, where that costs less than one by one. A mode with `reads_context=False` is given an empty context; one with `alone`
    answers also where a context has no passages; one with `reads_evidence` is given `Context.evidence`. `otherwise` names a
    mode for models of another kind.
    """

    answer: Callable[[Request, Needed], Answer | Coroutine[Any, Any, Answer]]
    summary: str
    needs: Need[Needed]
    reads_context: bool = True
    alone: bool = False
    reads_evidence: bool = False
    answer_all: Callable[[Sequence[Request], Needed], list[Answer]] | None = None
    otherwise: str = ""
