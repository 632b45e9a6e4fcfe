"""What an index must be able to do: for a strategy, for the reader of a view, and for those who write it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence, Set
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from mergewise.protocols.models import FloatArray
from mergewise.types import (
    AddReport,
    Definition,
    Document,
    DocumentInfo,
    DocumentRows,
    Duplicate,
    Hit,
    Known,
    Leaf,
    LeafSentences,
    Metadata,
    Origin,
    Problem,
    Section,
    Span,
)

Ranking: TypeAlias = Sequence[tuple[int, float]]
"""(id, score), best first, each id once."""

SearchKind: TypeAlias = Literal["hybrid", "text", "vectors"]
"""By full text and vectors, or by one of them alone."""

OrderedBy: TypeAlias = Literal["both", "reranker", "search"]
"""What orders the hits of a search: the search with a reranker's evidence, the reranker alone, or the search alone."""

Row = TypeVar("Row")
Kept = TypeVar("Kept")


class TableReader(Protocol):
    """The tables of one state of an index, by their names."""

    def rows(self, table: str, record: type[Row], ids: Sequence[int]) -> dict[int, Row]:
        """These rows as records, in the order of `ids`. A missing id is missing in the result."""
        ...

    def vectors(self, ids: Sequence[int], table: str | None = None, column: str = "vector") -> dict[int, FloatArray]:
        """A column of vectors of these rows; empty for an index without an embedder."""
        ...

    def whole(self, table: str, columns: Sequence[str]) -> Any:
        """These columns of all rows, as a `pyarrow.Table`. Not for each question: see `once`."""
        ...

    def sorted_columns(self, table: str, columns: Sequence[str]) -> Mapping[str, npt.NDArray[np.int64]]:
        """Columns of whole numbers of all rows, sorted by the first column, then by the second; kept for this state of the index,
        and extended for the next one. Rows that are added have no lower values in the second column."""
        ...

    def once(self, name: str, make: Callable[[], Kept], where: str | None = None) -> Kept:
        """What `make` returns, made once for this state of the index, by one thread. `name` is unique among all views.

        What goes with a condition is kept for the conditions that were asked last.
        """
        ...


class RowReader(TableReader, Protocol):
    """What an index gives to the reader of a view: searches within the question's condition, and rows by id."""

    def rank_rows(self, question: str, k: int, table: str, column: str = "vector") -> Ranking:
        """Ids of the `k` best rows by hybrid search of the table's text and its column of vectors."""
        ...

    def rank_by_vectors(self, question: str, k: int, table: str, column: str = "vector") -> Ranking:
        """The same by vectors alone. UsageError for an index without an embedder."""
        ...

    def numbers(self) -> Set[int] | None:
        """The numbers of the documents that the question is about; None without a condition."""
        ...

    def leaf_ranges(self, doc_ids: Sequence[str]) -> dict[str, range]:
        """The ids of the leaves of each of these documents. A missing document is missing in the result."""
        ...

    def settings(self, view: str) -> Mapping[str, Any]:
        """The settings with which the index has this view."""
        ...

    def folder(self) -> Path | None:
        """The directory of the index, where a view may keep what is worked out of all its rows; None for one in memory."""
        ...


class IndexReader(Protocol):
    """What a strategy sees of an index, pinned to one state of it for the length of a question.

    Methods here read the tree. Other views have their own readers: `view("slice")` gives one.
    """

    def search(self, question: str, k: int, by: OrderedBy = "both") -> list[Hit]:
        """The `k` best leaves by hybrid search, best first, each at most once.

        Without a reranker the search alone orders them. Strategies of papers whose reranker orders alone ask for
        "reranker", those that ask the reranker themselves for "search".
        """
        ...

    def rank(self, question: str, k: int, by: OrderedBy = "both") -> list[tuple[int, float]]:
        """The ranking of `search` as leaf ids and scores, without reading the leaves."""
        ...

    def searching_by(self, kind: SearchKind) -> IndexReader:
        """The same reader, whose searches are of this kind. UsageError for vectors in an index without an embedder."""
        ...

    def documents(self) -> list[str]:
        """The ids of the documents that the question is about, in the order in which they were added."""
        ...

    def question_vector(self, question: str) -> FloatArray | None:
        """The question's unit vector; None without an embedder, or where it does not know the question's language."""
        ...

    def leaves(self, ids: Sequence[int]) -> dict[int, Leaf]:
        """The leaves with these ids, in one call to the store. A missing id is missing in the result."""
        ...

    def sections(self, ids: Sequence[int]) -> dict[int, Section]:
        """The sections with these ids, in one call to the store. A missing id is missing in the result."""
        ...

    def sentences(self, ids: Sequence[int]) -> dict[int, LeafSentences]:
        """These leaves with their sentences and the sentences' vectors, in one call to the store."""
        ...

    def leaves_under(self, spans: Sequence[Span]) -> list[int]:
        """The ids of the leaves that share text with one of the spans, each once, in the order of the documents' texts."""
        ...

    def vectors(self, ids: Sequence[int]) -> dict[int, FloatArray]:
        """The vectors of these leaves; empty for an index without an embedder."""
        ...

    def definitions(self, names: Sequence[str]) -> dict[str, list[Definition]]:
        """Where each of these names is defined, among the documents that the question is about."""
        ...

    def has(self, view: str) -> bool:
        """Whether the index has this view. Documents that came a moment ago may lack it."""
        ...

    def view(self, name: str) -> Any:
        """The view's own reader. UsageError, with the way to build it, for an index without this view."""
        ...


class StoreReader(TableReader, Protocol):
    """One state of a stored index. `where` is an SQL condition on `id`, `title` and the metadata of documents."""

    @property
    def directory(self) -> Path | None:
        """Where its files are; None for one in memory."""
        ...

    @property
    def snapshot(self) -> str:
        """A short hash of this state."""
        ...

    def documents(self, prefix: str = "", after: str | None = None, limit: int | None = None) -> list[DocumentInfo]:
        """All documents in the order in which they were added. With an argument, those whose ids begin with `prefix` and are
        greater than `after`, at most `limit` of them, sorted by id."""
        ...

    def document(self, doc_id: str) -> Document | None: ...

    def texts(self, doc_ids: Sequence[str]) -> dict[str, Document]:
        """Those of the documents that are in the index, whole, in one call."""
        ...

    def known_documents(self, doc_ids: Sequence[str] = (), sources: Sequence[str] = ()) -> list[Known]:
        """The documents that have one of these ids, or were read from one of these sources; all of them if nothing is said."""
        ...

    def copies(self, where: str | None = None) -> Mapping[int, int]:
        """The numbers of documents that say the same as one before them, of those that meet a condition, with the number of
        that one. Searches find the first of them only.

        Documents say the same if their texts are equal, and their titles, where these are more than names of files.
        """
        ...

    def duplicates(self) -> list[Duplicate]:
        """`copies`, by the ids of the documents."""
        ...

    def document_rows(self, doc_ids: Sequence[str]) -> list[DocumentRows]:
        """Everything that is stored of these documents, with final ids, for `check` to look at. A vector that is still to come is
        a row of NaN."""
        ...

    def numbers(self, where: str | None = None) -> Set[int]:
        """The numbers of the documents, or of those that meet a condition."""
        ...

    def leaf_ranges(self, doc_ids: Sequence[str]) -> dict[str, range]: ...

    def ids(self, where: str | None = None) -> list[str]:
        """The ids of the documents, or of those that meet a condition, in the order in which they were added."""
        ...

    def sizes(self, doc_ids: Collection[str] | None = None) -> tuple[int, int]:
        """How many leaves and characters these documents have, or all of them."""
        ...

    def metadata_kinds(self) -> dict[str, type]:
        """The keys of metadata, with the type that each holds in the index."""
        ...

    def languages(self) -> Mapping[str, int]:
        """The documents of each language; without those that an older mergewise indexed."""
        ...

    @property
    def views(self) -> Mapping[str, Mapping[str, Any]]:
        """The views that questions can use, with their settings: every document has them, but for some that came lately."""
        ...

    def row_counts(self) -> dict[str, int]:
        """Rows by table, the documents first."""
        ...

    def unembedded(self, table: str | None = None) -> npt.NDArray[np.int64]:
        """The ids of the rows that wait for their vectors, in order. Searches by vectors do not find them."""
        ...

    def text_search(
        self, question: str, k: int, where: str | None = None, table: str | None = None, *, words: bool = False
    ) -> Future[Ranking]:
        """Ids by BM25 over the column of the table that is searched, best first, equal scores by id; only scores above zero.

        With `words`, the question is words apart by spaces, and the table's column of words is searched, where it has one.
        It is searched in the background. Without a table, here and below, the leaves are meant.
        """
        ...

    def vector_search(
        self, vector: FloatArray, k: int, where: str | None = None, table: str | None = None, column: str = "vector"
    ) -> Future[Ranking]:
        """Ids by cosine, best first, in the background."""
        ...


class Store(Protocol):
    """An index on disk, or in memory. Every change is atomic: readers see all of it or nothing."""

    @property
    def settings(self) -> Mapping[str, Mapping[str, Any]]:
        """The settings of the views that a document must bring when it is written."""
        ...

    def reader(self) -> StoreReader:
        """The state that the last finished change left."""
        ...

    def write(
        self,
        rows: Sequence[DocumentRows],
        *,
        force: bool = False,
        remove: Sequence[str] = (),
        origins: Mapping[str, Origin] | None = None,
        optimize: bool = False,
    ) -> AddReport:
        """Add documents, replacing those with the same ids, in one step with the removal of others.

        A document that the index has with the same digest is left alone, unless forced. A document whose metadata cannot be
        stored fails, and the others are written. `origins` says of documents that stand, by id, where they were read from.

        Rows of a table that can `embed` may come without vectors: they then wait for them (`StoreReader.unembedded`). A document
        that comes without the rows of a view lacks that view (`missing`), which stays in use for the others.

        `optimize` does in the same change what `optimize` does in one of its own.
        """
        ...

    def remove(self, doc_ids: Sequence[str]) -> int:
        """Remove documents with all their rows, and say how many there were."""
        ...

    def describe(self, metadata: Mapping[str, Metadata]) -> None:
        """Give documents, by their ids, metadata beside those that they have; nothing else of them changes.

        Raises StoreError for metadata that cannot be stored.
        """
        ...

    def begin_view(self, view: str, settings: Mapping[str, Any]) -> None:
        """From now on every document that is written must have this view; `missing` gives those that do not have it yet."""
        ...

    def missing(self, view: str) -> list[str]:
        """The documents that lack the view, in the order in which they were added."""
        ...

    def write_view(self, view: str, rows: Sequence[DocumentRows]) -> None:
        """Write the view's rows of documents that lack it. One that is gone, has changed or has the view by now is left out."""
        ...

    def finish_view(self, view: str) -> bool:
        """Whether every document has the view now. If so, its search indexes are built and it can be searched."""
        ...

    def write_vectors(self, table: str, ids: Sequence[int], columns: Mapping[str, Any]) -> int:
        """Give rows the columns that the table's `embed` made; how many rows. `ids` are those that wait for them, from one to
        another, in order. Rows that are gone, or have their vectors by now, are left out."""
        ...

    def finish_vectors(self) -> bool:
        """Whether no row waits for its vectors any more. If so, search indexes are built of them."""
        ...

    def optimize(self) -> None:
        """Bring the search indexes up to date and drop what no reader needs."""
        ...

    def check(self) -> list[Problem]:
        """Every broken invariant."""
        ...

    def repair(self) -> list[str]:
        """Drop what belongs to no document, what an interrupted change left behind, and what cannot be read.

        Returned are the documents whose rows have to be made anew."""
        ...
