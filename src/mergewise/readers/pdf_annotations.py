"""Annotations of PDF pages: values of form fields, text typed onto a page, and comments.

They have a place on the page, but none in its text. A value follows the text left of it in its row, or the text right above it. A
box to tick, ☒ or ☐, precedes the text right of it. Comments follow the page, and so do values without text near them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, TypeAlias

from mergewise.readers.builder import one_line

# Points between a value and a label in its row, between it and a label above, and between the base lines of one row.
_NEAR, _ABOVE, _SLACK = 90, 20, 3
# hidden, or not shown on a screen
_HIDDEN = 2 | 32
_PASSWORD = 1 << 13

Origins: TypeAlias = Sequence[tuple[float, float]]
"""Left end of the base line of each character, in points."""


@dataclass(frozen=True, slots=True)
class Annotation:
    """A text, and its place in points from the foot of the page. `name` is that of its field."""

    text: str
    name: str
    is_comment: bool
    left: float
    bottom: float
    right: float
    top: float

    @property
    def line(self) -> str:
        """The text of an annotation that stands alone."""
        return f"{self.name}: {self.text}" if self.name else self.text


def annotations_of(page: Any, form: Any) -> Iterator[Annotation]:
    """Yield the visible annotations of a page that have a text. `form` is PDFium's form of the document, or None."""
    from pypdfium2 import raw

    for number in range(raw.FPDFPage_GetAnnotCount(page)):
        with ExitStack() as stack:
            annotation, place = raw.FPDFPage_GetAnnot(page, number), raw.FS_RECTF()
            stack.callback(raw.FPDFPage_CloseAnnot, annotation)
            kind = raw.FPDFAnnot_GetSubtype(annotation)
            if raw.FPDFAnnot_GetFlags(annotation) & _HIDDEN or not raw.FPDFAnnot_GetRect(annotation, place):
                continue
            if kind == raw.FPDF_ANNOT_WIDGET and form is not None:
                names = (raw.FPDFAnnot_GetFormFieldAlternateName, raw.FPDFAnnot_GetFormFieldName)
                name = next(filter(None, (_text(read, form, annotation) for read in names)), "")
                text = _value(raw, form, annotation)
            elif kind in (raw.FPDF_ANNOT_LINK, raw.FPDF_ANNOT_POPUP, raw.FPDF_ANNOT_WIDGET):
                continue
            else:
                name = "" if kind == raw.FPDF_ANNOT_FREETEXT else "Comment"
                text = _text(raw.FPDFAnnot_GetStringValue, annotation, b"Contents")
        if text:
            yield Annotation(text, name, name == "Comment", place.left, place.bottom, place.right, place.top)


def _text(read: Callable[..., int], *arguments: Any) -> str:
    """Call one of PDFium's functions that fill a buffer with UTF-16."""
    size = read(*arguments, None, 0)
    buffer = (ctypes.c_ushort * (size // 2 + 1))()
    read(*arguments, buffer, size)
    return one_line(bytes(buffer)[:size].decode("utf-16-le", "replace").rstrip("\x00"))


def _value(raw: Any, form: Any, field: Any) -> str:
    kind = raw.FPDFAnnot_GetFormFieldType(form, field)
    if kind in (raw.FPDF_FORMFIELD_CHECKBOX, raw.FPDF_FORMFIELD_RADIOBUTTON):
        return "☒" if raw.FPDFAnnot_IsChecked(form, field) else "☐"
    if kind == raw.FPDF_FORMFIELD_PUSHBUTTON or raw.FPDFAnnot_GetFormFieldFlags(form, field) & _PASSWORD:
        return ""
    options = range(raw.FPDFAnnot_GetOptionCount(form, field))
    chosen = (option for option in options if raw.FPDFAnnot_IsOptionSelected(form, field, option))
    labels = ", ".join(_text(raw.FPDFAnnot_GetOptionLabel, form, field, option) for option in chosen)
    return labels or _text(raw.FPDFAnnot_GetFormFieldValue, form, field)


def insert_values(characters: list[str], origins: Origins, annotations: Sequence[Annotation]) -> list[str]:
    """Add the values to the characters next to them. Return the lines that follow the page."""
    alone = []
    for one in annotations:
        at, is_before = (None, False) if one.is_comment else _neighbour(characters, origins, one)
        if at is None:
            alone.append(one.line)
        else:
            characters[at] = f" {one.text} {characters[at]}" if is_before else f"{characters[at]} {one.text} "
    return alone


def _neighbour(characters: Sequence[str], origins: Origins, one: Annotation) -> tuple[int | None, bool]:
    """Return the character next to a value, and whether the value precedes it."""
    inked = [(place, *origins[place]) for place, text in enumerate(characters) if text[0] > " "]
    row = [(x, place) for place, x, y in inked if one.bottom - _SLACK <= y <= one.top]
    left = max(((x, place) for x, place in row if x < one.left), default=None)
    right = min(((x, place) for x, place in row if x >= one.left), default=None)
    over = [
        (y, x, place) for place, x, y in inked if one.left - _SLACK <= x <= one.right and one.top < y < one.top + _ABOVE
    ]
    if right and one.text in "☒☐" and right[0] - one.right < _NEAR:
        return right[1], True
    if left and (one.left - left[0] < _NEAR or not over):
        return left[1], False
    if over:
        lowest = min(over)[0] + _SLACK
        return max((x, place) for y, x, place in over if y <= lowest)[1], False
    return (right[1], True) if right else (None, False)
