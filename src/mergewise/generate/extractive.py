"""The mode `extractive`: the one to three sentences of the context that answer best, verbatim and cited. It needs no model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice, takewhile

import numpy as np

from mergewise.generate.citations import Locator
from mergewise.generate.mode import Request
from mergewise.generate.prompts import NOT_FOUND
from mergewise.protocols import Embedder, FloatArray
from mergewise.text.keys import heading_path
from mergewise.text.sentences import split_sentences
from mergewise.text.terms import content_terms
from mergewise.types import Answer, Context, Passage, Span

SENTENCES = 3
NEAR_BEST = 0.85  # a further sentence must score this share of the best one's
LONGEST_QUOTE = 600  # characters
# From which score a sentence answers, measured with questions to the right and to a wrong corpus (docs/evaluation.md).
MIN_SCORE = 0.5  # of coverage and cosine together
SURE_COSINE = 0.6  # alone, for a question in quite other words
MIN_COVERAGE = 0.5  # without an embedder


@dataclass(frozen=True, slots=True)
class _Sentence:
    number: int  # of its passage in the context
    passage: Passage
    span: Span
    text: str


def answer(request: Request) -> Answer:
    """The sentences that answer the question, in the order of the context; `Answer.found` is False where none does."""
    context = request.context
    sentences = _sentences(context)
    nothing = Answer(context.question, NOT_FOUND, (), context, context.usage, found=False)
    if not sentences:
        return nothing
    coverage = _coverage(context.question, sentences)
    cosine = _cosines(context.question, sentences, request.embedder)
    scores = coverage if cosine is None else (coverage + cosine) / 2
    locator = Locator(request.document)
    ranked = (int(i) for i in np.argsort(-scores, kind="stable"))
    ranked = (i for i in ranked if not locator.is_heading(sentences[i].span))
    best = next(ranked, None)
    if best is None or not _answers(scores[best], None if cosine is None else cosine[best]):
        return nothing
    near = takewhile(lambda i: scores[i] >= NEAR_BEST * scores[best], ranked)
    chosen = sorted([best, *islice(near, SENTENCES - 1)])
    quoted = [sentences[i] for i in chosen]
    citations = tuple(locator.citation(sentence.number, sentence.text, sentence.span) for sentence in quoted)
    text = " ".join(f"“{_one_line(c.text)}” [{c.number}]" for c in citations)
    return Answer(context.question, text, citations, context, context.usage)


def _answers(score: float, cosine: float | None) -> bool:
    return score >= MIN_COVERAGE if cosine is None else score >= MIN_SCORE or cosine >= SURE_COSINE


def _sentences(context: Context) -> list[_Sentence]:
    """The sentences of the verbatim passages, each with its span in the document."""
    return [
        _Sentence(number, passage, Span(span.doc_id, span.start + start, span.start + end), part[start:end])
        for number, passage in enumerate(context.passages, 1)
        for span, part in passage.parts()
        for start, end in _with_announced(part, split_sentences(part))
    ]


def _with_announced(text: str, sentences: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The sentences, where one that ends with a colon is joined with the next: neither says much without the other."""
    joined: list[tuple[int, int]] = []
    for start, end in sentences:
        if joined and text[joined[-1][1] - 1] == ":" and end - joined[-1][0] <= LONGEST_QUOTE:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return joined


def _coverage(question: str, sentences: Sequence[_Sentence]) -> FloatArray:
    """The share of the question's content terms that a sentence holds, shape (sentences,).

    A term that stands in the heading path alone counts half: all sentences of a document share its title.
    """
    wanted = content_terms(question)
    if not wanted:
        return np.zeros(len(sentences), np.float32)
    said = [wanted & content_terms(s.text) for s in sentences]
    above = [wanted & content_terms(heading_path(s.passage.title, s.passage.headings)) for s in sentences]
    held = [len(terms) + 0.5 * len(path - terms) for terms, path in zip(said, above, strict=True)]
    shares: FloatArray = np.array(held, np.float32) / np.float32(len(wanted))
    return shares


def _cosines(question: str, sentences: Sequence[_Sentence], embedder: Embedder | None) -> FloatArray | None:
    if embedder is None:
        return None
    keys = [f"{heading_path(s.passage.title, s.passage.headings)}\n{s.text}".strip() for s in sentences]
    rows = embedder.embed_documents(keys)
    cosines: FloatArray = rows @ embedder.embed_queries([question])[0]
    return cosines


def _one_line(text: str) -> str:
    return " ".join(text.split())
