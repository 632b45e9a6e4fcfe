"""Source texts of spans: documents by id, each loaded once, and the text around a span."""

from __future__ import annotations

import re
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import field
from itertools import accumulate
from typing import Generic, NamedTuple, TypeVar

from mergewise.errors import MergewiseError
from mergewise.grouping import group_by
from mergewise.page.markup import Markup, tag, text
from mergewise.text.light import StyleName, code_by_margin, code_in, styles_in
from mergewise.text.sections import outline_of
from mergewise.types import Document, Heading, Span, frozen

T = TypeVar("T")
DocumentLookup = Callable[[str], Document | None]
FileLink = Callable[[str], str | None]
"""A function that returns the URL of a document's file (`file:///...`) by the document's id, or None."""
SpanAddress = Callable[[Span], str | None]

LONG_LINE = 55  # characters from which a line of prose counts as wrapped by its author
SHORT_ID = 44
# the end of a long line of prose that continues in the next line, where no list item, table, heading or code begins
_WRAP = re.compile(
    rf"(?m)^(?=[^\n]{{{LONG_LINE},}}$)(?![ \t]{{2}}|[#|>`~:.]|[-*+=] *[-*+=])[^\n]*(\n)(?=[\w(\[“\"'<]|[*_`]{{1,2}}\w)"
)


class Overlaps(Generic[T]):
    """A lookup of things by span, which finds the things that overlap a given span without a scan of all."""

    def __init__(self, things: Iterable[T], span_of: Callable[[T], Span]) -> None:
        by_document = group_by(((span_of(thing), thing) for thing in things), lambda pair: pair[0].doc_id)
        self._things = {doc: sorted(own, key=lambda pair: pair[0].start) for doc, own in by_document.items()}
        self._starts = {doc: [span.start for span, _ in own] for doc, own in self._things.items()}
        # running maximum of the ends, so that a binary search finds the first thing that reaches a position
        self._reach = {doc: list(accumulate((s.end for s, _ in own), max)) for doc, own in self._things.items()}

    def at(self, span: Span) -> list[T]:
        """Return the things that overlap the span, ordered by start."""
        if span.doc_id not in self._things:
            return []
        first = bisect_right(self._reach[span.doc_id], span.start)
        last = bisect_left(self._starts[span.doc_id], span.end)
        return [thing for own, thing in self._things[span.doc_id][first:last] if own.overlaps(span)]

    def around(self, span: Span) -> tuple[int, int | None]:
        """Return the end of the things before the span, and the start of the first thing after it."""
        starts, reach = self._starts.get(span.doc_id, []), self._reach.get(span.doc_id, [])
        before, after = bisect_left(starts, span.start), bisect_left(starts, span.end)
        return (min(reach[before - 1], span.start) if before else 0), (starts[after] if after < len(starts) else None)


class Styled(NamedTuple):
    """A stretch of a text with a style on screen: code, emphasis, or a hidden mark."""

    span: Span
    name: StyleName


class ReadableText(NamedTuple):
    """A document as shown on screen: with unwrapped lines of prose, and with styles."""

    text: str
    styles: Overlaps[Styled]
    headings: Overlaps[Heading]


@frozen
class Places:
    """The documents of a page and the locations of spans. The page also works if a document is missing (None).

    `page` returns the URL of a span on a live page, used instead of the file's URL. At most `most` documents are loaded. Styles
    and headings are found in documents of up to `longest` characters.
    """

    lookup: DocumentLookup | None = None
    link: FileLink | None = None
    page: SpanAddress | None = None
    most: int = sys.maxsize
    longest: int = sys.maxsize
    _known: dict[str, Document | None] = field(default_factory=dict)
    _shown: dict[str, ReadableText] = field(default_factory=dict)

    def document(self, doc_id: str) -> Document | None:
        if doc_id not in self._known:
            if len(self._known) >= self.most:
                return None
            self._known[doc_id] = None
            with suppress(MergewiseError):
                self._known[doc_id] = None if self.lookup is None else self.lookup(doc_id)
        return self._known[doc_id]

    def text(self, span: Span) -> str | None:
        document = self.document(span.doc_id)
        return None if document is None else document.text[span.start : span.end]

    def has_text(self, doc_id: str, start: int, end: int | None) -> bool:
        """Check if a document has more than white space in a range."""
        document = self.document(doc_id)
        return document is not None and bool(document.text[start:end].strip())

    def screen_text(self, span: Span, text: str) -> tuple[str, list[Styled]]:
        """Return the text of a span for the screen, with the same length, and its styles. Uses a document with this text."""
        whole = self._whole(span.doc_id) if self.text(span) == text else None
        if whole is None:
            return unwrapped_prose(text), styles_of(text, span.doc_id, span.start)
        return whole.text[span.start : span.end], whole.styles.at(span)

    def section(self, span: Span) -> tuple[int, int | None]:
        """Return the bounds of the text around the span that has no heading in between."""
        whole = self._whole(span.doc_id)
        if whole is None:
            return 0, None
        floor, ceiling = whole.headings.around(span)
        return (span.start if whole.headings.at(Span(span.doc_id, span.start, span.start + 1)) else floor), ceiling

    def _whole(self, doc_id: str) -> ReadableText | None:
        document = self.document(doc_id)
        if document is None or len(document.text) > self.longest:
            return None
        if doc_id not in self._shown:
            outline = outline_of(document)
            headings = Overlaps(outline, lambda heading: Span(doc_id, heading.start, heading.end))
            styles = Overlaps(styles_of(document.text, doc_id), lambda styled: styled.span)
            self._shown[doc_id] = ReadableText(unwrapped_prose(document.text), styles, headings)
        return self._shown[doc_id]

    def title(self, doc_id: str) -> str:
        document = self.document(doc_id)
        return "" if document is None else document.title

    def location(self, span: Span) -> str:
        """Return file and line, and the page number if known. Return file and offsets if the document is not available."""
        document = self.document(span.doc_id)
        name = short_id(span.doc_id)
        if document is None:
            return f"{name}:{span.start}–{span.end}"
        line = document.text.count("\n", 0, span.start) + 1
        page = page_number(document, span)
        return f"{name}:{line}" + (f", page {page}" if page is not None else "")

    def address(self, span: Span) -> str | None:
        """Return the URL of a span: on the live page, or in its file at the right page. None if neither exists."""
        if self.page is not None:
            return self.page(span)
        address = None if self.link is None else self.link(span.doc_id)
        if address is None or not address.startswith("file:///"):
            return None
        document = self.document(span.doc_id)
        number = None if document is None else page_number(document, span)
        return address if number is None else f"{address}#page={number}"

    def linked_location(self, span: Span, target: Span | None = None) -> Markup:
        """Return the location as a link to the address of the span, or of the `target` within it, if it has one."""
        address = self.address(target or span)
        shown = self.location(span)
        return text(shown) if address is None else tag("a", shown, href=address, class_="file")

    def around(self, span: Span, length: int, floor: int, ceiling: int | None) -> tuple[Span, Span]:
        """Return up to `length` characters before and after the span, cut at words, and within the bounds."""
        document, start, end = self.document(span.doc_id), span.start, span.end
        if document is not None and length > 0:
            start = max(floor, start - length)
            if start > floor:
                start = next((at for at in range(start, span.start) if document.text[at - 1].isspace()), span.start)
            last = len(document.text) if ceiling is None else ceiling
            end = min(last, end + length)
            if end < last:
                end = next((at for at in range(end, span.end, -1) if document.text[at].isspace()), span.end)
        return Span(span.doc_id, start, span.start), Span(span.doc_id, span.end, end)


def page_number(document: Document, span: Span) -> int | None:
    """Return the number of the page on which the span begins, or None in a document without pages."""
    return next((page.number for page in document.pages if page.start <= span.start < page.end), None)


def bounds_around(span: Span, taken: Overlaps[Span], places: Places) -> tuple[int, int | None]:
    """Return the limits of the surrounding text of a span: the nearest headings, and other text of the context."""
    heading, next_heading = places.section(span)
    before, after = taken.around(span)
    return max(before, heading), min((end for end in (after, next_heading) if end is not None), default=None)


def short_id(doc_id: str) -> str:
    """Shorten the id of a document: for a long path, keep the name and the last folders."""
    if len(doc_id) <= SHORT_ID:
        return doc_id
    parts = doc_id.split("/")
    kept = parts.pop()
    while parts and len(kept) + len(parts[-1]) + 3 <= SHORT_ID:
        kept = f"{parts.pop()}/{kept}"
    return f"…/{kept}" if len(kept) <= SHORT_ID else "…" + kept[-SHORT_ID:]


def styles_of(text: str, doc_id: str = "", start: int = 0) -> list[Styled]:
    """Return the styles of a text that begins at `start` of its document, or of an answer (no `doc_id`)."""
    code = code_in(text) or (() if doc_id else code_by_margin(text))
    stretches = [*styles_in(text, code), *((first, last, "code") for first, last in code)]
    return [Styled(Span(doc_id, start + first, start + last), name) for first, last, name in stretches]


def unwrapped_prose(text: str) -> str:
    """Replace the line breaks of wrapped prose by spaces, so that screens can wrap it. All offsets stay the same."""
    code = Overlaps((Span("", start, end) for start, end in code_in(text)), lambda span: span)
    return _WRAP.sub(lambda line: line[0] if code.at(Span("", *line.span(1))) else f"{line[0][:-1]} ", text)
