"""What an answer is worth beside the gold answers, of which the best counts.

    em           it is the gold answer
    f1           the harmonic mean of precision and recall of the words that both have
    relaxed_em   it contains the gold answer, as whole words: what AED-RAG (section 4.1) reports as EM
    accuracy     the gold answer is a substring of it, also within words (MergeRAG, section 4.1)

All four are of texts normalised as SQuAD does: lower case, without punctuation (of any script) and articles. A character of a
script without blanks between words is a word. Marks of citations are no part of an answer, and where nothing was found there is
no answer. Yes and no are words like others: HotpotQA's own script gives an answer that is longer than them an F1 of 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mergewise.evaluate.words import normalise_answer
from mergewise.generate.marks import without_unknown
from mergewise.types import Answer


@dataclass(frozen=True, slots=True)
class AnswerScore:
    """Each in [0, 1]; all but `f1` are 0 or 1."""

    em: float
    f1: float
    relaxed_em: float
    accuracy: float


def prediction_of(answer: Answer) -> str:
    """What the answer says."""
    return without_unknown(answer.text, ())[0].strip() if answer.found else ""


def score_answer(said: str, golds: Sequence[str]) -> AnswerScore:
    """Each metric's best over the gold answers. Where there are none, no answer is the right one."""
    normalised = normalise_answer(said)
    known = [normalise_answer(gold) for gold in golds or ("",)]

    def best(metric: Callable[[str], float]) -> float:
        return max(float(metric(gold)) for gold in known)

    return AnswerScore(
        em=best(lambda gold: normalised == gold),
        f1=best(lambda gold: _f1(normalised, gold)),
        relaxed_em=best(lambda gold: f" {gold} " in f" {normalised} " if gold else not normalised),
        accuracy=best(lambda gold: gold in normalised if gold else not normalised),
    )


def _f1(said: str, gold: str) -> float:
    """An empty text has something in common with an empty one alone."""
    words, wanted = said.split(), gold.split()
    if not words or not wanted:
        return float(words == wanted)
    shared = sum((Counter(words) & Counter(wanted)).values())
    return 2 * shared / (len(words) + len(wanted))
