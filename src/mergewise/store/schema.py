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
    Document,
    DocumentInfo,
    DocumentRows,
    Heading,
    Leaf,
    LeafSentences,
    Metadata,
    Name,
    Page,
    Place,
    Section,
    Sentence,
)

DOCUMENTS, LEAF, SECTION, NAME = "documents", "leaf", "section", "name"
OF_DOCUMENTS = (LEAF, SECTION, NAME)  # tables whose rows belong to a document, by its number in `doc`
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


SENTENCE_COLUMNS = ["sentences", "sentence_vectors"]
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


def sentences_from(row: Mapping[str, Any]) -> tuple[Sentence, ...]:
    numbers, shift = row["sentences"], row["start"]
    return tuple(
        Sentence(shift + numbers[i], shift + numbers[i + 1], numbers[i + 2]) for i in range(0, len(numbers), 3)
    )


def leaf_sentences_from(table: pa.Table, dimension: int) -> dict[int, LeafSentences]:
    """Rows with `SENTENCE_COLUMNS`. Where a leaf has no vectors of sentences, `vectors` is None."""
    found = {}
    for row in table.to_pylist():
        packed = row.get("sentence_vectors")
        vectors = None if packed is None else unit_rows(np.frombuffer(packed, np.int8).reshape(-1, dimension))
        found[row["id"]] = LeafSentences(_leaf(row), sentences_from(row), vectors)
    return found


def unit_rows(packed: npt.NDArray[np.int8]) -> FloatArray:
    vectors = packed.astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True).clip(1e-9)
    return vectors


def name_table(rows: Sequence[tuple[int, DocumentRows]]) -> pa.Table:
    numbered = [(number, name) for number, document in rows for name in document.names]
    return pa.Table.from_pylist(
        [
            {
                "doc": number,
                "name": name.name,
                "hash": name_hash(name.name),
                "first_leaf": name.place.first_leaf,
                "leaf_count": name.place.leaf_count,
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
    own = {name: table.filter(pc.field("doc") == row["_number"]) for name, table in tables.items()}
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
        sentences=tuple(sentences_from(leaf) for leaf in own_leaves.to_pylist()),
        names=tuple(
            Name(name["name"], Place(name["first_leaf"], name["leaf_count"])) for name in own[NAME].to_pylist()
        ),
        vectors=np.stack(vectors) if vectors else None,
        sentence_vectors=None
        if None in packed
        else tuple(np.frombuffer(x, np.int8).reshape(-1, dimension) for x in packed if x is not None),
    )


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
