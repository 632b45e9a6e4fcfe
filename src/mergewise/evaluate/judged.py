"""The judge of contexts: scores, lost gold texts with the stage where each was lost, and the passages found instead."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from functools import cache, lru_cache
from typing import Any, TypeAlias

import numpy as np

from mergewise import Index, count_tokens
from mergewise.evaluate.metrics import CONTEXT_SCORES, score_context
from mergewise.evaluate.question_sets import Question
from mergewise.evaluate.ranking import RANKING_SCORES, ranked_documents, ranking_score
from mergewise.evaluate.words import normalise
from mergewise.extend import DocumentLookup, IndexState, Locator, shorten
from mergewise.protocols import FloatArray
from mergewise.types import Cause, Context, Span, frozen

PASSAGES = 3
"""Maximum of found passages in a row."""
CHARACTERS = 160
"""Maximum of characters of a found passage."""
DOCUMENTS = 200
"""Number of documents cached in memory."""
LISTED = 20
"""Maximum of lost gold documents in a row."""
SCANNED = 30_000_000
"""Maximum of characters of an index whose documents are searched for gold answers."""


class LostStage(StrEnum):
    """The stage at which a gold text was lost, according to the trace."""

    NOWHERE = "in no document of the index, word for word"
    UNFOUND = "not among the candidates that the trace names"
    OUTRANKED = "found, but others came first"
    LEFT = "a candidate, but left out"
    SKIP = "a candidate that did not fit"
    DROP = "taken, and dropped again"
    STOP = "a candidate, but not worth its tokens"
    PART = "held in part"


_STAGES = {
    Cause.LEFT: LostStage.LEFT,
    Cause.SKIP: LostStage.SKIP,
    Cause.DROP: LostStage.DROP,
    Cause.STOP: LostStage.STOP,
}


@frozen
class FoundText:
    """The place and the first words of a passage. `line` and `page` are None if the document has none."""

    doc: str
    line: int | None
    page: int | None
    text: str

    @property
    def place(self) -> str:
        """The place for people: `docs/cats.md:7`, `report.pdf p. 3`, or the document's id."""
        if self.page is not None:
            return f"{self.doc} p. {self.page}"
        return self.doc if self.line is None else f"{self.doc}:{self.line}"


@frozen
class LostText:
    """A gold text that a context lacks, and the stage at which it was lost."""

    text: str
    stage: LostStage


@frozen
class JudgedContext:
    """The scores of a context, the gold texts that it lacks, and the passages that it holds instead.

    All scores are None for an unanswerable question. `answer` is None if only evidence is marked, and `density` if only gold
    documents are. `lost` and `found` are empty for a complete context. An unanswerable question has only `found`.
    """

    scores: Mapping[str, float | None]
    found: tuple[FoundText, ...] = ()
    lost: tuple[LostText, ...] = ()


class ContextJudge:
    """A judge of the contexts of one index for these questions."""

    def __init__(self, index: Index, questions: Sequence[Question]) -> None:
        self.unheld = unheld_questions(questions, index)
        self._document = lru_cache(DOCUMENTS)(index.store.reader().document)

    def judge(self, question: Question, context: Context) -> JudgedContext:
        ranked = [document for document, _ in ranked_documents(context)]
        scores: dict[str, float | None] = dict.fromkeys(CONTEXT_SCORES)
        scores |= {name: ranking_score(name, ranked, question.gains) for name in RANKING_SCORES}
        if not question.answerable:
            return JudgedContext(scores, found_texts(context, self._document))
        score = score_context(question, context.text, context.tokens, count_tokens)
        scores |= {"evidence": score.evidence, "all": score.all}
        scores["answer"] = score.answer if question.has_answers else None
        scores["density"] = score.density if question.has_answers or question.evidence is not None else None
        lost = lost_texts(question, context, self._document, question.id in self.unheld)
        return JudgedContext(scores, found_texts(context, self._document) if lost else (), lost)


def found_texts(context: Context, document: DocumentLookup) -> tuple[FoundText, ...]:
    """Return the passages with the highest scores."""
    locator = Locator(document)
    best = sorted((passage for passage in context.passages if passage.spans), key=lambda passage: -passage.score)
    places = [locator.citation(0, passage.text, passage.spans[0]) for passage in best[:PASSAGES]]
    return tuple(FoundText(one.span.doc_id, one.line, one.page, shorten(one.text, CHARACTERS)) for one in places)


def lost_texts(
    question: Question, context: Context, document: DocumentLookup, is_nowhere: bool = False
) -> tuple[LostText, ...]:
    """Return the gold texts that a context lacks. With `is_nowhere` no document holds an answer.

    The gold texts are the first of these that the question has:

    1. The pieces of the marked evidence.
    2. The titles of the gold documents, if the context has nothing of them.
    3. The first answer, if the context holds no answer.
    """
    if question.evidence is None and question.gold_docs:
        # the documents that the context has nothing of, most relevant first
        covered = {span.doc_id for passage in context.passages for span in passage.spans}
        lost = sorted((one for one in question.gold_docs if one not in covered), key=lambda one: -question.gains[one])
        return tuple(_lost_document(one, context, document) for one in lost[:LISTED])
    held = normalise(context.text)
    if question.evidence is not None:
        return tuple(
            LostText(text, _stage(text, span, context, document))
            for span, text in question.evidence
            if normalise(text) not in held
        )
    wanted = [answer for answer in question.answers if normalise(answer).strip()]
    if not wanted or any(normalise(answer) in held for answer in wanted):
        return ()
    stages = (_stage(answer, None, context, document) for answer in wanted)
    return (LostText(wanted[0], LostStage.NOWHERE if is_nowhere else max(stages, key=list(LostStage).index)),)


def _lost_document(doc_id: str, context: Context, document: DocumentLookup) -> LostText:
    known = document(doc_id)
    stage = LostStage.NOWHERE if known is None else _last_stage(lambda span: span.doc_id == doc_id, context)
    return LostText((known and known.title) or doc_id, stage)


def _stage(text: str, gold: Span | None, context: Context, document: DocumentLookup) -> LostStage:
    """Return the last stage of a gold text in the trace. If its place is unknown, search the texts of the steps for it."""
    wanted = normalise(text)
    known = gold if gold is not None and gold.doc_id and normalise(_text_at(gold, document)) == wanted else None

    @cache
    def has(span: Span) -> bool:
        return span.overlaps(known) if known is not None else wanted in normalise(_text_at(span, document))

    if known is not None and any(has(span) for passage in context.passages for span in passage.spans):
        return LostStage.PART
    return _last_stage(has, context)


def _last_stage(has: Callable[[Span], bool], context: Context) -> LostStage:
    """Return the last stage in the trace of spans for which `has` is true."""
    for step in reversed(context.trace):
        if step.cause in _STAGES and any(map(has, step.covers)):
            return _STAGES[step.cause]
    seen = (span for step in context.trace for span in (*step.inputs, *([step.output] if step.output else ())))
    return LostStage.OUTRANKED if any(map(has, seen)) else LostStage.UNFOUND


def _text_at(span: Span, document: DocumentLookup) -> str:
    found = document(span.doc_id)
    return "" if found is None else found.text[span.start : span.end]


def unheld_questions(questions: Sequence[Question], index: Index) -> frozenset[str]:
    """Return the ids of questions with no answer in any document, word for word.

    Skip questions with marked evidence or gold documents. Skip all questions if the documents have more than `SCANNED`
    characters.
    """
    unmarked = [one for one in questions if one.has_answers and one.evidence is None and not one.gold_docs]
    wanted = {one.id: list(map(normalise, one.answers)) for one in unmarked}
    known = index.documents() if wanted else []
    if sum(document.characters for document in known) > SCANNED:
        return frozenset()
    for document in known:
        text = normalise(index.document(document.id).text)
        wanted = {key: answers for key, answers in wanted.items() if not any(answer in text for answer in answers)}
    return frozenset(wanted)


# -- probes: scores of a question that neither its context nor an answer shows. A method with a probe gets them beside those
# of its context, and is not answered.

Probe: TypeAlias = Callable[[Question, IndexState], Mapping[str, float]]

SOURCES = 5  # passages among the sources of a question (AED-RAG)
CHUNKS = 20  # chunks whose pairs are compared (MergeRAG)


def source_scores(question: Question, state: IndexState) -> dict[str, float]:
    """Mark the source with the least CPPL of the gold answer: a passage, a triplet set or the model's own text."""
    from mergewise.extend import KINDS, Example, LabelSettings, likeliest_kind

    if state.models.causal is None or not question.has_answers:
        return {}
    example = Example(question.id, question.text, question.answers)
    best = likeliest_kind(state.models.causal, example, state.reader(question.where), LabelSettings(passages=SOURCES))
    return {f"from_{kind}": float(kind == best) for kind in KINDS} if best else {}


def marker_scores(question: Question, state: IndexState) -> dict[str, float]:
    """Return the figures of all markers of the index, and the cosines of the question with its nearest key and chunk."""
    reader = state.reader(question.where)
    report: Any = reader.view("marker").report()
    lengths = {
        f"{name}_tokens_{quarter}": value
        for name, known in (("key", report.key_lengths), ("value", report.value_lengths))
        for quarter, value in zip((0, 25, 50, 75, 100), (known.least, *known.quartiles, known.most), strict=True)
    }
    assert state.models.embedder is not None
    vector = state.models.embedder.embed_queries([question.text])[0]
    for name in ("marker", "fixed"):
        first = [row for row, _ in reader.rank_by_vectors(question.text, 1, name)]
        lengths |= {f"nearest_{name}": float(own @ vector) for own in reader.vectors(first, name).values()}
    return {
        "coverage": 100 * report.coverage["mean"],
        "coverage_variance": 1e4 * report.coverage["variance"],
        "fallback": 100 * report.fallback_share,
        "key_tokens": report.key_tokens,
        "value_tokens": report.value_tokens,
        **lengths,
    }


def pair_scores(question: Question, state: IndexState) -> dict[str, float]:
    """Compare cosines with L_NLL over the pairs of the best chunks, as `mergerag-asym` reads them."""
    from mergewise.extend import chunk_texts

    models = state.models
    assert models.embedder is not None and models.scorer is not None
    hits = state.reader(question.where).search(question.text, 50, by="reranker")
    chunks = chunk_texts(hits, models.count_tokens)[:CHUNKS]
    vectors = models.embedder.embed_documents(chunks)
    vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return agreement(vectors @ vectors.T, np.asarray(models.scorer.nll(chunks, chunks))) if len(chunks) > 2 else {}


def agreement(cosines: FloatArray, nll: FloatArray) -> dict[str, float]:
    """Compare two matrices (rows: sources, columns: anchors) without their diagonals.

    Returns:
        The mean over sources of Spearman's rho, and the share of sources with the same best anchor.
    """
    others = ~np.eye(len(nll), dtype=bool)
    near, said = (values[others].reshape(len(nll), -1) for values in (cosines, -nll))
    ranks = (values.argsort(1).argsort(1) for values in (near, said))
    rho = [np.corrcoef(first, second)[0, 1] for first, second in zip(*ranks, strict=True)]
    return {"rho": float(np.mean(rho)), "same_anchor": float((near.argmax(1) == said.argmax(1)).mean())}


PROBES: Mapping[str, Probe] = {"sources": source_scores, "markers": marker_scores, "pairs": pair_scores}
