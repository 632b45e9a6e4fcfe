"""Annotations of PDF pages: values of form fields, text typed onto a page, and comments.

They have a place on the page, but none in its text. A value follows the text left of it in its row, or the text right above it. A
box to tick, ☒ or ☐, precedes the text right of it. Comments follow the page, and so do values without text near them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from mergewise.readers.builder import one_line

# Points between a value and a label in its row, between it and a label above, and between the base lines of one row.
_NEAR, _ABOVE, _SLACK = 90, 20, 3
# hidden, or not shown on a screen
_HIDDEN = 2 | 32
_COMMENT = "Comment"
# Ranks of the text right of a box to tick, and right of another value.
_TICKED, _LAST = 0, 4


class Annotation(NamedTuple):
    """A text, the name of its field, and its place in points from the foot of the page."""

    text: str
    name: str
    left: float
    bottom: float
    right: float
    top: float


def annotations_of(page: Any, form: Any) -> Iterator[Annotation]:
    """Yield the visible annotations of a page that have a text. `form` is PDFium's form of the document, or None."""
    from pypdfium2 import raw

    for number in range(raw.FPDFPage_GetAnnotCount(page)):
        annotation, place = raw.FPDFPage_GetAnnot(page, number), raw.FS_RECTF()
        kind = raw.FPDFAnnot_GetSubtype(annotation)
        name = text = ""
        if kind == raw.FPDF_ANNOT_WIDGET and form is not None:
            label = _text(raw.FPDFAnnot_GetFormFieldAlternateName, form, annotation)
            name = label or _text(raw.FPDFAnnot_GetFormFieldName, form, annotation)
            if raw.FPDFAnnot_GetFormFieldType(form, annotation) in (
                raw.FPDF_FORMFIELD_CHECKBOX,
                raw.FPDF_FORMFIELD_RADIOBUTTON,
            ):
                text = "☒" if raw.FPDFAnnot_IsChecked(form, annotation) else "☐"
            else:
                options = range(raw.FPDFAnnot_GetOptionCount(form, annotation))
                chosen = (one for one in options if raw.FPDFAnnot_IsOptionSelected(form, annotation, one))
                text = ", ".join(_text(raw.FPDFAnnot_GetOptionLabel, form, annotation, one) for one in chosen)
                text = text or _text(raw.FPDFAnnot_GetFormFieldValue, form, annotation)
        elif kind not in (raw.FPDF_ANNOT_LINK, raw.FPDF_ANNOT_POPUP, raw.FPDF_ANNOT_WIDGET):
            name = "" if kind == raw.FPDF_ANNOT_FREETEXT else _COMMENT
            text = _text(raw.FPDFAnnot_GetStringValue, annotation, b"Contents")
        is_hidden = raw.FPDFAnnot_GetFlags(annotation) & _HIDDEN
        if raw.FPDFAnnot_GetRect(annotation, place) and text and not is_hidden:
            yield Annotation(text, name, place.left, place.bottom, place.right, place.top)
        raw.FPDFPage_CloseAnnot(annotation)


def _text(read: Callable[..., int], *arguments: Any) -> str:
    """Call one of PDFium's functions that fill a buffer with UTF-16."""
    size = read(*arguments, None, 0)
    buffer = (ctypes.c_ushort * (size // 2 + 1))()
    read(*arguments, buffer, size)
    return one_line(bytes(buffer)[:size].decode("utf-16-le", "replace").rstrip("\x00"))


def insert_values(
    characters: list[str], origins: Sequence[tuple[float, float]], annotations: Iterable[Annotation]
) -> list[str]:
    """Add the values to the characters next to them. Return the lines that follow the page.

    `origins` are the left ends of the characters' base lines, in points.
    """
    inked = [(place, *origins[place]) for place, text in enumerate(characters) if text > " "]
    lines = []
    for text, name, left, bottom, right, top in annotations:
        # the best neighbour has the lowest rank, and is the nearest one of its rank
        ranked = []
        for place, x, y in inked if name != _COMMENT else ():
            if bottom - _SLACK <= y <= top:
                rank = (_TICKED if text in "☒☐" else _LAST) if x >= left else 1 if left - x < _NEAR else 3
                ranked.append((rank, abs(left - x), x, place))
            elif top < y < top + _ABOVE and left - _SLACK <= x <= right:
                ranked.append((2, y, -x, place))
        if not ranked:
            lines.append(f"{name}: {text}" if name else text)
            continue
        rank, *_, place = min(ranked)
        before, after = (f"{text} ", "") if rank in (_TICKED, _LAST) else ("", f" {text} ")
        characters[place] = before + characters[place] + after
    return lines
