"""The table of documents: what is kept of each besides the rows of its views."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from hashlib import md5
from pathlib import PurePosixPath
from typing import Any

import pyarrow as pa

from mergewise.types import Document, DocumentInfo, DocumentRows, Heading, Metadata, Origin, Page

DOCUMENTS = "documents"

# Columns that begin with "_" are ours; the others can be named in a `where` condition, and metadata adds to them.
SCHEMA = pa.schema(
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
        pa.field("_content", pa.string()),
        pa.field("_source", pa.string()),
        pa.field("_bytes", pa.int64()),
        pa.field("_modified", pa.int64()),
        pa.field("_units", pa.string()),
    ]
)
LATER = {
    "_content": "md5(_text)",
    "_source": pa.string(),
    "_bytes": pa.int64(),
    "_modified": pa.int64(),
    "_units": pa.string(),
}
"""Columns that indexes of older versions lack: what they are made of, or their type where they begin empty."""
UNLISTED = frozenset({"_text", "_outline", "_pages", "_digest", "_content", "_units"})
"""Columns that a list of documents does not read."""
_METADATA_TYPES: dict[type, pa.DataType] = {
    str: pa.string(),
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
}
# columns that nothing reads any more
_OF_FORMAT_2 = {"_sections": 0}


def document_table(rows: Sequence[tuple[int, int, DocumentRows]], first_table: str, schema: pa.Schema) -> pa.Table:
    """Documents with their numbers and first ids. `first_table` is that of the leaves."""
    records = [_record(number, first_id, row, len(row[first_table])) for number, first_id, row in rows]
    return pa.Table.from_pylist(records, schema)


def _record(number: int, first_id: int, rows: DocumentRows, leaves: int) -> dict[str, object]:
    document = rows.document
    outline = document.outline
    return {
        **_OF_FORMAT_2,
        "_number": number,
        "id": document.id,
        "title": document.title,
        "_text": document.text,
        "_characters": len(document.text),
        "_digest": rows.digest,
        "_outline": None if outline is None else json.dumps([[h.level, h.title, h.start, h.end] for h in outline]),
        "_pages": json.dumps([[p.number, p.start, p.end] for p in document.pages]),
        "_units": json.dumps(document.units) if document.units else None,
        "_first_id": first_id,
        "_leaves": leaves,
        "_content": content_of(document.text),
        **origin_columns(rows.origin),
        **document.metadata,
    }


def content_of(text: str) -> str:
    """What documents of equal texts share. The database can work it out too."""
    return md5(text.encode("utf-8"), usedforsecurity=False).hexdigest()


def origin_columns(origin: Origin | None) -> dict[str, object]:
    return {} if origin is None else {"_source": origin.source, "_bytes": origin.bytes, "_modified": origin.modified}


def origin_from(row: Mapping[str, Any]) -> Origin | None:
    source = row.get("_source")
    return None if source is None else Origin(source, row["_bytes"], row["_modified"])


def same_documents(rows: Iterable[tuple[int, str, str, str]]) -> dict[int, int]:
    """Of documents given by number, id, title and content: those that say the same as one before them, with its number."""
    first: dict[tuple[str, str], int] = {}
    copies = {}
    for number, doc_id, title, content in sorted(rows):
        # then the title is the name of the file, and says nothing
        named = title == PurePosixPath(doc_id).stem
        original = first.setdefault((content, "" if named else title), number)
        if original != number:
            copies[number] = original
    return copies


def document_from(row: Mapping[str, Any]) -> Document:
    outline = row["_outline"]
    return Document(
        id=row["id"],
        text=row["_text"],
        title=row["title"],
        metadata=metadata_from(row),
        outline=None if outline is None else tuple(Heading(*heading) for heading in json.loads(outline)),
        pages=tuple(Page(*page) for page in json.loads(row["_pages"])),
        units=tuple((start, end) for start, end in json.loads(row.get("_units") or "[]")),
    )


def info_from(row: Mapping[str, Any]) -> DocumentInfo:
    return DocumentInfo(
        row["id"], row["title"], metadata_from(row), row["_characters"], row["_leaves"], origin_from(row)
    )


def metadata_from(row: Mapping[str, Any]) -> Metadata:
    return {k: v for k, v in row.items() if not k.startswith("_") and k not in {"id", "title"} and v is not None}


def metadata_kinds(schema: pa.Schema) -> dict[str, type]:
    """The metadata columns of a documents table with the Python type of each."""
    kinds = {wanted: kind for kind, wanted in _METADATA_TYPES.items()}
    named = (field for field in schema if not field.name.startswith("_") and field.name not in {"id", "title"})
    return {field.name: kinds[field.type] for field in named}


def metadata_field(name: str, kind: type) -> pa.Field:
    return pa.field(name, _METADATA_TYPES[kind])
