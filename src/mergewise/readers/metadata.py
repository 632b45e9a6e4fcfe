"""Metadata in one vocabulary for all formats: `dc:creator`, `Authors` and `article:author` all become `author`.

Keys are lower-case identifiers. Dates are ISO dates ("2020-05-01", "2020-05" or "2020"), so that they compare as text. The keys
of the vocabulary hold text, since an index has one type per key. Only `year` is a number.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import date, datetime

from mergewise.readers.builder import one_line
from mergewise.text.support.figures import MONTH_OF
from mergewise.types import FileMetadata, MetadataValue

TEXT_KEYS = frozenset(
    "author category contributor copyright date description doi journal keywords language license modified organization "
    "publisher recipients series status subject type version".split()
)
DATE_KEYS = frozenset({"date", "modified"})
ADDING_KEYS = frozenset({"author", "keywords"})
"""Keys that collect several values, joined by commas."""
_SPELLINGS = {
    "author": (
        "authors creator creators dc_creator dcterms_creator by byline writer from article_author citation_author autor"
    ),
    "date": (
        "created creation_date creationdate published publish_date published_at published_date pubdate "
        "publication_date date_published datepublished created_at article_published_time "
        "citation_publication_date dc_date dcterms_created dcterms_date datum"
    ),
    "modified": (
        "updated updated_at last_updated last_modified lastmod lastmodified moddate date_modified "
        "article_modified_time og_updated_time dcterms_modified"
    ),
    "keywords": "tags tag keyword article_tag news_keywords citation_keywords",
    "category": "categories article_section",
    "language": "lang locale dc_language content_language",
    "description": "summary abstract excerpt og_description dc_description twitter_description",
    "subject": "dc_subject",
    "publisher": "dc_publisher",
    "doi": "citation_doi",
    "journal": "citation_journal_title",
    "recipients": "to",
    "identifier": "id",
    "organization": "organisation",
    "license": "licence",
}
_KEYS = {spelling: key for key, spellings in _SPELLINGS.items() for spelling in spellings.split()}
_MAX_KEYS = 40
_MAX_KEY, _MAX_VALUE = 60, 1_000
_RUBBISH = frozenset(
    "administrator admin user owner unknown root none null anonymous author python-docx openpyxl n/a -".split()
)
_NOT_WORD = re.compile(r"[^a-z0-9]+")
_WHOLE = re.compile(r"-?(0|[1-9]\d{0,17})")

# Patterns of dates, in the order they are tried; d, m, n and y are day, month, the month's name, and year.
_DATES = (
    (re.compile(r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2}))?)?(?![-\d]|[./]\d)").match, "ymd"),
    # in a PDF
    (re.compile(r"D:(\d{4})(\d{2})?(\d{2})?").match, "ymd"),
    (re.compile(r"\b(\d{4})[/.](\d{1,2})[/.](\d{1,2})\b").search, "ymd"),
    (re.compile(r"\b(\d{1,2})\.\s?(\d{1,2})\.\s?(\d{4})\b").search, "dmy"),
    (
        re.compile(
            r"\b(\d{1,2})(?:st|nd|rd|th|\.|er)?[\s-]+(?:de\s+)?([^\W\d_]{3,})\.?,?[\s-]+(?:de\s+)?(\d{4})\b"
        ).search,
        "dny",
    ),
    (re.compile(r"\b([^\W\d_]{3,})\.?\s+(\d{1,2})(?:st|nd|rd|th)?,?\s+(\d{4})\b").search, "ndy"),
)
_ISO_INSIDE = re.compile(r"(\d{4})-(\d{2})-(\d{2})")
_NAME_YEAR = re.compile(r"\b([^\W\d_]{3,})\.?,?[\s-]+(\d{4})\b")
_MONTHS = MONTH_OF | {"maerz": 3, "okt": 10, "dez": 12}


def key_of(name: str) -> str:
    """Return the key of a field name, or an empty string if nothing usable is left."""
    key = _NOT_WORD.sub("_", name.lower().strip()).strip("_")
    key = _KEYS.get(key, key).lstrip("0123456789_")
    return key if len(key) <= _MAX_KEY else ""


def iso_date(text: str) -> str:
    """Return the day, month or year in `text` as an ISO date, or an empty string without one."""
    text = one_line(text)
    for find, order in _DATES:
        if match := find(text):
            return _iso(dict(zip(order, match.groups(), strict=True)))
    for match in _NAME_YEAR.finditer(text):
        if match[1].lower() in _MONTHS:
            return _iso({"n": match[1], "y": match[2]})
    match = _ISO_INSIDE.search(text)
    return _iso(dict(zip("ymd", match.groups(), strict=True))) if match else ""


def _iso(parts: Mapping[str, str | None]) -> str:
    year = int(parts.get("y") or 0)
    name = parts.get("n")
    month = _MONTHS.get(name.lower(), 0) if name else int(parts.get("m") or 0)
    day = int(parts.get("d") or 0)
    if year < 1 or (name and not month) or month > 12:
        return ""
    if not month:
        return f"{year:04}"
    try:
        date(year, month, day or 1)
    except ValueError:
        return ""
    return f"{year:04}-{month:02}-{day:02}" if day else f"{year:04}-{month:02}"


def metadata_from(pairs: Iterable[tuple[str, object]]) -> FileMetadata:
    """Return the metadata among `pairs` of names and values. The first value of a key counts; keywords and authors add up.

    Empty values, unreadable dates and placeholders for an author are left out.
    """
    metadata: dict[str, MetadataValue] = {}
    for name, raw in pairs:
        key = key_of(name)
        value = _value(key, raw) if key and key != "title" else None
        if value is None:
            continue
        standing = metadata.get(key)
        if standing is None and len(metadata) < _MAX_KEYS:
            metadata[key] = value
        elif key in ADDING_KEYS and isinstance(standing, str) and str(value) not in standing:
            metadata[key] = _shorten(f"{standing}, {value}")
    return FileMetadata(metadata)


def field_value(name: str, text: str) -> MetadataValue:
    """Return the value of a header field: a whole number in numeric fields, such as a year or the number of a PEP, else text."""
    whole = key_of(name) in ("year", "pep", "rfc", "number", "weight", "order") and _WHOLE.fullmatch(text.strip())
    return int(text) if whole else text


def _value(key: str, raw: object) -> MetadataValue | None:
    if isinstance(raw, datetime | date):
        raw = raw.isoformat()[:10]
    if key == "year":
        year = iso_date(str(raw))[:4]
        return int(year) if year else None
    if isinstance(raw, str) or key in TEXT_KEYS:
        text = _shorten(one_line(str(raw)))
        if key in DATE_KEYS:
            text = iso_date(text)
        nobody = key == "author" and (text.lower() in _RUBBISH or text.startswith(("http://", "https://")))
        return None if not text or nobody else text
    if isinstance(raw, bool | float):
        return raw
    if isinstance(raw, int):
        return raw if -(2**63) <= raw < 2**63 else None
    return None


def _shorten(text: str) -> str:
    return text if len(text) <= _MAX_VALUE else text[:_MAX_VALUE].rpartition(" ")[0] or text[:_MAX_VALUE]
