"""The mix of made questions: as many of each kind as there are, none twice, and none that every search finds at once."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice

from mergewise.engine import Index
from mergewise.errors import UsageError
from mergewise.evaluate.synthetic.records import MadeQuestion
from mergewise.evaluate.synthetic.rules import RULES
from mergewise.evaluate.synthetic.sections import SourceReader, SourceSection
from mergewise.evaluate.synthetic.written import written_questions
from mergewise.ranges import Range, whole
from mergewise.store.views import Progress
from mergewise.text.alignment import words
from mergewise.types import Span

EASY = 2.0
"""A question is too easy whose source BM25 ranks first, with more than so many times the score of the second."""
READ = 2_000
"""Documents that are read at most."""
SPARE = 4
"""Times as many candidates of each kind are collected as may be needed: many are too easy."""
MORE = (len(RULES), 4 * len(RULES))
"""Times as many are collected where that was not enough."""


def make_questions(
    index: Index, count: int = 200, *, seed: int = 0, progress: Progress | None = None
) -> list[MadeQuestion]:
    """Up to `count` questions with their evidence: by the chat model of the index, where it has one, else by rules.

    The same index and seed give the same questions. Raises UsageError where the index is empty, or nothing can be asked of it,
    and ModelError where the chat model fails for good.
    """
    count = whole("the number of questions is", count, Range(1, 100_000))
    store = index.store.reader()
    reader, draw = SourceReader(store), random.Random(seed)
    doc_ids = sorted(store.ids())
    draw.shuffle(doc_ids)
    advance = progress or (lambda done, total, item: None)
    candidates: Iterator[MadeQuestion]
    if index.chat is None:
        # where few kinds are to be had, more of each
        candidates = chain.from_iterable(
            _by_rules(doc_ids[:READ], times * count, reader, draw, advance) for times in (1, *MORE)
        )
    else:
        candidates = written_questions(_sections_in_turn(doc_ids[:READ], reader, draw), index.chat)
    made: list[MadeQuestion] = []
    known = _QuestionsSoFar()
    for question in candidates:
        if known.is_new(question) and not is_easy(question, reader):
            known.add(question)
            made.append(question)
            advance(len(made), count, question.kind)
        if len(made) == count:
            break
    if not made:
        raise UsageError("nothing can be asked of these documents", "index texts with sentences, or name a chat model")
    return made


def is_easy(question: MadeQuestion, reader: SourceReader) -> bool:
    """Whether BM25 alone ranks a source first, with more than `EASY` times the score of the second leaf."""
    ranked = reader.nearest(question.text, 2)
    if not ranked or not any(span.overlaps(ranked[0][0].span) for span, _ in question.evidence):
        return False
    return len(ranked) < 2 or ranked[0][1] > EASY * ranked[1][1]


class _QuestionsSoFar:
    """Questions that there are already, by their words, and by the evidence and answer that they share."""

    def __init__(self) -> None:
        self._texts: set[tuple[str, ...]] = set()
        self._asked: set[tuple[Span, ...]] = set()

    def is_new(self, question: MadeQuestion) -> bool:
        return _text_key(question) not in self._texts and _spans(question) not in self._asked

    def add(self, question: MadeQuestion) -> None:
        self._texts.add(_text_key(question))
        self._asked.add(_spans(question))


def _text_key(question: MadeQuestion) -> tuple[str, ...]:
    return tuple(sorted(words(question.text)))


def _spans(question: MadeQuestion) -> tuple[Span, ...]:
    return tuple(sorted(span for span, _ in question.evidence))


def _by_rules(
    doc_ids: Sequence[str], count: int, reader: SourceReader, draw: random.Random, advance: Progress
) -> Iterator[MadeQuestion]:
    """Candidates of each kind in turn. A document gives each kind a share alone, so that long ones do not give all."""
    wanted = SPARE * -(-count // len(RULES))
    share = max(2, 2 * SPARE * count // max(1, len(doc_ids)))
    pools: list[list[MadeQuestion]] = [[] for _ in RULES]
    for number, doc_id in enumerate(doc_ids):
        sections = list(reader.sections(doc_id))
        draw.shuffle(sections)
        for rule, pool in zip(RULES, pools, strict=True):
            if len(pool) < wanted:
                pool += _first(rule, sections, reader, share)
        advance(number, len(doc_ids), doc_id)
        if all(len(pool) >= wanted for pool in pools):
            break
    for pool in pools:
        draw.shuffle(pool)
    while any(pools):
        yield from [pool.pop() for pool in pools if pool]


def _first(
    rule: Callable[[SourceSection, SourceReader], Iterator[MadeQuestion]],
    sections: Sequence[SourceSection],
    reader: SourceReader,
    share: int,
) -> list[MadeQuestion]:
    """The questions of a document by one rule, its sections as equal as they can be."""
    each = -(-share // max(1, len(sections)))
    return list(islice(chain.from_iterable(islice(rule(section, reader), each) for section in sections), share))


def _sections_in_turn(doc_ids: Sequence[str], reader: SourceReader, draw: random.Random) -> Iterator[SourceSection]:
    """A section of each document, then another one of each, until none is left."""
    orders: dict[str, list[int]] = {}
    turn = 0
    while turn == 0 or any(turn < len(order) for order in orders.values()):
        for doc_id in doc_ids:
            if doc_id not in orders:
                orders[doc_id] = list(range(len(reader.sections(doc_id))))
                draw.shuffle(orders[doc_id])
            if turn < len(orders[doc_id]):
                yield reader.sections(doc_id)[orders[doc_id][turn]]
        turn += 1
