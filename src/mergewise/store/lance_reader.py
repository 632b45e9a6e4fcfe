"""One state of an index in a directory: the versions of its LanceDB tables that a manifest names."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mergewise.errors import CorruptIndex, UsageError
from mergewise.protocols import FloatArray
from mergewise.store import schema as s
from mergewise.store.manifest import Manifest
from mergewise.types import (
    Chunk,
    ChunkBounds,
    Definition,
    Document,
    DocumentInfo,
    DocumentRows,
    Leaf,
    LeafSentences,
    Section,
    SliceHit,
)

if TYPE_CHECKING:
    from lancedb.table import Table

NPROBES, REFINE = 20, 2  # recall 0.99 of an exact search, see docs/evaluation.md
_REMEMBERED = 200_000
_ALL_ADDRESSES = 5_000_000  # leaves: 80 MB
_ALL = 2**31 - 1

IntArray: TypeAlias = npt.NDArray[np.int64]


class LanceReader:
    """The `StoreReader` protocol over the versions that one manifest names."""

    def __init__(self, directory: Path, manifest: Manifest) -> None:
        self.directory = directory
        self.manifest = manifest
        self._tables: dict[str, Table | None] = {}
        self._numbers: dict[str, frozenset[int]] = {}  # of the documents that meet a condition
        self._filters: dict[str, str] = {}
        self._names: _NameTable | None = None
        self._slices: dict[int, SliceHit] = {}  # the last ones found
        self._places: _BoundsTable | None = None
        self._all_addresses: tuple[IntArray, IntArray] | None = None
        self._addresses: dict[int, int] = {}  # of leaves that a search found: reading them by address is twice as fast

    def _table(self, name: str) -> Table | None:
        if name not in self._tables:
            self._tables[name] = self._open(name)
        return self._tables[name]

    def _open(self, name: str) -> Table | None:
        version = self.manifest.tables.get(name)
        if version is None:
            return None
        try:
            table: Table = connect(self.directory).open_table(name)
            table.checkout(version)
        except (ValueError, RuntimeError, OSError) as error:
            raise CorruptIndex(
                f"version {version} of the table {name!r} in {self.directory} cannot be opened: {_line(error)}",
                "index the documents again into a new directory",
            ) from None
        return table

    def _read(self, name: str, columns: Sequence[str], condition: str | None) -> pa.Table | None:
        table = self._table(name)
        return None if table is None else scan(table, columns, condition)

    def _rows(self, name: str, columns: Sequence[str], ids: Sequence[int]) -> pa.Table | None:
        return self._read(name, columns, f"id in ({sql_numbers(ids)})") if ids else None

    def documents(self) -> list[DocumentInfo]:
        table = self._table(s.DOCUMENTS)
        if table is None:
            return []
        columns = [c for c in table.schema.names if c not in {"_text", "_outline", "_pages", "_digest"}]
        rows = scan(table, columns, None).sort_by("_number").to_pylist()
        return [s.info_from(row) for row in rows]

    def document(self, doc_id: str) -> Document | None:
        found = self._documents(f"id = {sql_string(doc_id)}")
        return found[0] if found else None

    def _documents(self, condition: str) -> list[Document]:
        table = self._table(s.DOCUMENTS)
        if table is None:
            return []
        return [s.document_from(row) for row in scan(table, table.schema.names, condition).to_pylist()]

    def digests(self, doc_ids: Sequence[str]) -> dict[str, str]:
        found = self._read(s.DOCUMENTS, ["id", "_digest"], f"id in ({sql_strings(doc_ids)})") if doc_ids else None
        return {} if found is None else dict(zip(found["id"].to_pylist(), found["_digest"].to_pylist(), strict=True))

    def stored(self, doc_ids: Sequence[str]) -> list[DocumentRows]:
        documents = self._table(s.DOCUMENTS)
        if documents is None or not doc_ids:
            return []
        rows = scan(documents, documents.schema.names, f"id in ({sql_strings(doc_ids)})").to_pylist()
        condition = f"doc in ({sql_numbers(row['_number'] for row in rows)})"
        with_vectors = ["vector", "sentence_vectors"] if self.manifest.dimension else []
        columns = {
            s.LEAF: [*s.LEAF_COLUMNS, "doc", "sentences", *with_vectors],
            s.SECTION: [*s.SECTION_COLUMNS, "doc"],
            s.NAME: s.NAME_SCHEMA.names,
        }
        if self.manifest.slices is not None and s.CHUNK in self.manifest.tables:
            columns |= {name: self._all_columns(name) for name in s.OF_SLICES}
        tables = {name: self._read(name, wanted, condition) for name, wanted in columns.items()}
        return [s.rows_from(row, tables) for row in rows]

    def row_counts(self) -> dict[str, int]:
        of_slices = s.OF_SLICES if self.manifest.slices is not None else ()
        tables = {name: self._table(name) for name in (s.DOCUMENTS, *s.OF_DOCUMENTS, *of_slices)}
        return {name: 0 if table is None else table.count_rows() for name, table in tables.items()}

    def text_search(
        self, question: str, k: int, where: str | None = None, view: str = "leaf"
    ) -> list[tuple[int, float]]:
        name, _ = s.VECTOR_COLUMNS[view]
        table = self._table(name)
        if table is None or not question.strip():
            return []
        columns = [*(s.HIT_COLUMNS if name == s.SLICE else ["id"]), "_score"]
        search = table.search(question, query_type="fts", fts_columns="key").select(columns)
        found = self._found(search, where, k, name)
        return _best(found["id"].to_pylist(), found["_score"].to_pylist())

    def vector_search(
        self, vector: FloatArray, k: int, where: str | None = None, view: str = "leaf"
    ) -> list[tuple[int, float]]:
        name, column = s.VECTOR_COLUMNS[view]
        table = self._table(name)
        if table is None or not self.manifest.dimension:
            return []
        columns = [*(s.HIT_COLUMNS if name == s.SLICE else ["id"]), "_distance"]
        search: Any = table.search(vector.astype(np.float16), query_type="vector", vector_column_name=column)
        search = search.distance_type("dot").nprobes(NPROBES).refine_factor(REFINE).select(columns)
        found = self._found(search, where, k, name)
        return _best(found["id"].to_pylist(), [1.0 - d for d in found["_distance"].to_pylist()])

    def leaves(self, ids: Sequence[int]) -> dict[int, Leaf]:
        return {leaf: row for part in self._leaf_rows(s.LEAF_COLUMNS, ids) for leaf, row in s.leaves_from(part).items()}

    def sentences(self, ids: Sequence[int]) -> dict[int, LeafSentences]:
        dimension = self.manifest.dimension
        columns = [*s.LEAF_SENTENCE_COLUMNS, *(["sentence_vectors"] if dimension else [])]
        found: dict[int, LeafSentences] = {}
        for part in self._leaf_rows(columns, ids):
            found |= s.leaf_sentences_from(part, dimension)
        bare = [leaf for leaf, own in found.items() if own.vectors is None] if dimension else []
        for leaf, vector in self.vectors(bare).items():
            found[leaf] = replace(found[leaf], vectors=np.repeat(vector[None], len(found[leaf].sentences), axis=0))
        return found

    def definitions(self, names: Sequence[str], where: str | None = None) -> dict[str, list[Definition]]:
        if self._names is None:
            self._names = _NameTable(self._read(s.NAME, ["hash", "doc", "first_leaf", "leaf_count"], None))
        return self._names.definitions(names, None if where is None else self._numbers_where(where))

    def _leaf_rows(self, columns: Sequence[str], ids: Sequence[int]) -> Iterator[pa.Table]:
        """The rows of these leaves, by address where it is known."""
        table = self._table(s.LEAF)
        if table is None or not ids:
            return
        addresses = self._located(ids)
        known = [addresses[leaf] for leaf in ids if leaf in addresses]
        if known:
            yield table.take_row_ids(known).select(list(columns)).to_arrow()
        rest = self._rows(s.LEAF, columns, [leaf for leaf in ids if leaf not in addresses])
        if rest is not None:
            yield rest

    def _located(self, ids: Sequence[int]) -> dict[int, int]:
        """Row addresses of leaves: all of them are read once a state, unless the table is very large."""
        if self._all_addresses is None and any(leaf not in self._addresses for leaf in ids):
            self._all_addresses = self._read_addresses()
        remembered = self._addresses  # another thread may begin a new one meanwhile
        known = {leaf: remembered[leaf] for leaf in ids if leaf in remembered}
        rest = [leaf for leaf in ids if leaf not in known]
        if rest and self._all_addresses is not None and len(self._all_addresses[0]):
            stored, addresses = self._all_addresses
            at = np.searchsorted(stored, rest).clip(max=len(stored) - 1)
            known |= {leaf: int(addresses[i]) for leaf, i in zip(rest, at, strict=True) if stored[i] == leaf}
        return known

    def _read_addresses(self) -> tuple[IntArray, IntArray]:
        """Ids and addresses of all leaves, sorted by id; none where there are more than fit well into memory."""
        table = self._table(s.LEAF)
        none = np.empty(0, np.int64)
        if table is None or table.count_rows() > _ALL_ADDRESSES:
            return none, none
        rows = table.search().select(["id"]).with_row_id(True).limit(_ALL).to_arrow().sort_by("id")
        return rows["id"].to_numpy(), rows["_rowid"].to_numpy().astype(np.int64)

    def sections(self, ids: Sequence[int]) -> dict[int, Section]:
        found = self._rows(s.SECTION, s.SECTION_COLUMNS, ids)
        return {} if found is None else s.sections_from(found)

    def vectors(self, ids: Sequence[int]) -> dict[int, FloatArray]:
        found = self._rows(s.LEAF, ["id", "vector"], ids) if self.manifest.dimension else None
        return {} if found is None else s.vectors_from(found)

    # -- the slice view

    @property
    def views(self) -> tuple[str, ...]:
        return self.manifest.views

    @property
    def vector_views(self) -> tuple[str, ...]:
        """What has vectors of its own in the slice view."""
        return tuple((self.manifest.slices or {}).get("vectors", ()))

    def slices(self, ids: Sequence[int]) -> dict[int, SliceHit]:
        """Those that a search has just found come without another query."""
        remembered = self._slices  # another thread may begin a new one meanwhile
        slices = {i: remembered[i] for i in ids if i in remembered}
        rest = self._rows(s.SLICE, s.HIT_COLUMNS, [i for i in ids if i not in slices])
        return slices if rest is None else slices | s.slice_hits_from(rest)

    def chunk_bounds(self, ids: Sequence[int]) -> dict[int, ChunkBounds]:
        if self._places is None:
            self._places = _BoundsTable(self._read(s.CHUNK, s.BOUNDS_COLUMNS, None))
        return self._places.find(ids)

    def chunks(self, ids: Sequence[int]) -> dict[int, Chunk]:
        found = self._rows(s.CHUNK, s.CHUNK_COLUMNS, ids)
        return {} if found is None else s.chunks_from(found)

    def unsliced(self) -> list[str]:
        """Ids of the documents that have no slice view, in the order in which they were added."""
        table = self._table(s.DOCUMENTS)
        if table is None:
            return []
        served = self._read(s.CHUNK, ["doc"], None)
        standing = scan(table, ["_number", "id"], None).sort_by("_number")
        sliced = set() if served is None else set(served["doc"].unique().to_pylist())
        return [row["id"] for row in standing.to_pylist() if row["_number"] not in sliced]

    def numbers_of(self, doc_ids: Sequence[str]) -> dict[str, tuple[int, int, str]]:
        """Number, first leaf and digest of these documents."""
        columns = ["id", "_number", "_first_id", "_digest"]
        rows = self._read(s.DOCUMENTS, columns, f"id in ({sql_strings(doc_ids)})") if doc_ids else None
        return {} if rows is None else {r["id"]: (r["_number"], r["_first_id"], r["_digest"]) for r in rows.to_pylist()}

    def _all_columns(self, name: str) -> list[str]:
        table = self._table(name)
        return [] if table is None else table.schema.names

    def _found(self, search: Any, where: str | None, k: int, name: str = s.LEAF) -> pa.Table:
        if where is not None:
            search = search.where(self._leaf_filter(where), prefilter=True)
        if name != s.LEAF:
            found = search.limit(k).to_arrow()
            if name == s.SLICE:
                if len(self._slices) > _REMEMBERED // 50:
                    self._slices = {}
                self._slices.update(s.slice_hits_from(found))
            return found
        found = search.with_row_id(True).limit(k).to_arrow()
        if len(self._addresses) > _REMEMBERED:
            self._addresses = {}
        self._addresses.update(zip(found["id"].to_pylist(), found["_rowid"].to_pylist(), strict=True))
        return found

    def _leaf_filter(self, where: str) -> str:
        """A condition on documents, as a condition on leaves: the numbers of the documents that meet it."""
        if where not in self._filters:
            self._filters[where] = within(sorted(self._numbers_where(where)))
        return self._filters[where]

    def _numbers_where(self, where: str) -> frozenset[int]:
        if where not in self._numbers:
            self._numbers[where] = self._read_numbers(where)
        return self._numbers[where]

    def _read_numbers(self, where: str) -> frozenset[int]:
        table = self._table(s.DOCUMENTS)
        if table is None:
            return frozenset()
        try:
            return frozenset(scan(table, ["_number"], where)["_number"].to_pylist())
        except (ValueError, RuntimeError, OSError) as error:
            named = ", ".join(c for c in table.schema.names if not c.startswith("_"))
            raise UsageError(
                f"the condition {where!r} was not understood: {_line(error)}", f"columns: {named}"
            ) from None


class _NameTable:
    """All names of one state in memory, as sorted hashes: 28 bytes a name, looked up without a query."""

    def __init__(self, table: pa.Table | None) -> None:
        if table is None:
            table = s.NAME_SCHEMA.empty_table()
        table = table.sort_by([("hash", "ascending"), ("first_leaf", "ascending")])
        self._hashes, self._docs, self._first, self._count = (
            table[column].to_numpy() for column in ("hash", "doc", "first_leaf", "leaf_count")
        )

    def definitions(self, names: Sequence[str], numbers: Collection[int] | None) -> dict[str, list[Definition]]:
        """The places of those names that have some, in the documents with these numbers."""
        wanted = np.array([s.name_hash(name) for name in names], np.int64)
        starts, ends = (np.searchsorted(self._hashes, wanted, side) for side in ("left", "right"))
        found = {}
        for i in np.flatnonzero(starts < ends).tolist():
            rows = [row for row in range(starts[i], ends[i]) if numbers is None or int(self._docs[row]) in numbers]
            if rows:
                found[names[i]] = [
                    Definition(int(self._docs[row]), int(self._first[row]), int(self._count[row])) for row in rows
                ]
        return found


class _BoundsTable:
    """Where all chunks of one state stand, sorted by id: 48 bytes a chunk, looked up without a query."""

    def __init__(self, table: pa.Table | None) -> None:
        columns = {name: [] for name in s.BOUNDS_COLUMNS} if table is None else table.sort_by("id")
        self._columns = [np.asarray(columns[name], np.int64) for name in s.BOUNDS_COLUMNS]

    def find(self, ids: Sequence[int]) -> dict[int, ChunkBounds]:
        wanted, known = np.asarray(ids, np.int64), self._columns[0]
        at = np.searchsorted(known, wanted)
        at = at[(at < len(known)) & (known[np.minimum(at, len(known) - 1)] == wanted)] if len(known) else at[:0]
        rows = zip(*(column[at].tolist() for column in self._columns), strict=True)
        return {row[0]: ChunkBounds(*row) for row in rows}


def connect(directory: Path) -> Any:
    import lancedb

    return lancedb.connect(directory)


def scan(table: Table, columns: Sequence[str], condition: str | None) -> pa.Table:
    search = table.search().select(list(columns))
    if condition is not None:
        search = search.where(condition)
    return search.limit(_ALL).to_arrow()


def _best(ids: Iterable[int], scores: Iterable[float]) -> list[tuple[int, float]]:
    """Best first; equal scores in the order of ids, so that results repeat."""
    return sorted(zip(ids, scores, strict=True), key=lambda pair: (-pair[1], pair[0]))


def within(numbers: Sequence[int]) -> str:
    """A condition for these sorted document numbers: runs as ranges, single ones in a list."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    singles = [first for first, last in runs if first == last]
    parts = [f"doc between {first} and {last}" for first, last in runs if first < last]
    if singles:
        parts.append(f"doc in ({sql_numbers(singles)})")
    return " or ".join(parts) or "false"


def sql_numbers(numbers: Iterable[int]) -> str:
    return ",".join(map(str, numbers))


def sql_strings(values: Iterable[str]) -> str:
    return ",".join(map(sql_string, values))


def sql_string(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _line(error: Exception) -> str:
    return re.split(r"\n|\. Valid fields", str(error).strip())[0][:200]
