"""What a statement says, as far as words tell: its terms, names, quotations, whether it says no; and the sentences of a source
that hold most of it together. Answers are held to what they cite by it (`generate.claims`), and written values to their
paragraphs (`text.grounding`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from mergewise.text.alignment import NEGATIONS, words
from mergewise.text.terms import content_terms

ENOUGH = 0.5  # share of the content words
SENTENCES = 4  # that may support a statement together
FEW_WORDS = 3  # fewer are no quotation to look up

_QUOTED = re.compile(r"“([^“”\n]+)”|„([^„“”\n]+)[“”]|«([^«»\n]+)»|「([^「」\n]+)」|(?<![^\W_])\"(?=\S)([^\"\n]+)\"")
_LEFT_OUT = re.compile(r"…|\.\.\.|\[[^\]\n]{0,40}\]")
_CAPITALISED = re.compile(r"(?P<opens>(?:\A|[.:!?\n])[\W_]{0,12})?(?<![^\W_])(?P<word>[^\W_]+)")
_NOT = re.compile(r"n['’]t\b", re.IGNORECASE)
# numbers that are their own stems
SPELLED = dict(zip("one two three four five six seven eight nine ten".split(), map(str, range(1, 11)), strict=True))
OPENERS = frozenset(
    "yes according additionally although answer based because currently finally first firstly furthermore generally given hence "
    "however instead like moreover note otherwise overall second secondly since specifically summary therefore thus together "
    "typically unlike use usually while".split()
)


@dataclass(frozen=True, slots=True)
class Said:
    """What a sentence says."""

    terms: frozenset[str]
    negates: bool


def terms(text: str) -> frozenset[str]:
    """The content terms; small numbers as figures, however they are written."""
    return frozenset(SPELLED.get(term, term) for term in content_terms(text))


def negates(text: str) -> bool:
    return not NEGATIONS.isdisjoint(words(text)) or _NOT.search(text) is not None


def capitalised(statement: str) -> Iterator[tuple[str, bool]]:
    """The words with a capital, and whether each opens a sentence, a line or what follows a colon, and has it anyway."""
    for match in _CAPITALISED.finditer(statement):
        if match["word"][0].isupper():
            yield match["word"], match["opens"] is not None


def covering(wanted: frozenset[str], sentences: Sequence[Said], spent: int = 0) -> tuple[frozenset[str], list[int]]:
    """The terms that the best sentences do not hold together, and the numbers of these sentences, the best first.

    `spent` sentences are known to support the statement already.
    """
    left, chosen = wanted, list[int]()
    while len(chosen) < SENTENCES - spent:
        best = max(range(len(sentences)), key=lambda i: len(left & sentences[i].terms), default=None)
        if best is None or not left & sentences[best].terms:
            break
        chosen.append(best)
        left -= sentences[best].terms
    return left, chosen


def quotations_in(text: str) -> Iterator[tuple[int, int, str]]:
    """What stands between quotation marks, with its offsets."""
    for match in _QUOTED.finditer(text):
        yield match.start(), match.end(), match[match.lastindex or 0]


def holds_quotation(quotation: str, texts: Collection[str]) -> bool:
    """Whether one of the texts, each as `in_order` gives it, holds the words; what is left out of a quotation divides it."""
    parts = [words(part) for part in _LEFT_OUT.split(quotation)]
    return all(any(in_order(part) in text for text in texts) for part in parts if len(part) >= FEW_WORDS)


def in_order(said: Sequence[str]) -> str:
    """Words as one string in which runs of words can be found."""
    return f" {' '.join(said)} "
