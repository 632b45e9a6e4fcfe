"""The tables of an index and how records become rows: `documents`, `leaf`, `section` and `name`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mergewise.protocols import FloatArray
from mergewise.text.keys import search_key, split_key
from mergewise.types import (
    Chunk,
    Document,
    DocumentInfo,
    DocumentRows,
    Heading,
    Leaf,
    LeafSentences,
    Metadata,
    Name,
    Page,
    Section,
    Sentence,
    Slice,
    SliceHit,
    SliceRows,
)

DOCUMENTS, LEAF, SECTION, NAME = "documents", "leaf", "section", "name"
OF_DOCUMENTS = (LEAF, SECTION, NAME)  # tables whose rows belong to a document, by its number in `doc`
CHUNK, SLICE = "chunk", "slice"
OF_SLICES = (CHUNK, SLICE)  # the tables of the slice view, which an index has when it was asked for
SECTION_COLUMNS = [f.name for f in fields(Section)]

# Columns that begin with "_" are ours; the others can be named in a `where` condition, and metadata adds to them.
DOCUMENT_SCHEMA = pa.schema(
    [
        pa.field("_number", pa.int64(), nullable=False),
        pa.field("id", pa.string(), nullable=False),
        pa.field("title", pa.string(), nullable=False),
        pa.field("_text", pa.string(), nullable=False),
        pa.field("_characters", pa.int64(), nullable=False),
        pa.field("_digest", pa.string(), nullable=False),
        pa.field("_outline", pa.string()),
        pa.field("_pages", pa.string(), nullable=False),
        pa.field("_first_id", pa.int64(), nullable=False),
        pa.field("_leaves", pa.int64(), nullable=False),
        pa.field("_sections", pa.int64(), nullable=False),
    ]
)
SECTION_SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("doc", pa.int64(), nullable=False),
        pa.field("doc_id", pa.string(), nullable=False),
        pa.field("parent", pa.int64()),
        pa.field("depth", pa.int32(), nullable=False),
        pa.field("ordinal", pa.int32(), nullable=False),
        pa.field("children", pa.int32(), nullable=False),
        pa.field("start", pa.int64(), nullable=False),
        pa.field("end", pa.int64(), nullable=False),
        pa.field("headings", pa.list_(pa.string()), nullable=False),
        pa.field("first_leaf", pa.int64(), nullable=False),
        pa.field("leaf_count", pa.int32(), nullable=False),
        pa.field("tokens", pa.int64(), nullable=False),
    ]
)
NAME_SCHEMA = pa.schema(
    [
        pa.field("doc", pa.int64(), nullable=False),
        pa.field("name", pa.string(), nullable=False),
        pa.field("hash", pa.int64(), nullable=False),
        pa.field("first_leaf", pa.int64(), nullable=False),
        pa.field("leaf_count", pa.int32(), nullable=False),
    ]
)
_METADATA_TYPES: dict[type, pa.DataType] = {
    str: pa.string(),
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
}


def leaf_schema(dimension: int) -> pa.Schema:
    """The `key` is what is searched and embedded: title and headings on the first line, the leaf's text after it.

    `sentences` has three numbers a sentence: start and end, counted from the leaf's start, and tokens. `sentence_vectors`
    has their vectors, one after the other, a byte a component.
    """
    fields = [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("doc", pa.int64(), nullable=False),
        pa.field("doc_id", pa.string(), nullable=False),
        pa.field("ancestors", pa.list_(pa.int64()), nullable=False),
        pa.field("ordinal", pa.int32(), nullable=False),
        pa.field("start", pa.int64(), nullable=False),
        pa.field("body", pa.int64(), nullable=False),
        pa.field("tokens", pa.int32(), nullable=False),
        pa.field("key", pa.string(), nullable=False),
        pa.field("sentences", pa.list_(pa.int32()), nullable=False),
    ]
    if dimension:
        fields.append(pa.field("sentence_vectors", pa.binary()))
        fields.append(pa.field("vector", pa.list_(pa.float16(), dimension), nullable=False))
    return pa.schema(fields)


LEAF_COLUMNS = ["id", "doc_id", "ancestors", "ordinal", "start", "body", "tokens", "key"]


def leaf_table(rows: Sequence[tuple[int, DocumentRows]], dimension: int) -> pa.Table:
    """Leaf rows of numbered documents whose ids are final."""
    numbered = [(number, leaf) for number, document in rows for leaf in document.leaves]
    leaves = [leaf for _, leaf in numbered]
    columns: list[Any] = [
        [leaf.id for leaf in leaves],
        [number for number, _ in numbered],
        [leaf.doc_id for leaf in leaves],
        [leaf.ancestors for leaf in leaves],
        [leaf.ordinal for leaf in leaves],
        [leaf.start for leaf in leaves],
        [leaf.body for leaf in leaves],
        [leaf.tokens for leaf in leaves],
        [search_key(leaf.title, leaf.headings, leaf.text) for leaf in leaves],
        [
            [number for x in own for number in (x.start - leaf.start, x.end - leaf.start, x.tokens)]
            for _, document in rows
            for leaf, own in zip(document.leaves, document.sentences, strict=True)
        ],
    ]
    if dimension:
        columns.append([packed for _, document in rows for packed in _packed(document)])
    schema = leaf_schema(dimension)
    arrays = [pa.array(column, schema.field(i).type) for i, column in enumerate(columns)]
    if dimension:
        vectors = [document.vectors for _, document in rows if document.vectors is not None]
        flat = np.concatenate(vectors).astype(np.float16) if vectors else np.empty((0, dimension), np.float16)
        if flat.shape != (len(leaves), dimension):
            raise ValueError(f"vectors of shape {flat.shape} for {len(leaves)} leaves of dimension {dimension}")
        arrays.append(pa.FixedSizeListArray.from_arrays(pa.array(flat.ravel()), dimension))
    return pa.Table.from_arrays(arrays, schema=schema)


def _packed(document: DocumentRows) -> Sequence[bytes | None]:
    vectors = document.sentence_vectors
    return [None] * len(document.leaves) if vectors is None else [own.tobytes() for own in vectors]


def leaves_from(table: pa.Table) -> dict[int, Leaf]:
    return {row["id"]: _leaf(row) for row in table.to_pylist()}


def _leaf(row: Mapping[str, Any]) -> Leaf:
    title, headings, text = split_key(row["key"])
    start = row["start"]
    return Leaf(
        id=row["id"],
        doc_id=row["doc_id"],
        title=title,
        ancestors=tuple(row["ancestors"]),
        ordinal=row["ordinal"],
        start=start,
        end=start + len(text),
        body=row["body"],
        headings=headings,
        text=text,
        tokens=row["tokens"],
    )


def sentences_from(start: int, numbers: Sequence[int]) -> tuple[Sentence, ...]:
    return tuple(
        Sentence(start + numbers[i], start + numbers[i + 1], numbers[i + 2]) for i in range(0, len(numbers), 3)
    )


LEAF_SENTENCE_COLUMNS = ["id", "doc", "doc_id", "start", "body", "key", "sentences"]


def leaf_sentences_from(table: pa.Table, dimension: int) -> dict[int, LeafSentences]:
    """Where a leaf has no vectors of sentences, `vectors` is None."""
    embedded = "sentence_vectors" in table.column_names
    packed = table["sentence_vectors"].to_pylist() if embedded else [None] * len(table)
    found = {}
    for row in zip(*(table[name].to_pylist() for name in LEAF_SENTENCE_COLUMNS), packed, strict=True):
        leaf, number, doc_id, start, body, key, bounds, own = row
        title, headings, text = split_key(key)
        found[leaf] = LeafSentences(
            id=leaf,
            document=number,
            doc_id=doc_id,
            title=title,
            headings=headings,
            start=start,
            body=body,
            text=text,
            sentences=sentences_from(start, bounds),
            vectors=None if own is None else unit_rows(np.frombuffer(own, np.int8).reshape(-1, dimension)),
        )
    return found


def unit_rows(packed: npt.NDArray[np.int8]) -> FloatArray:
    vectors = packed.astype(np.float32)
    vectors /= np.sqrt(np.einsum("ij,ij->i", vectors, vectors))[:, None].clip(1e-9)
    return vectors


def name_table(rows: Sequence[tuple[int, DocumentRows]]) -> pa.Table:
    numbered = [(number, name) for number, document in rows for name in document.names]
    return pa.Table.from_pylist(
        [
            {
                "doc": number,
                "name": name.name,
                "hash": name_hash(name.name),
                "first_leaf": name.first_leaf,
                "leaf_count": name.leaf_count,
            }
            for number, name in numbered
        ],
        NAME_SCHEMA,
    )


def name_hash(name: str) -> int:
    """The same number everywhere and always."""
    return int.from_bytes(blake2b(name.encode("utf-8", "replace"), digest_size=8).digest(), "little", signed=True)


def section_table(rows: Sequence[tuple[int, DocumentRows]]) -> pa.Table:
    numbered = [(number, section) for number, document in rows for section in document.sections]
    return pa.Table.from_pylist(
        [{"doc": number, **{name: getattr(section, name) for name in SECTION_COLUMNS}} for number, section in numbered],
        SECTION_SCHEMA,
    )


def sections_from(table: pa.Table) -> dict[int, Section]:
    return {
        row["id"]: Section(**{**row, "headings": tuple(row["headings"])})
        for row in table.select(SECTION_COLUMNS).to_pylist()
    }


def vectors_from(table: pa.Table) -> dict[int, FloatArray]:
    column = table["vector"].combine_chunks()
    flat = column.flatten().to_numpy(zero_copy_only=False).astype(np.float32)
    return dict(zip(table["id"].to_pylist(), flat.reshape(len(column), -1), strict=True))


def document_table(rows: Sequence[tuple[int, DocumentRows]], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_pylist([_document_row(number, document) for number, document in rows], schema)


def _document_row(number: int, rows: DocumentRows) -> dict[str, object]:
    document = rows.document
    outline = document.outline
    return {
        "_number": number,
        "id": document.id,
        "title": document.title,
        "_text": document.text,
        "_characters": len(document.text),
        "_digest": rows.digest,
        "_outline": None if outline is None else json.dumps([[h.level, h.title, h.start, h.end] for h in outline]),
        "_pages": json.dumps([[p.number, p.start, p.end] for p in document.pages]),
        "_first_id": rows.leaves[0].id,
        "_leaves": len(rows.leaves),
        "_sections": len(rows.sections),
        **document.metadata,
    }


def document_from(row: Mapping[str, Any]) -> Document:
    outline = row["_outline"]
    return Document(
        id=row["id"],
        text=row["_text"],
        title=row["title"],
        metadata=metadata_from(row),
        outline=None if outline is None else tuple(Heading(*heading) for heading in json.loads(outline)),
        pages=tuple(Page(*page) for page in json.loads(row["_pages"])),
    )


def rows_from(row: Mapping[str, Any], tables: Mapping[str, pa.Table]) -> DocumentRows:
    """One document's rows out of tables that hold those of several."""
    own = {name: tables[name].filter(pc.field("doc") == row["_number"]) for name in OF_DOCUMENTS}
    own_leaves, own_sections = own[LEAF].sort_by("id"), own[SECTION].sort_by("id")
    embedded = "vector" in own_leaves.column_names
    vectors = list(vectors_from(own_leaves).values()) if embedded else []
    packed = own_leaves["sentence_vectors"].to_pylist() if embedded else [None]
    dimension = len(vectors[0]) if vectors else 1
    return DocumentRows(
        document=document_from(row),
        digest=row["_digest"],
        leaves=tuple(leaves_from(own_leaves).values()),
        sections=tuple(sections_from(own_sections).values()),
        sentences=tuple(sentences_from(leaf["start"], leaf["sentences"]) for leaf in own_leaves.to_pylist()),
        names=tuple(Name(name["name"], name["first_leaf"], name["leaf_count"]) for name in own[NAME].to_pylist()),
        vectors=np.stack(vectors) if vectors else None,
        sentence_vectors=None
        if None in packed
        else tuple(np.frombuffer(x, np.int8).reshape(-1, dimension) for x in packed if x is not None),
        slices=slice_rows_from(row["_number"], tables),
    )


# -- the slice view

CHUNK_COLUMNS = [
    "id", "doc_id", "ordinal", "start", "end", "first_leaf", "leaf_count", "tokens", "key", "summary", "parts"
]  # fmt: skip
BOUNDS_COLUMNS = ["id", "doc", "start", "end", "first_leaf", "leaf_count", "tokens"]
HIT_COLUMNS = ["id", "doc_id", "chunk", "parts"]
SLICE_COLUMNS = [*HIT_COLUMNS, "key"]


def chunk_schema(dimension: int, vectors: Sequence[str]) -> pa.Schema:
    """`parts` has two numbers a sentence of an extractive summary: start and end. `vectors` as in `SliceSettings`."""
    fields = [
        pa.field("doc", pa.int64(), nullable=False),
        pa.field("id", pa.int64(), nullable=False),
        pa.field("doc_id", pa.string(), nullable=False),
        pa.field("ordinal", pa.int32(), nullable=False),
        pa.field("start", pa.int64(), nullable=False),
        pa.field("end", pa.int64(), nullable=False),
        pa.field("first_leaf", pa.int64(), nullable=False),
        pa.field("leaf_count", pa.int32(), nullable=False),
        pa.field("tokens", pa.int32(), nullable=False),
        pa.field("key", pa.string(), nullable=False),
        pa.field("summary", pa.string(), nullable=False),
        pa.field("parts", pa.list_(pa.int64()), nullable=False),
    ]
    columns = [VECTOR_COLUMNS[view][1] for view in vectors if VECTOR_COLUMNS[view][0] == CHUNK]
    return pa.schema([*fields, *(_vector_field(column, dimension) for column in columns if dimension)])


def slice_schema(dimension: int) -> pa.Schema:
    fields = [
        pa.field("doc", pa.int64(), nullable=False),
        pa.field("id", pa.int64(), nullable=False),
        pa.field("doc_id", pa.string(), nullable=False),
        pa.field("chunk", pa.int64(), nullable=False),
        pa.field("parts", pa.list_(pa.int64()), nullable=False),
        pa.field("key", pa.string(), nullable=False),
    ]
    return pa.schema([*fields, _vector_field("vector", dimension)] if dimension else fields)


def _vector_field(column: str, dimension: int) -> pa.Field:
    return pa.field(column, pa.list_(pa.float16(), dimension), nullable=False)


# Where the vectors of a view are: table and column.
VECTOR_COLUMNS = {
    "leaf": (LEAF, "vector"),
    "slice": (SLICE, "vector"),
    "chunk": (CHUNK, "vector"),
    "summary": (CHUNK, "summary_vector"),
}


def chunk_table(rows: Sequence[tuple[int, SliceRows]], dimension: int, vectors: Sequence[str]) -> pa.Table:
    schema = chunk_schema(dimension, vectors)
    columns: list[pa.Array] = []
    records = [
        {
            **{name: getattr(chunk, name) for name in CHUNK_COLUMNS if name not in {"key", "parts"}},
            "doc": number,
            "key": search_key(chunk.title, chunk.headings, chunk.text),
            "parts": [at for part in chunk.parts for at in part],
        }
        for number, own in rows
        for chunk in own.chunks
    ]
    columns = _columns(records, schema)
    if dimension and "chunk" in vectors:
        columns.append(_flat_vectors([own.chunk_vectors for _, own in rows], len(records), dimension))
    if dimension and "summary" in vectors:
        columns.append(_flat_vectors([own.summary_vectors for _, own in rows], len(records), dimension))
    return pa.Table.from_arrays(columns, schema=schema)


def slice_table(rows: Sequence[tuple[int, SliceRows]], dimension: int) -> pa.Table:
    schema = slice_schema(dimension)
    records = [
        {
            "doc": number,
            "id": piece.id,
            "doc_id": piece.doc_id,
            "chunk": piece.chunk,
            "parts": [at for part in piece.parts for at in part],
            "key": search_key(piece.title, piece.headings, piece.text),
        }
        for number, own in rows
        for piece in own.slices
    ]
    columns = _columns(records, schema)
    if dimension:
        columns.append(_flat_vectors([own.vectors for _, own in rows], len(records), dimension))
    return pa.Table.from_arrays(columns, schema=schema)


def _columns(records: Sequence[Mapping[str, Any]], schema: pa.Schema) -> list[pa.Array]:
    plain = [field for field in schema if not pa.types.is_fixed_size_list(field.type)]
    return [pa.array([record[field.name] for record in records], field.type) for field in plain]


def _flat_vectors(vectors: Sequence[FloatArray | None], rows: int, dimension: int) -> pa.Array:
    given = [own for own in vectors if own is not None]
    flat = np.concatenate(given).astype(np.float16) if given else np.empty((0, dimension), np.float16)
    if flat.shape != (rows, dimension):
        raise ValueError(f"vectors of shape {flat.shape} for {rows} rows of dimension {dimension}")
    return pa.FixedSizeListArray.from_arrays(pa.array(flat.ravel()), dimension)


def chunks_from(table: pa.Table) -> dict[int, Chunk]:
    return {row["id"]: _chunk(row) for row in table.select(CHUNK_COLUMNS).to_pylist()}


def _chunk(row: Mapping[str, Any]) -> Chunk:
    title, headings, text = split_key(row["key"])
    own = {name: value for name, value in row.items() if name not in {"key", "parts"}}
    return Chunk(**own, title=title, headings=headings, text=text, parts=_parts(row["parts"]))


def slices_from(table: pa.Table) -> dict[int, Slice]:
    found = {}
    for row in table.select(SLICE_COLUMNS).to_pylist():
        title, headings, text = split_key(row["key"])
        found[row["id"]] = Slice(row["id"], row["doc_id"], row["chunk"], _parts(row["parts"]), title, headings, text)
    return found


def slice_hits_from(table: pa.Table) -> dict[int, SliceHit]:
    """Rows with `HIT_COLUMNS`."""
    ids, docs, chunks, parts = (table[column].to_pylist() for column in HIT_COLUMNS)
    rows = zip(ids, docs, chunks, parts, strict=True)
    return {i: SliceHit(i, doc_id, chunk, _parts(numbers)) for i, doc_id, chunk, numbers in rows}


def _parts(numbers: Sequence[int]) -> tuple[tuple[int, int], ...]:
    return tuple(zip(numbers[::2], numbers[1::2], strict=True))


def slice_rows_from(number: int, tables: Mapping[str, pa.Table]) -> SliceRows | None:
    """One document's slice view out of tables that hold those of several; None where it has none."""
    own = {name: tables[name].filter(pc.field("doc") == number).sort_by("id") for name in OF_SLICES if name in tables}
    if not own or not len(own[CHUNK]):
        return None
    return SliceRows(
        tuple(chunks_from(own[CHUNK]).values()),
        tuple(slices_from(own[SLICE]).values()),
        vectors=_stacked(own[SLICE], "vector"),
        chunk_vectors=_stacked(own[CHUNK], "vector"),
        summary_vectors=_stacked(own[CHUNK], "summary_vector"),
    )


def _stacked(table: pa.Table, column: str) -> FloatArray | None:
    if column not in table.column_names:
        return None
    flat = table[column].combine_chunks().flatten().to_numpy(zero_copy_only=False).astype(np.float32)
    return np.asarray(flat.reshape(len(table), -1), np.float32)


def info_from(row: Mapping[str, Any]) -> DocumentInfo:
    return DocumentInfo(row["id"], row["title"], metadata_from(row), row["_characters"], row["_leaves"])


def metadata_from(row: Mapping[str, Any]) -> Metadata:
    return {k: v for k, v in row.items() if not k.startswith("_") and k not in {"id", "title"} and v is not None}


def metadata_kinds(schema: pa.Schema) -> dict[str, type]:
    """The metadata columns of a documents table with the Python type of each."""
    kinds = {wanted: kind for kind, wanted in _METADATA_TYPES.items()}
    return {field.name: kinds[field.type] for field in schema if field.name not in DOCUMENT_SCHEMA.names}


def metadata_field(name: str, kind: type) -> pa.Field:
    return pa.field(name, _METADATA_TYPES[kind])
