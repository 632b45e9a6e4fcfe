"""What an answer is worth beside the gold answers, of which the best counts for each metric.

    em               it is the gold answer (SQuAD, HotpotQA, MuSiQue)
    f1               the harmonic mean of `precision` and `recall`, of the words that both have
    precision        the share of its words that the gold answer has
    recall           the share of the gold answer's words that it has
    relaxed_em       the gold answer is a substring of it, also within words: what AED-RAG reports as EM, after GainRAG
    contains_words   it contains the gold answer as whole words
    accuracy         the same as `relaxed_em`, under the name that MergeRAG (section 4.1) has for it
    average          the mean of `relaxed_em` and `f1`: the column Avg of AED-RAG
    rouge_l          the F1 of the longest common subsequence of words (Lin 2004)
    hotpot_f1        `f1`, but 0 where yes, no or noanswer stands against anything else (HotpotQA's script)

All are of texts normalised as SQuAD does: lower case, without punctuation and articles. Where we differ from the public scripts:

- Punctuation of any script goes, theirs is ASCII alone: a dash of a range (1939–1945) tells nothing, as its hyphen does not.
- A character of a script without blanks between words is a word.
- A gold answer of articles alone is contained in no answer. GainRAG's search finds the empty text everywhere.
- Self-RAG looks for the gold answer in the raw texts, so that upper and lower case count there.
- LongBench gives `f1` without the rule of yes and no, as `f1` here.

Marks of citations are no part of an answer, and where nothing was found there is no answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

from mergewise.evaluate.words import normalise_answer
from mergewise.generate import without_unknown
from mergewise.types import Answer

_VERDICTS = {"yes", "no", "noanswer"}


@dataclass(frozen=True, slots=True)
class AnswerScore:
    """Each in [0, 1]; `em`, `relaxed_em`, `contains_words` and `accuracy` are 0 or 1."""

    em: float
    f1: float
    precision: float
    recall: float
    relaxed_em: float
    contains_words: float
    accuracy: float
    average: float
    rouge_l: float
    hotpot_f1: float


ANSWER_SCORES = tuple(field.name for field in fields(AnswerScore))
REFUSALS = ("refused", "sure")
"""Known of questions without an answer alone."""
WITHHELD = "withheld"
"""The same as `refused`, of questions that have an answer."""


def prediction_of(answer: Answer) -> str:
    """What the answer says."""
    return without_unknown(answer.text, ())[0].strip() if answer.found else ""


def score_answer(said: str, golds: Sequence[str]) -> AnswerScore:
    """Each metric's best over the gold answers. Where there are none, no answer is the right one."""
    normalised = normalise_answer(said)
    known = [normalise_answer(gold) for gold in golds or ("",)]

    def best(metric: Callable[[str], float]) -> float:
        return max(float(metric(gold)) for gold in known)

    f1 = best(lambda gold: _overlap(normalised, gold)[2])
    relaxed_em = best(lambda gold: gold in normalised if gold else not normalised)
    return AnswerScore(
        em=best(lambda gold: normalised == gold),
        f1=f1,
        precision=best(lambda gold: _overlap(normalised, gold)[0]),
        recall=best(lambda gold: _overlap(normalised, gold)[1]),
        relaxed_em=relaxed_em,
        contains_words=best(lambda gold: f" {gold} " in f" {normalised} " if gold else not normalised),
        accuracy=relaxed_em,
        average=(relaxed_em + f1) / 2,
        rouge_l=best(lambda gold: _harmonic(_longest_common(normalised.split(), gold.split()), normalised, gold)[2]),
        hotpot_f1=best(lambda gold: _overlap(normalised, gold)[2] if _may_overlap(normalised, gold) else 0.0),
    )


def _may_overlap(said: str, gold: str) -> bool:
    return said == gold or not {said, gold} & _VERDICTS


def _overlap(said: str, gold: str) -> tuple[float, float, float]:
    """Precision, recall and their harmonic mean, of the words that both have."""
    return _harmonic(sum((Counter(said.split()) & Counter(gold.split())).values()), said, gold)


def _harmonic(shared: int, said: str, gold: str) -> tuple[float, float, float]:
    """Precision, recall and F1 of so many shared words. An empty text has something in common with an empty one alone."""
    words, wanted = len(said.split()), len(gold.split())
    if not words or not wanted:
        return (float(words == wanted),) * 3
    return shared / words, shared / wanted, 2 * shared / (words + wanted)


def _longest_common(words: Sequence[str], others: Sequence[str]) -> int:
    """The length of the longest common subsequence."""
    row = [0] * (len(others) + 1)
    for word in words:
        before = row
        row = [0]
        for place, other in enumerate(others):
            row.append(before[place] + 1 if word == other else max(row[place], before[place + 1]))
    return row[-1]
