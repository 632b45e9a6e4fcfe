"""ODT: the text of an OpenDocument file in order, from its XML: headings, lists, tables, notes; title and metadata.

Headers and footers come once, before the body. Left out: deleted text of tracked changes, comments, pictures.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from mergewise.errors import ReadError
from mergewise.readers.archive import dublin_core, open_archive, part, spare_part
from mergewise.readers.builder import Builder, Parsed, one_line, whole_number
from mergewise.readers.formulas import SCRIPTS, write_scripts
from mergewise.readers.numbering import BULLET, Level, Numbering
from mergewise.readers.table import Cell, fill_grid
from mergewise.readers.xml import attribute, children, descendants, first, local, outermost

_SKIPPED = frozenset("tracked-changes annotation annotation-end sequence-decls forms ruby-text change".split())
_BLOCKS = frozenset({"p", "h", "list", "table"})
_KINDS = {"1": "decimal", "a": "lowerLetter", "A": "upperLetter", "i": "lowerRoman", "I": "upperRoman"}
# Columns. Programs write a sheet's width as one cell repeated a thousand times.
_MAX_REPEATED = 50
_MAX_SPACES = 100
# Writer has ten levels of headings.
_MAX_LEVEL = 10


@dataclass(slots=True)
class Styles:
    """Paragraph styles of titles, text styles of scripts with their marks, and the levels of list styles."""

    titles: set[str] = field(default_factory=lambda: {"Title"})
    scripts: dict[str, tuple[str, str]] = field(default_factory=dict)
    numbering: Numbering = field(default_factory=Numbering)
    # added to heading levels: 1 after the title, which is level 1
    shift: int = 0


def read_odt(data: bytes) -> Parsed:
    with open_archive(data, "ODT") as archive:
        if descendants(part(archive, "META-INF/manifest.xml"), "encryption-data"):
            raise ReadError("encrypted", "save it without a password")
        content, meta = part(archive, "content.xml"), spare_part(archive, "meta.xml")
        named = spare_part(archive, "styles.xml")
    body = first(content, "body", "text")
    if body is None:
        raise ReadError("an office file or ZIP archive, but not an OpenDocument text")
    builder = Builder()
    title, metadata = dublin_core(first(meta, "meta"))
    styles = Styles()
    for root in (named, content):
        for element in descendants(root, "style", "list-style"):
            _add_style(element, styles)
    for span in descendants(body, "span"):
        start, end = styles.scripts.get(attribute(span, "style-name"), ("", ""))
        span.text, span.tail = f"{start}{span.text or ''}", f"{end}{span.tail or ''}"
    for text in dict.fromkeys(_flat(block) for block in descendants(named, "header", "footer")):
        builder.paragraph(text)
    _blocks(body, builder, styles)
    return builder.build(title, metadata)


def _add_style(element: Any, styles: Styles) -> None:
    name = attribute(element, "name")
    if attribute(element, "parent-style-name") == "Title":
        styles.titles.add(name)
    for properties in children(element, "text-properties"):
        styles.scripts[name] = SCRIPTS.get(attribute(properties, "text-position")[:3], ("", ""))
    for level in children(element, "list-level-style-number", "list-level-style-bullet"):
        depth = _count(level, "level") - 1
        kind = _KINDS.get(attribute(level, "num-format"), "bullet")
        shown = range(max(depth + 1 - _count(level, "display-levels"), 0), depth + 1)
        pattern = (
            attribute(level, "num-prefix")
            + ".".join(f"%{d + 1}" for d in shown)
            + (attribute(level, "num-suffix") or ".")
        )
        styles.numbering.lists[name] = name
        styles.numbering.levels[name, depth] = Level(kind, pattern, _count(level, "start-value"))


def _blocks(parent: Any, builder: Builder, styles: Styles) -> None:
    for child in parent:
        name = local(child)
        if name in ("h", "p"):
            text = _text(child)
            if name == "h":
                builder.heading(min(_count(child, "outline-level") or 1, _MAX_LEVEL) + styles.shift, text)
            elif attribute(child, "style-name") in styles.titles and text.strip():
                builder.heading(1, text)
                styles.shift = 1
            else:
                builder.paragraph(text)
            _floating(child, builder, styles)
        elif name == "list":
            _list(child, builder, styles, depth=0)
        elif name == "table":
            grid: list[list[Cell]] = []
            for row in outermost(child, "table-row"):
                grid.append([])
                for cell in children(row, "table-cell"):
                    spans = (attribute(cell, f"number-{name}-spanned") for name in ("columns", "rows"))
                    grid[-1] += [Cell.of(_flat(cell), *spans)] * min(
                        _count(cell, "number-columns-repeated"), _MAX_REPEATED
                    )
            builder.table(fill_grid(grid))
        elif name not in _SKIPPED:
            # a section, an index, a frame
            _blocks(child, builder, styles)


def _list(element: Any, builder: Builder, styles: Styles, depth: int, name: str = "") -> None:
    # a nested list inherits the style
    name = attribute(element, "style-name") or name
    if not depth and attribute(element, "continue-numbering") != "true":
        styles.numbering.restart(name)
    for item in children(element, "list-item", "list-header"):
        label = ""
        for child in item:
            if local(child) == "list":
                _list(child, builder, styles, depth + 1, name)
            elif local(child) == "h":
                _blocks([child], builder, styles)
            elif local(child) == "p":
                # further paragraphs of an item have no number
                label = " " if label else styles.numbering.next_label(name, depth) or BULLET
                builder.item(_text(child), marker=label, depth=depth)
                _floating(child, builder, styles)


def _count(element: Any, name: str) -> int:
    """Return a numeric attribute, or 1 if it is missing or invalid."""
    return whole_number(attribute(element, name), 1)


def _flat(container: Any) -> str:
    """Return everything in a cell as one line."""
    parts = (_text(child) if local(child) in ("p", "h") else _flat(child) for child in container)
    return " ".join(text for text in map(one_line, parts) if text)


def _floating(element: Any, builder: Builder, styles: Styles) -> None:
    """Write the notes and frames that are attached to a paragraph. They are not part of its text."""
    for body in outermost(element, "note-body", "text-box", without=_SKIPPED | _BLOCKS):
        _blocks(body, builder, styles)


def _text(element: Any) -> str:
    return write_scripts("".join(_pieces(element)), in_runs=True)


def _pieces(element: Any) -> Iterator[str]:
    yield element.text or ""
    for child in element:
        name = local(child)
        if name == "s":
            yield " " * min(_count(child, "c"), _MAX_SPACES)
        elif name == "tab":
            yield " "
        elif name == "line-break":
            yield "\n"
        elif name and name not in _SKIPPED and name not in ("note", "frame", "custom-shape"):
            yield from _pieces(child)
        yield child.tail or ""
