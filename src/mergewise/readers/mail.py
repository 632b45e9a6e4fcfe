"""E-mail: a message (.eml) or a mailbox (.mbox). The subject is the heading, followed by sender, recipients and date.

The plain text of a message is read, or else its HTML, like any page. Quoted lines keep their `>`, which marks text of somebody
else. Attached messages and texts follow, each below its subject or name. Other attachments are only named.

The standard library's parser of addresses and parameters takes time quadratic in the length of a field, or worse. It only gets
short fields. Longer fields of a message are unfolded here, and longer fields of a part are cut.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterator
from contextlib import suppress
from email import message_from_bytes, policy
from email.header import decode_header
from email.message import EmailMessage
from email.policy import EmailPolicy
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Any

from mergewise.errors import ReadError
from mergewise.readers.builder import Builder, Parsed, one_line
from mergewise.readers.decoding import decode, mismatch
from mergewise.readers.html import read_html
from mergewise.readers.metadata import metadata_from

_FROM_LINE = re.compile(rb"(?:\A|\n\r?\n)From [^\n]*\n(?=[A-Za-z][A-Za-z0-9-]*:|>From )")
_ESCAPED = re.compile(rb"^>(>*From )", re.MULTILINE)
_KNOWN = ("from", "to", "subject", "date", "message-id", "received", "return-path", "mime-version")
_MAX_MESSAGES = 100_000
# The parser compares each line with the boundaries of all open parts.
_MAX_CHECKS = 5_000_000
_BOUND = re.compile(rb"boundary[*0\s]*=", re.IGNORECASE)
_MAX_DEPTH = 20  # of messages within messages
# Characters of a field for the parser. The worst field of this length takes 50 ms.
_MAX_FIELD = 1_000
# White space between two encoded words is not part of the text.
_ENCODED_WORD = re.compile(r"=\?[^?\s]{1,60}\?[bq]\?[^?\s]{0,1000}\?=(?:\s+(?==\?))?", re.IGNORECASE)


class _BoundedFields(EmailPolicy):
    """The parser's default policy, with limits on the length of parsed fields."""

    def header_fetch_parse(self, name: str, value: str) -> Any:
        if len(value) <= _MAX_FIELD or name.lower().startswith("content-"):
            return _parsed_field(name, value[:_MAX_FIELD])
        # unfold the field and decode its encoded words; its other syntax stays
        text = value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        return _ENCODED_WORD.sub(lambda word: _word_text(word[0]), one_line(text))


@lru_cache(256)
def _parsed_field(name: str, value: str) -> Any:
    """Parse a field once. The library would parse it again for every question about a part."""
    return policy.default.header_fetch_parse(name, value)


def _word_text(word: str) -> str:
    try:
        ((content, charset),) = decode_header(word.strip())
        return decode(content, charset or "") if isinstance(content, bytes) else content
    except (ReadError, ValueError):
        return word


def read_eml(data: bytes) -> Parsed:
    message = _message(data.lstrip(b"\r\n"))
    if not any(name in message for name in _KNOWN):
        raise ReadError(mismatch("an e-mail", data))
    builder = Builder()
    _write(message, builder)
    date = ""
    with suppress(ValueError, TypeError):
        date = parsedate_to_datetime(_field(message, "Date")).date().isoformat()
    pairs = [("from", _field(message, "From")), ("to", _field(message, "To")), ("date", date)]
    metadata = metadata_from([*pairs, ("language", _field(message, "Content-Language"))])
    return builder.build(_field(message, "Subject"), metadata)


def read_mbox(data: bytes) -> Parsed:
    starts = [match.end() for match in _FROM_LINE.finditer(data)]
    if not starts or not data.startswith(b"From "):
        raise ReadError(mismatch("a mailbox", data))
    if len(starts) > _MAX_MESSAGES:
        raise ReadError(f"more than {_MAX_MESSAGES} messages: split it")
    ends = [data.rfind(b"From ", 0, start) for start in starts[1:]]
    builder = Builder()
    for start, end in zip(starts, [*ends, len(data)], strict=True):
        _write(_message(_ESCAPED.sub(rb"\1", data[start:end])), builder)
    return builder.build(headed=False)


def _message(data: bytes) -> EmailMessage:
    if len(_BOUND.findall(data)) * data.count(b"\n") > _MAX_CHECKS:
        raise ReadError("a message with too many parts")
    message = message_from_bytes(data, policy=_BoundedFields())
    assert isinstance(message, EmailMessage)
    return message


def _write(message: EmailMessage, builder: Builder, depth: int = 0) -> None:
    subject = _field(message, "Subject") or "(no subject)"
    if depth:
        level = builder.begin_entry(subject)
    else:
        builder.heading(1, subject)
    fields = ((name, _field(message, name)) for name in ("From", "To", "Cc", "Date"))
    builder.paragraph("\n".join(f"{name}: {value}" for name, value in fields if value))
    if names := list(_write_part(message, builder, depth)):
        builder.paragraph(f"Attachments: {', '.join(names)}")
    if depth:
        builder.end_entry(level)


def _write_part(part: EmailMessage, builder: Builder, depth: int) -> Iterator[str]:
    """Write the texts of a part in order. Yield the names of attachments that are not read."""
    kind, name = part.get_content_type(), one_line(part.get_filename() or "")
    inner: list[Any] = list(part.iter_parts())
    if kind == "multipart/alternative":
        inner = sorted(filter(_has_text, inner), key=lambda child: child.get_content_type() != "text/plain")[:1]
    if kind.startswith("multipart/"):
        for child in inner:
            yield from _write_part(child, builder, depth)
    elif kind == "message/rfc822" and inner and depth < _MAX_DEPTH:
        attached, raw = inner[0], inner[0].get_payload()
        # against the standard, but some programs encode a message
        with suppress(ValueError):
            if _field(part, "Content-Transfer-Encoding").lower() == "base64" and isinstance(raw, str):
                attached = _message(b64decode(raw))
        _write(attached, builder, depth + 1)
    elif inner:
        # the report about a message
        builder.paragraph("\n".join(f"{key}: {value}" for child in inner for key, value in child.items()))
    elif kind.startswith("text/") and _has_text(part) and (text := _text_of(part)) is not None:
        level = builder.begin_entry(name) if name and part.is_attachment() else 0
        builder.part(text, shift=max(1, builder.level))
        builder.end_entry(level)
    elif name:
        yield name


def _has_text(part: EmailMessage) -> bool:
    return part.is_multipart() or bool(str(part.get_payload()).strip())


def _text_of(part: EmailMessage) -> Parsed | None:
    """Read a part of text. Return None if it is not text, whatever it says."""
    data, charset = part.get_payload(decode=True), part.get_content_charset() or ""
    assert isinstance(data, bytes)
    try:
        if part.get_content_type() == "text/html":
            return read_html(data, charset)
        builder = Builder()
        builder.verbatim(decode(data, charset))
        return builder.build()
    except ReadError:
        return None


def _field(message: EmailMessage, name: str) -> str:
    """Return a header's text. The standard library's parser raises on some broken headers."""
    try:
        return one_line(str(message.get(name, "")))
    except Exception:
        # whatever a hostile header raises, the rest of the message is readable
        return ""
