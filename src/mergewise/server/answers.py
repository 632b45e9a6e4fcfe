"""Contexts and answers as the API sends them: the JSON of `jsonable`, with URLs of the page and the positions of marks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Collection as Names
from dataclasses import replace

from mergewise.extend import (
    citation_json,
    code_in,
    context_fragment,
    context_json,
    evidence_json,
    margin_at,
    marked_texts,
    reply_json,
)
from mergewise.server.collections import key_of
from mergewise.server.scoped import Scoped, Traced
from mergewise.types import Answer, Citation, Context, Json, JsonDict, Location, Span, frozen

PageAddress = Callable[[str, int, int], str | None]
"""A function that returns the URL of a document's span, or None."""


_LONGEST_QUOTE, _MOST_QUOTES = 200, 5
_MARK = re.compile(r"(?<!\\)\[\d+\]")


@frozen
class AnswerForms:
    """Contexts and answers as JSON. A URL in a document's metadata takes precedence over the URL on the page."""

    locations: Mapping[Span, Location]
    url: PageAddress = lambda doc_id, start, end: None
    collection: Scoped | None = None

    def context(self, context: Context, include: Names[str] = ()) -> JsonDict:
        """Return a context as JSON."""
        places = {
            span: place if place.url else replace(place, url=self.url(span.doc_id, span.start, span.end))
            for span, place in self.locations.items()
        }
        form = context_json(self._shown(context, include), places)
        if "evidence" in include:
            form["evidence"] = [evidence_json(one) for one in context.evidence or ()]
        if "html" in include:
            form["html"] = self._html(context)
        if "kinds" in include:
            form["kinds"] = self._kinds(context)
            self._add_margins(span for passage in form["passages"] for span in passage["spans"])
        return _without_parts(form, include)

    def _text(self, doc_id: str) -> str:
        assert self.collection is not None
        document = self.collection.find_document(doc_id)
        return document.text if document else ""

    def _add_margins(self, spans: Iterable[JsonDict]) -> None:
        """Add the white space before each span on its line, without which the first line of code loses its indentation."""
        for span in spans:
            span["margin"] = margin_at(self._text(span["doc"]), span["start"])

    def _kinds(self, context: Context) -> list[JsonDict]:
        """Return the parts of the passages that are code, by the mark-up of their documents, and other evidence by its kind."""
        spans = [span for passage in context.passages for span in passage.spans]
        known = [(one.span, one.kind) for one in context.evidence or () if one.kind not in (None, "prose", "code")]
        for doc_id in {span.doc_id for span in spans}:
            known += [(Span(doc_id, *part), "code") for part in code_in(self._text(doc_id))]
        return [
            {"doc": span.doc_id, "start": max(one.start, span.start), "end": min(one.end, span.end), "kind": kind}
            for span in spans
            for one, kind in known
            if one.overlaps(span)
        ]

    def _html(self, context: Context, citations: Sequence[Citation] = ()) -> str:
        assert self.collection is not None
        return context_fragment(
            self._shown(context), citations, document=self.collection.find_document, address=page_address(self.url)
        )

    def _shown(self, traced: Traced, include: Names[str] = ("trace",)) -> Traced:
        """Return a context or an answer with the steps of its trace that the client asked for and may see."""
        if "trace" not in include:
            return replace(traced, trace=())
        return traced if self.collection is None else self.collection.without_hidden_steps(traced)

    def answer(self, answer: Answer, include: Names[str] = ()) -> JsonDict:
        """Return an answer as JSON, without its context."""
        places: dict[int, list[JsonDict]] = {}
        at = 0
        for piece in marked_texts(answer.text, {citation.number for citation in answer.citations}):
            start = at + piece.text.find("[") if piece.numbers else at
            for number in piece.numbers:
                end = start + len(f"[{number}]")
                places.setdefault(number, []).append({"start": start, "end": end})
                start = end
            at += len(piece.text)
        citations = []
        for one in answer.citations:
            known = (place.url for span, place in self.locations.items() if span.doc_id == one.span.doc_id)
            url = next(known, None) or self.url(one.span.doc_id, one.span.start, one.span.end)
            citations.append({**citation_json(one), "answer_spans": places.get(one.number, []), "url": url})
        form = {**reply_json(self._shown(answer, include)), "citations": citations}
        if "kinds" in include:
            self._add_margins(one["span"] for one in citations)
        form["unverified_spans"] = unverified_spans(answer.text, answer.unverified)
        if "html" in include:
            form["html"] = self._html(answer.context, answer.citations)
        return _without_parts(form, include)


def page_address(url: PageAddress) -> Callable[[Span], str]:
    """Return a function that maps a span to its link within the page."""
    return lambda span: "#" + (url(span.doc_id, span.start, span.end) or "").partition("#")[2]


def _without_parts(form: Json, include: Names[str]) -> JsonDict:
    """Drop the large parts that the client did not ask for."""
    return {name: value for name, value in form.items() if name in include or name not in ("trace", "streams")}


def document_form(doc_id: str, title: str) -> JsonDict:
    return {"key": key_of(doc_id), "id": doc_id, "title": title}


def unverified_spans(text: str, sentences: Sequence[str]) -> list[JsonDict]:
    """Return start and end of each occurrence of sentences in the text of an answer. Only the text has marks."""
    hidden = {at for mark in _MARK.finditer(text) for at in range(*mark.span())}
    letters = [at for at in range(len(text)) if at not in hidden and not text[at].isspace()]
    plain = "".join(text[at] for at in letters)
    # without white space, which differs around marks
    wanted = dict.fromkeys("".join(_MARK.sub("", sentence).split()) for sentence in sentences)
    found = [one.span() for words in wanted if words for one in re.finditer(re.escape(words), plain)]
    return [{"start": letters[first], "end": letters[last - 1] + 1} for first, last in sorted(found)]


def supported_citations(answer: Json) -> list[Json]:
    """Return the citations of an answer as JSON, without the marks of unsupported sentences.

    A citation with no other marks is left out. A mark belongs to the sentence that contains or precedes it.
    """
    text, citations, wrong = answer["answer"], answer["citations"], answer.get("unverified_spans", ())

    def is_refuted(mark: Json) -> bool:
        at = mark["start"]
        # from the sentence to a mark behind it, or from the beginning to the sentence
        between = (text[one["end"] : at] if one["start"] <= at else text[: one["start"]] for one in wrong)
        return any(not _MARK.sub("", part).strip() for part in between)

    kept = [
        {**one, "answer_spans": [mark for mark in one["answer_spans"] if not is_refuted(mark)]} for one in citations
    ]
    return [one for one, whole in zip(kept, citations, strict=True) if one["answer_spans"] or not whole["answer_spans"]]


def unsupported_remark(answer: Json) -> str:
    """Quote the unsupported sentences of an answer on one line. Return an empty string without any."""
    sentences = [" ".join(sentence.split()) for sentence in answer.get("unverified", ())]
    quotes = [f"“{one if len(one) <= _LONGEST_QUOTE else one[: _LONGEST_QUOTE - 1] + '…'}”" for one in sentences]
    more = [f"and {len(quotes) - _MOST_QUOTES} more"] if len(quotes) > _MOST_QUOTES else []
    return " ".join(["Not supported by the sources:", *quotes[:_MOST_QUOTES], *more]) if quotes else ""
