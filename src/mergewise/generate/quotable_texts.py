"""The texts that quotations are taken from: documents by their ids, each read once, with the code in them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from mergewise.generate.citations import Locator
from mergewise.generate.sources import DocumentLookup
from mergewise.text.light import code_in, cuts_code, laid_out
from mergewise.text.markup import readable, says_something
from mergewise.text.spans import Part, union
from mergewise.types import Context, Span

LONGEST_CODE = 800  # characters of a quotation that holds a piece of code whole; in a longer one the code is cut


class QuotableTexts:
    """The documents of a context."""

    def __init__(self, document: DocumentLookup, context: Context) -> None:
        self.document = cache(document)
        self.locator = Locator(self.document)
        self._held = [span for passage in context.passages for span in passage.spans]

    def text(self, span: Span) -> str:
        """The text of the span; "" for a document that is gone."""
        return self._whole(span.doc_id)[span.start : span.end]

    def merged(self, spans: Sequence[Span]) -> list[Span]:
        """Spans of one document in its order, those made one between which only white space stands."""
        doc_id = spans[0].doc_id
        parts = ((span.start, span.end) for span in spans if span.doc_id == doc_id)
        return [Span(doc_id, start, end) for start, end in union(parts, self._whole(doc_id))]

    def without_headings(self, spans: Sequence[Span]) -> list[Span]:
        """The spans without headings: those that hold nothing else are left out, and others begin and end where there is text."""
        kept = []
        for span in spans:
            outline = self.locator.outline(span.doc_id)
            first = max(0, bisect_right(outline, span.start, key=lambda heading: heading.start) - 1)
            for heading in outline[first : bisect_left(outline, span.end, key=lambda heading: heading.start)]:
                if heading.start <= span.start < heading.end:
                    span = replace(span, start=min(heading.end, span.end))
                if heading.start < span.end <= heading.end:
                    span = replace(span, end=max(heading.start, span.start))
            said = self.text(span)
            start = span.start + len(said) - len(said.lstrip())
            if says_something(said):
                kept.append(Span(span.doc_id, start, start + len(said.strip())))
        return kept

    def with_whole_code(self, spans: Sequence[Span], quoted: Sequence[Span]) -> list[Span]:
        """The spans with the rest of the code that they cut, as far as the context holds it and it is not `quoted` yet."""
        doc_id = spans[0].doc_id
        text = self._whole(doc_id)
        wider = list(spans)
        low, high = min(span.start for span in spans), max(span.end for span in spans)
        for start, end in ((start, end) for start, end in self._code(doc_id) if start < high and end > low):
            rest = Span(doc_id, start, start + len(text[start:end].rstrip()))
            is_held = any(held.contains(rest) for held in self._held)
            if is_held and any(start < at < end for span in spans for at in (span.start, span.end)):
                joined = self.merged([*wider, rest])
                free = not any(rest.overlaps(span) for span in quoted)
                wider = joined if free and sum(map(len, joined)) <= LONGEST_CODE else wider
        return wider

    def leave_something_out(self, first: Span, second: Span) -> bool:
        """Whether words stand between two spans of a document, not mark-up alone."""
        return says_something(readable(self._whole(first.doc_id)[first.end : second.start]))

    def laid_out(self, span: Span) -> str:
        """The text of the span as a screen shows it, with its margin, and with an ellipsis where code is cut."""
        text = self._whole(span.doc_id)
        line = text.rfind("\n", 0, span.start) + 1
        start = span.start if text[line : span.start].strip() else line
        code = self._code(span.doc_id)
        inside = [(a - start, b - start) for a, b in code if a < span.end and b > start]
        said = laid_out(text[start : span.end], inside)
        before = "…\n" if cuts_code(text, code, span.start) else ""
        return before + said + ("\n…" if cuts_code(text, code, span.end) else "")

    def _whole(self, doc_id: str) -> str:
        document = self.document(doc_id)
        return "" if document is None else document.text

    def _code(self, doc_id: str) -> tuple[Part, ...]:
        return code_in(self._whole(doc_id))
