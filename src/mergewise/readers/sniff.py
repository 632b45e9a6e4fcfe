"""What some bytes look like, by their first few: for error messages, and to tell text from everything else."""

from __future__ import annotations

_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"%PDF-", "a PDF"),
    (b"PK\x03\x04", "a ZIP archive or an office file"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old office file (.doc, .xls, .ppt) or an encrypted one"),
    (b"\x89PNG\r\n\x1a\n", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"II*\x00", "a TIFF image"),
    (b"MM\x00*", "a TIFF image"),
    (b"{\\rtf", "an RTF file"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"\x7fELF", "a program"),
    (b"SQLite format 3\x00", "an SQLite database"),
)


def looks_like(data: bytes) -> str:
    """A few words such as "a PNG image"; empty when nothing is recognised."""
    return next((name for magic, name in _MAGIC if data.startswith(magic)), "")


def mismatch(expected: str, data: bytes) -> str:
    """The reason to give when `data` is not an `expected`: "not a PDF, looks like a PNG image"."""
    kind = looks_like(data) or ("text" if b"\x00" not in data[:4096] and data[:4096].isascii() else "")
    return f"not {expected}, looks like {kind}" if kind else f"not {expected}"
