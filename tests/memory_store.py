"""Index in memory with the protocol of the index on disk: a slow and obvious reference implementation."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mergewise.protocols import FloatArray, Ranking
from mergewise.store.audit import audit
from mergewise.store.conditions import parse_condition
from mergewise.store.documents import content_of, same_documents, statement_of, storable_metadata, with_checked_metadata
from mergewise.store.manifest import ViewState, holds, without
from mergewise.store.snapshot import SortedColumns
from mergewise.store.tables import (
    NUMBER,
    PlacedRows,
    Table,
    arrow_table,
    embedded_rows,
    form,
    ids_used,
    rows_from,
    unit_vectors,
)
from mergewise.store.views import Registry
from mergewise.text.exact import exact_names
from mergewise.text.languages import document_language
from mergewise.types import AddReport, Document, DocumentInfo, DocumentRows, Duplicate, Known, Metadata, Problem
from tests.slow_conditions import meets

Row = TypeVar("Row")
Kept = TypeVar("Kept")
Given = ParamSpec("Given")

K1, B = 1.2, 0.75
_WORD = re.compile(r"\w+")


def _exact_words(text: str) -> list[str]:
    return [key for name in exact_names(text) for key in {name.key, name.other}]


def _at_once(search: Callable[Given, Ranking]) -> Callable[Given, Future[Ranking]]:
    """Make a search return a finished future."""

    @wraps(search)
    def begin(*given: Given.args, **options: Given.kwargs) -> Future[Ranking]:
        future: Future[Ranking] = Future()
        future.set_result(search(*given, **options))
        return future

    return begin


class MemoryStore:
    """`Store` and `StoreReader` in one, with a single state. `dimension` is 0 without vectors.

    Views are given with their settings as in a manifest. The default is the first view of the registry.
    """

    def __init__(
        self, registry: Registry, dimension: int = 0, views: Mapping[str, Mapping[str, Any]] | None = None
    ) -> None:
        self.dimension = dimension
        self.directory: Path | None = None
        self.registry = registry
        first = next(iter(registry))
        given = {first: registry[first].dump()} if views is None else views
        self._views = {name: ViewState(settings) for name, settings in given.items()}
        self._documents: dict[
            str, tuple[int, int, DocumentRows]
        ] = {}  # number, first id, and the document without rows
        self._tables: dict[str, pa.Table] = {}
        self._next_id = self._next_number = 0
        self._kinds: dict[str, type] = {}

    # -- Store

    @property
    def settings(self) -> dict[str, Mapping[str, Any]]:
        return {name: state.settings for name, state in self._views.items()}

    def reader(self) -> MemoryStore:
        return self

    def replace_vectors(self, embedder: str, dimension: int, vectors: Mapping[str, Any]) -> None:
        raise NotImplementedError

    def refresh(self) -> None:
        """Do nothing: no other process changes it."""

    def write(
        self, rows: Sequence[DocumentRows], *, force: bool = False, remove: Sequence[str] = (), optimize: bool = False
    ) -> AddReport:
        added = replaced = 0
        removed = self.remove(remove)
        good, failed = with_checked_metadata(rows, self._kinds)
        for row in good:
            standing = self._documents.get(row.document.id)
            if standing is not None and standing[2].digest == row.digest and not force:
                continue
            added, replaced = added + (standing is None), replaced + (standing is not None)
            self.remove([row.document.id])
            number, first_id = self._next_number, self._next_id
            self._next_number += 1
            self._documents[row.document.id] = number, first_id, replace(row, tables={})
            for view, state in self._views.items():
                if all(table.name in row.tables for table in self._specs(view)):
                    self._append(view, number, first_id, row)
                else:
                    self._views[view] = replace(state, missing=(*state.missing, (number, number + 1)))
        return AddReport(added, replaced, len(good) - added - replaced, tuple(failed), removed=removed)

    def rewrite(self, rows: Sequence[DocumentRows]) -> None:
        for row in rows:
            _, _, standing = self._documents.get(row.document.id, (0, 0, None))
            if standing and (standing.digest, standing.document.text) == (row.digest, row.document.text):
                self.write([replace(row, document=standing.document, origin=standing.origin)], force=True)

    def remove(self, doc_ids: Sequence[str]) -> int:
        gone = [self._documents.pop(doc_id)[0] for doc_id in dict.fromkeys(doc_ids) if doc_id in self._documents]
        for name, rows in self._tables.items():
            self._tables[name] = _where(rows, lambda number: number not in gone)
        return len(gone)

    def describe(self, metadata: Mapping[str, Metadata]) -> None:
        for doc_id, values in metadata.items():
            given = storable_metadata(values, self._kinds)
            self._kinds |= {key: type(value) for key, value in given.items()}
            number, first_id, row = self._documents[doc_id]
            described = replace(row.document, metadata={**row.document.metadata, **given})
            self._documents[doc_id] = number, first_id, replace(row, document=described)

    def begin_view(self, view: str, settings: Mapping[str, Any]) -> None:
        if view not in self._views:
            self._views[view] = ViewState(settings, ((0, self._next_number),), offered=False)

    def remove_view(self, view: str) -> None:
        for table in self._specs(view) if view in self._views else ():
            self._tables.pop(table.name, None)
        self._views.pop(view, None)

    def missing(self, view: str) -> list[str]:
        runs = self._views[view].missing if view in self._views else ()
        return [d for d, (number, _, _) in self._documents.items() if holds(runs, number)]

    def write_view(self, view: str, rows: Sequence[DocumentRows]) -> None:
        for row in rows:
            state = self._views.get(view, ViewState({}))
            number, first_id, standing = self._documents.get(row.document.id, (-1, 0, row))
            if holds(state.missing, number) and standing.digest == row.digest:
                self._append(view, number, first_id, row)
                self._views[view] = replace(state, missing=without(state.missing, [number]))

    def finish_view(self, view: str) -> bool:
        if self.missing(view) or view not in self._views:
            return view not in self._views
        self._views[view] = replace(self._views[view], missing=(), offered=True)
        return True

    def write_vectors(self, table: str, ids: Sequence[int], columns: Mapping[str, Any]) -> int:
        spec, stored = self._spec(table), self._rows_of(table)
        assert spec is not None
        waiting = set(self.unembedded(table).tolist())
        given = dict(zip(ids, range(len(ids)), strict=True))
        taken = [row for row in stored["id"].to_pylist() if row in given and row in waiting]
        schema = pa.schema([field for field in stored.schema if field.name == "id" or field.name in columns])
        rows = embedded_rows(spec, ids, columns, schema).take([given[row] for row in taken])
        for field in schema:
            values = dict(zip(taken, rows[field.name].to_pylist(), strict=True))
            standing = zip(stored["id"].to_pylist(), stored[field.name].to_pylist(), strict=True)
            filled = pa.array([values.get(row, value) for row, value in standing], field.type)
            stored = stored.set_column(stored.schema.get_field_index(field.name), field, filled)
        self._tables[table] = stored
        return len(taken)

    def finish_vectors(self) -> bool:
        return not any(len(self.unembedded(table.name)) for view in self._views for table in self._specs(view))

    def optimize(self) -> None:
        """Do nothing."""

    def check(self) -> list[Problem]:
        return audit(self, self.registry, self.dimension)

    def repair(self) -> list[str]:
        """Return no repairs, since a change cannot be interrupted."""
        return []

    def _specs(self, view: str) -> Sequence[Table]:
        return self.registry[view].tables_of(self._views[view].settings)

    @property
    def _first(self) -> str:
        """Return the default table: the leaves."""
        return self._specs(next(iter(self._views)))[0].name

    def _spec(self, name: str) -> Table | None:
        return next((table for view in self._views for table in self._specs(view) if table.name == name), None)

    def _append(self, view: str, number: int, first_id: int, row: DocumentRows) -> None:
        by = {"row": self._next_id, "leaf": first_id}
        for table in self._specs(view):
            schema = table.schema(self.dimension)
            schema = schema.append(pa.field(table.words, pa.string())) if table.words else schema
            rows = arrow_table(table, [PlacedRows(number, row.tables[table.name], by)], schema)
            self._tables[table.name] = pa.concat_tables([self._tables.get(table.name, schema.empty_table()), rows])
        self._next_id += ids_used(self._specs(view), row.tables)

    # -- StoreReader

    @property
    def views(self) -> dict[str, Mapping[str, Any]]:
        return {name: state.settings for name, state in self._views.items() if state.offered or not self.missing(name)}

    def unembedded(self, table: str | None = None) -> npt.NDArray[np.int64]:
        spec, rows = self._spec(table or self._first), self._rows_of(table or self._first)
        if spec is None or spec.embed is None or not self.dimension:
            return np.empty(0, np.int64)
        vectors = unit_vectors(rows, spec.vectors[0])
        assert vectors is not None
        return np.sort(rows["id"].to_numpy()[np.isnan(vectors[:, 0])])

    gaps = ""

    @property
    def snapshot(self) -> str:
        return f"{self._next_number} {sorted(self._documents)}"

    def documents(self, prefix: str = "", after: str | None = None, limit: int | None = None) -> list[DocumentInfo]:
        if prefix or after is not None or limit is not None:
            wanted = [i for i in self.documents() if i.id.startswith(prefix) and (after is None or i.id > after)]
            return sorted(wanted, key=lambda info: info.id)[:limit]
        leaves = self._tables.get(self._first)
        counts = Counter(leaves[NUMBER].to_pylist() if leaves is not None else ())
        return [
            DocumentInfo(d.id, d.title, d.metadata, len(d.text), counts[number], origin, document_language(d))
            for number, d, origin in ((n, rows.document, rows.origin) for n, _, rows in self._documents.values())
        ]

    def document(self, doc_id: str) -> Document | None:
        standing = self._documents.get(doc_id)
        return None if standing is None else standing[2].document

    def texts(self, doc_ids: Sequence[str]) -> dict[str, Document]:
        return {doc_id: self._documents[doc_id][2].document for doc_id in doc_ids if doc_id in self._documents}

    def infos(self, doc_ids: Sequence[str]) -> dict[str, DocumentInfo]:
        return {info.id: info for info in self.documents() if info.id in doc_ids}

    def known_documents(
        self, doc_ids: Sequence[str] = (), sources: Sequence[str] = (), below: Sequence[str] = ()
    ) -> list[Known]:
        everything = [Known(doc_id, rows.digest, rows.origin) for doc_id, (_, _, rows) in self._documents.items()]
        if not (doc_ids or sources or below) or "" in below:
            return everything
        return [
            k
            for k in everything
            if k.id in doc_ids
            or (k.origin is not None and (k.origin.source in sources or k.origin.source.startswith(tuple(below))))
        ]

    def copies(self, where: str | None = None) -> Mapping[int, int]:
        among = self.numbers(where)
        standing = [(n, rows.document) for n, _, rows in self._documents.values() if n in among]
        return same_documents((n, statement_of(d.id, d.title, content_of(d.text))) for n, d in standing)

    def duplicates(self) -> list[Duplicate]:
        ids = {number: doc_id for doc_id, (number, _, _) in self._documents.items()}
        return [Duplicate(ids[number], ids[original]) for number, original in self.copies().items()]

    def document_rows(self, doc_ids: Sequence[str]) -> list[DocumentRows]:
        return [self._stored(*self._documents[doc_id]) for doc_id in doc_ids if doc_id in self._documents]

    def _stored(self, number: int, _: int, row: DocumentRows) -> DocumentRows:
        tables = {}
        for view, state in self._views.items():
            if not holds(state.missing, number):
                for table in self._specs(view):
                    rows = self._rows_of(table.name)
                    tables[table.name] = rows_from(table, _where(rows, lambda of_row: of_row == number))
        return replace(row, tables=tables)

    def numbers(self, where: str | None = None) -> frozenset[int]:
        if where is None:
            return frozenset(number for number, _, _ in self._documents.values())
        condition = parse_condition(where, {"id": str, "title": str, **self._kinds})
        columns = {
            number: {"id": rows.document.id, "title": rows.document.title, **rows.document.metadata}
            for number, _, rows in self._documents.values()
        }
        return frozenset(number for number, row in columns.items() if meets(condition, row))

    def ids(self, where: str | None = None) -> list[str]:
        numbers = self.numbers(where)
        numbered = sorted((number, doc_id) for doc_id, (number, _, _) in self._documents.items())
        return [doc_id for number, doc_id in numbered if number in numbers]

    def sizes(self, doc_ids: Collection[str] | None = None) -> tuple[int, int]:
        wanted = [info for info in self.documents() if doc_ids is None or info.id in doc_ids]
        return sum(info.leaves for info in wanted), sum(info.characters for info in wanted)

    def metadata_kinds(self) -> dict[str, type]:
        return dict(self._kinds)

    def leaf_ranges(self, doc_ids: Sequence[str]) -> dict[str, range]:
        counts = Counter(self._rows_of(self._first)[NUMBER].to_pylist())
        standing = {doc_id: self._documents[doc_id] for doc_id in doc_ids if doc_id in self._documents}
        return {doc_id: range(first, first + counts[number]) for doc_id, (number, first, _) in standing.items()}

    def languages(self) -> Mapping[str, int]:
        return Counter(document_language(rows.document) for _, _, rows in self._documents.values())

    def has_exact_names(self) -> bool:
        return True

    def sample(self, language: str, count: int) -> npt.NDArray[np.int64]:
        own = [id_ for id_, (_, _, rows) in self._documents.items() if document_language(rows.document) == language]
        leaves = sorted(leaf for leaves in self.leaf_ranges(own).values() for leaf in leaves)
        return np.array(leaves[:: max(1, math.ceil(len(leaves) / count))], np.int64)

    def row_counts(self) -> dict[str, int]:
        tables = [table.name for view in self._views for table in self._specs(view)]
        return {"documents": len(self._documents), **{name: len(self._rows_of(name)) for name in tables}}

    def _rows_of(self, name: str) -> pa.Table:
        spec = self._spec(name)
        assert spec is not None
        return self._tables.get(name, spec.schema(self.dimension).empty_table())

    def once(self, name: str, make: Callable[[], Kept], where: str | None = None) -> Kept:
        return make()

    def whole(self, table: str, columns: Sequence[str]) -> pa.Table:
        return self._rows_of(table).select(list(columns))

    def sorted_columns(self, table: str, columns: Sequence[str]) -> Mapping[str, npt.NDArray[np.int64]]:
        return SortedColumns.of(self._rows_of(table).select(list(dict.fromkeys([*columns, NUMBER])))).columns

    def rows(self, table: str, record: type[Row], ids: Sequence[int]) -> dict[int, Row]:
        spec = self._spec(table)
        if spec is None:
            return {}
        rows = self._rows_of(table)
        records = dict(zip(rows["id"].to_pylist(), form(spec, record).read(rows), strict=True))
        return {row: records[row] for row in ids if row in records}

    def vectors(self, ids: Sequence[int], table: str | None = None, column: str = "vector") -> dict[int, FloatArray]:
        rows = self._rows_of(table or self._first)
        vectors = unit_vectors(rows, column)
        by_id = {} if vectors is None else dict(zip(rows["id"].to_pylist(), vectors, strict=True))
        return {row: by_id[row] for row in ids if row in by_id and not np.isnan(by_id[row][0])}

    @_at_once
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
    ) -> Ranking:
        """Search by BM25 (Robertson and Zaragoza 2009) with a non-negative idf."""
        spec, numbers = self._spec(table or self._first), self.numbers(where) - self.copies(where).keys()
        column, cut = (spec and spec.words, str.split) if words else (spec and spec.text, _words)
        if spec is None or column is None:
            return []
        if exactly:
            cut = _exact_words
        rows = self._rows_of(spec.name)
        texts = {i: cut(text or "") for i, text in zip(*(rows[c].to_pylist() for c in ("id", column)), strict=True)}
        visible = self.numbers(counted)
        seen = [texts[i] for i, number in zip(texts, rows[NUMBER].to_pylist(), strict=True) if number in visible]
        average = sum(map(len, seen)) / max(1, len(seen)) or 1
        holding = Counter(word for held in seen for word in set(held))
        scores = {}
        for (row, held), number in zip(texts.items(), rows[NUMBER].to_pylist(), strict=True):
            counts = Counter(held)
            length = K1 * (1 - B + B * len(held) / average)
            has_all = not every or counts.keys() >= set(cut(question))
            scores[row] = (number in numbers and has_all) * sum(
                math.log(1 + (len(seen) - holding[w] + 0.5) / (holding[w] + 0.5))
                * counts[w] * (K1 + 1) / (counts[w] + length)
                for w in set(cut(question)) if counts[w]
            )  # fmt: skip
        return _top({row: score for row, score in scores.items() if score > 0}, k)

    @_at_once
    def vector_search(
        self, vector: FloatArray, k: int, where: str | None = None, table: str | None = None, column: str = "vector"
    ) -> Ranking:
        spec, numbers = self._spec(table or self._first), self.numbers(where) - self.copies(where).keys()
        rows = self._rows_of(spec.name) if spec is not None else None
        vectors = None if rows is None else unit_vectors(rows, column)
        if rows is None or vectors is None:
            return []
        near = zip(rows["id"].to_pylist(), rows[NUMBER].to_pylist(), (vectors @ vector).tolist(), strict=True)
        return _top({row: cosine for row, number, cosine in near if number in numbers and not math.isnan(cosine)}, k)


def _where(rows: pa.Table, holds: Callable[[int], bool]) -> pa.Table:
    """Return the rows of documents whose number meets the condition."""
    return rows.filter(pa.array([holds(number) for number in rows[NUMBER].to_pylist()], pa.bool_()))


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _top(scores: Mapping[int, float], k: int) -> Ranking:
    return sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))[:k]
