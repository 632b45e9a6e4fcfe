"""Statistics of an index: formats, sizes and dates of its files, and duplicate documents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import PurePosixPath

from mergewise.store.places.place import PlaceSize
from mergewise.types import DocumentInfo, Duplicate, frozen

NO_SUFFIX = "without a suffix"


@frozen
class IndexContents:
    """The statistics of an index. Dates are in UTC, as ISO 8601, or None without files or for an invalid date.

    Attributes:
        formats: Number of files by suffix.
        without_file: Number of documents that were not read from a file.
        characters: Characters of all documents.
        bytes: Size of all files in bytes.
        index_bytes: Size of the index in bytes.
        oldest: Date of the oldest file.
        newest: Date of the newest file.
        changed: Date of the last change of the index.
        duplicates: Documents that repeat another one.
        languages: Number of documents by language code, "und" for an unknown language. Documents from an older mergewise are
            not counted.
        metadata: Number of documents by metadata key.
    """

    formats: Mapping[str, int]
    without_file: int
    characters: int
    bytes: int
    index_bytes: int
    oldest: str | None
    newest: str | None
    changed: str | None
    duplicates: tuple[Duplicate, ...]
    languages: Mapping[str, int]
    metadata: Mapping[str, int]


def contents_of(documents: Sequence[DocumentInfo], duplicates: Sequence[Duplicate], size: PlaceSize) -> IndexContents:
    """Compute the statistics of these documents, in an index of this size."""
    files = [document.origin for document in documents if document.origin is not None]
    suffixes = Counter(PurePosixPath(file.source).suffix.lower() or NO_SUFFIX for file in files)
    dates = [file.modified for file in files]
    return IndexContents(
        formats=dict(suffixes.most_common()),
        without_file=len(documents) - len(files),
        characters=sum(document.characters for document in documents),
        bytes=sum(file.bytes for file in files),
        index_bytes=size.bytes,
        oldest=_iso_date(min(dates, default=None)),
        newest=_iso_date(max(dates, default=None)),
        changed=_iso_date(size.changed),
        duplicates=tuple(duplicates),
        languages=dict(Counter(document.language for document in documents if document.language).most_common()),
        metadata=dict(Counter(key for document in documents for key in document.metadata).most_common()),
    )


def _iso_date(seconds: float | None) -> str | None:
    try:
        return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
    except (OverflowError, ValueError, OSError):
        return None
