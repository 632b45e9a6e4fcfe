"""Texts that quotations are taken from, with the code in them. Each document is read once."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from mergewise.generate.citations import Locator
from mergewise.generate.marks import escape_marks
from mergewise.generate.sources import DocumentLookup
from mergewise.text.light import ITEM, ITEM_MARK, body_margin, code_by_margin, code_in, cuts_code, laid_out
from mergewise.text.markup import readable, says_something
from mergewise.text.question import asked_names
from mergewise.text.sections import path_at
from mergewise.text.sentences import strip_span
from mergewise.text.spans import margin_at, spans_of, union
from mergewise.types import Context, Span

FAR = 2000
"""Number of characters after an announcement to search for what it announces."""
LONGEST_CODE = 800
"""Maximum characters of a quotation with complete code; in a longer one the code is cut."""

# list items with their continuation lines, and definitions or code, which are indented
_LINE = rf"(?:[ \t]*{ITEM_MARK}|[ \t]+\S|\|)"
_BLOCK_OF_ITEMS = re.compile(rf"\s*\n(?:{_LINE}[^\n]*(?:\n|\Z)(?:[ \t]*\n(?={_LINE}))?|``[^\n]*\n(?=[ \t]+\S))+")
_PARAGRAPH = re.compile(r"\s*(?:[^\n]*\S[^\n]*(?:\n|\Z))+")
# a line of words, without the mark of a directive, but not the anchor above a heading
_LINE_OF_WORDS = re.compile(r"^(?!\.\. _)(?:\.\. [\w:]+:: *)?[^\w§(\[\n]*([\w§(\[][^\n]*)", re.MULTILINE)
# parameters with a default in a signature
_FIELD = re.compile(r"(\w+)\s*(?::[^,=()]+)?=")
_STOPS = (".", "!", "?", "…", "。", ";", "”", '"')


class QuotableTexts:
    """Documents of a context."""

    def __init__(self, document: DocumentLookup, context: Context) -> None:
        self.document = cache(document)
        self.locator = Locator(self.document, context)
        self._held = spans_of(context)

    def text(self, span: Span) -> str:
        """Return the text of the span, or "" if the document is gone."""
        return self._whole(span.doc_id)[span.start : span.end]

    def merged(self, spans: Sequence[Span]) -> list[Span]:
        """Sort the spans of one document, and merge spans with only white space between them."""
        doc_id = spans[0].doc_id
        parts = ((span.start, span.end) for span in spans if span.doc_id == doc_id)
        return [Span(doc_id, start, end) for start, end in union(parts, self._whole(doc_id))]

    def heading_of(self, span: Span, question: str) -> Span | None:
        """Return the lowest heading above a span with an exact name of the question, or with a default that it asks for."""
        names = [name for name in asked_names(question) if name.exact]
        words = set(re.findall(r"\w+", question)) if "default" in question.lower() else ()
        for heading in reversed(path_at(self.locator.outline(span.doc_id), span.start - 1)):
            has_default = any(field in words for field in _FIELD.findall(heading.title))
            if has_default or any(name.is_in(heading.title) for name in names):
                line = _LINE_OF_WORDS.search(self._whole(span.doc_id), heading.start, heading.end)
                return line and Span(span.doc_id, *line.span(1))
        return None

    def without_headings(self, spans: Sequence[Span]) -> list[Span]:
        """Trim headings and white space from the ends of the spans, and drop spans that show no other text."""
        kept = []
        for span in spans:
            outline = self.locator.outline(span.doc_id)
            first = max(0, bisect_right(outline, span.start, key=lambda heading: heading.start) - 1)
            for heading in outline[first : bisect_left(outline, span.end, key=lambda heading: heading.start)]:
                if heading.start <= span.start < heading.end:
                    span = replace(span, start=min(heading.end, span.end))
                if heading.start < span.end <= heading.end:
                    span = replace(span, end=max(heading.start, span.start))
            # a tag is not shown
            if says_something(text := self.text(span)) and ("<" not in text or says_something(self.laid_out(span))):
                kept.append(Span(span.doc_id, *strip_span(self._whole(span.doc_id), span.start, span.end)))
        return kept

    def with_whole_code(self, spans: Sequence[Span], quoted: Sequence[Span]) -> list[Span]:
        """Complete code that the spans cut, if the context contains the rest and it is not `quoted` yet."""
        doc_id = spans[0].doc_id
        text = self._whole(doc_id)
        wider = list(spans)
        edges = [edge for span in spans for edge in (span.start, span.end)]
        for start, end in (code for code in code_in(text) if any(code[0] < edge < code[1] for edge in edges)):
            rest = Span(doc_id, start, start + len(text[start:end].rstrip()))
            if any(held.contains(rest) for held in self._held):
                joined = self.merged([*wider, rest])
                free = not any(rest.overlaps(span) for span in quoted)
                wider = joined if free and sum(map(len, joined)) <= LONGEST_CODE else wider
        return wider

    def ends_in_code(self, span: Span) -> bool:
        return any(start < span.end <= end for start, end in code_in(self._whole(span.doc_id)))

    def with_announced(self, spans: Sequence[Span], quoted: Sequence[Span]) -> list[Span]:
        """Extend the last span, if it ends with a lead such as "Possible values are:", by the list or paragraph after it.

        Code leads to nothing.
        """
        last = spans[-1]
        text = self._whole(last.doc_id)
        if self.ends_in_code(last):
            return list(spans)
        items = _BLOCK_OF_ITEMS.match(text, last.end, last.end + FAR)
        ending = readable(text[last.start : last.end]).rstrip(" \n*_`")
        if not ending.endswith((":", "：")) and (items is None or ending.endswith(_STOPS) or ITEM.match(ending)):
            return list(spans)
        block = items or _PARAGRAPH.match(text, last.end, last.end + FAR)
        # a directive or a tag announces what is below it
        while block is not None and not says_something(self.laid_out(Span(last.doc_id, *block.span()))):
            block = _PARAGRAPH.match(text, block.end(), last.end + FAR)
        room = LONGEST_CODE - sum(map(len, spans))
        if block is None or room <= 0:
            return list(spans)
        start, end = last.end, block.end()
        heads = [heading.start for heading in self.locator.outline(last.doc_id) if start <= heading.start < end]
        end = min([end, *heads])
        if end - start > room:
            end = max(text.rfind("\n", start, start + room), start)
        rest = Span(last.doc_id, start, start + len(text[start:end].rstrip()))
        if not rest or any(rest.overlaps(span) for span in quoted):
            return list(spans)
        return self.merged([*spans, rest])

    def laid_out(self, span: Span) -> str:
        """Lay out the text of the span for a screen, with its margin, and an ellipsis at the ends of cut code.

        Marks are escaped, except in lines of code.
        """
        text = self._whole(span.doc_id)
        line = text.rfind("\n", 0, span.start) + 1
        start = span.start - len(margin_at(text, span.start))
        code = code_in(text)
        inside = [(a - start, b - start) for a, b in code if a < span.end and b > start]
        shown = laid_out(text[start : span.end], inside, body_margin(text, line))
        at, pieces = 0, ["…\n" if cuts_code(text, code, span.start) else ""]
        for first, last in code_by_margin(shown):
            pieces += [escape_marks(shown[at:first]), shown[first:last]]
            at = last
        return "".join([*pieces, escape_marks(shown[at:]), "\n…" if cuts_code(text, code, span.end) else ""])

    def _whole(self, doc_id: str) -> str:
        document = self.document(doc_id)
        return "" if document is None else document.text
