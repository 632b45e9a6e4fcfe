"""The result of a reader, and a builder for formats whose text we write ourselves.

A blank line separates blocks, a line break separates list items. Headings and pages are recorded by offset while the text grows,
so that every span is exact by construction.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import field
from itertools import pairwise
from typing import Any

from mergewise.readers.titles import title_among
from mergewise.types import DocumentUnit, Heading, Kind, Metadata, Page, frozen

# characters of the head of a definition or an entry that is a title
_MAX_SIGNATURE = 140
# Characters of the text of an entry that stays in one block with its term.
SHORT_ENTRY = 240
# Control characters, soft hyphens, zero-width spaces, byte order marks, lone surrogates, PDFium's hyphen marks and our marks of
# scripts are invisible. A search would miss a word that contains one.
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\xad\u200b\u2060\ud800-\udfff\ufdd0-\ufdd3\ufeff\ufffe\uffff]"
)
_BLANKS = re.compile(r"\s+")


@frozen
class Parsed:
    """Result of a reader: a document without an identity."""

    text: str
    title: str = ""
    outline: tuple[Heading, ...] = ()
    pages: tuple[Page, ...] = ()
    metadata: Metadata = field(default_factory=dict)
    # passages that are never split, as in `Document.units`
    units: tuple[DocumentUnit, ...] = ()
    # numbers of pages with content but without text
    textless: tuple[int, ...] = ()
    # parts of the file that could not be read
    notes: tuple[str, ...] = ()


def whole_number(text: str, default: int) -> int:
    """Parse a number of a file. Return `default` for anything else, and for more digits than any count or level has."""
    return int(text) if text.isdecimal() and len(text) < 10 else default


def visible(text: str) -> str:
    return _INVISIBLE.sub("", text)


def one_line(text: str) -> str:
    """Collapse every run of white space, no-break spaces included, to one space."""
    # fast path: most text has nothing invisible, and only single spaces
    if text.isprintable() and "  " not in text:
        return text.strip()
    return _BLANKS.sub(" ", visible(text)).strip()


def signature_title(text: str) -> str:
    """Return the head of a definition or an entry as a heading's title, cut if it is long."""
    title = one_line(text)
    return f"{title[:_MAX_SIGNATURE].rstrip()} …" if len(title) > _MAX_SIGNATURE else title


def tidy(text: str) -> str:
    """Collapse white space within each line, and drop blank lines."""
    return "\n".join(line for line in map(one_line, text.split("\n")) if line)


class GrowingOutline:
    """The headings of a growing text. The text after an entry belongs to the heading around the entry.

    An outline has no ends. So the heading around an entry is repeated for the text that follows, in place of the line break
    before it.
    """

    def __init__(self, title: str) -> None:
        self.headings: list[Heading] = []
        # the headings in force at the end of the text
        self._around = [Heading(1, title, 0, 0)]
        self._is_ended = False

    @property
    def level(self) -> int:
        """The level of the innermost heading in force, or 0 without one."""
        return self._around[-1].level if len(self._around) > 1 else 0

    def add(self, level: int, title: str, start: int, end: int) -> None:
        """Add a heading, unless its title is empty."""
        if not title:
            return
        while self.level >= max(level, 1):
            self._around.pop()
        self._around.append(Heading(level, title, start, end))
        self.headings.append(self._around[-1])
        self._is_ended = False

    def end(self, level: int) -> None:
        """End the entry of this level, unless a heading of a higher level has ended it. 0 stands for no entry."""
        if 0 < level <= self.level:
            while self.level >= level:
                self._around.pop()
            self._is_ended = True

    def resume(self, start: int) -> None:
        """Repeat the heading around an entry that has ended, for text that begins at `start`."""
        around = self._around[-1]
        if self._is_ended and around.title and start:
            self.headings.append(Heading(around.level, around.title, start - 1, start))
        self._is_ended = False


class Builder:
    """Text that grows block by block. Empty blocks are ignored. `title` heads the text after entries without a heading."""

    def __init__(self, title: str = "") -> None:
        self._pieces: list[str] = []
        # number of characters
        self.length = 0
        self._outline = GrowingOutline(title)
        self._page_starts: list[int] = []
        # number of pages that begin with the next block
        self._new_pages = 0
        self._after_item = False
        self._units: list[DocumentUnit] = []

    @property
    def level(self) -> int:
        """The level of the innermost heading in force, or 0 without one."""
        return self._outline.level

    def heading(self, level: int, title: str) -> None:
        title = one_line(title)
        if title:
            start = self._append(title, headed=False)
            self._outline.add(level, title, start, self.length)

    def begin_entry(self, name: str) -> int:
        """Append the name of an entry, such as a term or a signature. It heads the following blocks up to `end_entry`.

        Returns:
            The level of the entry.
        """
        level = self._outline.level + 1
        self.heading(level, name)
        return level

    def end_entry(self, level: int) -> None:
        self._outline.end(level)

    def paragraph(self, text: str) -> None:
        self._append(tidy(text))

    def verbatim(self, text: str) -> None:
        """Append a block with its indentation and blank lines, such as code."""
        self._append("\n".join([visible(line).expandtabs(4).rstrip() for line in text.split("\n")]).strip("\n"))

    def item(self, text: str, *, marker: str = "-", depth: int = 0) -> None:
        """Append a list item. Further lines of its text are indented below it."""
        lines = tidy(text).split("\n")
        if lines[0]:
            indent = "  " * depth
            first = f"{indent}{marker} {lines[0]}"
            self._append("\n".join([first, *(f"{indent}  {line}" for line in lines[1:])]), item=True)

    def table(self, rows: Sequence[Sequence[str]]) -> None:
        cells = ([one_line(cell) for cell in row] for row in rows)
        self._append("\n".join(f"| {' | '.join(row)} |" for row in cells if any(row)))

    def unit(self, text: str, kind: Kind = "row") -> None:
        """Append a passage that is complete in itself, such as a row of a table or a record."""
        if block := tidy(text):
            start = self._append(block)
            self._units.append((start, self.length, kind))

    def part(self, parsed: Parsed, *, shift: int = 0) -> None:
        """Append the result of another reader for a part of the file, with its headings `shift` levels lower."""
        if parsed.text.strip():
            start = self._append(parsed.text)
            self._outline.headings += [
                Heading(h.level + shift, h.title, h.start + start, h.end + start) for h in parsed.outline
            ]
            moved: Any = ((begin + start, end + start, *kind) for begin, end, *kind in parsed.units)
            self._units += moved

    def page(self) -> None:
        """Begin a page with the next block. Without a further block, the page is empty."""
        self._new_pages += 1

    def build(self, title: str = "", metadata: Metadata | None = None, *, headed: bool = True) -> Parsed:
        """Return the document. A missing title is taken from a heading, unless headings only name parts (`headed=False`)."""
        text = "".join(self._pieces)
        outline = tuple(self._outline.headings)
        title = one_line(title) or (title_among(outline) if headed else "")
        self._start_pages(self.length)
        spans = pairwise([*self._page_starts, self.length])
        pages = tuple(Page(number, *span) for number, span in enumerate(spans, start=1))
        return Parsed(text, title, outline, pages, metadata or {}, tuple(self._units))

    def _append(self, block: str, *, item: bool = False, headed: bool = True) -> int:
        if not block:
            return self.length
        gap = "" if not self._pieces else "\n" if item and self._after_item else "\n\n"
        start = self.length + len(gap)
        self.length = start + len(block)
        self._pieces += [gap, block]
        if headed:
            self._outline.resume(start)
        self._start_pages(start)
        self._after_item = item
        return start

    def _start_pages(self, offset: int) -> None:
        self._page_starts += [offset] * self._new_pages
        self._new_pages = 0
