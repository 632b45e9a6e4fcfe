"""Fields at the beginning of a text file: front matter, or a header block. They are metadata, and each is a unit of the text.

Front matter is a block of YAML between `---` lines or of TOML between `+++` lines, as in Markdown. YAML values keep their
spelling (`1.10` is not a number, `no` is not a boolean). Lists are joined by commas, nested tables are dropped. A header block
has lines `Name: value`, as in PEPs, letters and some Markdown. The header of an RFC has a second column, without names. A file of
records has nothing but blocks of fields, as Debian's control files.
"""

from __future__ import annotations

import re
from typing import Any

from mergewise.readers.builder import Parsed, one_line
from mergewise.readers.decoding import decode
from mergewise.readers.metadata import DATE_KEYS, TEXT_KEYS, field_value, iso_date, key_of, metadata_from
from mergewise.text.sections import paragraphs, short_name
from mergewise.text.sentences import strip_span
from mergewise.types import DocumentUnit, Heading, Kind, MetadataValue

Pairs = list[tuple[str, object]]

_TOML = re.compile(r"\+\+\+[ \t]*\n(.*?\n)\+\+\+[ \t]*(?:\n|\Z)", re.DOTALL)
_LINE = re.compile(r"^([A-Za-z][\w-]*):[ \t]+([\"']?)([^\s\[{|>&*!#].*?)\2\s*$", re.MULTILINE)
_NUMBER = re.compile(r"-?(0|[1-9]\d{0,17})(\.\d+)?")
_MAX_SOURCE = 50_000
_MAX_ITEMS = 100
_FIELD = re.compile(r"([A-Za-z][A-Za-z0-9]*(?:[ _-][A-Za-z0-9]+){0,2}):(?:[ \t]+(.*))?")
_DOCUMENT_KEYS = (TEXT_KEYS | DATE_KEYS | {"title", "pep", "year"}) - {"description"}
_MAX_HEADER_LINES = 200
_YAML = re.compile(r"---[ \t]*\n(?=[\w\"'])(.*?\n)(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
# a field with a value and its further lines
_MORE = r"\n(?:[ \t]+|- )(?=\S)"
_PIECE = re.compile(rf"^(?=[\w\"'])[^\n:=]+[:=][ \t]*(?:(?=\S)|(?={_MORE}))[^\n]*(?:{_MORE}[^\n]*)*", re.MULTILINE)
_BLANK = re.compile(r"\n[ \t]*(?:\n|\Z)")
_ACRONYM = re.compile(r"[A-Z]{2,6}")
# the second column, and a piece of a column
_RIGHT = re.compile(r"^(\S.*?[ ]{3,}|[ ]{20,})(\S.*?)[ ]*$", re.MULTILINE)
_COLUMN = re.compile(r"\S+(?:[ ]{1,2}\S+)*")
_COLUMN_NAMES = frozenset({"Request for Comments", "Category", "Obsoletes", "Updates", "Intended status", "Expires"})
_PERSON = re.compile(r"(?:[A-Z]\.[ -]?){1,4}(?:\w+ ){0,3}[A-Z]\w+.*")
_MAX_HEADER = 5_000
# fields with their further lines, and lines of comment
_RECORD = re.compile(r"\s*(?:[A-Za-z][\w-]*:(?:[ \t][^\n]*)?(?:\n|\Z)(?:[ \t][^\n]*(?:\n|\Z))*|#[^\n]*(?:\n|\Z))+\s*")


def yaml_pairs(source: str) -> Pairs:
    """Return the keys and values of a YAML block. If it is invalid YAML, return its lines that look like `key: value`."""
    import yaml

    source = source[:_MAX_SOURCE]
    try:
        root = yaml.compose(source, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, ValueError, RecursionError):
        return [(key, value if quote else typed_value(key, value)) for key, quote, value in _LINE.findall(source)]
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
    return str({key.value: value.value for key, value in node.value if value.id == "scalar"}.get("name", ""))


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
    """Return the title among header fields, or the subject of an e-mail. A number of the document precedes it ("PEP 8: ...")."""
    fields = {name.lower(): str(value) for name, value in pairs}
    title = fields.get("title", "").strip() or fields.get("subject", "").strip()
    series, number = pairs[0] if pairs else ("", "")
    is_numbered = _ACRONYM.fullmatch(series) and str(number).isdecimal()
    return f"{series} {number}: {title}" if title and is_numbered else title


def field_units(text: str) -> tuple[DocumentUnit, ...]:
    """Return the spans of the fields of front matter or of a header block, each without the white space around it."""
    start = len(text) - len(text.lstrip("\n"))
    block = _YAML.match(text, start) or _TOML.match(text, start)
    if block is not None:
        return tuple(_pieces(text, *block.span(1)))
    return tuple(_pieces(text, start, _block_end(text, start))) if header_pairs(text) else ()


def _block_end(text: str, start: int) -> int:
    """Return the end of the lines before the next blank one."""
    blank = _BLANK.search(text, start)
    return blank.start() if blank else len(text)


def _pieces(text: str, start: int, end: int) -> list[tuple[int, int, Kind]]:
    """Return the spans of the fields with a value."""
    return [(*strip_span(text, *piece.span()), "entry") for piece in _PIECE.finditer(text, start, end)]


# --- plain text --------------------------------------------------------------------------------------------------


def read_plain(data: bytes) -> Parsed:
    """Read plain text. Header fields give title and metadata. The records of a file of records are its outline."""
    text = decode(data)
    pairs = header_pairs(text)
    parsed = _records(text) or _two_columns(text)
    return parsed or Parsed(text, title_in(pairs), metadata=metadata_from(pairs), units=field_units(text))


def _two_columns(text: str) -> Parsed | None:
    """Read a header block with fields on the left, and with people, organizations and a date on the right, as in RFCs.

    The entries on the right get names: "M. Nottingham, Ed." becomes "Author: M. Nottingham, Ed.".
    """
    start = _first_line(text, 0)
    end = _block_end(text, start)
    if end - start > _MAX_HEADER:
        return None

    def with_name(match: re.Match[str]) -> str:
        entry = match[2]
        name = "Author" if _PERSON.fullmatch(entry) else "Date" if iso_date(entry) else "Organization"
        return f"{match[1]}{name}: {entry}"

    block = _RIGHT.sub(with_name, text[start:end])
    pieces = list(_COLUMN.finditer(block))
    fields = [match.groups("") for piece in pieces if (match := _FIELD.fullmatch(piece[0]))]
    names = {name for name, _ in fields}
    if "Date" not in names or names.isdisjoint(_COLUMN_NAMES):
        return None
    pairs: Pairs = [(name, value) for name, value in fields if name != "Request for Comments"]
    pairs[:0] = [("RFC", field_value("rfc", value)) for name, value in fields if name == "Request for Comments"]
    # the title is centred
    below = _first_line(text, end)
    title = text[below : _block_end(text, below)]
    if title.startswith("   "):
        pairs.append(("Title", one_line(title)))
    units = tuple[DocumentUnit, ...]((start + piece.start(), start + piece.end(), "entry") for piece in pieces)
    return Parsed(text[:start] + block + text[end:], title_in(pairs), metadata=metadata_from(pairs), units=units)


def _first_line(text: str, start: int) -> int:
    """Return the start of the first line with text."""
    return text.rfind("\n", 0, len(text) - len(text[start:].lstrip())) + 1


def _records(text: str) -> Parsed | None:
    """Read a file of records, as Debian's control files: nothing but blocks of fields. A record's first field heads it."""
    outline: list[Heading] = []
    units: list[DocumentUnit] = []
    for start, end in paragraphs(text, 0, len(text)) if _RECORD.match(text) else ():
        if not _RECORD.fullmatch(text, start, end):
            return None
        fields = _pieces(text, start, end)
        names = [text[first:last].partition(":")[0] for first, last, _ in fields]
        if len(names) < 2 or len(set(names)) < len(names):
            return None
        start, end, _ = fields[0]
        head = one_line(text[start:end])
        outline.append(Heading(1, short_name(head.partition(": ")[2] or head), start, end))
        units += fields[1:]
    # questions and answers, or turns of a talk, are no records
    return Parsed(text, outline=tuple(outline), units=tuple(units)) if 1 < len(outline) < len(units) else None
