"""PPTX: each slide is a page and a heading, followed by its texts as lists, its tables and charts, and the speaker's notes.

Shapes are in order from top to bottom, and from left to right in one row. Pictures have their descriptions. Left out: hidden
slides (their pages stay, empty), footers and slide numbers, text in SmartArt.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from itertools import groupby, zip_longest
from typing import Any

from mergewise.errors import MissingExtra, ReadError
from mergewise.readers.archive import office_properties
from mergewise.readers.builder import Builder, Parsed, one_line
from mergewise.readers.xml import descendants, first

_MAX_SLIDES = 5_000
_MAX_DEPTH = 20  # of nested groups
# Difference in height of shapes in one row: a quarter of an inch.
_ROW = 228_600


def read_pptx(data: bytes) -> Parsed:
    title, metadata = office_properties(data, "PPTX", "ppt/presentation.xml", "a PowerPoint presentation")
    try:
        from pptx import Presentation
    except ImportError as error:
        missing = MissingExtra("python-pptx", "pptx", error)
        raise ReadError(f"reading PPTX: {missing.message}: {missing.hint}") from error
    builder = Builder()
    first = ""
    seen: set[str] = set()
    for number, slide in enumerate(Presentation(io.BytesIO(data)).slides, start=1):
        if number > _MAX_SLIDES:
            raise ReadError(f"more than {_MAX_SLIDES} slides")
        builder.page()
        # a presentation may list a slide twice
        if slide.element.get("show") != "0" and slide.part.partname not in seen:
            seen.add(slide.part.partname)
            name = _slide(slide, number, builder)
            first = first or name
    if not builder.length:
        raise ReadError("no text")
    return builder.build(title or first, metadata)


def _slide(slide: Any, number: int, builder: Builder) -> str:
    """Append a slide. Return its title, or an empty string without one."""
    shape = slide.shapes.title
    title = one_line(_lines(shape.text_frame.text)) if shape is not None else ""
    shapes = [other for other in _flat(slide.shapes, 0) if shape is None or other.element is not shape.element]
    notes = slide.notes_slide.notes_text_frame if slide.has_notes_slide else None
    spoken = notes.text if notes is not None else ""
    has_text = any(not other.has_text_frame or other.text_frame.text.strip() for other in shapes)
    if title or spoken.strip() or has_text:
        builder.heading(1, title or f"Slide {number}")
    for other in shapes:
        _shape(other, builder)
    if spoken.strip():
        builder.paragraph(f"Notes: {_lines(spoken)}")
    return title


def _flat(shapes: Any, depth: int) -> Iterator[Any]:
    """Yield the shapes that hold text, also from groups, in the order of their places."""
    for shape in sorted(shapes, key=lambda shape: ((shape.top or 0) // _ROW, shape.left or 0)):
        if hasattr(shape, "shapes"):
            if depth < _MAX_DEPTH:
                yield from _flat(shape.shapes, depth + 1)
        elif shape.is_placeholder and shape.placeholder_format.type.name in ("DATE", "FOOTER", "SLIDE_NUMBER"):
            continue
        elif shape.has_text_frame or hasattr(shape, "has_chart") or " " in _description(shape):
            yield shape


def _description(picture: Any) -> str:
    return str(next(iter(picture.element.xpath("./p:nvPicPr/p:cNvPr/@descr")), ""))


def _chart(root: Any, builder: Builder) -> None:
    """Write the title of a chart, and its series as the columns of a table."""

    def values(series: Any, *names: str) -> list[str]:
        return [value.text or "" for part in descendants(series, *names) for value in descendants(part, "v")]

    builder.paragraph("".join(text.text or "" for text in descendants(first(root, "chart", "title"), "t")))
    series = descendants(root, "ser")
    labels = next(filter(None, (values(one, "cat", "xVal") for one in series)), [])
    columns = [[" ".join(values(one, "tx")), *values(one, "val", "yVal")] for one in series]
    builder.table(list(zip_longest(["", *labels], *columns, fillvalue="")))


def _shape(shape: Any, builder: Builder) -> None:
    if getattr(shape, "has_chart", False):
        _chart(shape.chart.element, builder)
        return
    if getattr(shape, "has_table", False):
        # python-pptx counts rows and cells again for each access by number
        rows = groupby(shape.table.iter_cells(), lambda cell: cell._tc.getparent())
        builder.table([["" if cell.is_spanned else _lines(cell.text) for cell in row] for _, row in rows])
        return
    if not shape.has_text_frame:
        builder.paragraph(_description(shape))
        return
    paragraphs = [paragraph for paragraph in shape.text_frame.paragraphs if paragraph.text.strip()]
    if len(paragraphs) == 1:
        builder.paragraph(_lines(paragraphs[0].text))
    else:
        for paragraph in paragraphs:
            builder.item(_lines(paragraph.text), depth=min(paragraph.level or 0, 8))


def _lines(text: str) -> str:
    return text.replace("\v", "\n")
