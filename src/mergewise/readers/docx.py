"""DOCX: the body of a Word document in order, Transitional or Strict.

The XML is walked by local names, which both dialects share (python-docx reads only one of them, and skips text boxes and content
controls). Read: headings by their style, its ancestors or their outline level, with automatic numbers; lists; tables; text
boxes, footnotes, endnotes and descriptions of pictures after their paragraph; headers and footers once, before the body; formulas
as linear text. Left out: comments, deleted and hidden text, pictures, charts.
"""

from __future__ import annotations

import posixpath
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from mergewise.errors import ReadError
from mergewise.readers.archive import core_properties, open_archive, part
from mergewise.readers.builder import Builder, Parsed, one_line, whole_number
from mergewise.readers.formulas import SCRIPTS, formula, write_scripts
from mergewise.readers.numbering import Numbering, read_numbering
from mergewise.readers.table import Cell, fill_grid
from mergewise.readers.xml import attribute, children, descendants, first, local, outermost, value
from mergewise.types import FileMetadata, frozen

_HEADING_NAME = re.compile(r"heading (\d)", re.IGNORECASE)
_SKIPPED = frozenset("del moveFrom Fallback instrText delText rPr pPr sdtPr sdtEndPr rt".split())
_FLOATING = frozenset({"txbxContent", "footnoteReference", "endnoteReference"})
_USED = frozenset({"styles", "numbering", "footnotes", "endnotes", "header", "footer"})
# letters of a header
_MIN_LETTERS = 3


@frozen
class Style:
    """A paragraph style with inherited values. `level` is its heading level (0: the title), or None for other text."""

    level: int | None = None
    list_id: str = ""
    list_level: int = 0


@dataclass(slots=True)
class Package:
    """The parts with text. `notes` maps ("footnote", id) and ("endnote", id) to elements."""

    body: Any
    styles: dict[str, Style]
    numbering: Numbering
    notes: dict[tuple[str, str], Any]
    title: str
    metadata: FileMetadata
    # added to heading levels: 1 after the title, which is level 1
    shift: int = 0


def read_docx(data: bytes) -> Parsed:
    with open_archive(data, "DOCX") as archive:
        main = dict(_related_parts(archive, "")).get("officeDocument", "")
        body = first(part(archive, main), "body")
        if body is None:
            raise ReadError("an office file or ZIP archive, but not a Word document")
        used = [(kind, part(archive, name)) for kind, name in _related_parts(archive, main) if kind in _USED]
        roots = dict(used)
        notes = (note for _, root in used for note in children(root, "footnote", "endnote"))
        noted = {(local(note), attribute(note, "id")): note for note in notes if not attribute(note, "type")}
        styles, numbering = _styles(roots.get("styles")), read_numbering(roots.get("numbering"))
        package = Package(body, styles, numbering, noted, *core_properties(archive))
    builder = Builder()
    # a file has several headers, which are often equal, or only the number of a page
    for text in dict.fromkeys(_flat(root, package) for kind, root in used if kind in ("header", "footer")):
        builder.paragraph(text if sum(map(str.isalpha, text)) >= _MIN_LETTERS else "")
    _blocks(package.body, builder, package)
    return builder.build(package.title, package.metadata)


# --- the package -------------------------------------------------------------------------------------------------


def _related_parts(archive: zipfile.ZipFile, source: str) -> Iterator[tuple[str, str]]:
    """Yield the last word of each relation's type, and the name of the part that is related to `source`."""
    folder, name = posixpath.split(source)
    relations = part(archive, posixpath.join(folder, "_rels", f"{name}.rels"))
    for relation in () if relations is None else relations:
        if relation.get("TargetMode") != "External":
            target = posixpath.normpath(posixpath.join("/", folder, relation.get("Target") or ""))
            yield (relation.get("Type") or "").rpartition("/")[2], target.lstrip("/")


def _styles(root: Any) -> dict[str, Style]:
    """Resolve styles by id, each after the style it is based on. A circular chain inherits nothing."""
    raw = {attribute(style, "styleId"): style for style in children(root, "style")}
    styles: dict[str, Style] = {}
    for name in raw:
        chain: dict[str, None] = {}
        while name in raw and name not in styles and name not in chain:
            chain[name] = None
            name = value(raw[name], "basedOn")
        inherited = styles.get(name, Style())
        for name in reversed(chain):
            inherited = styles[name] = _style(raw[name], inherited)
    return styles


def _style(element: Any, inherited: Style) -> Style:
    title = value(element, "name").lower()
    level = _outline_level(first(element, "pPr"))
    if match := _HEADING_NAME.fullmatch(title):
        level = int(match[1])
    elif title == "title":
        level = 0
    numbered = first(element, "pPr", "numPr")
    return Style(
        inherited.level if level is None else level,
        value(numbered, "numId") or inherited.list_id,
        whole_number(value(numbered, "ilvl"), inherited.list_level),
    )


def _outline_level(properties: Any) -> int | None:
    level = whole_number(value(properties, "outlineLvl"), 9)
    return level + 1 if level < 9 else None


# --- blocks ------------------------------------------------------------------------------------------------------


def _blocks_in(parent: Any, *names: str) -> Iterator[Any]:
    """Yield the blocks of `parent`, unwrapped from controls and revisions."""
    return outermost(parent, *(names or ("p", "tbl", "tr", "tc")), without=_SKIPPED)


def _blocks(parent: Any, builder: Builder, package: Package) -> None:
    for element in _blocks_in(parent):
        if local(element) == "tbl":
            rows = [list(_blocks_in(row, "tc")) for row in _blocks_in(element, "tr")]
            if any(len(row) > 1 for row in rows):
                builder.table(fill_grid([[_cell(cell, package) for cell in row] for row in rows]))
                continue
            # a frame around text, not a table
            for cell in (cell for row in rows for cell in row):
                _blocks(cell, builder, package)
        elif local(element) == "p":
            text = _text(element)
            if one_line(text):
                _write_paragraph(element, text, builder, package)
            for container in _floating(element, package):
                _blocks(container, builder, package)
            described = (picture.get("descr") or "" for picture in descendants(element, "docPr"))
            # not the name of its file
            for text in (text for text in described if " " in text):
                builder.paragraph(text)


def _write_paragraph(paragraph: Any, text: str, builder: Builder, package: Package) -> None:
    properties = first(paragraph, "pPr")
    style = package.styles.get(value(properties, "pStyle"), Style())
    level = _outline_level(properties)
    level = style.level if level is None else level
    numbered = first(properties, "numPr")
    list_id = value(numbered, "numId") or style.list_id
    depth = whole_number(value(numbered, "ilvl"), style.list_level)
    label = package.numbering.next_label(list_id, depth)
    if level == 0:
        package.shift, package.title = 1, one_line(text) if not package.shift else package.title
        builder.heading(1, text)
    elif level is not None:
        builder.heading(level + package.shift, f"{'' if label == '-' else label} {text}")
    elif label:
        builder.item(text, marker=label, depth=depth)
    else:
        builder.paragraph(text)


def _cell(cell: Any, package: Package) -> Cell:
    properties = first(cell, "tcPr")
    merged = first(properties, "vMerge")
    continues = merged is not None and attribute(merged, "val") in ("", "continue")
    own = Cell.of(_flat(cell, package), value(properties, "gridSpan"), None)
    return replace(own, rows=0) if continues else own


def _flat(container: Any, package: Package) -> str:
    """Return everything in a cell, including nested tables and text boxes, as one line."""
    parts: list[str] = []
    for block in _blocks_in(container):
        if local(block) == "p":
            parts += [_text(block), *(_flat(inner, package) for inner in _floating(block, package))]
        else:
            parts.append(_flat(block, package))
    return " ".join(part for part in map(one_line, parts) if part)


# --- text --------------------------------------------------------------------------------------------------------


def _text(paragraph: Any) -> str:
    return write_scripts("".join(_pieces(paragraph)), in_runs=True)


def _pieces(element: Any) -> Iterator[str]:
    for child in element:
        name = local(child)
        if name == "t":
            yield child.text or ""
        elif name == "br":
            yield "\n" if attribute(child, "type") in ("", "textWrapping") else " "
        elif name in ("cr", "tab"):
            yield " "
        elif name == "noBreakHyphen":
            yield "-"
        elif name == "oMath":
            yield " " * (local(child.getprevious()) == "oMath") + formula(child)
        elif name not in _SKIPPED and name not in _FLOATING:
            # hidden runs are not text
            vanish = first(child, "rPr", "vanish") if name == "r" else None
            if vanish is None or attribute(vanish, "val") in ("0", "false", "off"):
                start, end = SCRIPTS.get(value(first(child, "rPr"), "vertAlign")[:3], ("", ""))
                yield from (start, *_pieces(child), end)


def _floating(element: Any, package: Package) -> Iterator[Any]:
    """Yield the text boxes and notes that are attached to a paragraph. They are not part of its text."""
    for child in outermost(element, *_FLOATING, without=_SKIPPED):
        kind = local(child).removesuffix("Reference")
        # each note only once: a note may refer to itself, or be referred to a thousand times
        part = child if kind == "txbxContent" else package.notes.pop((kind, attribute(child, "id")), None)
        if part is not None:
            yield part
