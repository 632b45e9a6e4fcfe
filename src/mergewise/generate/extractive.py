"""The mode `extractive`: quotes one to three places of the context that answer best, with citations. It needs no model.

It ranks the sentences of `Context.evidence` by the probability that they answer, a logistic function of a few features, and
embeds nothing. The best sentence is quoted first, with the sentences that it needs and its neighbours. `confidence` decides
how the answer is introduced: the first quotation is sure, one of the quotations is likely, or they are only the nearest places.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from mergewise.generate.confidence import FOUND_EXACTLY_FROM, FOUND_FROM, SURE_FROM, Signals, logistic, share
from mergewise.generate.marks import escape_marks
from mergewise.generate.mode import Request
from mergewise.generate.prompts import REFUSAL
from mergewise.generate.quotable_texts import QuotableTexts
from mergewise.models.record import Models
from mergewise.models.scores import log_odds
from mergewise.text.languages import likely_language
from mergewise.text.light import MARGIN
from mergewise.text.markup import readable, says_something
from mergewise.text.question import AskedName, asked_names
from mergewise.text.sections import heading_path
from mergewise.text.sentences import split_sentences
from mergewise.text.support.premises import contradicted_state, contradicts
from mergewise.text.terms import content_terms
from mergewise.types import Answer, Citation, Context, Evidence, Span, frozen

SENTENCES = 3
COVERED = 6.0
"""Weight of the question's terms in a quotation and its headings, for the order of quotations if the answer is not sure. With it,
the first quotation answers 75 instead of 71 of the 130 questions that it was chosen on, and 87 instead of 85 of 130 others."""
NEAR_BEST = 0.2
"""Minimum probability of another quotation, as a share of the best one's."""
QUOTE = 500
"""Characters up to which neighbouring sentences extend a quotation."""
LONGEST_QUOTE = 800
"""Maximum characters of a sentence together with the sentences that it needs; a longer one is quoted alone."""
OPENING = 2000
"""Characters at the beginning of a document that may name its own state, and of a context that tell its language."""
# weights that rank the sentences, fitted by `benchmarks/answers.py`
WITH_VECTORS = {
    "bias": -1.24,
    "relevance": 0.76,
    "cosine": 1.55,
    "terms": 1.70,
    "path_terms": -0.49,
    "new": -0.46,
    "asks": -0.55,
}
WITHOUT_VECTORS = {"bias": -2.97, "relevance": 0.63, "terms": 2.47, "path_terms": 0.33}
LIKELY = "Likely in one of these places:"
OTHERWISE = "The documents say otherwise:"
PLACES = "Nearest places:"
NEAREST = f"Probably not in these documents. {PLACES}"

_NUMBER = re.compile(r"\d[\d.]*")
# a heading that is an identifier, perhaps qualified and with parameters, and a word that looks like one
_ENTRY = re.compile(r"`*(?:\w+ )?(?:[\w.]+[.#])?(-{0,2}\w[\w-]*)(?:\(.*)?`*", re.DOTALL)
_LOOKS_CODED = re.compile(r"_|[^\W\d_A-Z][A-Z]|^--")


class Quote(NamedTuple):
    """A candidate sentence, the number of its passage in the context, and the probability that it answers."""

    evidence: Evidence
    number: int
    probability: float


@frozen
class Quotation:
    """A sentence quoted with its surroundings: one citation for each span."""

    best: Quote
    citations: tuple[Citation, ...]


class Quotations(NamedTuple):
    """The quotations of a context, best first, and the signals of confidence in the first one."""

    quotations: tuple[Quotation, ...]
    signals: Signals


def answer(request: Request, models: Models) -> Answer:
    """Answer with quotations, best first. `Answer.found` is False if they probably do not answer the question."""
    context = request.context
    texts = QuotableTexts(request.document, context)
    quoted = quotations_of(context, texts)
    unknown = [name.text for name in request.absent if name.is_distinct]
    verb = "do not occur" if unknown[1:] else "does not occur"
    nearest = list(dict.fromkeys(near for name in request.absent for near in name.nearest))
    others = f"; {' and '.join(nearest)} {'do' if nearest[1:] else 'does'}" if nearest else ""
    missing = f"{', '.join(map(repr, unknown))} {verb} in these documents{others}." if unknown else ""
    otherwise = None
    if quoted is not None and not any(name.kind == "code" for name in request.absent):
        otherwise = next(filter(None, (_contradiction(one, context, texts) for one in quoted.quotations)), None)
    # near an absent number, the documents say something about others
    if quoted is None or (nearest and otherwise is None):
        refusal = missing or models.prompts.fill(REFUSAL)
        return Answer(context.question, refusal, (), context, context.usage, found=False, sure=False)
    found = not unknown and quoted.signals.found() >= (FOUND_EXACTLY_FROM if quoted.signals.exactly else FOUND_FROM)
    sure = found and not request.absent and quoted.signals.sure() >= SURE_FROM
    quotations, terms = quoted.quotations, content_terms(context.question)

    def unlikely(quotation: Quotation) -> float:
        """Rank by the log-odds of the best sentence, and by the terms of the question that the whole quotation has."""
        paths = (f"{one.text}\n{heading_path(one.title, one.headings)}" for one in quotation.citations)
        return -log_odds(quotation.best.probability) - COVERED * share(content_terms("\n".join(paths)), terms)

    quotations = quotations if sure else tuple(sorted(quotations, key=unlikely))
    hedge = [] if sure else [f"{missing} {PLACES}" if unknown else LIKELY if found else NEAREST]
    if otherwise is not None:
        found, sure, hedge, quotations = True, False, [OTHERWISE], (otherwise,)
    text, citations = "".join(f"{one}\n\n" for one in hedge), list[Citation]()
    for quotation in quotations:
        head, parts = _quotation_text(quotation, context.question, texts)
        text += f"{head}“"
        for citation, (lead, part) in zip(quotation.citations, parts, strict=True):
            start = len(text) + len(lead)
            text += lead + part
            citations.append(replace(citation, quoted=(start, len(text))))
        text += f"” [{quotation.best.number}]\n\n"
    return Answer(context.question, text.strip(), tuple(citations), context, context.usage, found=found, sure=sure)


def _contradiction(quotation: Quotation, context: Context, texts: QuotableTexts) -> Quotation | None:
    """Return the quotation if a sentence contradicts what the question takes for granted, or the state of its document."""
    known = "\n".join(passage.text for passage in context.passages)
    for citation in quotation.citations:
        doc_id = citation.span.doc_id
        path = f"{doc_id}\n{heading_path(citation.title, citation.headings)}"
        for start, end in split_sentences(citation.text):
            if contradicts(readable(citation.text[start:end]), path, context.question, known):
                return quotation
        opening = texts.text(Span(doc_id, 0, OPENING))
        if state := contradicted_state(context.question, opening, f"{doc_id}\n{citation.title}"):
            span = Span(doc_id, *state)
            return replace(quotation, citations=(texts.locator.citation(citation.number, texts.text(span), span),))
    return None


def quotations_of(context: Context, texts: QuotableTexts) -> Quotations | None:
    """Select the places to quote, without quoting any text twice. Return None if the context has no quotable sentence."""
    quotes = quotes_of(context, texts)
    if not quotes:
        return None
    least = NEAR_BEST * quotes[0].probability
    quotations: list[Quotation] = []
    quoted: list[Span] = []
    for quote in quotes:
        evidence = quote.evidence
        if quote.probability < least or any(evidence.span.overlaps(span) for span in quoted):
            continue
        if len(quotations) == SENTENCES:
            break
        whole = sum(map(len, evidence.needed)) <= LONGEST_QUOTE
        spans = texts.merged(evidence.needed) if whole else [evidence.span]
        # outside of code, a record is whole without the ones beside it
        if evidence.kind not in ("line", "row") or texts.with_whole_code(spans, quoted) != spans:
            spans = texts.with_announced(spans, quoted)
            spans = _with_neighbours(spans, [other.evidence.span for other in quotes], quoted, texts)
            spans = texts.with_announced(texts.with_whole_code(spans, quoted), quoted)
        spans = texts.without_headings(spans)
        if spans:
            # a heading with an exact name of the question says more about it: its date, or its title, and a signature the default
            heading = texts.heading_of(evidence.span, context.question)
            spans = [heading, *spans] if heading and not any(heading.overlaps(span) for span in quoted) else spans
            citations = (texts.locator.citation(quote.number, texts.text(span), span) for span in spans)
            quotations.append(Quotation(quote, tuple(citations)))
        quoted += spans
    return Quotations(tuple(quotations), signals_of(context, quotes, quotations[0])) if quotations else None


def signals_of(context: Context, quotes: Sequence[Quote], first: Quotation) -> Signals:
    """Compute the signals of confidence in the first quotation."""
    best, spans = first.best.evidence, [citation.span for citation in first.citations]
    second = next((quote for quote in quotes if not any(quote.evidence.span.overlaps(span) for span in spans)), None)
    paths = (heading_path(citation.title, citation.headings) for citation in first.citations)
    around = [best.span.doc_id, *paths]
    # The sentence that led to the best one over a hop, with its document and headings, if the context has it.
    lead = next((quote for quote in quotes if quote.evidence.span == best.led_by), None)
    if lead is not None:
        passage = context.passages[lead.number - 1]
        around += [lead.evidence.text, lead.evidence.span.doc_id, heading_path(passage.title, passage.headings)]
    return Signals.of(
        context.question,
        "\n".join(citation.text for citation in first.citations),
        "\n".join(around),
        best,
        nearest=float(best.cosine == max(quote.evidence.cosine or -1 for quote in quotes)),
        margin=log_odds(first.best.probability) - log_odds(second.probability if second else 0),
        language=likely_language(f"{context.question}\n{context.text[:OPENING]}"),
        passages="\n".join(passage.text for passage in context.passages if passage.spans[0].doc_id == best.span.doc_id),
    )


def quotes_of(context: Context, texts: QuotableTexts) -> list[Quote]:
    """Rank the sentences of the context, and of the sources of written passages, by the probability that they answer.

    Sentences whose own heading is an identifier of the question come first: the entry `retries`, not `retries_max`.
    """
    terms = content_terms(context.question)
    quotes: list[Quote] = []
    for evidence in context.evidence or ():
        # The passage that contains the sentence, else one that was written from it.
        holding = [
            (not passage.verbatim, number)
            for number, passage in enumerate(context.passages, 1)
            if any(shown.contains(evidence.span) for shown in passage.spans)
        ]
        if holding:
            quotes.append(Quote(evidence, min(holding)[1], probability(features(evidence, terms))))
    rows = [quote.evidence for quote in quotes if quote.evidence.kind == "row"]
    # the header of a table is quoted with the rows that need it, which are below it
    headers = {span for row in rows for span in row.needed if span.start < row.span.start}
    quotes = [quote for quote in quotes if quote.evidence.span not in headers]
    quotes.sort(key=lambda quote: (-quote.evidence.exact, -quote.probability))
    names = {name.parts for name in asked_names(context.question) if name.kind == "code"}
    first: list[Quote] = []
    for quote in quotes if names else ():
        if quote.probability >= NEAR_BEST * quotes[0].probability:
            # The identifier that heads a sentence, such as `retries` or `Client.retries(count)`.
            headings = texts.locator.citation(quote.number, "", quote.evidence.span).headings
            entry = _ENTRY.fullmatch(headings[-1]) if headings else None
            if entry and AskedName(entry[1], "code").parts in names:
                first.append(quote)
    return [*first, *(quote for quote in quotes if quote not in first)]


def features(evidence: Evidence, terms: frozenset[str]) -> dict[str, float]:
    """Compute the features of a sentence for a question with these terms. Without vectors, "cosine" is missing."""
    said = content_terms(evidence.text)
    known = {
        "relevance": log_odds(evidence.relevance),
        "terms": evidence.terms,
        "path_terms": evidence.path_terms,
        # a sentence that only repeats the question does not answer it
        "new": len(said - terms) / max(1, len(said)),
        "asks": float(readable(evidence.text).rstrip(" \n*_`").endswith(("?", "？"))),
    }
    return known if evidence.cosine is None else {**known, "cosine": evidence.cosine}


def probability(known: Mapping[str, float]) -> float:
    return logistic(known, WITH_VECTORS if "cosine" in known else WITHOUT_VECTORS)


def _with_neighbours(
    spans: list[Span], others: Sequence[Span], quoted: Sequence[Span], texts: QuotableTexts
) -> list[Span]:
    """Extend the spans by adjacent sentences of the context, following ones first, up to QUOTE characters.

    Code is the end of a quotation.
    """
    same_document = (span for span in others if span.doc_id == spans[0].doc_id and texts.without_headings([span]))
    free = [span for span in same_document if not any(span.overlaps(taken) for taken in (*spans, *quoted))]
    while True:
        for span in sorted(free, key=lambda span: span.start < spans[-1].start):
            wider = texts.merged([*spans, span])
            above = span if span.start < spans[-1].start else spans[-1]
            if not texts.ends_in_code(above) and len(wider) == len(spans) and sum(map(len, wider)) <= QUOTE:
                spans = wider
                free.remove(span)
                break
        else:
            return spans


def _quotation_text(quotation: Quotation, question: str, texts: QuotableTexts) -> tuple[str, list[tuple[str, str]]]:
    """Return what stands before the quotation, and its parts for people, each with the text that joins it to the last one.

    The heading stands before it if the heading adds something that the question asks for.
    """
    spans = [citation.span for citation in quotation.citations]
    quoted = texts.laid_out(spans[0])
    parts = [("", quoted)]
    for last, span in pairwise(spans):
        # Words, and not only mark-up, may be left out between the two.
        between = texts.text(Span(span.doc_id, last.end, span.start))
        part, gap = texts.laid_out(span), " …" if says_something(readable(between)) else ""
        if quoted.endswith("…"):
            # code that was cut says that already
            part, gap = part.removeprefix("…\n"), ""
        parts.append((gap + ("\n" if "\n" in quoted + part or part.startswith(("|", MARGIN)) else " "), part))
        quoted += "".join(parts[-1])
    for heading in quotation.citations[0].headings[-1:]:
        # It must have a number, an identifier, or terms of the question, that the quotation lacks.
        entry = _ENTRY.fullmatch(heading)
        if (
            any(digits not in quoted for digits in _NUMBER.findall(heading))
            or (entry and _LOOKS_CODED.search(entry[1]) and entry[1] not in quoted)
            or content_terms(question) & content_terms(heading) - content_terms(quoted)
        ):
            return f"{escape_marks(heading)}: ", parts
    return "", parts
