"""The edges: what a model and an index must be able to do. Strategies see these and nothing behind them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Protocol, TypeAlias, TypeVar, runtime_checkable

import numpy as np
import numpy.typing as npt

from mergewise.types import (
    AddReport,
    Chunk,
    ChunkBounds,
    Definition,
    Document,
    DocumentInfo,
    DocumentRows,
    Hit,
    Leaf,
    LeafSentences,
    Message,
    Problem,
    Reply,
    Section,
    SliceHit,
)

FloatArray: TypeAlias = npt.NDArray[np.float32]

TokenCounter: TypeAlias = Callable[[Sequence[str]], list[int]]
"""Tokens of each text, without special tokens."""


class Embedder(Protocol):
    """Texts to unit vectors. `spec` is the name by which an index remembers it."""

    @property
    def spec(self) -> str: ...

    @property
    def dimension(self) -> int: ...

    def embed_documents(self, texts: Sequence[str]) -> FloatArray:
        """Rows of unit length, shape (len(texts), dimension), in the order of `texts`."""
        ...

    def embed_queries(self, texts: Sequence[str]) -> FloatArray: ...


@runtime_checkable
class PartEmbedder(Protocol):
    """An `Embedder` that gives vectors of the parts of a text in the same pass, each in the context of the whole."""

    def embed_parts(
        self, texts: Sequence[str], parts: Sequence[Sequence[tuple[int, int]]]
    ) -> tuple[FloatArray, list[FloatArray]]:
        """The rows of `embed_documents`, and for each text unit rows of its parts, which are spans of characters."""
        ...


class ChatModel(Protocol):
    """A model that answers messages. Its calls may run at the same time; `mergewise.concurrency.run` awaits them.

    Raises ModelError when it fails for good: retries have been made by then.
    """

    @property
    def spec(self) -> str: ...

    @property
    def identity(self) -> str:
        """Everything besides the messages that changes its answers: model, endpoint, temperature ... A cache goes by it."""
        ...

    @property
    def window(self) -> int:
        """Tokens that messages and answer may have together."""
        ...

    async def complete(
        self, messages: Sequence[Message], *, max_tokens: int = 1024, schema: Mapping[str, object] | None = None
    ) -> Reply:
        """The whole answer. With a JSON `schema` the model is asked for JSON of this shape: the text is still unchecked."""
        ...

    def stream(self, messages: Sequence[Message], *, max_tokens: int = 1024) -> AsyncIterator[str | Reply]:
        """The answer piece by piece, and at the end all of it as a `Reply`."""
        ...


class Reranker(Protocol):
    """How well texts answer a question."""

    @property
    def spec(self) -> str: ...

    def score(self, question: str, texts: Sequence[str]) -> FloatArray:
        """One score a text, shape (len(texts),), in [0, 1]: higher is better, comparable within one call."""
        ...


class NLLScorer(Protocol):
    """How surprising a source is to one who has read the anchor."""

    @property
    def spec(self) -> str: ...

    def nll(self, sources: Sequence[str], anchors: Sequence[str]) -> FloatArray:
        """Mean negative log-likelihood a token of each source given each anchor, in nats: (len(sources), len(anchors))."""
        ...


class CausalState(Protocol):
    """Texts that a causal model has read, a row each, with whatever it keeps of them so as not to read them again."""

    @property
    def log_probs(self) -> FloatArray:
        """Log-probabilities of the token that comes next, in nats: (rows, vocabulary)."""
        ...


State = TypeVar("State", bound=CausalState)


class CausalModel(Protocol[State]):
    """A model that says how likely each next token is: what a scorer sums up, and what decoding chooses from.

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

    def start(self, rows: Sequence[Sequence[int]]) -> State:
        """Read these rows, of which none is empty, in one batch."""
        ...

    def extend(self, state: State, tokens: Sequence[int]) -> State:
        """Append one token to each row. The old state cannot be used any more."""
        ...

    def score(self, states: Sequence[State], continuations: Sequence[Sequence[int]]) -> list[FloatArray]:
        """Log-probabilities of each token of each continuation, given the state of the same number, of one row.

        The states stay as they are, so that one of them may serve many continuations, in one batch too.
        """
        ...


class IndexReader(Protocol):
    """What a strategy sees of an index, pinned to one state of it for the length of a question."""

    def search(self, question: str, k: int) -> list[Hit]:
        """The `k` best leaves by hybrid search, best first, each at most once."""
        ...

    def sections(self, ids: Sequence[int]) -> dict[int, Section]:
        """The sections with these ids, in one call to the store. A missing id is missing in the result."""
        ...

    def leaves(self, ids: Sequence[int]) -> dict[int, Leaf]:
        """The leaves with these ids, in one call to the store. A missing id is missing in the result."""
        ...

    def vectors(self, ids: Sequence[int]) -> dict[int, FloatArray]:
        """The vectors of these leaves; empty for an index without an embedder."""
        ...

    def rank(self, question: str, k: int) -> list[tuple[int, float]]:
        """What `search` ranks, as leaf ids and scores, without reading the leaves."""
        ...

    def question_vector(self, question: str) -> FloatArray | None:
        """The question's unit vector; None for an index without an embedder."""
        ...

    def sentences(self, ids: Sequence[int]) -> dict[int, LeafSentences]:
        """These leaves with their sentences and the sentences' vectors, in one call to the store."""
        ...

    def definitions(self, names: Sequence[str]) -> dict[str, list[Definition]]:
        """Where each of these names is defined, among the documents that the question is about."""
        ...

    def has(self, view: str) -> bool:
        """Whether the index has this view, whole."""
        ...

    def slices(self, question: str, k: int) -> list[SliceHit]:
        """The `k` best slices by hybrid search, best first. UsageError for an index without the slice view."""
        ...

    def rank_chunks(self, question: str, k: int, view: str) -> list[tuple[int, float]]:
        """Chunk ids and scores by hybrid search of the chunks' own vectors ("chunk") or their summaries' ("summary")."""
        ...

    def chunks(self, ids: Sequence[int]) -> dict[int, Chunk]:
        """The chunks with these ids, in one call to the store. A missing id is missing in the result."""
        ...

    def chunk_bounds(self, ids: Sequence[int]) -> dict[int, ChunkBounds]:
        """Where the chunks with these ids stand, without a call to the store."""
        ...


class StoreReader(Protocol):
    """One state of a stored index. `where` is an SQL condition on `id`, `title` and the metadata of documents."""

    def documents(self) -> list[DocumentInfo]: ...

    def document(self, doc_id: str) -> Document | None: ...

    def digests(self, doc_ids: Sequence[str]) -> dict[str, str]:
        """The content digests of those of the documents that are in the index."""
        ...

    def stored(self, doc_ids: Sequence[str]) -> list[DocumentRows]:
        """Everything that is stored of these documents, with final ids, as it is: what `check` looks at."""
        ...

    @property
    def views(self) -> Sequence[str]:
        """The views that are whole."""
        ...

    @property
    def vector_views(self) -> Sequence[str]:
        """What has vectors in the slice view: slice, chunk, summary."""
        ...

    def slices(self, ids: Sequence[int]) -> dict[int, SliceHit]:
        """These slices, without scores."""
        ...

    def chunk_bounds(self, ids: Sequence[int]) -> dict[int, ChunkBounds]: ...

    def chunks(self, ids: Sequence[int]) -> dict[int, Chunk]: ...

    def row_counts(self) -> dict[str, int]:
        """Rows by table: documents, leaf, section."""
        ...

    def text_search(
        self, question: str, k: int, where: str | None = None, view: str = "leaf"
    ) -> list[tuple[int, float]]:
        """Ids of leaves, slices or chunks by BM25 over title, headings and text, best first; only scores above zero."""
        ...

    def vector_search(
        self, vector: FloatArray, k: int, where: str | None = None, view: str = "leaf"
    ) -> list[tuple[int, float]]:
        """Ids by cosine, best first: of leaves, of slices, or of chunks by their own vectors or their summaries'."""
        ...

    def leaves(self, ids: Sequence[int]) -> dict[int, Leaf]: ...

    def sections(self, ids: Sequence[int]) -> dict[int, Section]: ...

    def vectors(self, ids: Sequence[int]) -> dict[int, FloatArray]: ...

    def sentences(self, ids: Sequence[int]) -> dict[int, LeafSentences]:
        """These leaves with their sentences and the sentences' vectors."""
        ...

    def definitions(self, names: Sequence[str], where: str | None = None) -> dict[str, list[Definition]]:
        """Where each of these names is defined, in document order; a name that nothing defines is missing."""
        ...


class Store(Protocol):
    """An index on disk, or in memory. Every change is atomic: readers see all of it or nothing."""

    def reader(self) -> StoreReader:
        """The state that the last finished change left."""
        ...

    def write(self, rows: Sequence[DocumentRows], *, force: bool = False) -> AddReport:
        """Add documents, replacing those with the same ids.

        Rows whose digest stands already are left alone, unless forced. Documents whose metadata cannot be stored fail,
        and the others go on.
        """
        ...

    def remove(self, doc_ids: Sequence[str]) -> int:
        """Remove documents with all their rows; how many there were."""
        ...

    def optimize(self) -> None:
        """Bring the search indexes up to date and drop what no reader needs."""
        ...

    def check(self) -> list[Problem]:
        """Every broken invariant."""
        ...

    def repair(self) -> None:
        """Drop what belongs to no document and what an interrupted change left behind."""
        ...
