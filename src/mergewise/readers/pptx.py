"""PPTX: each slide is a page and a heading, followed by its texts, tables, charts and diagrams, and the speaker's notes.

The XML is read by local names, as in DOCX. Boxes are in order from top to bottom, and from left to right in one row. A picture
has its description. Left out: hidden slides (their pages stay, empty), footers, dates and slide numbers.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from itertools import zip_longest
from typing import Any, TypeAlias

from mergewise.errors import ReadError
from mergewise.readers.archive import Relations, core_properties, open_archive, part, relations, spare_part
from mergewise.readers.builder import Builder, Parsed, one_line, whole_number
from mergewise.readers.formulas import SCRIPTS, formula, write_scripts
from mergewise.readers.xml import attribute, descendants, first, local

_MAX_SLIDES = 5_000
_MAX_DEPTH = 20  # of nested groups
_MAX_LEVEL = 8
_TITLES = frozenset({"title", "ctrTitle"})
_LEFT_OUT = frozenset({"dt", "ftr", "sldNum"})
# Difference in height of boxes that stand in one row: a quarter of an inch.
_ROW = 228_600

# A value such as 4.4000000000000004 is shown as 4.4.
_LONG_NUMBER = re.compile(r"-?\d+\.\d{12,}")

Write: TypeAlias = Callable[[], None]


def read_pptx(data: bytes) -> Parsed:
    builder = Builder()
    titles: list[str] = []
    with open_archive(data, "PPTX") as archive:
        main = next((name for kind, name in relations(archive, "").values() if kind == "officeDocument"), "")
        presentation = part(archive, main)
        if local(presentation) != "presentation":
            raise ReadError("an office file or ZIP archive, but not a PowerPoint presentation")
        title, metadata = core_properties(archive)
        slides = relations(archive, main)
        seen: set[str] = set()
        for number, entry in enumerate(descendants(presentation, "sldId"), start=1):
            if number > _MAX_SLIDES:
                raise ReadError(f"more than {_MAX_SLIDES} slides")
            builder.page()
            _, name = slides.get(_relation_id(entry), ("", ""))
            # a presentation may list a slide twice
            if name and name not in seen:
                seen.add(name)
                titles.append(_Slide(archive, name, builder).write(number))
    return builder.build(title or next(filter(None, titles), ""), metadata)


def _relation_id(element: Any) -> str:
    """Return the id of a relation. The element may have an id of its own, too."""
    return next((str(value) for key, value in element.attrib.items() if key.endswith("}id")), "")


class _Slide:
    def __init__(self, archive: zipfile.ZipFile, name: str, builder: Builder) -> None:
        self._archive = archive
        self._builder = builder
        self._root = part(archive, name)
        self._parts: Relations = relations(archive, name)
        self._title = ""

    def write(self, number: int) -> str:
        """Append the slide, unless it is hidden. Return its title, or an empty string without one."""
        if self._root is None or self._root.get("show") == "0":
            return ""
        blocks = list(self._blocks(first(self._root, "cSld", "spTree"), 0))
        for shape in descendants(self._part("notesSlide"), "sp"):
            spoken = "\n".join(text for text, _ in _paragraphs(shape)) if _kind(shape) == "body" else ""
            if spoken:
                blocks.append(partial(self._builder.paragraph, f"Notes: {spoken}"))
        if self._title or blocks:
            self._builder.heading(1, self._title or f"Slide {number}")
        for write in blocks:
            write()
        return self._title

    def _part(self, kind: str) -> Any:
        """Return the root of the part with this relation to the slide."""
        name = next((name for own, name in self._parts.values() if own == kind), "")
        return spare_part(self._archive, name)

    @cached_property
    def _corners(self) -> dict[str, Any]:
        """Map the placeholders of the layout to their corners."""
        shapes = descendants(self._part("slideLayout"), "sp")
        return {_key(shape): corner for shape in shapes for corner in descendants(shape, "off")}

    def _blocks(self, shapes: Any, depth: int) -> Iterator[Write]:
        """Yield calls that append the shapes of the slide or of a group."""
        for shape in sorted(() if shapes is None else shapes, key=self._place):
            kind = _kind(shape)
            name = local(shape)
            if name in ("grpSp", "AlternateContent", "Choice"):
                yield from self._blocks(shape, depth + 1) if depth < _MAX_DEPTH else ()
            elif name == "graphicFrame":
                yield from self._graphic(shape)
            elif name == "pic":
                names = (name.get("descr") for name in descendants(shape, "cNvPr"))
                yield from (partial(self._builder.paragraph, name) for name in names if name and " " in name)
            elif name == "sp" and kind not in _LEFT_OUT:
                texts = list(_paragraphs(shape))
                if kind in _TITLES and not self._title:
                    self._title = one_line("\n".join(text for text, _ in texts))
                elif len(texts) == 1:
                    yield partial(self._builder.paragraph, texts[0][0])
                else:
                    yield from (partial(self._builder.item, text, depth=level) for text, level in texts)

    def _place(self, shape: Any) -> tuple[int, int]:
        """Return row and left edge of a shape. A placeholder has those of its layout unless it has its own."""
        corner = next(iter(descendants(shape, "off")), None)
        corner = self._corners.get(_key(shape)) if corner is None else corner
        x, y = (0, 0) if corner is None else (whole_number(attribute(corner, axis), 0) for axis in "xy")
        return y // _ROW, x

    def _graphic(self, frame: Any) -> Iterator[Write]:
        for table in descendants(frame, "tbl"):
            rows = [[_cell(cell) for cell in descendants(row, "tc")] for row in descendants(table, "tr")]
            yield partial(self._builder.table, rows)
        for chart in descendants(frame, "chart"):
            _, name = self._parts.get(_relation_id(chart), ("", ""))
            yield from self._chart(spare_part(self._archive, name))
        for diagram in descendants(frame, "relIds"):
            _, name = self._parts.get(attribute(diagram, "dm"), ("", ""))
            points = descendants(spare_part(self._archive, name), "pt")
            yield from (partial(self._builder.item, text) for point in points for text, _ in _paragraphs(point))

    def _chart(self, root: Any) -> Iterator[Write]:
        """Yield the title of a chart, and its series as the columns of a table."""
        for title in descendants(root, "title")[:1]:
            yield from (partial(self._builder.paragraph, text) for text, _ in _paragraphs(title))
        series = descendants(root, "ser")
        names = [" ".join(_values(one, "tx")) for one in series]
        labels = next(filter(None, (_values(one, "cat", "xVal") for one in series)), [])
        columns = (_values(one, "val", "yVal") for one in series)
        if series:
            yield partial(self._builder.table, [["", *names], *zip_longest(labels, *columns, fillvalue="")])


def _placeholder(shape: Any) -> Any:
    """Return the element of a shape that names its place in the layout, or None."""
    return next((found for child in shape if (found := first(child, "nvPr", "ph")) is not None), None)


def _key(shape: Any) -> str:
    place = _placeholder(shape)
    return "" if place is None else place.get("idx") or place.get("type", "0")


def _kind(shape: Any) -> str:
    place = _placeholder(shape)
    return "" if place is None else str(place.get("type", ""))


def _cell(cell: Any) -> str:
    is_covered = "1" in (cell.get("hMerge"), cell.get("vMerge"))
    return "" if is_covered else "\n".join(text for text, _ in _paragraphs(cell))


def _values(series: Any, *names: str) -> list[str]:
    texts = [value.text or "" for part in descendants(series, *names) for value in descendants(part, "v")]
    return [f"{float(text):.15g}" if _LONG_NUMBER.fullmatch(text) else text for text in texts]


def _paragraphs(shape: Any) -> Iterator[tuple[str, int]]:
    """Yield text and level of the paragraphs that are not empty."""
    for paragraph in descendants(shape, "p"):
        text = write_scripts("".join(_pieces(paragraph)), in_runs=True)
        level = whole_number(attribute(pr, "lvl"), 0) if (pr := first(paragraph, "pPr")) is not None else 0
        if text.strip():
            yield text, min(level, _MAX_LEVEL)


def _pieces(element: Any) -> Iterator[str]:
    for child in element:
        name = local(child)
        if name == "t":
            yield child.text or ""
        elif name in ("br", "tab"):
            yield "\n" if name == "br" else " "
        elif name == "oMath":
            yield formula(child)
        elif name == "r":
            properties = first(child, "rPr")
            raised = "" if properties is None else attribute(properties, "baseline").rstrip("0%")
            start, end = SCRIPTS["sub" if raised.startswith("-") else "sup"] if raised else ("", "")
            yield from (start, *_pieces(child), end)
        elif name not in ("Fallback", "pPr"):
            yield from _pieces(child)
