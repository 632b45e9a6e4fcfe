"""What a text file says of itself at its very beginning: in front matter, or in a header block.

Front matter is a block of YAML between `---` lines or of TOML between `+++` lines, as in Markdown. Its values stay as they are
spelt (`1.10` is no number, `no` is no boolean): of YAML only the structure counts. Lists are joined by commas, tables inside
tables left out. A header block is lines `Name: value`, as in PEPs, letters and some Markdown.
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
_TELLING = (TEXT_KEYS | DATE_KEYS | {"title", "pep", "year"}) - {"description"}
_MAX_HEADER_LINES = 200


def yaml_pairs(source: str) -> Pairs:
    """The keys of a YAML block with their values; of a block that is no YAML, the lines that look like `key: value`."""
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
    """The source of a TOML block at the beginning of a text, and where the text goes on after it."""
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
    """A YAML node's value: a scalar, or the scalars of a list in a row; of people in a list, their names."""
    if node.id == "scalar":
        if node.tag.endswith(":null"):
            return None
        return typed_value(key, node.value) if node.style is None else node.value
    if node.id == "sequence":
        texts = (item.value if item.id == "scalar" else _name_in(item) for item in node.value[:_MAX_ITEMS])
        return ", ".join(filter(None, texts))
    return _name_in(node) or None


def _name_in(node: Any) -> str:
    """The field `name` of a YAML mapping."""
    if node.id != "mapping":
        return ""
    fields = {key.value: value.value for key, value in node.value if value.id == "scalar"}
    return str(fields.get("name", ""))


def typed_value(key: str, value: str) -> MetadataValue:
    """A value that is written without quotation marks: true or false, a number, or text; of some keys always text."""
    if key_of(key) in TEXT_KEYS or "version" in key.lower():
        return value
    if value in ("true", "false"):
        return value == "true"
    match = _NUMBER.fullmatch(value)
    return value if match is None else float(value) if match[2] else int(value)


def header_pairs(text: str) -> Pairs:
    """The fields of the header block that `text` begins with, empty where it begins otherwise.

    A block is at least two fields that end with a blank line, and two of its names are ones that say what a document is:
    "Note: ..." and "Warning: ..." are no header.
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
    telling = {key_of(name) for name, _ in pairs} & _TELLING
    return [(name, field_value(name, value)) for name, value in pairs] if len(telling) >= 2 else []


def title_in(pairs: Pairs) -> str:
    """The title among header fields; an e-mail's is its subject."""
    fields = {name.lower(): str(value) for name, value in pairs}
    return fields.get("title", "").strip() or fields.get("subject", "").strip()
