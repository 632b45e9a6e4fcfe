"""How far quotations may be trusted: whether the documents answer the question at all, and whether the first quotation does.

Each is a probability, the logistic function of a few signals that a reader can follow: what the first quotation shares with the
question, and how far it stands out from the rest. `benchmarks/answers.py` fits the weights on first halves, with a ridge;
docs/evaluation.md has the errors on second halves.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import exp

from mergewise.text.question import answer_type, offers
from mergewise.text.terms import content_terms

MOST_MARGIN = 3.0

FOUND: Mapping[str, float] = {"bias": -2.09, "cosine": 4.33, "named": 1.37, "covered": 1.70, "missing": -3.44}
FOUND_WITHOUT_VECTORS: Mapping[str, float] = {"bias": -1.99, "named": 1.28, "covered": 4.37, "missing": -1.99}
SURE: Mapping[str, float] = {"bias": -2.40, "asked": 2.34, "margin": 0.53, "nearest": 0.43, "lacks_kind": -1.42}
SURE_WITHOUT_VECTORS: Mapping[str, float] = {"bias": -2.70, "asked": 2.00, "margin": 0.85, "lacks_kind": -1.49}
FOUND_FROM, SURE_FROM = 0.4, 0.6
"""The probabilities from which something was found, and from which the first quotation answers for sure."""

_PUNCTUATION = "?.,!:;\"'()[]{}“”‘’«»„`*"
_NAME = re.compile(r"\d|[a-z][A-Z]|\w[_.]\w")


@dataclass(frozen=True, slots=True)
class Signals:
    """What is known of the first quotation. `cosine` and `nearest` are None without vectors.

    Shares are of the question's terms, in the quotation, the headings above it, its title and its file's name, and in the
    sentence that led to it over a hop with its own; 1 where the question has no such terms.
    """

    cosine: float | None  # of the best sentence with the question
    nearest: float | None  # 1 where no other sentence has a higher cosine
    named: float  # share of the terms in names
    asked: float  # share of the other terms
    covered: float  # share of all terms
    missing: float  # share of the terms, by their weights, that the quoted document lacks
    margin: (
        float  # log-odds that the best sentence answers, less those of the best one outside of the quotation; at most 3
    )
    lacks_kind: float  # 1 where the question wants a number, a time or a place, and the quotation has none

    @classmethod
    def of(
        cls,
        question: str,
        quoted: str,
        around: str,
        *,
        cosine: float | None,
        nearest: float | None,
        missing: float,
        margin: float,
    ) -> Signals:
        """The signals of a quotation with the text `quoted`, and with headings, names and a leading sentence `around` it."""
        terms = content_terms(question)
        names = named_terms(question) & terms
        held = content_terms(f"{quoted}\n{around}") & terms
        wanted = answer_type(question)
        return cls(
            cosine=cosine,
            nearest=nearest,
            named=_share(held, names),
            asked=_share(held, terms - names),
            covered=_share(held, terms),
            missing=missing,
            margin=min(margin, MOST_MARGIN),
            lacks_kind=float(wanted is not None and not offers(quoted, wanted)),
        )

    def found(self) -> float:
        """The probability that the documents answer the question."""
        return _logistic(self, FOUND_WITHOUT_VECTORS if self.cosine is None else FOUND)

    def sure(self) -> float:
        """The probability that the first quotation answers it."""
        return _logistic(self, SURE_WITHOUT_VECTORS if self.cosine is None else SURE)


def named_terms(question: str) -> frozenset[str]:
    """The terms of the question's words that name something: with a capital, a digit, or a "_" or "." inside.

    The first word has its capital from the sentence. In languages that write nouns with capitals, nouns count as names.
    """
    words = [word.strip(_PUNCTUATION) for word in question.split()]
    names = [word for i, word in enumerate(words) if (i > 0 and word[:1].isupper()) or _NAME.search(word)]
    return content_terms(" ".join(names))


def _share(held: Collection[str], terms: frozenset[str]) -> float:
    return len(terms.intersection(held)) / len(terms) if terms else 1.0


def _logistic(signals: Signals, weights: Mapping[str, float]) -> float:
    total = sum(weight * getattr(signals, name) for name, weight in weights.items() if name != "bias")
    return 1 / (1 + exp(-weights["bias"] - total))
