"""The mode `extractive`: the one to three sentences of the context that answer best, verbatim and cited. It needs no model.

It reads what weave knows of the sentences (`Context.evidence`), and embeds nothing. A sentence answers with a probability,
the logistic function of a few features. The best one is quoted first, with what it needs before it; where even the best one
hardly answers, nothing was found.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import exp, log

from mergewise.generate.citations import Locator
from mergewise.generate.mode import Request
from mergewise.generate.prompts import NOT_FOUND
from mergewise.generate.sources import DocumentLookup
from mergewise.text.markup import readable
from mergewise.text.question import Wanted, offers, wanted_by
from mergewise.text.spans import union
from mergewise.text.terms import content_terms
from mergewise.types import Answer, Citation, Context, Evidence, Span

SENTENCES = 3
NEAR_BEST = 0.6  # a further sentence must answer with this share of the best one's probability
LONGEST_QUOTE = 800  # characters of a sentence with what it needs; a longer one is quoted alone
# Fitted by `benchmarks/answers.py`; docs/evaluation.md has the errors on both sides of LEAST.
WITH_VECTORS: Mapping[str, float] = {"bias": -3.0, "relevance": 0.6, "cosine": 3.0, "terms": 1.0, "path_terms": 1.0}
WITHOUT_VECTORS: Mapping[str, float] = {"bias": -3.0, "relevance": 0.6, "terms": 2.0, "path_terms": 1.0}
LEAST = 0.2  # the best sentence's probability below which nothing was found

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
    if not quotes or quotes[0].probability < LEAST:
        return Answer(context.question, NOT_FOUND, (), context, context.usage, found=False)
    locator = Locator(request.document)
    lines: list[str] = []
    citations: list[Citation] = []
    for quote in quotes:
        if len(lines) == SENTENCES or quote.probability < NEAR_BEST * quotes[0].probability:
            break
        if any(quote.evidence.span.overlaps(citation.span) for citation in citations):
            continue
        cited = [locator.citation(quote.number, text, span) for span, text in _parts(quote.evidence, request.document)]
        lines.append(f"“{' … '.join(_shown(citation.text) for citation in cited)}” [{quote.number}]")
        citations += cited
    return Answer(context.question, "\n".join(lines), tuple(citations), context, context.usage)


def quotes_of(context: Context) -> list[Quote]:
    """The sentences of the context's verbatim passages, the one that answers most probably first."""
    wanted = wanted_by(context.question)
    terms = content_terms(context.question)
    quotes = [
        Quote(evidence, number, probability(features(evidence, terms, wanted)))
        for evidence in context.evidence or ()
        if (number := _passage(evidence.span, context)) is not None
    ]
    return sorted(quotes, key=lambda quote: -quote.probability)


def features(evidence: Evidence, terms: frozenset[str], wanted: Wanted | None) -> dict[str, float]:
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


def _passage(span: Span, context: Context) -> int | None:
    """The number of the verbatim passage that holds this span."""
    for number, passage in enumerate(context.passages, 1):
        if passage.verbatim and any(shown.contains(span) for shown in passage.spans):
            return number
    return None


def _parts(evidence: Evidence, document: DocumentLookup) -> Iterator[tuple[Span, str]]:
    """The sentence with what it needs, as spans with their texts; what touches is one."""
    source = document(evidence.span.doc_id)
    if source is None or sum(map(len, evidence.needed)) > LONGEST_QUOTE:
        yield evidence.span, evidence.text
        return
    for start, end in union(((span.start, span.end) for span in evidence.needed), source.text):
        yield Span(source.id, start, end), source.text[start:end]


def _shown(text: str) -> str:
    """A quotation without mark-up: on one line, but for lists, tables and code, which keep their lines."""
    if _KEPT_LINES.search(text):
        return "\n".join(line.rstrip() for line in readable(text).split("\n") if line.strip())
    return " ".join(readable(text).split())
