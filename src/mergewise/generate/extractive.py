"""The mode `extractive`: the one to three sentences of the context that answer best, verbatim and cited. It needs no model.

It reads what weave knows of the sentences (`Context.evidence`), and embeds nothing. A sentence answers with a probability,
the logistic function of a few features. The best one is quoted first, with what it needs before it; where even the best one
hardly answers, nothing was found. Between the two, the quotations are offered as the places that come closest.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from math import exp, log

from mergewise.generate.citations import Locator
from mergewise.generate.mode import Request
from mergewise.generate.prompts import NOT_FOUND
from mergewise.generate.sources import DocumentLookup
from mergewise.text.markup import readable
from mergewise.text.question import AnswerType, answer_type, offers
from mergewise.text.spans import union
from mergewise.text.terms import content_terms
from mergewise.types import Answer, Citation, Context, Evidence, Span

SENTENCES = 3
NEAR_BEST = 0.2  # a further sentence must answer with this share of the best one's probability
QUOTE = 500  # characters up to which a quotation grows by the sentences beside it, where no sentence answers for sure
LONGEST_QUOTE = 800  # characters of a sentence with what it needs; a longer one is quoted alone
# Fitted by `benchmarks/answers.py`; docs/evaluation.md has the errors on both sides of LEAST and SURE.
WITH_VECTORS: Mapping[str, float] = {
    "bias": -1.24,
    "relevance": 0.76,
    "cosine": 1.55,
    "terms": 1.70,
    "path_terms": -0.49,
    "new": -0.46,
    "asks": -0.55,
}
WITHOUT_VECTORS: Mapping[str, float] = {"bias": -2.97, "relevance": 0.63, "terms": 2.47, "path_terms": 0.33}
LEAST, SURE = 0.06, 0.3
"""The best sentence's probability below which nothing was found, and below which the places are only said to come closest."""
LEAST_WITHOUT_VECTORS, SURE_WITHOUT_VECTORS = 0.02, 0.25
CLOSEST = "No sentence answers this outright. These come closest:"

_GAPS = re.compile(r"(?<=\S)[ ]{2,}")  # what blanked mark-up leaves inside a line
_KEPT_LINES = re.compile(r"^\s*(?:[-*+•]|\d+[.)]|\||`{3}|~{3}| {4}\S)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Quote:
    """A sentence that may be quoted: its passage's number in the context, and how probably it answers."""

    evidence: Evidence
    number: int
    probability: float


def answer(request: Request) -> Answer:
    """The sentences that answer the question, best first; `Answer.found` is False where none does."""
    context = request.context
    quotes = quotes_of(context)
    least, sure_from = _thresholds(context)
    if not quotes or quotes[0].probability < least:
        return Answer(context.question, NOT_FOUND, (), context, context.usage, found=False, sure=False)
    sure = quotes[0].probability >= sure_from
    document = cache(request.document)
    locator = Locator(document)
    lines = [] if sure else [CLOSEST]
    citations: list[Citation] = []
    for number, spans in islice(_quotations(quotes, sure_from, document), SENTENCES):
        cited = [locator.citation(number, _text(span, document), span) for span in spans]
        lines.append(f"“{' … '.join(_plain(citation.text) for citation in cited)}” [{number}]")
        citations += cited
    return Answer(context.question, "\n".join(lines), tuple(citations), context, context.usage, sure=sure)


def _quotations(
    quotes: Sequence[Quote], sure_from: float, document: DocumentLookup
) -> Iterator[tuple[int, list[Span]]]:
    """A passage's number and the spans to quote of it, the best first; no text is quoted twice."""
    best = quotes[0].probability
    quoted: list[Span] = []
    for quote in quotes:
        if quote.probability < NEAR_BEST * best or any(quote.evidence.span.overlaps(span) for span in quoted):
            continue
        spans = _needed_spans(quote.evidence, document)
        if quote.probability < sure_from:
            spans = _with_neighbours(spans, [other.evidence.span for other in quotes], quoted, document)
        yield quote.number, spans
        quoted += spans


def quotes_of(context: Context) -> list[Quote]:
    """The sentences of the context, or that it was written from, the one that answers most probably first."""
    wanted = answer_type(context.question)
    terms = content_terms(context.question)
    quotes = [
        Quote(evidence, number, probability(features(evidence, terms, wanted)))
        for evidence in context.evidence or ()
        if (number := _passage_number(evidence.span, context)) is not None
    ]
    return sorted(quotes, key=lambda quote: -quote.probability)


def features(evidence: Evidence, terms: frozenset[str], wanted: AnswerType | None) -> dict[str, float]:
    """What tells whether a sentence answers a question with these terms; without "cosine" where there are no vectors."""
    said = content_terms(evidence.text)
    relevance = min(max(evidence.relevance, 1e-4), 1 - 1e-4)
    known = {
        "relevance": log(relevance / (1 - relevance)),
        "terms": evidence.terms,
        "path_terms": evidence.path_terms,
        "new": len(said - terms) / max(1, len(said)),  # a sentence that only repeats the question does not answer it
        "offers": float(offers(evidence.text, wanted)),
        "asks": float(readable(evidence.text).rstrip(" \n*_`").endswith(("?", "？"))),
    }
    return known if evidence.cosine is None else {**known, "cosine": evidence.cosine}


def probability(known: Mapping[str, float]) -> float:
    weights = WITH_VECTORS if "cosine" in known else WITHOUT_VECTORS
    return 1 / (1 + exp(-sum(weight * known.get(name, 1.0) for name, weight in weights.items())))  # "bias" counts as 1


def _thresholds(context: Context) -> tuple[float, float]:
    if any(evidence.cosine is None for evidence in context.evidence or ()):
        return LEAST_WITHOUT_VECTORS, SURE_WITHOUT_VECTORS
    return LEAST, SURE


def _passage_number(span: Span, context: Context) -> int | None:
    """The number of the passage that holds this span, or else of one that was written from it."""
    holding = (
        (not passage.verbatim, number)
        for number, passage in enumerate(context.passages, 1)
        if any(shown.contains(span) for shown in passage.spans)
    )
    return min(holding, default=(False, None))[1]


def _needed_spans(evidence: Evidence, document: DocumentLookup) -> list[Span]:
    """The sentence with what it needs; what touches is one span."""
    if sum(map(len, evidence.needed)) > LONGEST_QUOTE:
        return [evidence.span]
    return _merged_spans(evidence.needed, document)


def _with_neighbours(
    spans: list[Span], others: Sequence[Span], quoted: Sequence[Span], document: DocumentLookup
) -> list[Span]:
    """The spans with sentences of the context that stand right beside them, after before before, up to QUOTE characters."""
    free = [span for span in others if not any(span.overlaps(taken) for taken in (*spans, *quoted))]
    while True:
        for span in sorted(free, key=lambda span: span.start < spans[-1].start):
            wider = _merged_spans([*spans, span], document)
            if len(wider) == len(spans) and sum(map(len, wider)) <= QUOTE:
                spans = wider
                free.remove(span)
                break
        else:
            return spans


def _merged_spans(spans: Sequence[Span], document: DocumentLookup) -> list[Span]:
    """Spans of one document in its order, those made one between which only white space stands."""
    doc_id = spans[0].doc_id
    source = document(doc_id)
    text = None if source is None else source.text
    return [
        Span(doc_id, start, end) for start, end in union(((s.start, s.end) for s in spans if s.doc_id == doc_id), text)
    ]


def _text(span: Span, document: DocumentLookup) -> str:
    source = document(span.doc_id)
    return "" if source is None else source.text[span.start : span.end]


def _plain(text: str) -> str:
    """A quotation without mark-up: on one line, but for lists, tables and code, which keep their lines."""
    if _KEPT_LINES.search(text):
        return "\n".join(_GAPS.sub(" ", line.rstrip()) for line in readable(text).split("\n") if line.strip())
    return " ".join(readable(text).split())
