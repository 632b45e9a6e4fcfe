"""The documents table: its columns, and the checks of metadata."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import md5
from pathlib import PurePosixPath
from typing import TypeAlias

import pyarrow as pa

from mergewise import defaults
from mergewise.ranges import short_repr
from mergewise.text.languages import document_language
from mergewise.types import (
    Document,
    DocumentInfo,
    DocumentRows,
    Failure,
    FileMetadata,
    Heading,
    Json,
    Known,
    Metadata,
    MetadataValue,
    Origin,
    Page,
)

DOCUMENTS = "documents"

METADATA_TYPES: dict[type, pa.DataType] = {str: pa.string(), bool: pa.bool_(), int: pa.int64(), float: pa.float64()}
# Columns that begin with "_" are internal. A `where` condition may name the
# others and the metadata columns added later.
_COLUMNS = {
    "_number": int,
    "id": str,
    "title": str,
    "_text": str,
    "_characters": int,
    "_digest": str,
    "_outline": str,
    "_pages": str,
    "_first_id": int,
    "_leaves": int,
    "_content": str,
    "_source": str,
    "_bytes": int,
    "_modified": int,
    "_units": str,
    "_language": str,
}
_OPTIONAL = "_outline _content _source _bytes _modified _units _language".split()
SCHEMA = pa.schema([pa.field(name, METADATA_TYPES[kind], name in _OPTIONAL) for name, kind in _COLUMNS.items()])
OF_TEXTS = ("_number", "_content", "_language")
"""Columns that depend on a document's text alone, and never change while the document keeps its number."""
UNLISTED = frozenset({"_text", "_outline", "_pages", "_digest", "_content", "_units"})
"""Columns that listing documents does not read."""
_KINDS = {str: "texts", bool: "true and false", int: "whole numbers", float: "numbers"}
_RESERVED = frozenset({"id", "title"})
_LONGEST_KEY = 200
_SURROGATE = re.compile("[\ud800-\udfff]")


def document_table(rows: Sequence[tuple[int, int, DocumentRows]], first_table: str, schema: pa.Schema) -> pa.Table:
    """Build the rows of documents from (number, first id, rows). `first_table` is the table of the leaves."""
    records: list[dict[str, object]] = []
    for number, first_id, row in rows:
        document, outline, origin = row.document, row.document.outline, row.origin
        headings = None if outline is None else [[h.level, h.title, h.start, h.end] for h in outline]
        records.append(
            {
                "_number": number,
                "id": document.id,
                "title": document.title,
                "_text": document.text,
                "_characters": len(document.text),
                "_digest": row.digest,
                "_outline": None if headings is None else json.dumps(headings),
                "_pages": json.dumps([[p.number, p.start, p.end] for p in document.pages]),
                "_units": json.dumps(document.units) if document.units else None,
                "_first_id": first_id,
                "_leaves": len(row[first_table]),
                "_content": content_of(document.text),
                "_language": row.language or document_language(document),
                **document.metadata,
            }
        )
        if origin is not None:
            records[-1] |= {"_source": origin.source, "_bytes": origin.bytes, "_modified": origin.modified}
    return pa.Table.from_pylist(records, schema)


def content_of(text: str) -> str:
    """Return the MD5 digest of a text. The database can compute it too."""
    return md5(text.encode("utf-8"), usedforsecurity=False).hexdigest()


def is_as_written(row: Json) -> bool:
    """Return whether a row can be read, and has the text that was written."""
    try:
        return not row["_content"] or content_of(document_from(row).text) == row["_content"]
    except (ValueError, TypeError, KeyError):
        return False


def is_outdated(known: Known) -> bool:
    """Return whether an older version of the readers read the file of a document. Older indexes record no version."""
    version = known.digest.partition(defaults.READ_BY)[2]
    recorded = int(version) if version.isdecimal() and len(version) < 10 else 1
    return known.origin is not None and recorded < defaults.READERS_VERSION


def origin_from(row: Json) -> Origin | None:
    source = row["_source"]
    return None if source is None else Origin(source, row["_bytes"], row["_modified"])


Statement: TypeAlias = tuple[str, str]
"""The digest of a document's text, and its title unless that is only the name of its file."""


def statement_of(doc_id: str, title: str, content: str) -> Statement:
    is_file_name = title == PurePosixPath(doc_id).stem
    return content, "" if is_file_name else title


def same_documents(statements: Iterable[tuple[int, Statement]]) -> dict[int, int]:
    """Map the number of each repeated document to that of the first document with the same statement."""
    first: dict[Statement, int] = {}
    copies = {}
    for number, statement in sorted(statements):
        original = first.setdefault(statement, number)
        if original != number:
            copies[number] = original
    return copies


def document_from(row: Json) -> Document:
    outline = row["_outline"]
    return Document(
        id=row["id"],
        text=row["_text"],
        title=row["title"],
        metadata=metadata_from(row),
        outline=None if outline is None else tuple(Heading(*heading) for heading in json.loads(outline)),
        pages=tuple(Page(*page) for page in json.loads(row["_pages"])),
        units=tuple(map(tuple, json.loads(row["_units"] or "[]"))),
    )


def info_from(row: Json) -> DocumentInfo:
    return DocumentInfo(
        row["id"],
        row["title"],
        metadata_from(row),
        row["_characters"],
        row["_leaves"],
        origin_from(row),
        row["_language"] or "",
    )


def metadata_from(row: Json) -> Metadata:
    return {k: v for k, v in row.items() if not k.startswith("_") and k not in _RESERVED and v is not None}


def metadata_kinds(schema: pa.Schema) -> dict[str, type]:
    """Map the metadata columns of a documents table to their Python types."""
    kinds = {wanted: kind for kind, wanted in METADATA_TYPES.items()}
    named = (field for field in schema if not field.name.startswith("_") and field.name not in _RESERVED)
    return {field.name: kinds[field.type] for field in named}


def with_checked_metadata(
    rows: Sequence[DocumentRows], kinds: dict[str, type]
) -> tuple[list[DocumentRows], list[Failure]]:
    """Split rows into those with valid metadata, and failures with their reasons.

    A metadata key holds one type in an index. `kinds` maps keys to types, and new keys are added to it. A float key accepts
    integers, a text key accepts any value. Metadata that a reader found in a file (`FileMetadata`) never fails: invalid
    values are dropped.
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
    """Convert metadata to the types of its keys. Raise ValueError for an invalid value, or drop it in a `FileMetadata`."""
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
        raise ValueError(f"invalid metadata key: {short_repr(key)} (expected a text)")
    if not key or key.startswith("_") or "." in key or key in _RESERVED:
        raise ValueError(
            f"invalid metadata key: {short_repr(key)} (expected no leading _, no dot, and not id or title)"
        )
    if len(key) > _LONGEST_KEY or not key.isprintable() or "`" in key:
        raise ValueError(
            f"invalid metadata key: {short_repr(key)} (expected up to {_LONGEST_KEY} printable characters, without backticks)"
        )
    if type(value) is int and not -(2**63) <= value < 2**63:
        raise ValueError(f"invalid metadata value of {key!r}: {short_repr(value)} (integers have up to 64 bits)")
    if type(value) is str and _SURROGATE.search(value):
        raise ValueError(f"invalid metadata value of {key!r}: half a surrogate pair (expected valid Unicode)")
    if type(value) not in METADATA_TYPES:
        raise ValueError(
            f"invalid metadata value of {key!r}: a {type(value).__name__} (expected str, int, float or bool)"
        )
    wanted = kinds.get(key, type(value))
    if type(value) is wanted:
        return value
    if wanted is str:
        return str(value)
    if wanted is float and type(value) is int:
        return float(value)
    raise ValueError(f"invalid metadata value of {key!r}: {short_repr(value)} (this index holds {_KINDS[wanted]})")
