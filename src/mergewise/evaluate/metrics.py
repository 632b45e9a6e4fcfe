"""What a context holds, judged by its text alone, so that everyone's context is judged by the same code."""

from __future__ import annotations

import re
import string
from collections.abc import Sequence
from dataclasses import dataclass

from mergewise.evaluate.tasks import Question
from mergewise.protocols import TokenCounter

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = re.compile(rf"[{re.escape(string.punctuation)}‘’“”–—…›«»]")


@dataclass(frozen=True, slots=True)
class Score:
    """One context: `answer` and `all` are 0 or 1, `evidence` and `density` shares."""

    answer: float
    evidence: float
    all: float
    density: float


def normalise(text: str) -> str:
    """Lower case, punctuation and articles made spaces, white space folded (as SQuAD does), a space at both ends."""
    text = _ARTICLES.sub(" ", _PUNCTUATION.sub(" ", text.lower()))
    return f" {' '.join(text.split())} "


def score_context(question: Question, context: str, context_tokens: int, count_tokens: TokenCounter) -> Score:
    """Answer: a gold answer stands in the context as whole words. Evidence: the share of the gold pieces whose whole
    text does. All: every piece does. Density: tokens of the pieces held per token of the context."""
    text = normalise(context)
    held = [piece for _, piece in question.evidence if normalise(piece) in text]
    return Score(
        answer=float(any(normalise(answer) in text for answer in question.answers if normalise(answer).strip())),
        evidence=len(held) / len(question.evidence) if question.evidence else 0.0,
        all=float(len(held) == len(question.evidence) > 0),
        density=sum(count_tokens(held)) / context_tokens if context_tokens and held else 0.0,
    )


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
