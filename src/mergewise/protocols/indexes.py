"""Interfaces of an index: for strategies, for the readers of views, and for writers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence, Set
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

from mergewise.protocols.models import FloatArray, IntArray
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
    Problem,
    Section,
    Span,
)

Ranking: TypeAlias = Sequence[tuple[int, float]]
"""Pairs of id and score, best first, each id once."""

SearchKind: TypeAlias = Literal["hybrid", "text", "vectors"]
"""Search by full text and vectors, or by one of them."""

OrderedBy: TypeAlias = Literal["both", "reranker", "search"]
"""Order of the hits of a search: by search and reranker together, by the reranker, or by the search."""

Row = TypeVar("Row")
Kept = TypeVar("Kept")


class TableReader(Protocol):
    """Tables of one state of an index, by name."""

    def rows(self, table: str, record: type[Row], ids: Sequence[int]) -> dict[int, Row]:
        """Return rows as records, in the order of `ids`. Unknown ids are left out."""

    def vectors(self, ids: Sequence[int], table: str | None = None, column: str = "vector") -> dict[int, FloatArray]:
        """Return vectors of rows by id. Empty for an index without an embedder."""

    def whole(self, table: str, columns: Sequence[str]) -> Any:
        """Return columns of all rows as a `pyarrow.Table`. Too slow for each question: use `once`."""

    def sorted_columns(self, table: str, columns: Sequence[str]) -> Mapping[str, IntArray]:
        """Return integer columns of all rows, sorted by the first column, then the second.

        The result is cached for this state of the index and extended for the next one. Added rows never have lower values in the
        second column.
        """

    def once(self, name: str, make: Callable[[], Kept], where: str | None = None) -> Kept:
        """Return the result of `make`, which is called once for this state of the index, by one thread.

        Args:
            name: Cache key, unique among all views.
            make: Function that computes the value.
            where: Condition that the value depends on. Values of the most recent conditions are kept.
        """


class RowReader(TableReader, Protocol):
    """Index as seen by the reader of a view: searches within the question's condition, and rows by id."""

    def rank_rows(self, question: str, k: int, table: str, column: str = "vector") -> Ranking:
        """Return the `k` best rows by hybrid search of the table's text and its column of vectors."""

    def rank_by_vectors(self, question: str, k: int, table: str) -> Ranking:
        """Return the `k` best rows by vectors. Raises UsageError for an index without an embedder."""

    def numbers(self) -> Set[int] | None:
        """Return the numbers of the documents that meet the condition, or None without one."""

    def leaf_ranges(self, doc_ids: Sequence[str]) -> dict[str, range]:
        """Return the ids of the leaves of each document. Unknown documents are left out."""

    def settings(self, view: str) -> Mapping[str, Any]:
        """Return the settings of a view."""

    def folder(self) -> Path | None:
        """Return the directory of the index, where a view may cache data of all its rows, or None for an index in memory."""


class IndexReader(Protocol):
    """Index as seen by a strategy, fixed to one state for the length of a question.

    The methods read the tree. Other views have their own readers, such as `view("slice")`.
    """

    def search(self, question: str, k: int, by: OrderedBy = "both") -> list[Hit]:
        """Return the `k` best leaves by hybrid search, best first, each at most once.

        Without a reranker, the search orders them. With "reranker", the reranker alone does, as in some papers. With "search",
        the reranker is not asked.
        """

    def rank(self, question: str, k: int, by: OrderedBy = "both") -> list[tuple[int, float]]:
        """Return the ranking of `search` as ids and scores, without reading the leaves."""

    def searching_by(self, kind: SearchKind) -> IndexReader:
        """Return this reader with another kind of search. Raises UsageError for vectors without an embedder."""

    def documents(self) -> list[str]:
        """Return the ids of the documents that meet the condition, in the order they were added."""

    def question_vector(self, question: str) -> FloatArray | None:
        """Return the question's unit vector, or None without an embedder that knows its language."""

    def word_shares(self, question: str) -> Mapping[str, Mapping[str, float]]:
        """Map each language that the question may be in to the share of its leaves that hold each form of a word.

        The shares come from a sample of leaves. English and languages with few leaves have none.
        """

    def languages(self, text: str) -> tuple[str, ...]:
        """Return the languages of the index that a question or sentence may be in."""

    def leaves(self, ids: Sequence[int]) -> dict[int, Leaf]:
        """Return leaves by id, in one call to the store. Unknown ids are left out."""

    def sections(self, ids: Sequence[int]) -> dict[int, Section]:
        """Return sections by id, in one call to the store. Unknown ids are left out."""

    def sentences(self, ids: Sequence[int]) -> dict[int, LeafSentences]:
        """Return leaves with their sentences and sentence vectors, in one call to the store."""

    def leaves_under(self, spans: Sequence[Span]) -> list[int]:
        """Return the ids of the leaves that overlap the spans, each once, in document order."""

    def vectors(self, ids: Sequence[int]) -> dict[int, FloatArray]:
        """Return vectors of leaves by id. Empty for an index without an embedder."""

    def definitions(self, names: Sequence[str]) -> dict[str, list[Definition]]:
        """Map names to their definitions in the documents that meet the condition."""

    def has(self, view: str) -> bool:
        """Check that the index has a view. Documents added a moment ago may lack it."""

    def view(self, name: str) -> Any:
        """Return the reader of a view. Raises UsageError, with the command that builds it, for a missing view."""


class StoreReader(TableReader, Protocol):
    """One state of a stored index. `where` is an SQL condition on `id`, `title` and metadata of documents."""

    @property
    def directory(self) -> Path | None:
        """Directory of the files. None for an index in memory."""

    @property
    def snapshot(self) -> str:
        """Short hash of this state."""

    @property
    def gaps(self) -> str:
        """Description of the part of the index that cannot be searched now. Empty if all of it can."""

    def documents(self, prefix: str = "", after: str | None = None, limit: int | None = None) -> list[DocumentInfo]:
        """List documents in the order they were added.

        With an argument, list up to `limit` documents whose ids begin with `prefix` and follow `after`, sorted by id.
        """

    def document(self, doc_id: str) -> Document | None: ...

    def texts(self, doc_ids: Sequence[str]) -> dict[str, Document]:
        """Return whole documents by id, in one call. Unknown ids are left out."""

    def infos(self, doc_ids: Sequence[str]) -> dict[str, DocumentInfo]:
        """Return documents without their texts by id. Unknown ids are left out."""

    def known_documents(
        self, doc_ids: Sequence[str] = (), sources: Sequence[str] = (), below: Sequence[str] = ()
    ) -> list[Known]:
        """List the documents with one of these ids or sources, or a source that begins with one of `below`, which end with "/".

        Without arguments, or with an empty text in `below`, list all documents.
        """

    def copies(self, where: str | None = None) -> Mapping[int, int]:
        """Map each duplicate, by number, to the first document with the same text, among the documents that meet a condition.

        Searches find the first one only. Titles must be equal, too, unless they are file names.
        """

    def duplicates(self) -> list[Duplicate]:
        """List `copies` by the ids of the documents."""

    def document_rows(self, doc_ids: Sequence[str]) -> list[DocumentRows]:
        """Return all rows of documents with their final ids, for `check`. A pending vector is a row of NaN."""

    def numbers(self, where: str | None = None) -> Set[int]:
        """Return the numbers of all documents, or of the ones that meet a condition."""

    def leaf_ranges(self, doc_ids: Sequence[str]) -> dict[str, range]: ...

    def ids(self, where: str | None = None) -> list[str]:
        """List the ids of all documents, or of the ones that meet a condition, in the order they were added."""

    def sizes(self, doc_ids: Collection[str] | None = None) -> tuple[int, int]:
        """Count the leaves and characters of these or all documents."""

    def metadata_kinds(self) -> dict[str, type]:
        """Return the keys of metadata with their types."""

    def languages(self) -> Mapping[str, int]:
        """Count the documents of each language. Documents that an older mergewise indexed are not counted."""

    def sample(self, language: str, count: int) -> IntArray:
        """Return the ids of up to `count` leaves (of shards, rounded up) of documents in a language, evenly spaced."""

    @property
    def views(self) -> Mapping[str, Mapping[str, Any]]:
        """Views that questions can use, with their settings. Documents added a moment ago may lack them."""

    def row_counts(self) -> dict[str, int]:
        """Count the rows of each table, documents first."""

    def has_exact_names(self) -> bool:
        """Return true if the search of leaves knows exact names, and not only their parts."""

    def unembedded(self, table: str | None = None) -> IntArray:
        """Return the ids of the rows that wait for vectors, in order. Vector search does not find them."""

    def text_search(
        self,
        question: str,
        k: int,
        where: str | None = None,
        table: str | None = None,
        *,
        words: bool = False,
        every: bool = False,
        exactly: bool = False,
        counted: str | None = None,
    ) -> Future[Ranking]:
        """Search by BM25 in the background. Only scores above zero count; ties are ordered by id.

        Args:
            question: Question, or with `words` words separated by spaces.
            k: Number of rows.
            where: SQL condition on documents.
            table: Table to search, by default the leaves.
            words: Search the table's column of words, if it has one.
            every: Return only rows with every word of the question, apart from stop words.
            exactly: Search for the exact names in the question alone (`text.exact`). Without `has_exact_names`, nothing is found.
            counted: SQL condition on the documents that the statistics of the scores count. Default: all.
        """

    def vector_search(
        self, vector: FloatArray, k: int, where: str | None = None, table: str | None = None, column: str = "vector"
    ) -> Future[Ranking]:
        """Search by cosine, in the background."""


class Store(Protocol):
    """An index on disk or in memory. Changes are atomic: readers see all of a change or nothing."""

    @property
    def settings(self) -> Mapping[str, Mapping[str, Any]]:
        """Settings of the views that each written document needs."""

    def reader(self) -> StoreReader:
        """Return the state after the last finished change."""

    def refresh(self) -> None:
        """Look for a change by another process. Queries use the old state until the new one is ready."""

    def write(
        self, rows: Sequence[DocumentRows], *, force: bool = False, remove: Sequence[str] = (), optimize: bool = False
    ) -> AddReport:
        """Add documents, or replace those with the same ids, and remove others, in one change.

        Rows of a table that can `embed` may come without vectors and then wait for them (`StoreReader.unembedded`). A document
        without the rows of a view lacks the view (`missing`), which stays in use for other documents. A document with invalid
        metadata fails, and the others are written.

        Args:
            rows: Rows of the documents. A document with an unchanged digest is skipped.
            force: Replace documents with an unchanged digest.
            remove: Ids of documents to remove.
            optimize: Call `optimize` within the same change.
        """

    def rewrite(self, rows: Sequence[DocumentRows]) -> None:
        """Replace the rows of documents by rebuilt ones.

        Documents that have changed or are gone since their text was read are skipped. Metadata added since stay.
        """

    def remove(self, doc_ids: Sequence[str]) -> int:
        """Remove documents with all their rows. Returns their number."""

    def describe(self, metadata: Mapping[str, Metadata]) -> None:
        """Add metadata to documents, by id. Other keys stay.

        Raises:
            StoreError: for invalid metadata.
        """

    def begin_view(self, view: str, settings: Mapping[str, Any]) -> None:
        """Require a view of each document written from now on. `missing` lists the documents without it."""

    def remove_view(self, view: str) -> None:
        """Remove a view with its rows. An unknown view is ignored."""

    def missing(self, view: str) -> list[str]:
        """List the documents that lack a view, in the order they were added."""

    def write_view(self, view: str, rows: Sequence[DocumentRows]) -> None:
        """Write the rows of a view for documents that lack it. Documents that are gone, changed or complete are skipped."""

    def finish_view(self, view: str) -> bool:
        """Build the search indexes of a view if all documents have it. Returns True if it can be searched."""

    def write_vectors(self, table: str, ids: Sequence[int], columns: Mapping[str, Any]) -> int:
        """Write the columns that the table's `embed` made.

        Args:
            table: Name of the table.
            ids: A range of the rows that wait for vectors, in order. Rows that are gone or complete are skipped.
            columns: Values by column.

        Returns:
            Number of rows that were written.
        """

    def finish_vectors(self) -> bool:
        """Build vector indexes if no row waits for vectors. Returns True if none waits."""

    def replace_vectors(self, embedder: str, dimension: int, vectors: Mapping[str, Any]) -> None:
        """Replace the vectors of all rows in one change by those of another embedder.

        Args:
            embedder: Its spec.
            dimension: Length of the vectors. 0 for none.
            vectors: Arrow tables with the column `id` and the new columns, by table.

        Raises:
            IndexBusy: if a row has no new vector, because it was written meanwhile.
        """

    def optimize(self) -> None:
        """Update the search indexes and delete data that no reader needs."""

    def check(self) -> list[Problem]:
        """List all broken invariants."""

    def repair(self) -> list[str]:
        """Drop rows without a document, leftovers of interrupted changes, and unreadable rows.

        Returns:
            Ids of the documents whose rows must be made again.
        """
