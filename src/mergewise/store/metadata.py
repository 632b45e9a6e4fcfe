"""Metadata of documents: what can be stored, and as what."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from mergewise.ranges import short_repr
from mergewise.types import DocumentRows, Failure, FileMetadata, Metadata, MetadataValue

_KINDS = (str, bool, int, float)
_RESERVED = frozenset({"id", "title"})
_LONGEST_KEY = 200
_SURROGATE = re.compile("[\ud800-\udfff]")


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
            metadata = _storable(row.document.metadata, kinds)
        except ValueError as error:
            failed.append(Failure(row.document.id, str(error)))
        else:
            kinds.update({key: type(value) for key, value in metadata.items()})
            good.append(replace(row, document=replace(row.document, metadata=metadata)))
    return good, failed


def _storable(metadata: Metadata, kinds: dict[str, type]) -> dict[str, MetadataValue]:
    stored: dict[str, MetadataValue] = {}
    for key, value in metadata.items():
        try:
            stored[key] = _storable_value(key, value, kinds)
        except ValueError:
            if not isinstance(metadata, FileMetadata):
                raise
    return stored


def _storable_value(key: str, value: MetadataValue, kinds: dict[str, type]) -> MetadataValue:
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
    if type(value) not in _KINDS:
        raise ValueError(f"the metadata value of {key!r} is a {type(value).__name__}: use str, int, float or bool")
    wanted = kinds.get(key, type(value))
    if type(value) is wanted:
        return value
    if wanted is str:
        return str(value)
    if wanted is float and type(value) is int:
        return float(value)
    raise ValueError(f"the metadata key {key!r} holds {wanted.__name__} in this index, not {short_repr(value)}")
