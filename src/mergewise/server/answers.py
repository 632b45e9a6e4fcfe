"""Contexts and answers as the API sends them: the JSON of `jsonable`, with URLs of the page and the positions of marks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Collection as Names
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias, TypeVar

from mergewise.generate import marked_texts
from mergewise.jsonable import citation_json, context_json, evidence_json, reply_json, span_json
from mergewise.page import context_fragment
from mergewise.server.collections import Collection, key_of
from mergewise.server.records import Token
from mergewise.text.light import code_in
from mergewise.types import Answer, Citation, Context, Document, Location, Span

Traced = TypeVar("Traced", Context, Answer)
PageAddress: TypeAlias = Callable[[str, int, int], str | None]
"""A function that returns the URL of a document's span, or None."""


def no_address(doc_id: str, start: int, end: int) -> None:
    """Return None: documents have no page."""


class VisibleDocuments:
    """The documents of a collection that a token may see."""

    def __init__(self, collection: Collection, token: Token) -> None:
        self._collection, self._token = collection, token

    @cached_property
    def _visible_ids(self) -> frozenset[str] | None:
        return None if self._token.filter is None else self._collection.ids_within(self._token.filter)

    def get(self, doc_id: str) -> Document | None:
        is_hidden = self._visible_ids is not None and doc_id not in self._visible_ids
        return None if is_hidden else self._collection.index.document(doc_id)

    def without_hidden_steps(self, context: Context) -> Context:
        """Return the context without the trace steps on documents that the token may not see."""
        allowed = self._visible_ids
        if allowed is None:
            return context
        steps = [
            step
            for step in context.trace
            if all(span.doc_id in allowed for span in (*step.inputs, *([step.output] if step.output else [])))
        ]
        return replace(context, trace=tuple(steps))


@dataclass(frozen=True, slots=True)
class AnswerForms:
    """Contexts and answers as JSON. A URL in a document's metadata takes precedence over the URL on the page."""

    locations: Mapping[Span, Location]
    url: PageAddress = no_address
    documents: VisibleDocuments | None = None

    def context(self, context: Context, include: Names[str] = ()) -> dict[str, Any]:
        """Return a context as JSON."""
        places = {
            span: place if place.url else replace(place, url=self._address(span))
            for span, place in self.locations.items()
        }
        form = context_json(_without_trace(context, include), places)
        if "evidence" in include:
            form["evidence"] = [evidence_json(one) for one in context.evidence or ()]
        if "html" in include:
            form["html"] = self._html(context)
        if "code" in include:
            form["code"] = [span_json(span) for span in self._code(context)]
        return _without_parts(form, include)

    def _code(self, context: Context) -> Iterator[Span]:
        """Yield the parts of the passages that are code, by the mark-up of their documents."""
        assert self.documents is not None
        for span in (span for passage in context.passages for span in passage.spans):
            document = self.documents.get(span.doc_id)
            for start, end in () if document is None else code_in(document.text):
                if start < span.end and span.start < end:
                    yield Span(span.doc_id, max(start, span.start), min(end, span.end))

    def _html(self, context: Context, citations: Sequence[Citation] = ()) -> str:
        documents = self.documents
        assert documents is not None
        shown = documents.without_hidden_steps(context)
        return context_fragment(shown, citations, document=documents.get, address=page_address(self.url))

    def answer(self, answer: Answer, include: Names[str] = ()) -> dict[str, Any]:
        """Return an answer as JSON, without its context."""
        marks = places_of_marks(answer.text, answer.citations)
        citations = [self._citation(one, marks.get(one.number, [])) for one in answer.citations]
        form = {**reply_json(_without_trace(answer, include)), "citations": citations}
        if "html" in include:
            form["html"] = self._html(answer.context, answer.citations)
        return _without_parts(form, include)

    def _citation(self, citation: Citation, marks: Sequence[tuple[int, int]]) -> dict[str, Any]:
        span = citation.span
        known = next((place.url for one, place in self.locations.items() if one.doc_id == span.doc_id), None)
        return {
            **citation_json(citation),
            "answer_spans": [{"start": start, "end": end} for start, end in marks],
            "url": known or self._address(span),
        }

    def _address(self, span: Span) -> str | None:
        return self.url(span.doc_id, span.start, span.end)


def page_address(url: PageAddress) -> Callable[[Span], str]:
    """Return a function that maps a span to its link within the page."""
    return lambda span: "#" + (url(span.doc_id, span.start, span.end) or "").partition("#")[2]


def _without_trace(traced: Traced, include: Names[str]) -> Traced:
    return traced if "trace" in include else replace(traced, trace=())


def _without_parts(form: Mapping[str, Any], include: Names[str]) -> dict[str, Any]:
    """Drop the large parts that the client did not ask for."""
    return {name: value for name, value in form.items() if name in include or name not in ("trace", "streams")}


def document_form(doc_id: str, title: str) -> dict[str, Any]:
    return {"key": key_of(doc_id), "id": doc_id, "title": title}


def places_of_marks(text: str, citations: Sequence[Citation]) -> dict[int, list[tuple[int, int]]]:
    """Map each citation number to the positions of its marks in the answer."""
    places: dict[int, list[tuple[int, int]]] = {}
    at = 0
    for piece in marked_texts(text, {citation.number for citation in citations}):
        start = at + piece.text.find("[") if piece.numbers else at
        for number in piece.numbers:
            end = start + len(f"[{number}]")
            places.setdefault(number, []).append((start, end))
            start = end
        at += len(piece.text)
    return places
