"""A header block: lines `Name: value` at the very beginning of a text, as in PEPs, letters and some Markdown."""

from __future__ import annotations

import re

from mergewise.readers.metadata import DATE_KEYS, TEXT_KEYS, field_value, key_of

_FIELD = re.compile(r"([A-Za-z][A-Za-z0-9]*(?:[ _-][A-Za-z0-9]+){0,2}):(?:[ \t]+(.*))?")
_TELLING = (TEXT_KEYS | DATE_KEYS | {"title", "pep", "year"}) - {"description"}
_MAX_LINES = 200

Pairs = list[tuple[str, object]]


def header_pairs(text: str) -> Pairs:
    """The fields of the header block that `text` begins with, empty where it begins otherwise.

    A block is at least two fields that end with a blank line, and two of its names are ones that say what a document is:
    "Note: ..." and "Warning: ..." are no header.
    """
    pairs: list[tuple[str, str]] = []
    for row, line in enumerate(text.lstrip("\n").split("\n")):
        if not line.strip():
            break
        if row >= _MAX_LINES:
            return []
        if line[0] in " \t" and pairs:
            name, value = pairs[-1]
            pairs[-1] = (name, f"{value} {line.strip()}")
        elif match := _FIELD.fullmatch(line.rstrip()):
            pairs.append((match[1], match[2] or ""))
        else:
            return []
    telling = {key_of(name) for name, _ in pairs} & _TELLING
    return [(name, field_value(name, value)) for name, value in pairs] if len(telling) >= 2 else []


def title_in(pairs: Pairs) -> str:
    """The title among header fields; an e-mail's is its subject."""
    fields = {name.lower(): str(value) for name, value in pairs}
    return fields.get("title", "").strip() or fields.get("subject", "").strip()
