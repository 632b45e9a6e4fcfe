"""Metadata at the beginning of a text file: front matter, or a header block.

Front matter is a block of YAML between `---` lines or of TOML between `+++` lines, as in Markdown. YAML values keep their
spelling (`1.10` is not a number, `no` is not a boolean). Lists are joined by commas, nested tables are dropped. A header block
has lines `Name: value`, as in PEPs, letters and some Markdown.
"""

from __future__ import annotations

import re
from typing import Any

from mergewise.readers.metadata import DATE_KEYS, TEXT_KEYS, field_value, key_of
from mergewise.types import MetadataValue

Pairs = list[tuple[str, object]]

_TOML = re.compile(r"\+\+\+[ \t]*\n(.*?\n)\+\+\+[ \t]*(?:\n|\Z)", re.DOTALL)
_QUOTED = re.compile(r"([\"'])(.*)\1")
_LINE = re.compile(r"^([A-Za-z][\w-]*):[ \t]+([^\s\[{|>&*!#].*?)\s*$", re.MULTILINE)
_NUMBER = re.compile(r"-?(0|[1-9]\d{0,17})(\.\d+)?")
_MAX_SOURCE = 50_000
_MAX_ITEMS = 100
_FIELD = re.compile(r"([A-Za-z][A-Za-z0-9]*(?:[ _-][A-Za-z0-9]+){0,2}):(?:[ \t]+(.*))?")
_DOCUMENT_KEYS = (TEXT_KEYS | DATE_KEYS | {"title", "pep", "year"}) - {"description"}
_MAX_HEADER_LINES = 200


def yaml_pairs(source: str) -> Pairs:
    """Return the keys and values of a YAML block. If it is invalid YAML, return its lines that look like `key: value`."""
    import yaml

    source = source[:_MAX_SOURCE]
    try:
        root = yaml.compose(source, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, ValueError, RecursionError):
        lines = ((key, value, _QUOTED.fullmatch(value)) for key, value in _LINE.findall(source))
        return [(key, match[2] if match else typed_value(key, value)) for key, value, match in lines]
    if root is None or root.id != "mapping":
        return []
    pairs = ((key.value, _node_value(key.value, value)) for key, value in root.value if key.id == "scalar")
    return [(key, value) for key, value in pairs if value is not None]


def toml_block(text: str) -> tuple[str, int]:
    """Return the source of a TOML block at the beginning of a text, and the offset of the text after it."""
    match = _TOML.match(text)
    return (match[1], match.end()) if match else ("", 0)


def toml_pairs(source: str) -> Pairs:
    import tomllib

    try:
        table = tomllib.loads(source[:_MAX_SOURCE])
    except (ValueError, RecursionError):
        return []
    inner = table.get("taxonomies")
    pairs = [*table.items(), *(inner.items() if isinstance(inner, dict) else ())]
    return [(key, _toml_value(value)) for key, value in pairs if not isinstance(value, dict)]


def _toml_value(value: object) -> object:
    if not isinstance(value, list):
        return value
    return ", ".join(str(item) for item in value[:_MAX_ITEMS] if not isinstance(item, dict | list))


def _node_value(key: str, node: Any) -> object:
    """Return a YAML node's value: a scalar, the joined scalars of a list, or the names of a list of people."""
    if node.id == "scalar":
        if node.tag.endswith(":null"):
            return None
        return typed_value(key, node.value) if node.style is None else node.value
    if node.id == "sequence":
        texts = (item.value if item.id == "scalar" else _name_in(item) for item in node.value[:_MAX_ITEMS])
        return ", ".join(filter(None, texts))
    return _name_in(node) or None


def _name_in(node: Any) -> str:
    """Return the field `name` of a YAML mapping."""
    if node.id != "mapping":
        return ""
    fields = {key.value: value.value for key, value in node.value if value.id == "scalar"}
    return str(fields.get("name", ""))


def typed_value(key: str, value: str) -> MetadataValue:
    """Parse an unquoted value as boolean, number or text. The values of some keys are always text."""
    if key_of(key) in TEXT_KEYS or "version" in key.lower():
        return value
    if value in ("true", "false"):
        return value == "true"
    match = _NUMBER.fullmatch(value)
    return value if match is None else float(value) if match[2] else int(value)


def header_pairs(text: str) -> Pairs:
    """Return the fields of the header block at the beginning of `text`, or an empty list without one.

    A header block has at least two fields and ends with a blank line. At least two of its names must be usual for documents, so
    that "Note: ..." and "Warning: ..." do not count.
    """
    pairs: list[tuple[str, str]] = []
    for row, line in enumerate(text.lstrip("\n").split("\n")):
        if not line.strip():
            break
        if row >= _MAX_HEADER_LINES:
            return []
        if line[0] in " \t" and pairs:
            name, value = pairs[-1]
            pairs[-1] = (name, f"{value} {line.strip()}")
        elif match := _FIELD.fullmatch(line.rstrip()):
            pairs.append((match[1], match[2] or ""))
        else:
            return []
    known_keys = {key_of(name) for name, _ in pairs} & _DOCUMENT_KEYS
    return [(name, field_value(name, value)) for name, value in pairs] if len(known_keys) >= 2 else []


def title_in(pairs: Pairs) -> str:
    """Return the title among header fields, or the subject of an e-mail."""
    fields = {name.lower(): str(value) for name, value in pairs}
    return fields.get("title", "").strip() or fields.get("subject", "").strip()
