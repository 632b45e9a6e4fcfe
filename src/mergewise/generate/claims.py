"""Whether the sources of a statement support it, judged by words.

A statement is supported where up to `SENTENCES` sentences of the sources that it cites, with the titles and headings above
them, hold at least half of its content words, all of its figures and all of its names. A word that opens it, or what follows a
colon in it, has a capital anyway: it must stand somewhere in these sources, unless sentences often begin with it. Where the
statement says no, one of the sentences must say no too. What it quotes, in three words or more, must stand in such a source
word for word. A statement without a mark is held to all sources.

That is less than understanding: the words of a source in an order that says something else pass, and a statement that is true
but shares few words with its source, or is in another language, does not.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from mergewise.generate.sources import Source
from mergewise.text.alignment import NEGATIONS, sentences_at, words
from mergewise.text.markup import readable
from mergewise.text.terms import content_terms

ENOUGH = 0.5  # share of the content words
SENTENCES = 4  # that may support a statement together
FEW_WORDS = 3  # fewer are no quotation to look up

_QUOTED = re.compile(r"“([^“”\n]+)”|„([^„“”\n]+)[“”]|«([^«»\n]+)»|「([^「」\n]+)」|(?<![^\W_])\"(?=\S)([^\"\n]+)\"")
_LEFT_OUT = re.compile(r"…|\.\.\.|\[[^\]\n]{0,40}\]")
_CAPITALISED = re.compile(r"(?P<opens>(?:\A|[.:!?\n])[\W_]{0,12})?(?<![^\W_])(?P<word>[^\W_]+)")
_NOT = re.compile(r"n['’]t\b", re.IGNORECASE)
# numbers that are their own stems
_SPELLED = dict(zip("one two three four five six seven eight nine ten".split(), map(str, range(1, 11)), strict=True))
_OPENERS = frozenset(
    "yes according additionally although answer based because currently finally first firstly furthermore generally given hence "
    "however instead like moreover note otherwise overall second secondly since specifically summary therefore thus together "
    "typically unlike use usually while".split()
)


@dataclass(frozen=True, slots=True)
class _Said:
    """What a sentence says."""

    terms: frozenset[str]
    negates: bool


@dataclass(frozen=True, slots=True)
class _Known:
    """What a source says: its sentences, the terms of its title and headings, and its words in their order."""

    sentences: tuple[_Said, ...]
    path: frozenset[str]
    texts: tuple[str, ...]


class Claims:
    """Holds statements to the sources whose numbers they cite. Each source is read once, when it is first needed."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._sources = {source.number: source for source in sources}
        self._known = cache(lambda number: _known(self._sources[number]))

    def supported(self, statement: str, numbers: Collection[int], quotations: Sequence[str] = ()) -> bool | None:
        """Whether the sources support the statement, and hold the quotations; None where there is nothing to judge."""
        terms = _terms(statement)
        if not self._sources or not terms:
            return None
        left, negated = self._cover(terms, numbers)
        names, openers = _capitalised(statement)
        return (
            len(left) <= (1 - ENOUGH) * len(terms)
            and left.isdisjoint(names | _figures(statement))
            and (negated or not _negates(statement))
            and openers <= self._vocabulary(numbers)
            and all(self._holds(quotation, numbers) for quotation in quotations)
        )

    def _vocabulary(self, numbers: Collection[int]) -> frozenset[str]:
        known = [self._known(number) for number in numbers or self._sources]
        return frozenset().union(
            *(source.path for source in known), *(s.terms for source in known for s in source.sentences)
        )

    def related(self, text: str, numbers: Collection[int]) -> bool:
        """Whether the sources hold two content words of the text, or half of them."""
        terms = _terms(text)
        found = len(terms) - len(self._cover(terms, numbers)[0])
        return found > 0 and (found > 1 or found >= ENOUGH * len(terms))

    def _cover(self, terms: frozenset[str], numbers: Collection[int]) -> tuple[frozenset[str], bool]:
        """The terms that the best sentences do not hold together, and whether one of these sentences says no."""
        known = [self._known(number) for number in numbers or self._sources]
        left = terms.difference(*(source.path for source in known))
        # sentences that only repeat the path hold what a statement says all the same
        best = max((s for source in known for s in source.sentences), key=lambda s: len(terms & s.terms), default=None)
        negated = False
        for _ in range(SENTENCES):
            if best is None or not terms & best.terms:
                break
            left, negated = left - best.terms, negated or best.negates
            best = max((s for source in known for s in source.sentences), key=lambda s: len(left & s.terms))
            if not left & best.terms:
                break
        return left, negated

    def _holds(self, quotation: str, numbers: Collection[int]) -> bool:
        texts = [text for number in numbers or self._sources for text in self._known(number).texts]
        parts = [words(part) for part in _LEFT_OUT.split(quotation)]
        return all(any(_in_order(part) in text for text in texts) for part in parts if len(part) >= FEW_WORDS)


def quotations_in(text: str) -> Iterator[tuple[int, int, str]]:
    """What stands between quotation marks, with its offsets."""
    for match in _QUOTED.finditer(text):
        yield match.start(), match.end(), match[match.lastindex or 0]


def _known(source: Source) -> _Known:
    said = [s.text for span, part in source.parts for s in sentences_at(part, span)]
    texts = [source.path, *(form for _, part in source.parts for form in dict.fromkeys((part, readable(part))))]
    return _Known(
        tuple(_Said(_terms(text), _negates(text)) for text in said),
        _terms(source.path),
        tuple(_in_order(words(text)) for text in texts),
    )


def _terms(text: str) -> frozenset[str]:
    """The content terms; small numbers as figures, however they are written."""
    return frozenset(_SPELLED.get(term, term) for term in content_terms(text))


def _figures(statement: str) -> frozenset[str]:
    """What is written in digits or spelled out; "one" is seldom a number."""
    return _terms(" ".join(w for w in words(statement) if any(map(str.isdigit, w)) or (w in _SPELLED and w != "one")))


def _capitalised(statement: str) -> tuple[frozenset[str], frozenset[str]]:
    """The terms with a capital: names, and words that open a sentence, a line or what follows a colon, which may be names."""
    names: list[str] = []
    openers: list[str] = []
    for match in _CAPITALISED.finditer(statement):
        if match["word"][0].isupper():
            (names if match["opens"] is None else openers).append(match["word"])
    return _terms(" ".join(names)), _terms(" ".join(word for word in openers if word.lower() not in _OPENERS))


def _negates(text: str) -> bool:
    return not NEGATIONS.isdisjoint(words(text)) or _NOT.search(text) is not None


def _in_order(said: Sequence[str]) -> str:
    return f" {' '.join(said)} "
