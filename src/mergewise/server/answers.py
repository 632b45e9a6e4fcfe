"""Contexts and answers as the API sends them: passages and citations by mark, documents by key, offsets in code points."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Collection as Names
from typing import Any

from mergewise.generate.marks import marked_texts
from mergewise.jsonable import citation_json, passage_json, step_json
from mergewise.server.collections import key_of
from mergewise.types import Answer, Citation, Context, Evidence, Location, Passage, Span


class Describer:
    """Says where the spans of one collection's documents stand.

    `url` gives the address at which people see a span of a document, if there is one.
    """

    def __init__(self, url: Callable[[str, int, int], str | None], locations: Mapping[Span, Location]) -> None:
        self._url_of, self._locations = url, locations

    def context(self, context: Context, include: Names[str]) -> dict[str, Any]:
        told: dict[str, Any] = {
            "text": context.text,
            "tokens": context.tokens,
            "budget": context.budget,
            "strategy": context.strategy,
            "snapshot": context.snapshot,
            "usage": usage_form(context),
            "passages": [self._passage(mark, passage) for mark, passage in enumerate(context.passages, 1)],
        }
        if "trace" in include:
            told["trace"] = [step_json(step) for step in context.trace]
        if "evidence" in include:
            told["evidence"] = [self._evidence(one) for one in context.evidence or ()]
        return told

    def _passage(self, mark: int, passage: Passage) -> dict[str, Any]:
        told = passage_json(mark, passage, self._locations)
        doc_id, title, first = told.pop("doc"), told.pop("title"), next(iter(passage.spans), None)
        return {
            **told,
            "document": None if doc_id is None else document_form(doc_id, title),
            "spans": [span_form(span) for span in passage.spans],
            "url": told["url"] or (None if first is None else self._url(first)),
        }

    def _evidence(self, evidence: Evidence) -> dict[str, Any]:
        return {
            "span": span_form(evidence.span),
            "text": evidence.text,
            "needed": [span_form(span) for span in evidence.needed],
            "relevance": evidence.relevance,
        }

    def _url(self, span: Span) -> str | None:
        return self._url_of(span.doc_id, span.start, span.end)

    def answer(self, answer: Answer, include: Names[str]) -> dict[str, Any]:
        """The answer without its context."""
        places = places_of_marks(answer.text, answer.citations)
        told: dict[str, Any] = {
            "question": answer.question,
            "searched_for": answer.context.question,
            "answer": answer.text,
            "found": answer.found,
            "sure": answer.sure,
            "complete": answer.complete,
            "mode": answer.mode,
            "citations": [self._citation(one, places.get(one.number, [])) for one in answer.citations],
            "unverified": list(answer.unverified),
            "unsupported": answer.unsupported,
            "removed_marks": answer.removed_marks,
            "usage": usage_form(answer),
            "snapshot": answer.context.snapshot,
        }
        if "streams" in include and answer.streams is not None:
            told["streams"] = answer.streams.as_dict()
        if "trace" in include:
            told["trace"] = [step_json(step) for step in answer.trace]
        return told

    def _citation(self, citation: Citation, places: Sequence[tuple[int, int]]) -> dict[str, Any]:
        span, told = citation.span, citation_json(citation)
        known = next((place.url for one, place in self._locations.items() if one.doc_id == span.doc_id), None)
        return {
            **{name: value for name, value in told.items() if name != "title"},
            "answer_spans": [{"start": start, "end": end} for start, end in places],
            "document": document_form(span.doc_id, citation.title),
            "span": span_form(span),
            "url": known or self._url(span),
        }


def document_form(doc_id: str, title: str) -> dict[str, Any]:
    return {"key": key_of(doc_id), "id": doc_id, "title": title}


def span_form(span: Span) -> dict[str, Any]:
    return {"key": key_of(span.doc_id), "start": span.start, "end": span.end}


def usage_form(spent: Context | Answer) -> dict[str, int]:
    usage = spent.usage
    return {"calls": usage.calls, "input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}


def places_of_marks(text: str, citations: Sequence[Citation]) -> dict[int, list[tuple[int, int]]]:
    """Where the mark of each citation stands in the answer, as often as it does."""
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
