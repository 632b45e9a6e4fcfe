"""The mix of made questions: kinds in turn, without duplicates, and without questions that are too easy for a search."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import chain, islice

from mergewise import Index, Progress
from mergewise.errors import UsageError
from mergewise.evaluate.synthetic.records import MadeQuestion
from mergewise.evaluate.synthetic.rules import RULES, Rule
from mergewise.evaluate.synthetic.sections import SourceReader, SourceSection
from mergewise.evaluate.synthetic.written import written_questions
from mergewise.extend import Range, whole, words
from mergewise.types import Span

EASY = 2.0
"""A question is too easy if BM25 ranks its source first, with more than this many times the score of the second leaf."""
READ = 2_000
"""Maximum of documents that are read."""
SHARES = (2, 8, 32, 128)
"""Questions of each kind per document, for each pass over the documents. So long documents do not dominate."""


def make_questions(
    index: Index, count: int = 200, *, seed: int = 0, progress: Progress | None = None
) -> list[MadeQuestion]:
    """Make questions with their evidence, by the chat model of the index if it has one, else by rules.

    By rules, the same index and seed give the same questions.

    Args:
        index: the index.
        count: maximum of questions.
        seed: random seed of the order of documents and sections.
        progress: called after each question with the number made, `count`, and the kind of the question.

    Returns:
        The questions. They are fewer than `count` if the documents give no more.

    Raises:
        UsageError: if the documents give no question.
        ModelError: if the chat model fails, or too many of its questions in a row fail the checks.
    """
    count = whole("number of questions", count, Range(1, 100_000))
    store = index.store.reader()
    reader, draw = SourceReader(store), random.Random(seed)
    doc_ids = sorted(store.ids())
    draw.shuffle(doc_ids)
    doc_ids = doc_ids[:READ]
    candidates = (
        _by_rules(doc_ids, reader, draw)
        if index.chat is None
        else written_questions(_sections_in_turn(doc_ids, reader, draw), index.chat)
    )
    made: list[MadeQuestion] = []
    texts: set[tuple[str, ...]] = set()
    sources: set[tuple[Span, ...]] = set()
    for question in candidates:
        text, source = tuple(sorted(words(question.text))), tuple(sorted(span for span, _ in question.evidence))
        if text not in texts and source not in sources and not is_easy(question, reader):
            texts.add(text)
            sources.add(source)
            made.append(question)
            if progress is not None:
                progress(len(made), count, question.kind)
        if len(made) == count:
            break
    if not made:
        raise UsageError("no questions found in these documents", "index texts with sentences, or name a chat model")
    return made


def is_easy(question: MadeQuestion, reader: SourceReader) -> bool:
    """Test that BM25 ranks a source first, with more than `EASY` times the score of the second leaf."""
    ranked = reader.nearest(question.text, 2)
    if not ranked or not any(span.overlaps(ranked[0][0].span) for span, _ in question.evidence):
        return False
    return len(ranked) < 2 or ranked[0][1] > EASY * ranked[1][1]


def _by_rules(doc_ids: Sequence[str], reader: SourceReader, draw: random.Random) -> Iterator[MadeQuestion]:
    """Yield a question by each rule in turn, as long as the rule has one."""
    streams = [_by_rule(rule, doc_ids, reader, draw.random()) for rule in RULES]
    while streams:
        for stream in tuple(streams):
            question = next(stream, None)
            if question is None:
                streams.remove(stream)
            else:
                yield question


def _by_rule(rule: Rule, doc_ids: Sequence[str], reader: SourceReader, seed: float) -> Iterator[MadeQuestion]:
    """Yield the questions of one rule, from the sections of a document as equally as possible."""
    draw, last = random.Random(seed), -1
    for share in SHARES:
        count = 0
        for doc_id in doc_ids:
            sections = list(reader.sections(doc_id))
            draw.shuffle(sections)
            each = -(-share // max(1, len(sections)))
            by_section = (islice(rule(section, reader), each) for section in sections)
            for question in islice(chain.from_iterable(by_section), share):
                count += 1
                yield question
        if count == last:
            # the last pass gave no more questions than the one before
            return
        last = count


def _sections_in_turn(doc_ids: Sequence[str], reader: SourceReader, draw: random.Random) -> Iterator[SourceSection]:
    """Yield a section of each document, then another section of each document, until all are used."""
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
