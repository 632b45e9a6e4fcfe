"""Grounding: a text that a model wrote from some paragraphs is held to them, sentence by sentence.

    grounded = ground(value, [(0, 512)], document.text)
    grounded.value, grounded.unsupported_before, grounded.unsupported

A sentence that stands in the paragraphs word for word is supported. Any other one is supported where up to four of their
sentences hold half of its content words together, and nothing in it is flagged:

- `number`, `date`: the paragraphs do not hold it in any form (`text.figures`);
- `name`: a word with a capital that they do not hold, or two of their names that no sentence of theirs has together;
- `quotation`: three words or more in quotation marks that they do not have in this order;
- `negation`: it says no where its support does not, or leaves out the no of the clause that it repeats;
- `opposite`: it says "increased" where its support says "decreased";
- `clause`: two content words or more between commas and conjunctions, of which they hold none.

What is not supported is replaced by the sentence of the paragraphs that is nearest, is dropped, or stays, marked. Words are
compared, not meaning: who did what to whom may be turned around with the same words, and a true sentence in words of its own
counts as unsupported. Names are told by their capitals. In German, where all nouns have one, only two that stand side by side
are; scripts without capitals have none that could be told.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Annotated, Literal, NamedTuple, TypeAlias

from mergewise.text.alignment import words
from mergewise.text.figures import Figure, dates, figures, holds_date, known_figures, roman
from mergewise.text.markup import readable
from mergewise.text.sentences import split_sentences
from mergewise.text.spans import Part
from mergewise.text.statements import (
    ENOUGH,
    OPENERS,
    Said,
    covering,
    holds_quotation,
    in_order,
    negates,
    quotations_in,
)
from mergewise.text.terms import STOP_WORDS, content_terms

Ungrounded: TypeAlias = Annotated[
    Literal["replace", "drop", "keep"],
    "what becomes of a sentence that its paragraphs do not support: the nearest sentence of theirs, nothing, or it stays",
]
FlagKind: TypeAlias = Literal["number", "date", "name", "quotation", "negation", "opposite", "clause"]

_ROUNDS = 6
MOST_SENTENCES = 400  # of a value that are judged; what comes after them counts as unsupported


class Flag(NamedTuple):
    """What the paragraphs do not hold of a sentence."""

    kind: FlagKind
    text: str


@dataclass(frozen=True, slots=True)
class Grounding:
    """A sentence `value[start:end]`. `support` are the sentences of the document (start, end) that it rests on.

    `flagged` is what was wrong with it, or with the sentence of the model that it `replaced`.
    """

    start: int
    end: int
    support: tuple[Part, ...]
    supported: bool
    replaced: bool = False
    flagged: tuple[Flag, ...] = ()


@dataclass(frozen=True, slots=True)
class Grounded:
    """A value after grounding. `unsupported_before` is the share of its sentences that had no support, `unsupported` that of
    those without any now. `dropped` are sentences that nothing stands for."""

    value: str
    sentences: tuple[Grounding, ...]
    unsupported_before: float
    unsupported: float
    dropped: tuple[str, ...] = ()


def ground(
    value: str, paragraphs: Sequence[Part], text: str, ungrounded: Ungrounded = "replace", path: str = ""
) -> Grounded:
    """The value, held to these paragraphs of `text`. Names and numbers in `path`, the title and headings, count as held.

    With "replace" and "drop" no sentence without support is left, and no sentence of the document is put in twice; the value is
    empty where nothing of it has support.
    """
    source = _Source(paragraphs, text, path)
    judged = source.judged(value)
    before = _share(judged)
    if ungrounded == "keep" or before == 0:
        return Grounded(value, tuple(judged), before, before)
    pieces, dropped = _mended(value, judged, source if ungrounded == "replace" else None)
    return _settled(pieces, dropped, source, before)


def _share(judged: Sequence[Grounding]) -> float:
    return sum(not sentence.supported for sentence in judged) / len(judged) if judged else 0.0


class _Piece(NamedTuple):
    """A sentence of the new value, and what stood between the sentence before it and its place."""

    text: str
    between: str
    judged: Grounding


def _mended(value: str, judged: Sequence[Grounding], source: _Source | None) -> tuple[list[_Piece], tuple[str, ...]]:
    """The sentences with support, and those of the source that stand for the others."""
    said = {_key(value[s.start : s.end]) for s in judged if s.supported}
    pieces: list[_Piece] = []
    dropped: list[str] = []
    end = 0
    for sentence in judged:
        between, end = value[end : sentence.start], sentence.end
        stated = value[sentence.start : sentence.end]
        if sentence.supported:
            pieces.append(_Piece(stated, between, sentence))
            continue
        near = None if source is None else source.nearest(stated)
        written = "" if near is None or source is None else source.text[slice(*near)]
        if near is None or _key(written) in said:
            dropped.append(stated)
            continue
        said.add(_key(written))
        pieces.append(_Piece(written, between, replace(sentence, support=(near,), supported=True, replaced=True)))
    return pieces, tuple(dropped)


def _settled(pieces: Sequence[_Piece], dropped: tuple[str, ...], source: _Source, before: float) -> Grounded:
    """The pieces as one text. Read as a whole it may fall into other sentences: those without support go, until none is left."""
    for number in range(_ROUNDS):
        value, made = _joined(pieces, apart=number > 1)
        again = made if _spans_of(made) == split_sentences(value) else source.judged(value)
        judged = [_with_history(sentence, made) for sentence in again]
        if all(sentence.supported for sentence in judged):
            return Grounded(value, tuple(judged), before, 0.0, dropped)
        pieces, more = _mended(value, judged, None)
        dropped = (*dropped, *more)
    return Grounded("", (), before, 0.0, (*dropped, *(piece.text for piece in pieces)))


def _joined(pieces: Sequence[_Piece], apart: bool) -> tuple[str, list[Grounding]]:
    """The pieces one after the other, as they stood or as paragraphs, and where they stand now."""
    written: list[str] = []
    made: list[Grounding] = []
    end = 0
    for piece in pieces:
        between = ("\n\n" if apart else piece.between or " ") if written else ""
        written += [between, piece.text]
        start, end = end + len(between), end + len(between) + len(piece.text)
        made.append(replace(piece.judged, start=start, end=end))
    return "".join(written), made


def _spans_of(sentences: Sequence[Grounding]) -> list[Part]:
    return [(sentence.start, sentence.end) for sentence in sentences]


def _with_history(sentence: Grounding, made: Sequence[Grounding]) -> Grounding:
    """The sentence with what is known of those that it is made of."""
    inside = [other for other in made if other.start < sentence.end and sentence.start < other.end]
    flagged = dict.fromkeys(flag for other in inside for flag in other.flagged)
    flagged |= dict.fromkeys(sentence.flagged)
    return replace(sentence, replaced=any(other.replaced for other in inside), flagged=tuple(flagged))


def _key(sentence: str) -> str:
    return in_order(_forms(sentence))


# -- the paragraphs

_NEGATIVE = frozenset(
    "nicht kein keine keinen keiner nie niemals ne pas jamais aucun aucune nunca jamás não nem niet geen nooit не нет ни никогда "
    "не́ inte ikke nie 不 没 沒 無 无 ない ません 않 없".split()
)
_DENIES = re.compile(
    r"\b(?:lack\w*|absen\w+|fail\w*|refus\w+|den(?:y|ies|ied)|prevent\w*|avoid\w*|exclud\w+|unable|hardly|few|little|free of|"
    r"instead|rather|reject\w*|un\w{4,}|in\w{6,}|im\w{6,}|non\w*|stop\w*|cease\w*|abandon\w*|only|except\w*)\b",
    re.IGNORECASE,
)
_NO_DENIAL = re.compile(
    r"\b(?:not (?:only|just|merely|simply)|(?:no|not) (?:more|less|fewer|later|earlier) than|not exceed\w*|no longer|"
    r"whether or not|if not|nothing but|not least)\b",
    re.IGNORECASE,
)
_CLAUSE = re.compile(r"[,;:—–]|\b(?:but|and|while|whereas|although|though|which|who|because)\b", re.IGNORECASE)
_OPPOSITES = [
    tuple(frozenset(side.split()) for side in pair)
    for pair in (
        ("increas rise rose risen grew grow grown gain higher", "decreas fall fell fallen drop declin reduc shrink lower"),
        ("improv better", "worsen wors deterior"), ("posit", "negat"), ("succeed success", "fail failur unsuccess"),
        ("win won", "lose lost"), ("accept approv", "reject refus"), ("allow permit", "forbid forbidden prohibit"),
        ("enabl", "disabl"), ("includ", "exclud"), ("true", "fals"), ("benefit", "harm"), ("support", "oppos"),
        ("northern north", "southern south"), ("eastern east", "western west"), ("maximum", "minimum"), ("born", "die"),
        ("safe", "danger unsaf"), ("legal", "illeg"), ("possibl", "imposs"), ("open", "close"), ("start began", "stop ceas"),
        ("male", "femal"), ("always", "never"), ("oldest", "youngest"), ("largest", "smallest"), ("best", "worst"),
    )
]  # fmt: skip
_OPPOSED = [(a, b) for pair in _OPPOSITES for a, b in (pair, pair[::-1])]

_TOKEN = re.compile(r"[぀-ヿ㐀-鿿가-힯]|[^\W_぀-ヿ㐀-鿿가-힯]+")
_UNSPACED = re.compile(r"[぀-ヿ㐀-鿿가-힯]{2,}")  # characters are words or parts of words
_RUN_ON = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]{3,}")  # Thai and others, written without spaces
_BEGINS = re.compile(r"(?:\A|[.:!?…\n]|[\"“„«‘(\[])[\W_]{0,12}\Z")
_GERMAN = frozenset(
    "der die das und ist nicht ein eine mit von den dem des auf für werden wurde sich auch zu im".split()
)
_ENGLISH = re.compile(r"\b(?:the|of|was|were|is|and|by|has|from)\b", re.IGNORECASE)
_COMMON = OPENERS | frozenset(
    "researchers scientists authors experts people users patients participants subjects students children adults women men "
    "workers members residents studies results findings data evidence research researcher work methods models experiments tests "
    "trials analysis analyses examples critics officials doctors writers scholars observers visitors many most several some "
    "few others another more less being having using following including considering compared despite during among across "
    "within besides beyond alongside throughout unlike once before after later earlier early today historically originally "
    "initially subsequently eventually ultimately recently notably importantly interestingly similarly likewise conversely "
    "moreover nevertheless nonetheless meanwhile accordingly consequently particularly especially approximately about nearly "
    "almost over under around roughly half born known located founded established built made called named given written "
    "people's one two three four five six seven eight nine ten january february march april may june july august september "
    "october november december".split()
)


class _Word(NamedTuple):
    """A word of a text as it stands there."""

    text: str
    start: int
    end: int
    opens: bool  # it has a capital anyway


class _Source:
    """The paragraphs of one value, read once."""

    def __init__(self, paragraphs: Sequence[Part], text: str, path: str) -> None:
        self.text = text
        parts = _apart((max(0, start), min(end, len(text))) for start, end in paragraphs)
        self._spans = [span for start, end in parts for span in _sentences(text, start, end)]
        plain = [_plain(text, start, end) for start, end in self._spans]
        self._said = [Said(_known_terms(sentence), _says_no(sentence)) for sentence in plain]
        self._clauses = [
            (Said(_terms(clause), _says_no(clause)), _DENIES.search(clause) is not None)
            for sentence in plain
            for clause in _clauses(sentence)
        ]
        self._held = [frozenset(_folded(word.text) for word in _words_of(sentence)) for sentence in plain]
        self._above = frozenset(_folded(word.text) for word in _words_of(path))
        self._path = _known_terms(path)
        self._all = self._path.union(*(sentence.terms for sentence in self._said))
        self._names = self._above.union(*self._held)
        self._vocabulary = self._names | _stems(" ".join([*plain, path]))
        self._small = frozenset(w.text for said in (*plain, path) for w in _words_of(said) if w.text.islower())
        self._short = _initials([*plain, path])
        self._demonyms = frozenset(filter(None, map(_root, self._names)))
        self._exact = frozenset(word.text for said in (*plain, path) for word in _words_of(said))
        written = [*(text[start:end] for start, end in parts), path]
        self._numbers = frozenset[str]().union(*map(known_figures, written))
        self._dates = [mention for part in written for mention in dates(part)]
        self._orders = [_Order(text, parts), _Order(_readable_parts(text, parts), parts)]
        self._texts = [order.text for order in self._orders]
        self._german = _is_german(" ".join(plain))

    # -- one sentence

    def judged(self, value: str) -> list[Grounding]:
        spans = split_sentences(value)
        first = [self.judge(value, start, end) for start, end in spans[:MOST_SENTENCES]]
        return first + [Grounding(start, end, (), False) for start, end in spans[MOST_SENTENCES:]]

    def judge(self, value: str, start: int, end: int) -> Grounding:
        """Whether the paragraphs support `value[start:end]`, and by which sentences."""
        stated = value[start:end]
        copied = self._copied(stated)
        if copied is not None:
            return Grounding(start, end, copied, True)
        plain = readable(stated)
        wanted = self._wanted(plain)
        if not words(plain):
            return Grounding(start, end, (), True)  # a rule, a dash: it claims nothing
        left, chosen = self._support(wanted)
        support = tuple(self._spans[i] for i in chosen)
        flags = tuple(dict.fromkeys(self._flags(plain, wanted, chosen)))
        enough = len(left) <= (1 - ENOUGH) * len(wanted) if wanted else not flags
        return Grounding(start, end, support, enough and not flags and bool(support or not wanted), False, flags)

    def _copied(self, stated: str) -> tuple[Part, ...] | None:
        """The sentences that hold these words in this order."""
        said = _forms(stated)
        if not said:
            return None
        for order in self._orders:
            if (found := order.find(said)) is not None:
                return tuple(s for s in self._spans if any(s[0] < end and start < s[1] for start, end in found))
        return None

    def _support(self, wanted: frozenset[str]) -> tuple[frozenset[str], list[int]]:
        left, chosen = covering(wanted, self._said)
        return left - self._path, chosen

    def _wanted(self, stated: str) -> frozenset[str]:
        """The terms of a statement; of a figure that can be read in several ways, the one that the paragraphs know."""
        found = figures(stated)
        read = (min(figure.readings or figure.parts, key=lambda r: (r not in self._numbers, r)) for figure in found)
        return _terms(_without(stated, found)).union(f"#{reading}" for reading in read)

    def _flags(self, stated: str, wanted: frozenset[str], chosen: Sequence[int]) -> Iterator[Flag]:
        yield from self._wrong_figures(stated)
        yield from self._wrong_names(stated)
        for _, _, quotation in quotations_in(stated):
            if not holds_quotation(quotation, self._texts):
                yield Flag("quotation", quotation)
        yield from self._turned(stated, wanted, chosen)
        for clause in _clauses(stated):
            said = self._wanted(clause)
            if len(said) > 1 and said.isdisjoint(self._all):
                yield Flag("clause", clause.strip())

    def _wrong_figures(self, stated: str) -> Iterator[Flag]:
        mentions = dates(stated)
        for mention in mentions:
            if not holds_date(mention, self._dates, self._numbers):
                yield Flag("date", stated[mention.start : mention.end])
        for figure in figures(stated):
            dated = any(mention.start <= figure.start < mention.end for mention in mentions)
            if not dated and not figure.held_by(self._numbers):
                yield Flag("number", stated[figure.start : figure.end])

    # -- names

    def _wrong_names(self, stated: str) -> Iterator[Flag]:
        dated = [(mention.start, mention.end) for mention in dates(stated)]
        named = [
            word
            for word in _words_of(stated)
            if _is_marked(word.text) and not any(start <= word.start < end for start, end in dated)
        ]
        german = _is_german(stated) or (self._german and _ENGLISH.search(stated) is None)
        for number, word in enumerate(named):
            after = named[number + 1] if number + 1 < len(named) else None
            before = named[number - 1] if number else None
            beside = [
                other
                for other in (before, after)
                if other is not None and _touch(stated, word, other) and not (other.opens and _is_plain(other.text))
            ]
            if not self._has(word) and (
                not german or _is_strange(word.text) or any(not self._has(other) for other in beside)
            ):
                yield Flag("name", word.text)
            elif after in beside and after is not None and not german and not self._together(word, after):
                yield Flag("name", stated[word.start : after.end])

    def _has(self, word: _Word) -> bool:
        folded = _folded(word.text)
        if folded in STOP_WORDS and len(word.text) > 1 and word.text.isupper():  # WHO, US
            return word.text in self._exact or word.text in self._short
        if folded in STOP_WORDS or (word.opens and _is_plain(word.text)):
            return True
        if folded in self._vocabulary or _stems(word.text) <= self._vocabulary or word.text in self._short:
            return True
        number = roman(word.text)
        return (number > 0 and str(number) in self._numbers) or (_root(folded) or folded) in self._demonyms

    def _together(self, first: _Word, second: _Word) -> bool:
        """Whether two names that stand side by side may be one: a sentence has both, or one of them is an ordinary word there."""
        names = [_folded(word.text) for word in (first, second)]
        if any(name in self._small or name not in self._names for name in names):
            return True
        return any(held.issuperset(names) for held in (*self._held, self._above))

    # -- meaning turned around

    def _turned(self, stated: str, wanted: frozenset[str], chosen: Sequence[int]) -> Iterator[Flag]:
        if _says_no(stated) and not any(self._said[i].negates or self._denies(i) for i in chosen):
            yield Flag("negation", stated)
        clauses = [clause for clause in _clauses(stated) if len(_terms(clause)) > 1]
        for clause in clauses:
            if self._differs_in_no(clause, _DENIES.search(stated) is not None):
                yield Flag("negation", clause.strip())
        held = frozenset[str]().union(*(self._said[i].terms for i in chosen))
        for here, there in _OPPOSED:
            if wanted & here and not wanted & there and held & there and not held & here:
                yield Flag("opposite", " ".join(sorted(wanted & here)))

    def _denies(self, number: int) -> bool:
        return _DENIES.search(_plain(self.text, *self._spans[number])) is not None

    def _differs_in_no(self, clause: str, denied: bool) -> bool:
        """Whether the clauses of the paragraphs that hold most of this one, names aside, say no where it does not, or do not
        where it does. A word such as "failed", in the statement or in them, may say no in another way."""
        ordinary = [w.text for w in _words_of(clause) if not _is_marked(w.text) or w.text.lower() in self._small]
        wanted = _terms(" ".join(ordinary)) - self._path
        shared = [(len(wanted & said.terms), said.negates, denies) for said, denies in self._clauses]
        most = max((count for count, _, _ in shared), default=0)
        if most <= ENOUGH * len(wanted):
            return False
        best = [(no, denies) for count, no, denies in shared if count == most]
        if _says_no(clause):
            return not any(no or denies for no, denies in best)
        return not denied and all(no for no, _ in best)

    # -- what stands for a sentence without support

    def nearest(self, stated: str) -> Part | None:
        """The sentence that shares most with the stated one, by the root of its length; None where none shares anything."""
        stated_terms = self._wanted(readable(stated))
        wanted = stated_terms - self._path or stated_terms
        best, most = None, 0.0
        for span, said in zip(self._spans, self._said, strict=True):
            near = len(wanted & said.terms) / max(1, len(said.terms)) ** 0.5
            if near > most and not self._is_torn(span):
                best, most = span, near
        return best

    def _is_torn(self, span: Part) -> bool:
        """Whether an edge of the paragraphs cuts the sentence."""
        before, after = self.text[: span[0]][-_NEAR:], self.text[span[1] :][:_NEAR]
        cut = any(span[0] == start for start, _ in self._orders[0].parts) and _goes_on(before, "")
        return cut or (
            any(span[1] == end for _, end in self._orders[0].parts)
            and bool(after.strip())
            and _goes_on(self.text[span[1] - 1], after)
        )


def _goes_on(before: str, after: str) -> bool:
    """Whether a sentence goes on between the two: no stop, and no end of a line."""
    before, gap = before.rstrip(), before[len(before.rstrip()) :]
    gap += after[: len(after) - len(after.lstrip())]
    return bool(before) and before[-1] not in _STOPS and "\n" not in gap


_NEAR = 80  # characters
_STOPS = frozenset(".!?:;…。！？：；\"”')]»*_`|>-")


def _apart(parts: Iterable[Part]) -> list[Part]:
    """The parts that are not empty, in order; what overlaps is one, what only touches is not."""
    apart: list[Part] = []
    for start, end in sorted(part for part in parts if part[0] < part[1]):
        if apart and start < apart[-1][1]:
            apart[-1] = (apart[-1][0], max(end, apart[-1][1]))
        else:
            apart.append((start, end))
    return apart


class _Order:
    """The words of the paragraphs in their order, with the offsets at which they stand."""

    def __init__(self, text: str, parts: Sequence[Part]) -> None:
        self.parts = parts
        found = [
            (form, match.start(), match.end())
            for start, end in parts
            for match in _TOKEN.finditer(text, start, end)
            for form in words(match[0])
        ]
        self.text = in_order([form for form, _, _ in found])
        self._places = [(start, end) for _, start, end in found]
        self._offsets = [0, *accumulate(len(form) + 1 for form, _, _ in found)]

    def find(self, said: Sequence[str]) -> list[Part] | None:
        """Where these words stand one after the other."""
        at = self.text.find(in_order(said))
        if at < 0:
            return None
        first = bisect_right(self._offsets, at) - 1
        return self._places[first : first + len(said)]


def _readable_parts(text: str, parts: Sequence[Part]) -> str:
    """The text, of which these parts are read without their mark-up."""
    pieces, at = [], 0
    for start, end in parts:
        pieces += [text[at:start], readable(text[start:end])]
        at = end
    return "".join([*pieces, text[at:]])


def _sentences(text: str, start: int, end: int) -> list[Part]:
    return [(start + a, start + b) for a, b in split_sentences(text[start:end])]


def _plain(text: str, start: int, end: int) -> str:
    return readable(text[start:end])


def _clauses(sentence: str) -> Iterator[str]:
    bounds = [0, *(match.start() for match in _CLAUSE.finditer(sentence)), len(sentence)]
    yield from (sentence[a:b] for a, b in pairwise(bounds) if a < b)


# -- words


def _forms(text: str) -> list[str]:
    """The words as `_Order` has them: each in its form, whatever stands beside it."""
    return [form for match in _TOKEN.finditer(text) for form in words(match[0])]


def _terms(text: str) -> frozenset[str]:
    """Content terms; where words have no spaces between them, pairs of characters too, or threes of an alphabet's."""
    found = content_terms(_RUN_ON.sub(" ", text))
    if text.isascii():
        return found
    pairs = (run[i : i + 2] for run in _UNSPACED.findall(text) for i in range(len(run) - 1))
    threes = (run[i : i + 3] for run in _RUN_ON.findall(text) for i in range(len(run) - 2))
    return found.union(pairs, threes)


def _known_terms(text: str) -> frozenset[str]:
    """The terms of a sentence of the paragraphs: its figures in every form."""
    return _terms(_without(text, figures(text))).union(f"#{reading}" for reading in known_figures(text))


def _without(text: str, found: Sequence[Figure]) -> str:
    """The text without its figures."""
    bounds = [0, *(edge for figure in found for edge in (figure.start, figure.end)), len(text)]
    return " ".join(text[start:end] for start, end in zip(bounds[::2], bounds[1::2], strict=True))


def _stems(text: str) -> frozenset[str]:
    return content_terms(" ".join(_TOKEN.findall(text)))


def _says_no(text: str) -> bool:
    plain = _NO_DENIAL.sub(" ", text)
    return negates(plain) or not _NEGATIVE.isdisjoint(words(plain))


def _words_of(text: str) -> list[_Word]:
    return [
        _Word(match[0], *match.span(), _BEGINS.search(text, max(0, match.start() - 14), match.start()) is not None)
        for match in _TOKEN.finditer(text)
    ]


def _is_marked(word: str) -> bool:
    """Whether the word is written as names are: with a capital, or with letters and digits."""
    return any(map(str.isupper, word)) or (any(map(str.isdigit, word)) and any(map(str.isalpha, word)))


def _is_plain(word: str) -> bool:
    """Whether a word that opens a sentence is an ordinary one."""
    return word.lower() in _COMMON or word.lower() in STOP_WORDS


def _is_strange(word: str) -> bool:
    """Whether it is no noun: capitals within it, or digits."""
    return any(map(str.isupper, word[1:])) or any(map(str.isdigit, word))


def _touch(text: str, one: _Word, other: _Word) -> bool:
    first, second = sorted((one, other), key=lambda word: word.start)
    between = text[first.end : second.start]
    return between in (" ", "-") or (len(between) <= 3 and between.strip() == "." and between != ".")


def _folded(word: str) -> str:
    word = unicodedata.normalize("NFKC", word).casefold()
    return (
        word
        if word.isascii()
        else "".join(c for c in unicodedata.normalize("NFKD", word) if not unicodedata.combining(c))
    )


def _initials(texts: Sequence[str]) -> frozenset[str]:
    """Abbreviations that may stand for names of several words: WHO for World Health Organization."""
    short = set()
    for text in texts:
        tokens = [
            word.text for word in _words_of(text) if word.text.lower() not in ("of", "the", "and", "for", "de", "in")
        ]
        letters = "".join(token[0] if token[0].isupper() else " " for token in tokens)
        short |= {
            run[i:j] for run in letters.split() for i in range(len(run)) for j in range(i + 2, min(len(run), i + 8) + 1)
        }
    return frozenset(short)


_DEMONYM = re.compile(r"(?:ians?|ans?|ese|ish|ic)$")
_VOWEL = re.compile(r"[aeiouy]{1,2}$")


def _root(word: str) -> str:
    """What a country and those who live there share: Canada, Canadian; empty where too little is left."""
    root = _VOWEL.sub("", _DEMONYM.sub("", word))
    return root if len(root) >= 4 else ""


def _is_german(text: str) -> bool:
    said = [word.lower() for word in _TOKEN.findall(text)]
    return len(said) >= 4 and sum(word in _GERMAN for word in said) >= 0.12 * len(said)
