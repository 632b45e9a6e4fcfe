"""Definition of a mode: a function from a request to an answer, and the model that it needs."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, MutableMapping, Sequence
from dataclasses import field
from typing import Any, Generic, TypeAlias, TypeVar

from mergewise.defaults import MAX_TOKENS
from mergewise.generate.sources import DocumentLookup
from mergewise.models.decoding import Decoded
from mergewise.models.record import Models
from mergewise.protocols import CausalModel, ChatModel, Embedder, Reranker
from mergewise.text.question import AskedName
from mergewise.types import Answer, Context, ReplyOptions, frozen

Show: TypeAlias = Callable[[str], None]
"""Called with each piece of an answer as it arrives, from the thread of the event loop."""

Needed = TypeVar("Needed")


@frozen
class Request:
    """The input of a mode that answers `context.question`.

    Attributes:
        context: The context of the question.
        document: Looks up the documents of the passages by id.
        models: The models that are available.
        max_tokens: Maximum tokens that a model writes in one call.
        show: Called with each piece of a streamed answer.
        backgrounds: Cache of background texts by the causal model, by question. The mode reads it and adds new ones.
        absent: Names of the question that occur in no document, for a mode that reads evidence.
        reply: Options of the text that a chat model writes.
    """

    context: Context
    document: DocumentLookup
    models: Models
    max_tokens: int = MAX_TOKENS
    show: Show | None = None
    backgrounds: MutableMapping[str, Decoded] | None = None
    absent: tuple[AskedName, ...] = ()
    reply: ReplyOptions = field(default_factory=ReplyOptions)


@frozen
class Need(Generic[Needed]):
    """A kind of model that a mode or a strategy needs.

    Attributes:
        name: Its name, empty for `NO_MODEL`.
        of: Returns the model, or None if it is missing.
        what: Noun phrase of the model for error messages.
        hint: Instruction for a user without this model.
    """

    name: str
    of: Callable[[Models], Needed | None]
    what: str
    hint: str


NO_MODEL: Need[Models] = Need("", lambda models: models, "no model", "")
"""The mode needs no model, and receives the record of all models."""
CHAT: Need[ChatModel] = Need("chat", lambda models: models.chat, "a chat model", "add --chat openai:MODEL")
EMBEDDER: Need[Embedder] = Need(
    "embedder", lambda models: models.embedder, "vectors", "index with an embedder, for example --embedder minilm"
)
RERANKER: Need[Reranker] = Need(
    "reranker", lambda models: models.reranker, "a reranker", "add --reranker cross-encoder:PATH"
)
CAUSAL: Need[CausalModel] = Need(
    "causal",
    lambda models: models.causal,
    "a causal model with readable next-token probabilities",
    "add --chat hf:PATH, or set the causal model hf:PATH, or use --mode aed-best with any chat model",
)


@frozen
class Mode(Generic[Needed]):
    """A way to answer.

    Attributes:
        answer: Answers a request with the model that the mode needs. It may be a coroutine function, which runs in the event
            loop. It does not set `Answer.mode`; the caller does.
        summary: Noun phrase of the material that the answer is made from.
        needs: The model that the mode needs.
        reads_context: False gives the mode an empty context.
        alone: Answers even if the context has no passages.
        reads_evidence: Gives the mode `Context.evidence`.
        answer_all: Answers many questions with the same models at once, if that is cheaper than one by one.
        otherwise: Name of the mode for models of another kind.
        takes_reply_options: Follows `Request.reply`.
    """

    answer: Callable[[Request, Needed], Answer | Coroutine[Any, Any, Answer]]
    summary: str
    needs: Need[Needed]
    reads_context: bool = True
    alone: bool = False
    reads_evidence: bool = False
    answer_all: Callable[[Sequence[Request], Needed], list[Answer]] | None = None
    otherwise: str = ""
    takes_reply_options: bool = False
