"""What a model must be able to do."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, TypeVar, runtime_checkable

import numpy as np
import numpy.typing as npt

from mergewise.types import Message, Reply

FloatArray: TypeAlias = npt.NDArray[np.float32]

TokenCounter: TypeAlias = Callable[[Sequence[str]], list[int]]
"""Tokens of each text, without special tokens."""


class Embedder(Protocol):
    """Texts to unit vectors. `spec` is the name by which an index remembers it.

    One that knows few languages also has `languages`, their codes (`languages_known`).
    """

    @property
    def spec(self) -> str: ...

    @property
    def dimension(self) -> int: ...

    def embed_documents(self, texts: Sequence[str]) -> FloatArray:
        """Rows of unit length, shape (len(texts), dimension), in the order of `texts`."""
        ...

    def embed_queries(self, texts: Sequence[str]) -> FloatArray: ...


def languages_known(embedder: Embedder) -> frozenset[str] | None:
    """The codes of the languages whose texts an embedder compares well; None: all."""
    languages: Collection[str] | None = getattr(embedder, "languages", None)
    return None if languages is None else frozenset(languages)


@runtime_checkable
class PartEmbedder(Protocol):
    """An `Embedder` that gives vectors of the parts of a text in the same pass, each in the context of the whole."""

    def embed_parts(
        self, texts: Sequence[str], parts: Sequence[Sequence[tuple[int, int]]]
    ) -> tuple[FloatArray, list[FloatArray]]:
        """The rows of `embed_documents`, and for each text unit rows of its parts, which are spans of characters."""
        ...


class CompletingModel(Protocol):
    """A model that answers messages as a whole. Its calls may run at the same time; `mergewise.concurrency.run` awaits them.

    Raises ModelError when it fails for good: retries have been made by then.
    """

    @property
    def spec(self) -> str: ...

    @property
    def identity(self) -> str:
        """Everything besides the messages that changes its answers: model, endpoint, temperature ... Part of a cache's key."""
        ...

    @property
    def window(self) -> int:
        """Tokens that messages and answer may have together."""
        ...

    async def complete(
        self, messages: Sequence[Message], *, max_tokens: int = 1024, schema: Mapping[str, object] | None = None
    ) -> Reply:
        """The whole answer. With a JSON `schema` the model is asked for JSON of this shape; nobody has checked the text."""
        ...


class ChatModel(CompletingModel, Protocol):
    """A `CompletingModel` that also gives its answer piece by piece."""

    def stream(self, messages: Sequence[Message], *, max_tokens: int = 1024) -> AsyncIterator[str | Reply]:
        """The answer piece by piece, and at the end the whole of it as a `Reply`."""
        ...


@runtime_checkable
class KeepsReplies(Protocol):
    """A `ChatModel` that may have an answer already."""

    def has(
        self, messages: Sequence[Message], *, max_tokens: int = 1024, schema: Mapping[str, object] | None = None
    ) -> bool:
        """Whether `complete` would answer this without a call."""
        ...


class Reranker(Protocol):
    """Says how well texts answer a question."""

    @property
    def spec(self) -> str: ...

    def score(self, question: str, texts: Sequence[str]) -> FloatArray:
        """One score a text, shape (len(texts),), in [0, 1]: higher is better, comparable within one call."""
        ...


@runtime_checkable
class LogitReranker(Protocol):
    """A `Reranker` whose scores are logits before they are put into [0, 1], and that tells them."""

    def logits(self, question: str, texts: Sequence[str]) -> FloatArray:
        """One score a text, shape (len(texts),), in the model's own scale."""
        ...


@runtime_checkable
class CountsCut(Protocol):
    """An `Embedder`, `Reranker` or `UtilityPredictor` that reads the beginning of a long text alone, and tells of how many."""

    def count_cut(self, question: str, texts: Sequence[str]) -> int:
        """How many of the texts are longer than what it reads, with the question where it reads both together."""
        ...


class UtilityPredictor(Protocol):
    """S_phi of AED-RAG (Eq. 6): says how much a text helps to answer a question."""

    @property
    def spec(self) -> str: ...

    def utilities(self, question: str, texts: Sequence[str]) -> list[float]:
        """One utility a text: higher is better, in any range."""
        ...


class NLLScorer(Protocol):
    """Says how surprising a source is to a reader of an anchor."""

    @property
    def spec(self) -> str: ...

    def nll(self, sources: Sequence[str], anchors: Sequence[str]) -> FloatArray:
        """The mean negative log-likelihood of a source's tokens given an anchor, in nats, shape (len(sources), len(anchors))."""
        ...


class CausalState(Protocol):
    """Texts that a causal model has read, one in each row, and what it keeps so as not to read them again."""

    @property
    def log_probs(self) -> FloatArray:
        """Log-probabilities of the token that comes next, in nats: (rows, vocabulary)."""
        ...


@dataclass(frozen=True, slots=True)
class Blend:
    """How the rows of a state are put together, for each question: its `rows`, one a stream, and their `weights`.

    `mixture` adds up probabilities (REPLUG), else logarithms of them are added up (Eq. 14 of AED-RAG). With a `temperature` above
    0 a token is drawn by the question's number of `draws`, which lies in [0, 1), else the best one is taken.
    """

    rows: Sequence[Sequence[int]]
    weights: Sequence[Sequence[float]]
    mixture: bool = False
    temperature: float = 0.0
    draws: Sequence[float] = ()


@dataclass(frozen=True, slots=True)
class NextTokens:
    """The next token of each question, its log-probability in each of its streams, how far the streams agree, in (0, 1], and
    what each would have said alone."""

    tokens: list[int]
    log_probs: list[list[float]]
    agreement: list[float]
    first: list[list[int]]

    @classmethod
    def of(
        cls,
        blend: Blend,
        tokens: npt.NDArray[np.int64],
        picked: FloatArray,
        agreement: FloatArray,
        first: npt.NDArray[np.int64],
    ) -> NextTokens:
        """From tables of (questions, streams), of which a question may have fewer than there are columns."""
        streams = [len(rows) for rows in blend.rows]
        return cls(
            tokens.tolist(),
            [row[:n] for row, n in zip(picked.tolist(), streams, strict=True)],
            np.minimum(agreement, 1).tolist(),
            [row[:n] for row, n in zip(first.tolist(), streams, strict=True)],
        )


State = TypeVar("State", bound=CausalState)


class CausalModel(Protocol[State]):
    """A model that says how likely each next token is. A scorer adds these up, and a decoder chooses by them.

    Token ids are the model's own. Rows are independent of each other, however long they are. One call at a time.
    Raises ModelError when the model fails.
    """

    @property
    def spec(self) -> str: ...

    @property
    def window(self) -> int:
        """Tokens that a row may have at most."""
        ...

    @property
    def begin(self) -> Sequence[int]:
        """The tokens that a text begins with; none for a model that knows no such token."""
        ...

    @property
    def ends(self) -> frozenset[int]:
        """The tokens that end an answer."""
        ...

    def encode(self, text: str) -> list[int]:
        """The tokens of a text, without special ones."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """The text of these tokens, without special ones."""
        ...

    def prompt(self, messages: Sequence[Message]) -> list[int]:
        """The tokens of a conversation, after which the model answers. Nothing that a message says is a special token."""
        ...

    def start(self, rows: Sequence[Sequence[int]]) -> State:
        """Read these rows, of which none is empty, in one batch."""
        ...

    def extend(self, state: State, tokens: Sequence[int]) -> State:
        """Append one token to each row. The old state cannot be used any more."""
        ...

    def score(self, states: Sequence[State], continuations: Sequence[Sequence[int]]) -> list[FloatArray]:
        """Log-probabilities of the tokens of each continuation. Continuation i follows state i, which has one row.

        The states stay as they are, so that one state may have many continuations, in one batch too.
        """
        ...

    def contrast(
        self, states: Sequence[State], continuations: Sequence[Sequence[int]], without: Sequence[State], alpha: float
    ) -> list[FloatArray]:
        """`score` under softmax((1 + alpha) logits - alpha logits of `without`), a state of one row that knows less.

        What a continuation is to a state in `without` is worked out once for that state.
        """
        ...

    def select(self, state: State, rows: Sequence[int]) -> State:
        """A state of these rows alone. The old state stays."""
        ...

    def choose(self, state: State, blend: Blend) -> NextTokens:
        """The next token of each question, whose streams are rows of the state."""
        ...
