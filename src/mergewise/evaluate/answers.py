"""Scores of an answer against the gold answers. Each metric takes the best gold answer.

    em               1 if the answer equals the gold answer (SQuAD, HotpotQA, MuSiQue)
    f1               the harmonic mean of `precision` and `recall`
    precision        the share of the answer's words that are in the gold answer
    recall           the share of the gold answer's words that are in the answer
    relaxed_em       1 if the answer contains the gold answer, also within words: EM in AED-RAG, after GainRAG
    contains_words   1 if the answer contains the gold answer as whole words
    accuracy         the same as `relaxed_em`, by its name in MergeRAG (section 4.1)
    average          the mean of `relaxed_em` and `f1`: the column Avg of AED-RAG
    rouge_l          the F1 of the longest common subsequence of words (Lin 2004), as the package rouge-score computes it
    hotpot_f1        `f1`, but 0 if the texts differ and one of them is yes, no or noanswer (HotpotQA's script)

Texts are normalised as in SQuAD: lower case, without punctuation and articles. For `rouge_l` they are split as in rouge-score,
without its stemmer: words are runs of ASCII letters and digits in lower case, and an empty text scores 0. Differences from the
public scripts:

- Punctuation of any script is removed, not only ASCII. So a dash in a range (1939–1945) counts like a hyphen.
- In scripts without blanks between words each character is a word.
- No answer contains a gold answer that consists of articles only. GainRAG finds this empty text in every answer.
- Self-RAG searches the raw texts for the gold answer, so its match is case-sensitive.
- LongBench's F1 has no rule for yes and no. It is `f1` here.

Citation marks are removed from an answer. An answer that was not found is an empty text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import fields

from mergewise.evaluate.words import normalise_answer
from mergewise.extend import without_unknown
from mergewise.types import Answer, frozen

_ROUGE_WORD = re.compile(r"[a-z0-9]+")
_VERDICTS = {"yes", "no", "noanswer"}


@frozen
class AnswerScore:
    """The scores of an answer, each in [0, 1]. `em`, `relaxed_em`, `contains_words` and `accuracy` are 0 or 1."""

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
"""Metrics of unanswerable questions only."""
WITHHELD = "withheld"
"""The same as `refused`, for answerable questions."""


def prediction_of(answer: Answer) -> str:
    """Return the answer's text without citation marks, or an empty text if nothing was found."""
    return without_unknown(answer.text, ())[0].strip() if answer.found else ""


def score_answer(said: str, golds: Sequence[str]) -> AnswerScore:
    """Score an answer by each metric's best gold answer. Without gold answers, the empty answer is right."""
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
        rouge_l=max((_rouge_l(said, gold) for gold in golds), default=0.0),
        hotpot_f1=best(
            lambda gold: 0.0 if normalised != gold and {normalised, gold} & _VERDICTS else _overlap(normalised, gold)[2]
        ),
    )


def _overlap(said: str, gold: str) -> tuple[float, float, float]:
    """Return precision, recall and F1 of the words of two texts. An empty text matches only an empty text."""
    words, wanted = Counter(said.split()), Counter(gold.split())
    if not words or not wanted:
        return (float(words == wanted),) * 3
    shared, read, due = (words & wanted).total(), words.total(), wanted.total()
    return shared / read, shared / due, 2 * shared / (read + due)


def _rouge_l(said: str, gold: str) -> float:
    """Return ROUGE-L, by the length of the longest common subsequence of words."""
    words, others = _ROUGE_WORD.findall(said.lower()), _ROUGE_WORD.findall(gold.lower())
    row = [0] * (len(others) + 1)
    for word in words:
        before = row
        row = [0]
        for place, other in enumerate(others):
            row.append(before[place] + 1 if word == other else max(row[place], before[place + 1]))
    return 2 * row[-1] / (len(words) + len(others)) if words and others else 0.0
