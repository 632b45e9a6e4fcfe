"""Where a span stands, as people write it: `path:line`, the page of a paginated document, or the document alone."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import groupby
from typing import TYPE_CHECKING

from mergewise.types import Citation, Span

if TYPE_CHECKING:
    from mergewise.generate.sources import DocumentLookup

LONGEST_QUOTE = 200  # characters


def place(citation: Citation) -> str:
    """`docs/cats.md:7`, `report.pdf p. 3`, or the id of a document that has neither lines nor pages."""
    doc_id = one_line(citation.span.doc_id)
    if citation.page is not None:
        return f"{doc_id} p. {citation.page}"
    return doc_id if citation.line is None else f"{doc_id}:{citation.line}"


def joined_places(citations: Sequence[Citation]) -> str:
    """The places of several citations, each once, and the documents of neighbours once: `cats.md:7, 12; report.pdf p. 3`."""
    named = []
    for doc_id, group in groupby(citations, key=lambda citation: citation.span.doc_id):
        places = list(dict.fromkeys(map(place, group)))
        more = "".join(f", {spelled.removeprefix(one_line(doc_id)).lstrip(': ')}" for spelled in places[1:])
        named.append(places[0] + more)
    return "; ".join(named)


def one_line(name: str) -> str:
    """A name without ends of lines, so that it cannot look like two lines."""
    return " ".join(name.splitlines())


class Locations:
    """Places and texts of spans. Each document is read once."""

    def __init__(self, document: DocumentLookup) -> None:
        from mergewise.generate.citations import Locator

        self.document = cache(document)
        self._locator = Locator(self.document)

    def text(self, span: Span) -> str:
        """The text of the span; "" for a document that is gone."""
        document = self.document(span.doc_id)
        return document.text[span.start : span.end] if document else ""

    def citation(self, span: Span) -> Citation:
        """The span as a citation without a number: its title, headings, and page or line."""
        return self._locator.citation(0, self.text(span), span)

    def of(self, spans: Sequence[Span]) -> str:
        """The places of several spans, each document once: `cats.md:7, 12; report.pdf p. 3`."""
        return joined_places([self.citation(span) for span in spans])

    def quote(self, span: Span, most: int = LONGEST_QUOTE) -> str:
        """The text of the span on one line, cut at a word where it is long; "" for a document that is gone."""
        text = " ".join(self.text(span).split())
        return f"“{text if len(text) <= most else text[:most].rsplit(' ', 1)[0] + ' …'}”" if text else ""
