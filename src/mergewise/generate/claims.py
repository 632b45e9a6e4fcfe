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

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache

from mergewise.generate.sources import Source
from mergewise.text.alignment import sentences_at, words
from mergewise.text.markup import readable
from mergewise.text.statements import (
    ENOUGH,
    OPENERS,
    SPELLED,
    Said,
    capitalised,
    covering,
    holds_quotation,
    in_order,
    negates,
    quotations_in,
    terms,
)

__all__ = ["Claims", "quotations_in"]


@dataclass(frozen=True, slots=True)
class _Known:
    """What a source says: its sentences, the terms of its title and headings, and its words in their order."""

    sentences: tuple[Said, ...]
    path: frozenset[str]
    texts: tuple[str, ...]


class Claims:
    """Holds statements to the sources whose numbers they cite. Each source is read once, when it is first needed."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._sources = {source.number: source for source in sources}
        self._known = cache(lambda number: _known(self._sources[number]))

    def supported(self, statement: str, numbers: Collection[int], quotations: Sequence[str] = ()) -> bool | None:
        """Whether the sources support the statement, and hold the quotations; None where there is nothing to judge."""
        said = terms(statement)
        if not self._sources or not said:
            return None
        left, negated = self._cover(said, numbers)
        names, openers = _names(statement)
        return (
            len(left) <= (1 - ENOUGH) * len(said)
            and left.isdisjoint(names | _figures(statement))
            and (negated or not negates(statement))
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
        said = terms(text)
        found = len(said) - len(self._cover(said, numbers)[0])
        return found > 0 and (found > 1 or found >= ENOUGH * len(said))

    def _cover(self, said: frozenset[str], numbers: Collection[int]) -> tuple[frozenset[str], bool]:
        """The terms that the best sentences do not hold together, and whether one of these sentences says no."""
        known = [self._known(number) for number in numbers or self._sources]
        sentences = [sentence for source in known for sentence in source.sentences]
        # the best sentence is judged with the terms of the path, since it may only repeat these
        first = max(range(len(sentences)), key=lambda i: len(said & sentences[i].terms), default=None)
        left = said.difference(*(source.path for source in known))
        if first is None or not said & sentences[first].terms:
            return left, False
        left, chosen = covering(left - sentences[first].terms, sentences, 1)
        return left, any(sentences[i].negates for i in (first, *chosen))

    def _holds(self, quotation: str, numbers: Collection[int]) -> bool:
        return holds_quotation(
            quotation, [text for number in numbers or self._sources for text in self._known(number).texts]
        )


def _known(source: Source) -> _Known:
    said = [s.text for span, part in source.parts for s in sentences_at(part, span)]
    texts = [source.path, *(form for _, part in source.parts for form in dict.fromkeys((part, readable(part))))]
    return _Known(
        tuple(Said(terms(text), negates(text)) for text in said),
        terms(source.path),
        tuple(in_order(words(text)) for text in texts),
    )


def _figures(statement: str) -> frozenset[str]:
    """What is written in digits or spelled out; "one" is seldom a number."""
    return terms(" ".join(w for w in words(statement) if any(map(str.isdigit, w)) or (w in SPELLED and w != "one")))


def _names(statement: str) -> tuple[frozenset[str], frozenset[str]]:
    """The terms with a capital: names, and words that open something, which may be names."""
    found = list(capitalised(statement))
    names = " ".join(word for word, opens in found if not opens)
    return terms(names), terms(" ".join(word for word, opens in found if opens and word.lower() not in OPENERS))
