"""Bytes to text: by byte order mark, else as UTF-8, else by a guess. Also names the kind of a binary file.

The guess is made by charset-normalizer on 64 kB of the lines that are not ASCII. Short texts can come out with wrong accents.
UTF-32 needs a byte order mark. UTF-16 without one is recognised by its zeros, as in Latin scripts. UTF-7 is never read: no text
needs it, and it hides mark-up.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable
from contextlib import suppress

from mergewise.errors import ReadError

# The byte order mark of UTF-32 begins with the one of UTF-16.
_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_SAMPLE = 65_536
# Share of zeros at even or odd offsets. In English every second byte is zero, in Greek only that of each blank.
_MIN_ZERO_SHARE = 0.1
# Valid characters in lines of UTF-8 for each broken one, from which a text is UTF-8 with lines in another encoding.
_MIN_WHOLE = 0.1
_ENCODINGS = (
    "cp1252 cp1250 cp1251 cp1253 cp1254 cp1255 cp1256 cp1257 cp1258 cp874 koi8_r iso8859_2 iso8859_15 cp850 cp437 "
    "shift_jis euc_jp gb18030 big5 euc_kr"
).split()
_HEBREW = re.compile("[א-ת]{3}")
# points or final letters in wrong places, or letters within Latin words
_NOT_HEBREW = re.compile(
    "\ufffd|[A-Za-z][\u05b0-\u05ea]|[א-ת][A-Za-z]|(?<![\u05b0-\u05ea])[\u05b0-\u05c7]|[ךםןףץ][א-ת]|[\u05f0-\u05f4]"
)
# Encodings of host names and source code, not of files. Python's Punycode decoder is quadratic.
_NO_ENCODINGS = ("utf-7", "punycode", "idna", "unicode-escape", "raw-unicode-escape")
# The most common encoding besides UTF-8 wins a tie.
_COMMONEST = "cp1252"
# Like browsers, we read these as the superset that Windows uses.
_LATIN = ("ascii", "iso8859-1")
_CONTROLS = frozenset(range(32)) - frozenset(b"\a\b\t\n\v\f\r\x1b")
_MAX_CONTROL_SHARE = 0.001
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


def decode(data: bytes, declared: str = "") -> str:
    """Decode `data`, with `\\n` line ends and without NULs.

    `declared` is the encoding that the file names. It may be wrong.

    Raises:
        ReadError: if no encoding turns the bytes into text.
    """
    if mark := next(((bom, encoding) for bom, encoding in _BOMS if data.startswith(bom)), None):
        text = data[len(mark[0]) :].decode(mark[1], errors="replace")
    elif wide := _decode_utf16(data):
        text = wide
    else:
        # a killed program leaves the end of its log unwritten
        data = data.rstrip(b"\x00")
        if kind := looks_like(data):
            raise ReadError(f"binary file: looks like {kind}")
        sample = data[:_SAMPLE]
        controls = len(sample) - len(sample.translate(None, bytes(_CONTROLS)))
        if controls > _MAX_CONTROL_SHARE * len(sample) or data.count(0) > _MAX_CONTROL_SHARE * len(data):
            raise ReadError("binary file, not text")
        text = _decode_narrow(data, declared.lower())
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\x00", "\ufffd")


def _decode_utf16(data: bytes) -> str | None:
    """Decode UTF-16 without a byte order mark, if zeros are only at even or only at odd offsets."""
    sample = data[:_SAMPLE]
    zeros = sample[0::2].count(0), sample[1::2].count(0)
    if min(zeros) or max(zeros) <= _MIN_ZERO_SHARE * (len(sample) // 2):
        return None
    try:
        text = data.decode("utf-16-le" if zeros[1] else "utf-16-be")
    except ValueError:
        return None
    start = text[:_SAMPLE]
    return text if sum(ord(character) in _CONTROLS for character in start) <= _MAX_CONTROL_SHARE * len(start) else None


def _decode_narrow(data: bytes, declared: str) -> str:
    """Decode text in the declared encoding, else in UTF-8 with damaged or foreign lines, else in an encoding that is guessed."""
    # an unknown encoding, or not the one of the file
    with suppress(LookupError, ValueError):
        # a file in UTF-16 cannot declare it in readable bytes
        encoding = codecs.lookup(declared).name
        if not encoding.startswith(("utf-16", "utf-32", *_NO_ENCODINGS)):
            return data.decode(_COMMONEST if encoding in _LATIN else encoding)
    with suppress(UnicodeDecodeError):
        return data.decode("utf-8")
    lines = data.split(b"\n")
    texts = [line.decode("utf-8", errors="replace") for line in lines]
    odd = [sum(not character.isascii() for character in text) for text in texts]
    broken = [text.count("\ufffd") for text in texts]
    whole = sum(odd[row] for row, bad in enumerate(broken) if not bad)
    if sum(odd) <= 2 * sum(broken) and whole <= _MIN_WHOLE * sum(broken):
        return data.decode(_guess(lines), errors="replace")
    # a file of several sources: lines without a valid character are in another encoding, the others are damaged
    foreign = [row for row, bad in enumerate(broken) if bad and bad == odd[row]]
    encoding = _guess([lines[row] for row in foreign]) if foreign else ""
    for row in foreign:
        texts[row] = lines[row].decode(encoding, errors="replace")
    return "\n".join(texts)


def _guess(lines: Iterable[bytes]) -> str:
    from charset_normalizer import from_bytes

    # ASCII says nothing about the encoding
    sample = b"\n".join(line for line in lines if not line.isascii())[:_SAMPLE]
    hebrew = sample.decode("cp1255", errors="replace")
    if _HEBREW.search(hebrew) and not _NOT_HEBREW.search(hebrew):
        return "cp1255"
    guesses = from_bytes(sample, cp_isolation=_ENCODINGS)
    best = guesses.best()
    if best is None:
        raise ReadError("binary file, or text in an unknown encoding")
    tied = [guess for guess in guesses if (guess.chaos, guess.coherence) == (best.chaos, best.coherence)]
    western = any(_COMMONEST in (guess.encoding, *guess.could_be_from_charset) for guess in tied)
    return _COMMONEST if western else best.encoding


def looks_like(data: bytes) -> str:
    """Name the kind of binary file, such as "a PNG image". Empty if unknown."""
    return next((name for magic, name in _MAGIC if data.startswith(magic)), "")


def mismatch(expected: str, data: bytes) -> str:
    """Return the reason why `data` is not an `expected`: "not a PDF, looks like a PNG image"."""
    kind = looks_like(data) or ("text" if b"\x00" not in data[:4096] and data[:4096].isascii() else "")
    return f"not {expected}, looks like {kind}" if kind else f"not {expected}"
