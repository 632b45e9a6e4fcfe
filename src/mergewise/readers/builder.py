"""The result of a reader, and a small builder for the formats whose text we write ourselves.

Blocks are separated by a blank line, list items by a line break. Headings and pages are recorded by offset while the
text grows, so that every span is exact by construction.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from mergewise.readers.titles import title_among
from mergewise.types import Heading, Metadata, Page

# Control characters, soft hyphens, zero-width spaces, byte order marks, lone surrogates and PDFium's hyphen marks
# are invisible, and a search misses a word that has one of them inside.
_INVISIBLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\xad\u200b\u2060\ud800-\udfff\ufeff\ufffe\uffff]")
_BLANKS = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class Parsed:
    """The result of a reader: a document without an identity."""

    text: str
    title: str = ""
    outline: tuple[Heading, ...] = ()
    pages: tuple[Page, ...] = ()
    metadata: Metadata = field(default_factory=dict)
    # passages that stay whole, as `Document.units`
    units: tuple[tuple[int, int], ...] = ()
    # numbers of pages that show something and have no text
    textless: tuple[int, ...] = ()


def whole_number(text: str, default: int) -> int:
    """The number that a file writes; `default` for what is none, and for more digits than any count or level has."""
    return int(text) if text.isdecimal() and len(text) < 10 else default


def visible(text: str) -> str:
    return _INVISIBLE.sub("", text)


def one_line(text: str) -> str:
    """`text` with every run of white space, no-break spaces included, made one space."""
    # most text has nothing invisible, and no white space but single spaces
    if text.isprintable() and "  " not in text:
        return text.strip()
    return _BLANKS.sub(" ", visible(text)).strip()


def tidy(text: str) -> str:
    """`text` with its line breaks kept, everything else in each line collapsed, and no blank lines."""
    return "\n".join(line for line in map(one_line, text.split("\n")) if line)


class Builder:
    """Appends blocks to a growing text. Empty blocks are ignored."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        # characters of text so far
        self.length = 0
        self._outline: list[Heading] = []
        self._page_starts: list[int] = []
        # pages that begin with the next block
        self._new_pages = 0
        self._after_item = False
        self._units: list[tuple[int, int]] = []

    def heading(self, level: int, title: str) -> None:
        title = one_line(title)
        if title:
            start = self._append(title)
            self._outline.append(Heading(level, title, start, self.length))

    def paragraph(self, text: str) -> None:
        self._append(tidy(text))

    def verbatim(self, text: str) -> None:
        """A block whose indentation and inner blank lines are kept: code, and lists made elsewhere."""
        lines = [visible(line).expandtabs(4).rstrip() for line in text.split("\n")]
        self._append("\n".join(lines).strip("\n"))

    def item(self, text: str, *, marker: str = "-", depth: int = 0) -> None:
        """A list item on its own line, with further lines of its text indented below it."""
        lines = tidy(text).split("\n")
        if lines[0]:
            indent = "  " * depth
            first = f"{indent}{marker} {lines[0]}"
            self._append("\n".join([first, *(f"{indent}  {line}" for line in lines[1:])]), item=True)

    def table(self, rows: Sequence[Sequence[str]]) -> None:
        cells = ([one_line(cell) for cell in row] for row in rows)
        self._append("\n".join(f"| {' | '.join(row)} |" for row in cells if any(row)))

    def unit(self, text: str) -> None:
        """A passage that stands alone, such as a row of a table or a record."""
        if block := tidy(text):
            start = self._append(block)
            self._units.append((start, self.length))

    def part(self, parsed: Parsed, *, shift: int = 0) -> None:
        """The result of another reader for a part of the file, with its headings `shift` levels lower."""
        if parsed.text.strip():
            start = self._append(parsed.text)
            self._outline += [Heading(h.level + shift, h.title, h.start + start, h.end + start) for h in parsed.outline]
            self._units += [(begin + start, end + start) for begin, end in parsed.units]

    def page(self) -> None:
        """Begin a page with the block that is appended next; without such a block the page is empty."""
        self._new_pages += 1

    def build(self, title: str = "", metadata: Metadata | None = None, *, headed: bool = True) -> Parsed:
        """The document. Without a title a heading is the title, unless headings only name parts (`headed=False`)."""
        text = "".join(self._pieces)
        outline = tuple(self._outline)
        title = one_line(title) or (title_among(outline) if headed else "")
        self._start_pages(self.length)
        spans = pairwise([*self._page_starts, self.length])
        pages = tuple(Page(number, *span) for number, span in enumerate(spans, start=1))
        return Parsed(text, title, outline, pages, metadata or {}, tuple(self._units))

    def _append(self, block: str, *, item: bool = False) -> int:
        if not block:
            return self.length
        gap = "" if not self._pieces else "\n" if item and self._after_item else "\n\n"
        start = self.length + len(gap)
        self.length = start + len(block)
        self._pieces += [gap, block]
        self._start_pages(start)
        self._after_item = item
        return start

    def _start_pages(self, offset: int) -> None:
        self._page_starts += [offset] * self._new_pages
        self._new_pages = 0
