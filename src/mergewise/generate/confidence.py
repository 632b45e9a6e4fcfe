"""Confidence of quotations: the probabilities that the documents answer the question, and that the first quotation does.

Each is a logistic function of a few signals: the overlap of the first quotation with the question, and weave's own judgements.
`benchmarks/answers.py` fits the weights on first halves with ridge regularisation.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from math import exp, log1p
from typing import NamedTuple

from mergewise.models.scores import log_odds
from mergewise.text.languages import ENGLISH, UNKNOWN, Terms
from mergewise.text.question import PLAIN, answer_type, asked_names, offers
from mergewise.text.support.premises import lacks_denial
from mergewise.types import Evidence

MOST_MARGIN = 3.0

FOUND = {"bias": -2.09, "cosine": 4.33, "named": 1.37, "covered": 1.70, "missing": -3.44}
FOUND_WITHOUT_VECTORS = {"bias": -1.99, "named": 1.28, "covered": 4.37, "missing": -1.99}
SURE = {
    "bias": -2.21,
    "asked": 1.33,
    "covered": 0.45,
    "margin": 0.12,
    "nearest": 0.68,
    "cosine": 1.33,
    "lacks_kind": -0.46,
    "identified": 0.49,
}
SURE_WITHOUT_VECTORS = {"bias": -2.70, "asked": 2.00, "margin": 0.85, "lacks_kind": -1.49}
SURE_ABROAD = {"bias": -1.55, "covered": 0.94, "told": 1.74, "relevance": 1.06}
"""Weights without vectors in other languages than English. The bias is 0.1 above the fitted one, so that more is sure."""
HALF = 0.5  # without vectors, a sure answer in such a language has at least this share of the question's terms
FOUND_FROM, SURE_FROM = 0.4, 0.58
"""Thresholds: the minimum probabilities that something was found, and that the first quotation answers for sure."""
FOUND_EXACTLY_FROM = 0.05
"""Threshold instead of `FOUND_FROM` for a quotation with the question's exact names. It answers 59 of 60 such questions."""

_VERSION = re.compile(r"\b(?:version(?:added|changed)?|since|deprecated)(?:::)?\s+\d+(?:\.\d+)+|\b\d+\.\d+\.\d+\b")
_QUANTITY = (
    r"\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|dozen|hundred|thousand|million|once|twice|every|each|forever|"
    r"never|no|unlimited|indefinitely|always|all|any|deux|trois|quatre|cinq|sept|huit|neuf|dix|cent|mille|fois|chaque|tou(?:te)?s|"
    r"aucune?|jamais|toujours|illimité\w*|zwei|drei|vier|fünf|sechs|sieben|acht|neun|zehn|hundert|tausend|(?:ein|zwei|drei)mal|"
    r"jede[mnrs]?|alle|täglich|keine?|nie|immer|unbegrenzt\w*)\b"
)
_DEMANDS = [
    tuple(re.compile(words, re.IGNORECASE) for words in pair)
    for pair in (
        (
            r"^\W*(?:why|how come|warum|wieso|weshalb|pourquoi)\b",
            r"\b(?:because|since|so|therefore|thus|hence|due to|owing|reasons?|why|avoid\w*|prevent\w*|ensur\w+|allow\w*|"
            r"purpose|caus\w+|means|in order|otherwise|weil|da|damit|denn|um|wegen|daher|deshalb|grund|parce|car|afin|donc|"
            r"pour|puisque|raison)\b",
        ),
        (r"^\W*(?:who|whom|whose|wer|wem|qui)\b", r"(?-i:(?:[^\W\dA-Z]|[,;(]) \[?[A-Z][a-z’'.-]+\b)"),
        (
            r"\b(?:how (?:many|much|long|old|far|tall|large|big|high|deep|often)|combien|quel âge|"
            r"wie (?:viele?n?|lange|oft|alt))\b",
            _QUANTITY,
        ),
        (r"\b(?:(?:what|which) year|quelle année|welche[mns] Jahr)\b", r"\d"),
        (
            r"\b(?:default|value|valeur|wert|maximum|minimum)\b",
            rf"{_QUANTITY}|(?<![:\w])[`'\"‘“]\S|\b(?-i:True|False|None)\b|\bdefaults?(?: value)? (?:to|is|are)\b|\bdefault:\s*\S",
        ),
    )
]
"""Questions for a reason, a person, a quantity, a year or a value, and what a quotation that answers has at least."""


class Signals(NamedTuple):
    """Signals of the first quotation.

    Shares count the question's terms that appear in the quotation, its headings, title and file name, or in the sentence (and its
    headings and names) that led to it over a hop. A share is 1 if the question has no such terms.

    Attributes:
        abroad: The text is in another language than English, or in an unknown one.
        cosine: Cosine of the best sentence with the question, or None without vectors.
        nearest: 1 if no other sentence has a higher cosine.
        margin: Log-odds of the best sentence minus those of the best one outside of the quotation, at most `MOST_MARGIN`.
        relevance: Log-odds that the best sentence is needed.
        named: Share of the terms in names.
        asked: Share of the other terms.
        covered: Share of all terms.
        told: Logarithm of 1 plus the number of terms in the best sentence itself.
        missing: Weighted share of the terms that the quoted document lacks.
        lacks_kind: 1 if the question asks for a number, a time or a place, and the quotation has none.
        lacks_name: An identifier or number of the question is not in the quotation, its headings, title and file name, nor in
            the sentence that led to it. A plain name may also be in other passages of the document. The answer is not sure
            then, nor if the question asks why something is so that the best sentence denies, or the other way round.
        identified: 1 if the question has identifiers or numbers, and none is missing.
        lacks_form: The question asks for a reason, a person, a quantity, a year or a value, and the quotation has no words of
            that form. So does the header of a table without a row, and an announcement at the end. The answer is not sure then.
        exactly: The question has exact names (versions, clauses), and the quotation or its headings have all of them.
    """

    abroad: bool
    cosine: float | None
    nearest: float
    margin: float
    relevance: float
    named: float
    asked: float
    covered: float
    told: float
    missing: float
    lacks_kind: float
    lacks_name: bool = False
    identified: float = 0.0
    lacks_form: bool = False
    exactly: bool = False

    @classmethod
    def of(
        cls,
        question: str,
        quoted: str,
        around: str,
        best: Evidence,
        *,
        nearest: float,
        margin: float,
        language: str = ENGLISH,
        passages: str = "",
    ) -> Signals:
        """Compute the signals of the quotation `quoted` in a language (or `UNKNOWN`), whose best sentence is `best`.

        `around` has its headings, names and leading sentence, and `passages` the other text that was found in its document.
        """
        telling = Terms(question, {} if language == UNKNOWN else {language: {}})
        terms, evidence = telling.all, f"{' › '.join(around.splitlines())}\n{quoted}"
        asked = asked_names(question)
        names = telling.within(" ".join(name.text for name in asked)) & terms
        held, told = telling.held([evidence, best.text])
        wanted = answer_type(question)
        named_ones = [name for name in asked if name.kind != "noun"]
        lacks_name = lacks_denial(question, evidence, best.text) or any(
            not name.is_in(evidence) and not (name.kind in PLAIN and name.is_in(passages)) for name in named_ones
        )
        # the number of a version is no quantity
        said = _VERSION.sub(" ", quoted)
        lines = [line for line in quoted.splitlines() if line.strip()]
        worded = [line for line in lines if any(map(str.isalnum, line))]
        return cls(
            abroad=language != ENGLISH,
            cosine=best.cosine,
            nearest=nearest,
            margin=min(margin, MOST_MARGIN),
            relevance=log_odds(best.relevance),
            named=share(held, names),
            asked=share(held, terms - names),
            covered=share(held, terms),
            told=log1p(len(told)),
            missing=1 - best.document_terms,
            lacks_kind=float(wanted is not None and not offers(quoted, wanted)),
            lacks_name=lacks_name,
            identified=float(not lacks_name and any(name.kind not in PLAIN for name in named_ones)),
            exactly=not lacks_name and any(name.exact for name in named_ones),
            # the header of a table without a row, too, and an announcement without what it announces
            lacks_form=(all(line.startswith("|") for line in lines) and len(worded) == 1)
            or (best.text.endswith((":", "："), 0, len(best.text.rstrip(" \n*_"))) and quoted.endswith(best.text))
            or any(asks.search(question) and not holds.search(said) for asks, holds in _DEMANDS),
        )

    def found(self) -> float:
        """Return the probability that the documents answer the question."""
        return logistic(self._asdict(), FOUND_WITHOUT_VECTORS if self.cosine is None else FOUND)

    def sure(self) -> float:
        """Return the probability that the first quotation answers the question."""
        abroad = self.abroad and self.cosine is None
        if self.lacks_name or self.lacks_form or (abroad and self.covered < HALF):
            return 0.0
        without = SURE_ABROAD if abroad else SURE_WITHOUT_VECTORS
        return logistic(self._asdict(), without if self.cosine is None else SURE)


def logistic(known: Mapping[str, float], weights: Mapping[str, float]) -> float:
    """Return the logistic function of the weighted sum of what is known. The weight "bias" counts whole."""
    return 1 / (1 + exp(-sum(weight * known.get(name, 1.0) for name, weight in weights.items())))


def share(held: Collection[str], terms: frozenset[str]) -> float:
    """Return the share of the terms that are held, or 1 without terms."""
    return len(terms.intersection(held)) / len(terms) if terms else 1.0
