"""Interfaces of models."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

from mergewise.types import Document, Message, Part, Reply, frozen

FloatArray: TypeAlias = npt.NDArray[np.float32]
DoubleArray: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]

TokenCounter: TypeAlias = Callable[[Sequence[str]], list[int]]
"""Tokens of each text, without special tokens."""

TokenRows: TypeAlias = Sequence[Sequence[int]]
"""Token ids of several texts."""

Schema: TypeAlias = Mapping[str, object]
"""A JSON schema."""

SecondSource: TypeAlias = Callable[[str, int], Sequence[Document]]
"""A search of other texts: keywords and a maximum number to documents, best first."""


class Embedder(Protocol):
    """A model that turns texts into unit vectors. An index remembers its `spec`.

    An embedder that knows few languages also has `languages`, a collection of their codes.
    """

    @property
    def spec(self) -> str: ...

    @property
    def dimension(self) -> int: ...

    def embed_documents(self, texts: Sequence[str]) -> FloatArray:
        """Embed documents. Returns rows of unit length in the order of `texts`, shape (len(texts), dimension)."""

    def embed_queries(self, texts: Sequence[str]) -> FloatArray: ...


def languages_known(embedder: Embedder) -> frozenset[str] | None:
    """Return the codes of the languages that an embedder knows, or None for all."""
    languages: Collection[str] | None = getattr(embedder, "languages", None)
    return None if languages is None else frozenset(languages)


@runtime_checkable
class PartEmbedder(Protocol):
    """An `Embedder` that also embeds parts of a text, in the same pass and in the context of the whole text."""

    def embed_parts(self, texts: Sequence[str], parts: Sequence[Sequence[Part]]) -> tuple[FloatArray, list[FloatArray]]:
        """Return the rows of `embed_documents`, and for each text the unit rows of its parts, which are spans of characters."""


class CompletingModel(Protocol):
    """A model that returns whole replies. Calls may run at the same time.

    Raises:
        ModelError: if the model still fails after its retries.
    """

    @property
    def spec(self) -> str: ...

    @property
    def identity(self) -> str:
        """Part of a cache key: everything but the messages that changes replies, such as model, endpoint and temperature."""

    @property
    def window(self) -> int:
        """Maximum tokens of messages and reply together."""

    async def complete(
        self, messages: Sequence[Message], *, max_tokens: int = 1024, schema: Schema | None = None
    ) -> Reply:
        """Return the whole reply. With a JSON `schema`, ask the model for JSON of this shape. The text is not validated."""


class ChatModel(CompletingModel, Protocol):
    """A `CompletingModel` that can also stream its reply."""

    def stream(self, messages: Sequence[Message], *, max_tokens: int = 1024) -> AsyncIterator[str | Reply]:
        """Yield the reply piece by piece, and at the end the whole `Reply`."""


def takes_options(chat: ChatModel) -> bool:
    """Check that a model also has `with_options(options)`, which returns it with further options in each request."""
    return hasattr(chat, "with_options")


def with_options(chat: ChatModel, options: Mapping[str, object]) -> ChatModel:
    """Return the model with further options, by their names in OpenAI's API, or unchanged if it takes none."""
    change: Callable[[Mapping[str, object]], ChatModel] | None = getattr(chat, "with_options", None)
    return chat if change is None or not options else change(options)


@runtime_checkable
class KeepsReplies(Protocol):
    """A `ChatModel` with a cache of replies."""

    def has(self, messages: Sequence[Message], *, max_tokens: int = 1024, schema: Schema | None = None) -> bool:
        """Check that `complete` would answer without a call."""


class Reranker(Protocol):
    """A model that scores how well texts answer a question."""

    @property
    def spec(self) -> str: ...

    def score(self, question: str, texts: Sequence[str]) -> FloatArray:
        """Return a score in [0, 1] for each text, shape (len(texts),). Higher is better. Scores of one call are comparable."""


@runtime_checkable
class LogitReranker(Protocol):
    """A `Reranker` that also returns the logits behind its scores."""

    def logits(self, question: str, texts: Sequence[str]) -> FloatArray:
        """Return a logit for each text, shape (len(texts),)."""


@runtime_checkable
class CountsCut(Protocol):
    """An `Embedder`, `Reranker` or `UtilityPredictor` that truncates long texts and counts them."""

    def count_cut(self, question: str, texts: Sequence[str]) -> int:
        """Count the texts that are truncated, together with the question if the model reads both."""


class UtilityPredictor(Protocol):
    """A model that predicts how much a text helps to answer a question (S_phi of AED-RAG, Eq. 6)."""

    @property
    def spec(self) -> str: ...

    def utilities(self, question: str, texts: Sequence[str]) -> list[float]:
        """Return a utility for each text. Higher is better, in any range."""


class NLLScorer(Protocol):
    """A model that measures how surprising a source is after an anchor."""

    @property
    def spec(self) -> str: ...

    def nll(self, sources: Sequence[str], anchors: Sequence[str]) -> FloatArray:
        """Return the mean negative log-likelihood of each source's tokens after each anchor, in nats, (sources, anchors)."""


class CausalState(Protocol):
    """Texts that a causal model has read, one per row, with their cache."""

    @property
    def log_probs(self) -> FloatArray:
        """Log-probabilities of the next token in nats, shape (rows, vocabulary)."""


@frozen
class Blend:
    """A rule that combines the rows of a state into one distribution per question.

    Attributes:
        rows: Rows of each question, one per stream.
        weights: Weights of the streams of each question.
        mixture: Sum probabilities (REPLUG) instead of log-probabilities (Eq. 14 of AED-RAG).
    """

    rows: TokenRows
    weights: Sequence[Sequence[float]]
    mixture: bool = False


@frozen
class NextTokens:
    """The next tokens of several questions.

    Attributes:
        tokens: Next token of each question.
        log_probs: Log-probability of the token in each stream of each question.
        agreement: Agreement of the streams of each question, in (0, 1].
    """

    tokens: list[int]
    log_probs: list[list[float]]
    agreement: list[float]

    @classmethod
    def of(cls, blend: Blend, tokens: IntArray, picked: FloatArray, agreement: FloatArray) -> NextTokens:
        """Build the record from tables of (questions, streams). A question may have fewer streams than there are columns."""
        streams = [len(rows) for rows in blend.rows]
        return cls(
            tokens.tolist(),
            [row[:n] for row, n in zip(picked.tolist(), streams, strict=True)],
            np.minimum(agreement, 1).tolist(),
        )


State: TypeAlias = Any
"""A `CausalState` of the model's own class."""


class CausalModel(Protocol):
    """A model with the probabilities of all next tokens, for scoring and for decoding.

    Token ids are the model's own. Rows are independent of each other and may differ in length. Call it from one thread at a time.

    Raises:
        ModelError: if the model fails.
    """

    @property
    def spec(self) -> str: ...

    @property
    def window(self) -> int:
        """Maximum tokens of a row."""

    @property
    def begin(self) -> Sequence[int]:
        """Tokens that begin a text. Empty if the model has no such token."""

    @property
    def ends(self) -> frozenset[int]:
        """Tokens that end an answer."""

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a text, without special tokens."""

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of tokens, without special tokens."""

    def prompt(self, messages: Sequence[Message]) -> list[int]:
        """Return the tokens of a conversation up to the answer. Texts of messages never become special tokens."""

    def start(self, rows: TokenRows) -> State:
        """Read rows in one batch. Rows must not be empty."""

    def extend(self, state: State, tokens: Sequence[int]) -> State:
        """Append one token to each row. The old state becomes invalid."""

    def score(self, states: Sequence[State], continuations: TokenRows) -> list[FloatArray]:
        """Return the log-probabilities of the tokens of each continuation. Continuation i follows state i, which has one row.

        The states stay valid, so one state may have many continuations, also in one batch.
        """

    def contrast(
        self, states: Sequence[State], continuations: TokenRows, without: Sequence[State], alpha: float
    ) -> list[FloatArray]:
        """Return `score` under softmax((1 + alpha) logits - alpha logits of `without`), states of one row that know less.

        A continuation is read once per state in `without`.
        """

    def select(self, state: State, rows: Sequence[int]) -> State:
        """Return a state of these rows. The old state stays valid."""

    def choose(self, state: State, blend: Blend) -> NextTokens:
        """Return the next token of each question. Its streams are rows of the state."""
