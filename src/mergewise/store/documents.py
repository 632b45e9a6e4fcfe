"""The table of documents: what is kept of each besides the rows of its views, and which metadata can be stored."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import md5
from pathlib import PurePosixPath
from typing import Any, TypeAlias

import pyarrow as pa

from mergewise.ranges import short_repr
from mergewise.text.languages import document_language
from mergewise.types import (
    Document,
    DocumentInfo,
    DocumentRows,
    Failure,
    FileMetadata,
    Heading,
    Metadata,
    MetadataValue,
    Origin,
    Page,
)

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
        pa.field("_language", pa.string()),
    ]
)
OF_TEXTS = ("_number", "_content", "_language")
"""What a document's text alone tells: they stay as they are for as long as the document stands under its number."""
UNLISTED = frozenset({"_text", "_outline", "_pages", "_digest", "_content", "_units"})
"""Columns that a list of documents does not read."""
_METADATA_TYPES: dict[type, pa.DataType] = {str: pa.string(), bool: pa.bool_(), int: pa.int64(), float: pa.float64()}
_RESERVED = frozenset({"id", "title"})
_LONGEST_KEY = 200
_SURROGATE = re.compile("[\ud800-\udfff]")


def document_table(rows: Sequence[tuple[int, int, DocumentRows]], first_table: str, schema: pa.Schema) -> pa.Table:
    """Documents with their numbers and first ids. `first_table` is that of the leaves."""
    records = [_record(number, first_id, row, len(row[first_table])) for number, first_id, row in rows]
    return pa.Table.from_pylist(records, schema)


def _record(number: int, first_id: int, rows: DocumentRows, leaves: int) -> dict[str, object]:
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
        "_units": json.dumps(document.units) if document.units else None,
        "_first_id": first_id,
        "_leaves": leaves,
        "_content": content_of(document.text),
        "_language": rows.language or document_language(document),
        **origin_columns(rows.origin),
        **document.metadata,
    }


def content_of(text: str) -> str:
    """What documents of equal texts share. The database can work it out too."""
    return md5(text.encode("utf-8"), usedforsecurity=False).hexdigest()


def origin_columns(origin: Origin | None) -> dict[str, object]:
    return {} if origin is None else {"_source": origin.source, "_bytes": origin.bytes, "_modified": origin.modified}


def origin_from(row: Mapping[str, Any]) -> Origin | None:
    source = row["_source"]
    return None if source is None else Origin(source, row["_bytes"], row["_modified"])


Statement: TypeAlias = tuple[str, str]
"""What a document says: the digest of its text, and its title where that is more than the name of its file."""


def statement_of(doc_id: str, title: str, content: str) -> Statement:
    named = title == PurePosixPath(doc_id).stem
    # then the title is the name of the file, and says nothing
    return content, "" if named else title


def same_documents(statements: Iterable[tuple[int, Statement]]) -> dict[int, int]:
    """Of documents given by their numbers: those that say the same as one before them, with its number."""
    first: dict[Statement, int] = {}
    copies = {}
    for number, statement in sorted(statements):
        original = first.setdefault(statement, number)
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
        units=tuple((start, end) for start, end in json.loads(row["_units"] or "[]")),
    )


def info_from(row: Mapping[str, Any]) -> DocumentInfo:
    return DocumentInfo(
        row["id"],
        row["title"],
        metadata_from(row),
        row["_characters"],
        row["_leaves"],
        origin_from(row),
        row["_language"] or "",
    )


def metadata_from(row: Mapping[str, Any]) -> Metadata:
    return {k: v for k, v in row.items() if not k.startswith("_") and k not in _RESERVED and v is not None}


def metadata_kinds(schema: pa.Schema) -> dict[str, type]:
    """The metadata columns of a documents table with the Python type of each."""
    kinds = {wanted: kind for kind, wanted in _METADATA_TYPES.items()}
    named = (field for field in schema if not field.name.startswith("_") and field.name not in _RESERVED)
    return {field.name: kinds[field.type] for field in named}


def condition_columns(schema: pa.Schema) -> dict[str, type]:
    """The columns that a user's condition may name, with the Python type of each."""
    return {"id": str, "title": str, **metadata_kinds(schema)}


def metadata_field(name: str, kind: type) -> pa.Field:
    return pa.field(name, _METADATA_TYPES[kind])


def with_checked_metadata(
    rows: Sequence[DocumentRows], kinds: dict[str, type]
) -> tuple[list[DocumentRows], list[Failure]]:
    """The rows whose metadata can be stored, and what is wrong with the others.

    A metadata key holds one type in an index: `kinds`, which grows with the keys that are new here. Whole numbers
    are taken where fractions are held, and anything where text is. What a reader found in a file (`FileMetadata`) makes no
    document fail: a value that does not fit is left out.
    """
    good: list[DocumentRows] = []
    failed: list[Failure] = []
    for row in rows:
        try:
            metadata = storable_metadata(row.document.metadata, kinds)
        except ValueError as error:
            failed.append(Failure(row.document.id, str(error)))
        else:
            kinds.update({key: type(value) for key, value in metadata.items()})
            good.append(replace(row, document=replace(row.document, metadata=metadata)))
    return good, failed


def storable_metadata(metadata: Metadata, kinds: Mapping[str, type]) -> dict[str, MetadataValue]:
    """The values as an index holds them whose keys have these types. Raises ValueError, unless a file says them of itself."""
    stored: dict[str, MetadataValue] = {}
    for key, value in metadata.items():
        try:
            stored[key] = _storable_value(key, value, kinds)
        except ValueError:
            if not isinstance(metadata, FileMetadata):
                raise
    return stored


def _storable_value(key: str, value: MetadataValue, kinds: Mapping[str, type]) -> MetadataValue:
    if type(key) is not str:
        raise ValueError(f"the metadata key {short_repr(key)} is no text")
    if not key or key.startswith("_") or "." in key or key in _RESERVED:
        raise ValueError(
            f"the metadata key {short_repr(key)} cannot be stored: no leading _, no dot, and not id or title"
        )
    if len(key) > _LONGEST_KEY or not key.isprintable() or "`" in key:
        raise ValueError(
            f"the metadata key {short_repr(key)} cannot be stored: up to {_LONGEST_KEY} characters, none of them a backtick or "
            "one that is not printed"
        )
    if type(value) is int and not -(2**63) <= value < 2**63:
        raise ValueError(f"the metadata value of {key!r} is {short_repr(value)}: whole numbers have up to 64 bits")
    if type(value) is str and _SURROGATE.search(value):
        raise ValueError(f"the metadata value of {key!r} is not valid Unicode: it holds half a surrogate pair")
    if type(value) not in _METADATA_TYPES:
        raise ValueError(f"the metadata value of {key!r} is a {type(value).__name__}: use str, int, float or bool")
    wanted = kinds.get(key, type(value))
    if type(value) is wanted:
        return value
    if wanted is str:
        return str(value)
    if wanted is float and type(value) is int:
        return float(value)
    raise ValueError(f"the metadata key {key!r} holds {wanted.__name__} in this index, not {short_repr(value)}")
