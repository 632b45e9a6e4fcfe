"""Building blocks of views: columns, vectors, searches, and rows that a chat model writes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Generic, Literal, TypeAlias, TypeVar

import pyarrow as pa

from mergewise.index.writing.segments import TextSegment
from mergewise.index.writing.task import Item, Policy, WritingSource, WritingTask, Written
from mergewise.index.writing.write import estimate, write
from mergewise.models.record import Models, embed_groups
from mergewise.protocols import Embedder, RowReader
from mergewise.store.tables import SerializedColumn, Table
from mergewise.store.views import Estimate, OnShare, ViewRows
from mergewise.text.sections import search_key, short_name
from mergewise.types import DocumentRows, Prompts, frozen

Record = TypeVar("Record")

PromptHash: TypeAlias = Annotated[str, "hash of the custom prompt for the rows; empty for the built-in one"]


# -- rows


def json_column(name: str, read: Callable[[Any], Any]) -> SerializedColumn:
    """Return a column that holds a tuple of named tuples as JSON. `read` restores one named tuple."""

    def pack(record: Any) -> str:
        return json.dumps(getattr(record, name), ensure_ascii=False, separators=(",", ":"))

    def unpack(rows: pa.Table) -> Mapping[str, Sequence[Any]]:
        return {name: [tuple(map(read, json.loads(packed))) for packed in rows[name].to_pylist()]}

    return SerializedColumn(name, pa.string(), pack, unpack, (name,))


def key_of(record: Any, field: str = "text") -> str:
    """Return the text to embed for a field of a record: title and headings, then the field."""
    return search_key(record.title, record.headings, getattr(record, field)).strip()


def with_vectors(
    views: Sequence[ViewRows],
    table: str,
    embedder: Embedder | None,
    column: str = "vector",
    key: Callable[[Any], str] = key_of,
) -> list[ViewRows]:
    """Add a column with the vectors of a table's records, in one call for all documents. Without an embedder, add nothing."""
    if embedder is None:
        return list(views)
    keys = [[key(record) for record in rows[table].records] for rows in views]
    return [
        {**rows, table: replace(rows[table], columns={**rows[table].columns, column: vectors})}
        for rows, vectors in zip(views, embed_groups(embedder, keys), strict=True)
    ]


def search_rows(
    rows: RowReader, table: str, record: type[Record], question: str, k: int, by: Literal["hybrid", "vectors"]
) -> list[tuple[Record, float]]:
    """Return the `k` best rows with their scores, best first, by hybrid search or by vectors only."""
    ranking = (rows.rank_rows if by == "hybrid" else rows.rank_by_vectors)(question, k, table)
    found = rows.rows(table, record, [row for row, _ in ranking])
    return [(found[row], score) for row, score in ranking if row in found]


def all_rows(rows: RowReader, table: Table, record: type[Record]) -> list[Record]:
    """Return all rows of a table in the order of their ids."""
    return list(rows.rows(table.name, record, sorted(rows.whole(table.name, ["id"])["id"].to_pylist())).values())


# -- rows that a chat model writes


def estimate_texts(
    groups: Iterable[Sequence[str]], estimate: Callable[[Sequence[str], Models], Estimate], models: Models
) -> Estimate:
    """Return the cost of a chat model's writing about the texts of each document."""
    return sum((estimate(texts, models).of_documents(1) for texts in groups), Estimate())


@frozen
class DocumentWriter(Generic[Item]):
    """The writer of a view's rows by a chat model, for views whose setting `made` is "model"."""

    segments: Callable[[DocumentRows, Any], Sequence[TextSegment]]
    task: Callable[[Any, Prompts], WritingTask[Item]]
    policy: Callable[[Any], Policy]

    def write(
        self, documents: Sequence[DocumentRows], settings: Any, models: Models, on_share: OnShare | None
    ) -> Sequence[Written[Item] | None]:
        """Return the model's items for each document, or None for each if rules make the rows."""
        if settings.made != "model":
            return [None] * len(documents)
        sources = self._sources(documents, settings)
        return write(sources, self.task(settings, models.prompts), self.policy(settings), models, on_share)

    def estimate(self, documents: Sequence[DocumentRows], settings: Any, models: Models) -> Estimate:
        """Return the model's cost for these documents, if all answers are complete."""
        sources = self._sources(documents, settings)
        return estimate(sources, self.task(settings, models.prompts), self.policy(settings), models)

    def _sources(self, documents: Sequence[DocumentRows], settings: Any) -> list[WritingSource]:
        own = ((rows.document, self.segments(rows, settings)) for rows in documents)
        return [WritingSource(one.id, short_name(one.title), one.text, segments) for one, segments in own]


# -- reports of such rows, from records with the fields of `Written.as_fields`


def count_rejects(extractions: Sequence[Any]) -> dict[str, int]:
    """Count the rejected records of the model's answers by reason, most frequent first."""
    rejects: Counter[str] = Counter()
    for one in extractions:
        rejects.update(dict(zip(one.rejects, one.reject_counts, strict=True)))
    return dict(rejects.most_common())


def unfinished_of(extractions: Sequence[Any]) -> dict[str, str]:
    """Return the incomplete documents with the reason."""
    return {one.doc_id: one.failure for one in extractions if one.failure}


def rejects_text(rejected: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in rejected.items()) or "nothing"


def unfinished_lines(unfinished: Mapping[str, str]) -> Iterator[str]:
    for doc_id, reason in unfinished.items():
        yield f"  not complete: {doc_id}: {reason}"
    if unfinished:
        yield "  run `mergewise index` with the chat model to complete these documents; finished answers are cached"
