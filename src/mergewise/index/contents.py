"""What an index holds, in figures: formats and sizes of its files, their dates, and documents that say the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import PurePosixPath

from mergewise.store.places.place import PlaceSize
from mergewise.types import DocumentInfo, Duplicate

NO_SUFFIX = "without a suffix"


@dataclass(frozen=True, slots=True)
class IndexContents:
    """Dates are in UTC, as ISO 8601; None without a file, or where no calendar has the date. Sizes of files are in bytes.

    `formats` counts files by their suffix, `without_file` the documents that the caller made. `oldest` and `newest` are dates of
    files, `changed` is that of the index. `languages` counts documents by the codes of their languages, "und"
    where that cannot be told; those that an older mergewise indexed are left out. `metadata` counts documents by their keys.
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
    """The figures of these documents of an index that is so large."""
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
