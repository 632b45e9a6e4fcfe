"""The tables of an index and how records become rows: `documents`, `leaf` and `section`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mergewise.protocols import FloatArray
from mergewise.text.keys import search_key, split_key
from mergewise.types import Document, DocumentInfo, DocumentRows, Heading, Leaf, Metadata, Page, Section

DOCUMENTS, LEAF, SECTION = "documents", "leaf", "section"
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
_METADATA_TYPES: dict[type, pa.DataType] = {
    str: pa.string(),
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
}


def leaf_schema(dimension: int) -> pa.Schema:
    """The `key` is what is searched and embedded: title and headings on the first line, the leaf's text after it."""
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
    ]
    if dimension:
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
    ]
    schema = leaf_schema(dimension)
    arrays = [pa.array(column, schema.field(i).type) for i, column in enumerate(columns)]
    if dimension:
        vectors = [document.vectors for _, document in rows if document.vectors is not None]
        flat = np.concatenate(vectors).astype(np.float16) if vectors else np.empty((0, dimension), np.float16)
        if flat.shape != (len(leaves), dimension):
            raise ValueError(f"vectors of shape {flat.shape} for {len(leaves)} leaves of dimension {dimension}")
        arrays.append(pa.FixedSizeListArray.from_arrays(pa.array(flat.ravel()), dimension))
    return pa.Table.from_arrays(arrays, schema=schema)


def leaves_from(table: pa.Table) -> dict[int, Leaf]:
    leaves = {}
    for row in table.to_pylist():
        title, headings, text = split_key(row["key"])
        start = row["start"]
        leaves[row["id"]] = Leaf(
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
    return leaves


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


def rows_from(row: Mapping[str, Any], leaf_rows: pa.Table, section_rows: pa.Table) -> DocumentRows:
    """One document's rows out of tables that hold those of several."""
    own_leaves = leaf_rows.filter(pc.field("doc") == row["_number"]).sort_by("id")
    own_sections = section_rows.filter(pc.field("doc") == row["_number"]).sort_by("id")
    vectors = list(vectors_from(own_leaves).values()) if "vector" in own_leaves.column_names else []
    return DocumentRows(
        document=document_from(row),
        digest=row["_digest"],
        leaves=tuple(leaves_from(own_leaves).values()),
        sections=tuple(sections_from(own_sections).values()),
        vectors=np.stack(vectors) if vectors else None,
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
