"""The mode `extractive`: the one to three places of the context that answer best, verbatim and cited. It needs no model.

It reads what weave knows of the sentences (`Context.evidence`), and embeds nothing. A sentence answers with a probability, the
logistic function of a few features. The best one is quoted first, with what it needs before it and with the sentences beside it.
`confidence` says whether it answers for sure, whether an answer is likely among the quotations, or whether they are only the
nearest places to a question that the documents hardly answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from math import exp, log

from mergewise.generate.confidence import FOUND_FROM, MOST_MARGIN, SURE_FROM, Signals
from mergewise.generate.mode import Request
from mergewise.generate.prompts import NOT_FOUND
from mergewise.generate.quotable_texts import QuotableTexts
from mergewise.text.keys import heading_path
from mergewise.text.light import MARGIN
from mergewise.text.markup import readable
from mergewise.text.terms import content_terms
from mergewise.types import Answer, Citation, Context, Evidence, Span

SENTENCES = 3
NEAR_BEST = 0.2  # a further sentence must answer with this share of the best one's probability
QUOTE = 500  # characters up to which a quotation grows by the sentences beside it
LONGEST_QUOTE = 800  # characters of a sentence with what it needs; a longer one is quoted alone
# Fitted by `benchmarks/answers.py`: they rank the sentences.
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
LIKELY = "Likely in one of these places:"
NEAREST = "Probably not in these documents. Nearest places:"

_NUMBER = re.compile(r"\d[\d.]*")


@dataclass(frozen=True, slots=True)
class Quote:
    """A sentence that may be quoted: its passage's number in the context, and how probably it answers."""

    evidence: Evidence
    number: int
    probability: float


@dataclass(frozen=True, slots=True)
class Quotation:
    """A sentence with what is quoted around it: one citation for each of its spans."""

    best: Quote
    citations: tuple[Citation, ...]


@dataclass(frozen=True, slots=True)
class Quotations:
    """What is quoted of a context, the best first, and how far the first of them may be trusted."""

    quotations: tuple[Quotation, ...]
    signals: Signals


def answer(request: Request) -> Answer:
    """The places that answer the question, the best first; `Answer.found` is False where they hardly do."""
    context = request.context
    texts = QuotableTexts(request.document, context)
    quoted = quotations_of(context, texts)
    if quoted is None:
        return Answer(context.question, NOT_FOUND, (), context, context.usage, found=False, sure=False)
    found = quoted.signals.found() >= FOUND_FROM
    sure = found and quoted.signals.sure() >= SURE_FROM
    hedge = [] if sure else [LIKELY if found else NEAREST]
    text = "\n\n".join([*hedge, *(_said(quotation, context.question, texts) for quotation in quoted.quotations)])
    citations = tuple(citation for quotation in quoted.quotations for citation in quotation.citations)
    return Answer(context.question, text, citations, context, context.usage, found=found, sure=sure)


def quotations_of(context: Context, texts: QuotableTexts) -> Quotations | None:
    """The places to quote; None where the context has no sentence that can be."""
    quotes = quotes_of(context)
    if not quotes:
        return None
    quotations = tuple(
        Quotation(quote, tuple(texts.locator.citation(quote.number, texts.text(span), span) for span in spans))
        for quote, spans in islice(_spans_to_quote(quotes, texts), SENTENCES)
    )
    return Quotations(quotations, signals_of(context, quotes, quotations[0])) if quotations else None


def signals_of(context: Context, quotes: Sequence[Quote], first: Quotation) -> Signals:
    """What tells how far the first quotation may be trusted."""
    best, spans = first.best.evidence, [citation.span for citation in first.citations]
    others = (quote for quote in quotes if not any(quote.evidence.span.overlaps(span) for span in spans))
    second = next(others, None)
    paths = (heading_path(citation.title, citation.headings) for citation in first.citations)
    cosines = [quote.evidence.cosine for quote in quotes if quote.evidence.cosine is not None]
    return Signals.of(
        context.question,
        "\n".join(citation.text for citation in first.citations),
        "\n".join([best.span.doc_id, *paths, *_lead(best, quotes, context)]),
        cosine=best.cosine,
        nearest=None if best.cosine is None else float(best.cosine >= max(cosines)),
        missing=1 - best.document_terms,
        margin=MOST_MARGIN if second is None else _log_odds(first.best.probability) - _log_odds(second.probability),
    )


def _lead(best: Evidence, quotes: Sequence[Quote], context: Context) -> list[str]:
    """The sentence that led to the best one over a hop, as far as the context has it, with its document and headings."""
    lead = next((quote for quote in quotes if quote.evidence.span == best.led_by), None)
    if lead is None:
        return []
    passage = context.passages[lead.number - 1]
    return [lead.evidence.text, lead.evidence.span.doc_id, heading_path(passage.title, passage.headings)]


def _spans_to_quote(quotes: Sequence[Quote], texts: QuotableTexts) -> Iterator[tuple[Quote, list[Span]]]:
    """The sentences to quote, the best first, each with its spans; no text is quoted twice."""
    best = quotes[0].probability
    quoted: list[Span] = []
    for quote in quotes:
        if quote.probability < NEAR_BEST * best or any(quote.evidence.span.overlaps(span) for span in quoted):
            continue
        spans = _needed_spans(quote.evidence, texts)
        spans = _with_neighbours(spans, [other.evidence.span for other in quotes], quoted, texts)
        spans = texts.without_headings(texts.with_whole_code(spans, quoted))
        if spans:
            yield quote, spans
        quoted += spans


def quotes_of(context: Context) -> list[Quote]:
    """The sentences of the context, or that it was written from, the one that answers most probably first."""
    terms = content_terms(context.question)
    quotes = [
        Quote(evidence, number, probability(features(evidence, terms)))
        for evidence in context.evidence or ()
        if (number := _passage_number(evidence.span, context)) is not None
    ]
    return sorted(quotes, key=lambda quote: -quote.probability)


def features(evidence: Evidence, terms: frozenset[str]) -> dict[str, float]:
    """What tells whether a sentence answers a question with these terms; without "cosine" where there are no vectors."""
    said = content_terms(evidence.text)
    known = {
        "relevance": _log_odds(min(max(evidence.relevance, 1e-4), 1 - 1e-4)),
        "terms": evidence.terms,
        "path_terms": evidence.path_terms,
        "new": len(said - terms) / max(1, len(said)),  # a sentence that only repeats the question does not answer it
        "asks": float(readable(evidence.text).rstrip(" \n*_`").endswith(("?", "？"))),
    }
    return known if evidence.cosine is None else {**known, "cosine": evidence.cosine}


def probability(known: Mapping[str, float]) -> float:
    weights = WITH_VECTORS if "cosine" in known else WITHOUT_VECTORS
    return 1 / (1 + exp(-sum(weight * known.get(name, 1.0) for name, weight in weights.items())))  # "bias" counts as 1


def _log_odds(probability: float) -> float:
    return log(probability / (1 - probability))


def _passage_number(span: Span, context: Context) -> int | None:
    """The number of the passage that holds this span, or else of one that was written from it."""
    holding = (
        (not passage.verbatim, number)
        for number, passage in enumerate(context.passages, 1)
        if any(shown.contains(span) for shown in passage.spans)
    )
    return min(holding, default=(False, None))[1]


def _needed_spans(evidence: Evidence, texts: QuotableTexts) -> list[Span]:
    """The sentence with what it needs; what touches is one span."""
    if sum(map(len, evidence.needed)) > LONGEST_QUOTE:
        return [evidence.span]
    return texts.merged(evidence.needed)


def _with_neighbours(
    spans: list[Span], others: Sequence[Span], quoted: Sequence[Span], texts: QuotableTexts
) -> list[Span]:
    """The spans with sentences of the context that stand right beside them, after before before, up to QUOTE characters."""
    beside = (span for span in others if span.doc_id == spans[0].doc_id and texts.without_headings([span]))
    free = [span for span in beside if not any(span.overlaps(taken) for taken in (*spans, *quoted))]
    while True:
        for span in sorted(free, key=lambda span: span.start < spans[-1].start):
            wider = texts.merged([*spans, span])
            if len(wider) == len(spans) and sum(map(len, wider)) <= QUOTE:
                spans = wider
                free.remove(span)
                break
        else:
            return spans


def _said(quotation: Quotation, question: str, texts: QuotableTexts) -> str:
    """The quotation for people, below its heading where this holds what the question asks for."""
    spans = [citation.span for citation in quotation.citations]
    said = texts.laid_out(spans[0])
    for last, span in pairwise(spans):
        part, gap = texts.laid_out(span), " …" if texts.leave_something_out(last, span) else ""
        said += gap + ("\n" if "\n" in said + part or part.startswith(("|", MARGIN)) else " ") + part
    first = quotation.citations[0]
    heading = first.headings[-1] if first.headings and _adds(first.headings[-1], said, question) else ""
    return f"{heading}{': ' if heading else ''}“{said}” [{quotation.best.number}]"


def _adds(heading: str, said: str, question: str) -> bool:
    """Whether a heading holds a number, or terms of the question, that the quotation does not."""
    if any(digits not in said for digits in _NUMBER.findall(heading)):
        return True
    return bool(content_terms(question) & content_terms(heading) - content_terms(said))
