"""The judge of support, which checks a statement against sources and flags the parts that they lack.

    judge = Judge(lambda number: ReadSource.of([Extract(texts[number], 0, len(texts[number]))], titles[number]))
    judgement = judge.judge("The default timeout is five seconds.", [1, 3])
    judgement.support, judgement.flagged

A statement that the sources hold word for word is supported. Any other statement is supported if up to `SENTENCES` of their
sentences, with the titles and headings above them, hold half of its content words together, and nothing in it is flagged:

- `number`, `date`: the sources do not hold it in any form (`figures`);
- `name`: a capitalised word that they lack, or two of their names that no sentence of theirs has together;
- `quotation`: three words or more in quotation marks that they do not have in this order;
- `negation`: it negates and its support does not, or it leaves out the negation of the clause that it repeats;
- `opposite`: it contains "increased" and its support "decreased";
- `clause`: two content words or more between commas and conjunctions, none of which they hold.

Words are compared, not meaning: the same words may swap who did what to whom, and a true sentence in other words or in another
language counts as unsupported. Names are recognised by their capitals. In German, where all nouns have one, only two adjacent
ones count as names. Scripts without capitals have no recognisable names.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from mergewise.text.alignment import words
from mergewise.text.markup import readable
from mergewise.text.support.denial import OPPOSED, clauses, denies, says_no
from mergewise.text.support.figures import dates, figures, holds_date, roman
from mergewise.text.support.names import (
    ENGLISH,
    Word,
    base_form,
    forms,
    holds_quotation,
    is_german,
    is_marked,
    is_plain,
    is_strange,
    quotations_in,
    root,
    touch,
    words_of,
)
from mergewise.text.support.sources import KnownSentence, ReadSource, stems, terms_of, without_figures
from mergewise.text.terms import STOP_WORDS
from mergewise.types import Part

ENOUGH = 0.5  # minimum share of the content words
SENTENCES = 4  # maximum sentences that support a statement together
KEPT = 1024  # sources in the cache
KEPT_TOGETHER = 64  # combinations of sources in the cache


class Flag(NamedTuple):
    """A part of a statement that the sources lack."""

    kind: Literal["number", "date", "name", "quotation", "negation", "opposite", "clause"]
    text: str


class Judgement(NamedTuple):
    """The support of a statement: the (start, end) offsets of its sentences, empty without support, and the flags.

    Offsets count from the beginning of the text that the extract is taken from.
    """

    support: tuple[Part, ...]
    flagged: tuple[Flag, ...] = ()


class Judge:
    """A judge of statements by sources, which are given by keys. `read` is called once for a source, when it is first needed."""

    def __init__(self, read: Callable[[Any], ReadSource]) -> None:
        self._read = lru_cache(KEPT)(read)
        self._grounds = lru_cache(KEPT_TOGETHER)(lambda keys: ReadSource.together([self._read(key) for key in keys]))

    def judge(self, stated: str, keys: Sequence[Hashable], quotations: Sequence[str] | None = None) -> Judgement:
        """Judge a statement by these sources. `quotations` are by default those in the statement."""
        grounds = self._grounds(tuple(keys))
        in_form = forms(stated)
        copied = grounds.places_of(in_form) if in_form else None
        if copied is not None:
            return Judgement(tuple(copied))
        plain = readable(stated)
        if not words(plain):  # a rule, a dash
            place = next(filter(None, (extract.find(stated) for extract in grounds.extracts)), None)
            return Judgement(() if place is None else (place,))
        wanted = _wanted_terms(plain, grounds)
        left, chosen = _covering(wanted, grounds)
        quoted = [text for _, _, text in quotations_in(plain)] if quotations is None else quotations
        flags = tuple(dict.fromkeys(_flags(plain, wanted, chosen, quoted, grounds)))
        enough = wanted and len(left) <= (1 - ENOUGH) * len(wanted)
        return Judgement(tuple(sentence.place for sentence in chosen) if enough and not flags else (), flags)

    def is_related(self, text: str, keys: Sequence[Hashable]) -> bool:
        """Return true if the sources hold two content words of the text, or half of them."""
        grounds = self._grounds(tuple(keys))
        wanted = _wanted_terms(text, grounds)
        held = len(wanted) - len(_covering(wanted, grounds)[0])
        return held > 0 and (held > 1 or held >= ENOUGH * len(wanted))

    def nearest(self, stated: str, keys: Sequence[Hashable]) -> Part | None:
        """Return the place of the whole sentence with the most terms in common, relative to the root of its length, or None."""
        grounds = self._grounds(tuple(keys))
        all_terms = _wanted_terms(readable(stated), grounds)
        wanted = all_terms - grounds.path_terms or all_terms
        whole = (sentence for sentence in grounds.sentences if not sentence.cut)
        shares = ((len(wanted & one.terms) / max(1, len(one.terms)) ** 0.5, one.place) for one in whole)
        share, place = max(shares, key=lambda pair: pair[0], default=(0.0, (0, 0)))
        return place if share else None


def _wanted_terms(stated: str, grounds: ReadSource) -> frozenset[str]:
    """Return the terms of a statement. An ambiguous figure counts by the reading that the sources know."""
    found = figures(stated)
    known = (min(figure.readings or figure.parts, key=lambda r: (r not in grounds.numbers, r)) for figure in found)
    return terms_of(without_figures(stated, found)).union(f"#{reading}" for reading in known)


def _covering(wanted: frozenset[str], grounds: ReadSource) -> tuple[frozenset[str], list[KnownSentence]]:
    """Return the terms that the best sentences and the path lack, and these sentences, best first."""
    left, chosen = wanted, list[KnownSentence]()
    while len(chosen) < SENTENCES:
        best = max(grounds.sentences, key=lambda sentence: len(left & sentence.terms), default=None)
        if best is None or not left & best.terms:
            break
        chosen.append(best)
        left -= best.terms
    return left - grounds.path_terms, chosen


def _flags(
    stated: str, wanted: frozenset[str], chosen: Sequence[KnownSentence], quotations: Sequence[str], grounds: ReadSource
) -> Iterator[Flag]:
    mentions = dates(stated)
    for mention in mentions:
        if not holds_date(mention, grounds.dates, grounds.numbers):
            yield Flag("date", stated[mention.start : mention.end])
    for figure in figures(stated):
        dated = any(mention.start <= figure.start < mention.end for mention in mentions)
        if not dated and not figure.held_by(grounds.numbers):
            yield Flag("number", stated[figure.start : figure.end])
    yield from _wrong_names(stated, grounds)
    yield from (Flag("quotation", text) for text in quotations if not holds_quotation(text, grounds.texts))
    if says_no(stated) and not any(sentence.negates or denies(sentence.text, stated) for sentence in chosen):
        yield Flag("negation", stated)
    for clause in clauses(stated):
        if len(terms_of(clause)) > 1 and _differs_in_no(clause, stated, grounds):
            yield Flag("negation", clause.strip())
    held = frozenset[str]().union(*(sentence.terms for sentence in chosen))
    for here, there in OPPOSED:
        if wanted & here and not wanted & there and held & there and not held & here:
            yield Flag("opposite", " ".join(sorted(wanted & here)))
    for clause in clauses(stated):
        terms = _wanted_terms(clause, grounds)
        if len(terms) > 1 and terms.isdisjoint(grounds.terms):
            yield Flag("clause", clause.strip())


# -- names


def _wrong_names(stated: str, grounds: ReadSource) -> Iterator[Flag]:
    dated = [(mention.start, mention.end) for mention in dates(stated)]
    marked = (word for word in words_of(stated) if is_marked(word.text))
    named = [word for word in marked if not any(start <= word.start < end for start, end in dated)]
    german = is_german(stated) or (grounds.is_german and ENGLISH.search(stated) is None)
    for number, word in enumerate(named):
        after = named[number + 1] if number + 1 < len(named) else None
        adjacent = [
            other
            for other in named[max(0, number - 1) : number + 2]
            if touch(stated, word, other) and not (other.opens and is_plain(other.text))
        ]
        if not _holds_name(word, grounds):
            if not german or is_strange(word.text) or any(not _holds_name(other, grounds) for other in adjacent):
                yield Flag("name", word.text)
        elif after in adjacent and after is not None and not german:
            # Two adjacent names may be one: a sentence has both, or one of them is an ordinary word there.
            names = [base_form(one.text) for one in (word, after)]
            may_be_one = any(name in grounds.ordinary or name not in grounds.names for name in names)
            # Each sentence, and each title with its headings.
            held = (*(sentence.forms for sentence in grounds.sentences), *grounds.path_forms)
            if not may_be_one and not any(forms.issuperset(names) for forms in held):
                yield Flag("name", stated[word.start : after.end])


def _holds_name(word: Word, grounds: ReadSource) -> bool:
    form = base_form(word.text)
    if form in STOP_WORDS and len(word.text) > 1 and word.text.isupper():  # WHO, US
        return word.text in grounds.exact or word.text in grounds.initials
    if form in STOP_WORDS or (word.opens and is_plain(word.text)):
        return True
    if form in grounds.vocabulary or stems(word.text) <= grounds.vocabulary or word.text in grounds.initials:
        return True
    number = roman(word.text)
    return (number > 0 and str(number) in grounds.numbers) or (root(form) or form) in grounds.demonyms


def _differs_in_no(clause: str, stated: str, grounds: ReadSource) -> bool:
    """Return True if the clauses that share the most words with this one, apart from names, differ from it in negation.

    A word such as "failed", in the statement or in the clauses, may negate in another way.
    """
    ordinary = [w.text for w in words_of(clause) if not is_marked(w.text) or w.text.lower() in grounds.ordinary]
    wanted = terms_of(" ".join(ordinary)) - grounds.path_terms
    shared = [len(wanted & other.terms) for other in grounds.clauses]
    most = max(shared, default=0)
    if most <= ENOUGH * len(wanted):
        return False
    best = [other for other, count in zip(grounds.clauses, shared, strict=True) if count == most]
    if says_no(clause):
        return not any(other.negates or denies(other.text, clause) for other in best)
    return all(other.negates and not denies(stated, other.text) for other in best)
