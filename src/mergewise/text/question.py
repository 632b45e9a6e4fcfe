"""The type of a question and of the requested answer, by rules that take microseconds, and the names in a question.

Names are identifiers, versions and other numbers, and capitalised words. In German, where all nouns are capitalised, a plain noun
is a name only next to another capitalised word.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise
from typing import Literal, NamedTuple, TypeAlias

from mergewise.text.exact import ExactName, asked_exactly, exact_keys
from mergewise.text.languages import ENGLISH, question_languages
from mergewise.text.support.figures import figures, known_figures
from mergewise.text.support.names import DEMONYM, Word, base_form, is_plain, is_strange, root, touch, words_of
from mergewise.text.terms import STOP_WORDS

QuestionType: TypeAlias = Literal["comparison", "yes-no", "list", "fact"]
AnswerType: TypeAlias = Literal["number", "time", "place"]

# Of two words in order on a line, an atomic group fixes the first one, so that a question with many of them takes linear time.
_COMPARISON = re.compile(
    r"^(?>.*?\b(?:which|who|what|whose)\b).*\b(?:or|than)\b|"
    r"^(?>.*?\b(?:both|same|either|neither|earlier|later|older|younger|more|less|larger|smaller|bigger|taller|longer|first|"
    r"difference|differ|compare)\b).*\b(?:and|or|than|between)\b|"
    r"^(?>.*?\b(?:and|or)\b).*\b(?:both|same|either|more|older|younger|larger|longer|first)\b",
    re.IGNORECASE | re.MULTILINE,
)
_VERB = r"\b(?:is|are|was|were|do|does|did|has|have|had|can|could|will|would|should|may|must)\b"
_YES_NO = re.compile(rf"^\W*{_VERB}", re.IGNORECASE)
_LIST = re.compile(
    r"^\W*(?:list|name|enumerate)\b|\b(?:which|what) (?:are|were) the\b|\bwhat (?:kinds|types|steps|ways|options)\b",
    re.IGNORECASE,
)

_ASKS_FOR: dict[AnswerType, re.Pattern[str]] = {
    "number": re.compile(
        r"\bhow (?:many|much|long|old|far|tall|large|big|high|deep|often)\b|\bwhat (?:number|percent|percentage|size)\b|"
        r"\bpopulation\b",
        re.IGNORECASE,
    ),
    "time": re.compile(
        r"\bwhen(?: exactly)? (?:did|was|were|has|have|had|will|would)\b|\bwhen\W*$|"
        r"\b(?:what|which) (?:year|date|month|day|century|decade|era)\b|\bdate of\b|"
        r"(?m:^)(?>.*?\b(?:earlier|later|older|younger|first)\b).*\bor\b|"
        r"\b(?:born|died|released|founded|came out) first\b",
        re.IGNORECASE,
    ),
    "place": re.compile(
        r"\bwhere\b|\bplace of\b|\b(?:what|which) (?:country|city|state|county|town|region|continent)\b|\bnationality\b|"
        r"\blocated\b",
        re.IGNORECASE,
    ),
}
_HOLDS: dict[AnswerType, re.Pattern[str]] = {
    "number": re.compile(r"\d|\b(?:two|three|four|five|six|seven|eight|nine|ten|dozen|hundred|thousand|million)\b"),
    "time": re.compile(
        r"\b(?:1[0-9]|20)\d\d\b|\b(?:January|February|March|April|May|June|July|August|September|October|November|December)\b"
    ),
    "place": re.compile(r"\b(?:in|at|from|of|near)\s+(?:the\s+)?[A-Z]"),
}

_POINTS_BACK = re.compile(r"(?:This|That|These|Those|Such|However|But|And|So|Then|Therefore|Thus|Also)\b")
_MARK = re.compile(r"(?:[-*+•‣◦]|\(?\d{1,3}[.)]|\(?[a-zA-Z][.)])\s|\|")
_PRONOUN = re.compile(r"(?:It|Its|They|Their|Them|He|She|His|Her)\b")


# Words of questions, and the words that answers use instead.
_TELLING_WORDS = {
    "father mother parent parents grandfather grandmother paternal maternal": "daughter child children born parents",
    "son daughter child children": "father mother parents born",
    "husband wife spouse married": "married husband wife widow consort spouse",
    "author writer wrote written": "written novel book author wrote",
    "composer composed": "music composed score written",
    "performer performed sings singer artist sang": "song single album sung recorded performed released",
    "creator created creators founder founded": "created founded established developed founder",
}


def telling_words(words: Iterable[str]) -> list[str]:
    """Return words that answers use instead of these question words, such as "daughter of" for a father. English only."""
    words = frozenset(words)
    tellings = (telling for asked, telling in _TELLING_WORDS.items() if not words.isdisjoint(asked.split()))
    return [word for telling in tellings for word in telling.split()]


def question_type(question: str) -> QuestionType:
    """Classify a question.

    A comparison names two things, and both must be covered. A list asks for several things, any other question for one.
    """
    if _COMPARISON.search(question):
        return "comparison"
    if _YES_NO.match(question):
        return "yes-no"
    return "list" if _LIST.search(question) else "fact"


def answer_type(question: str) -> AnswerType | None:
    """Classify the question as asking for a number, a time or a place. Returns None if its words do not tell."""
    return next((wanted for wanted, asks in _ASKS_FOR.items() if asks.search(question)), None)


def offers(sentence: str, wanted: AnswerType | None) -> bool:
    """Return true if the sentence contains a value of the wanted type."""
    return wanted is not None and _HOLDS[wanted].search(sentence) is not None


def needs_previous(sentence: str, headed: bool, *, marks: bool = False) -> bool:
    """Return true if the sentence depends on the one before it, because its first word points back.

    A pronoun counts only if the sentence is not `headed`, since a heading usually names the thing. With `marks`, for an index
    without the leads of sentences, list marks and a table's edge count too.
    """
    return (
        _POINTS_BACK.match(sentence) is not None
        or (marks and _MARK.match(sentence) is not None)
        or (not headed and _PRONOUN.match(sentence) is not None)
    )


# -- names

NameKind: TypeAlias = Literal["code", "exact", "number", "name", "noun", "names"]
PLAIN: tuple[NameKind, ...] = ("name", "names")

_CODE = re.compile(r"`+([^`\n]{1,200})`+")
_NUMBER = re.compile(r"v?(\d+(?:[.,]\d+)*(?:(?:a|b|rc|dev|post)\d+)?)", re.IGNORECASE)
# an identifier with its parts, an option such as --no-headers, a macro such as @reboot, and a protocol such as HTTP/2
_PIECE = re.compile(
    r"(?<![\w-])(?:--|@)[^\W\d_][\w-]*|\b[A-Z]{2,}/\d+(?:\.\d+)*|(?<![^\W_])_*[^\W_]\w*(?:[.,]\w+)*(?P<called>\(|=(?=\w))?"
)
_HUMP = re.compile(r"(?<=[^\W_A-Z])(?=[A-Z])")
_NAME_PART = re.compile(r"\d+|[^\W\d_]+")
_INNER = re.compile(r"\w_+\w|__|[^\W\d_A-Z][A-Z]")
_MIXED = re.compile(r"(?=\D*\d)[^\W\d_]{2}\w*")
_POSSESSIVE = re.compile(r"['’]s?\b")
_FILE = re.compile(
    r"[\w.-]+\.(?:c|cfg|conf|css|csv|go|html?|ini|js|json|lock|md|py|rs|rst|sh|sql|toml|ts|txt|xml|ya?ml)"
)
# English stop words that are German words too
_GERMAN_TOO = frozenset("am an do das die hat has i in so was will".split())
# languages that a question is told apart from German by
_LANGUAGES = dict.fromkeys((ENGLISH, "de", "fr", "es", "it", "pt", "nl"), 1)


class AskedName(NamedTuple):
    """A name in a question. A "noun" is a capitalised word of a language that capitalises all nouns, "names" are adjacent names.

    If it occurs in no document, `nearest` has names of the same form that do.
    """

    text: str
    kind: NameKind
    exact: ExactName | None = None
    nearest: tuple[str, ...] = ()

    @property
    def parts(self) -> tuple[str, ...]:
        """The words and numbers that an identifier consists of, in base form."""
        return tuple(_NAME_PART.findall(base_form(_HUMP.sub(" ", self.text))))

    def match(self, text: str) -> float:
        """Return 1 if the text has the name in any case, in singular or plural, with any hyphens or underscores.

        An exact name must be whole: 3.12 matches "3.12.4" with `PREFIX`. Of two adjacent names, one must be near the other, or a
        whole part of the path in the first line. Returns 0 for other texts.
        """
        if self.kind == "names":
            one, other = (_pattern_of("name", (part,)).pattern for part in self.parts)
            text = base_form(text)
            near = rf"{one}\W{{1,3}}(?:\w+\W{{1,3}})?{other}|{other}\W{{1,3}}{one}"
            path = rf"(?:\A|\A.*[›/])\W*(?:{one}|{other})\W*(?:[›/.\n]|\Z)"
            held = all(re.search(name, text) for name in (one, other))
            return float(held and bool(re.search(near, text) or re.search(path, text)))
        if self.exact is not None:
            return self.exact.match(exact_keys(text))
        if self.kind == "number" and any(figure.held_by(known_figures(text)) for figure in figures(self.text)):
            return 1.0
        return float(_pattern_of(self.kind, self.parts).search(base_form(text)) is not None)

    def is_in(self, text: str) -> bool:
        """Return true if the text has the whole name."""
        return self.match(text) == 1

    @property
    def is_distinct(self) -> bool:
        """False for a plain noun, a date, and a number that is no version and has no nearest, which may be a quantity."""
        if self.exact is not None:
            return bool(self.nearest) or not (self.exact.is_date or self.exact.key.isdigit())
        return self.kind in ("code", *PLAIN) or (self.kind == "number" and len(self.parts) > 1)

    @property
    def is_searchable(self) -> bool:
        """False for a name of stop words, which no index knows, and for a nation's adjective, which has other forms."""
        ordinary = self.kind in ("name", "noun") and DEMONYM.search(self.text.lower()) is not None
        is_known = any(part not in STOP_WORDS and len(part) > 1 for part in self.parts)
        return self.exact is not None or (is_known and not ordinary)


@lru_cache(1024)
def _pattern_of(kind: NameKind, parts: tuple[str, ...]) -> re.Pattern[str]:
    if kind == "number":
        # 3.11 is in "3.11.2", but 11 is not in "3.11"
        return re.compile(r"(?<!\d)(?<!\d[.,])" + r"[.,]?".join(map(re.escape, parts)) + r"(?!\d)")
    *first, last = parts
    last = last[:-1] if len(last) > 3 and last.endswith("s") and last[-2] != "s" else last
    stem, ending = (root(last), r"\w{0,4}") if kind in ("name", "noun") and root(last) else (last, "(?:e?s)?")
    return re.compile(
        r"(?<![^\W_])" + r"[\W_]{0,2}".join([*map(re.escape, first), re.escape(stem) + ending]) + r"(?![^\W_])"
    )


@lru_cache(256)
def asked_names(question: str) -> tuple[AskedName, ...]:
    """Return the names in a question, each once, in order."""
    exact = asked_exactly(question)
    found = [(one.start, AskedName(question[one.start : one.end], "exact", one)) for one in exact]
    rest = question
    for one in exact:
        rest = rest[: one.start] + " " * (one.end - one.start) + rest[one.end :]
    coded = list(_CODE.finditer(rest))
    for match in coded:
        for word in match[1].split():
            plain = word.strip("<>/()[]{}.,:;=\"'")
            if _NUMBER.fullmatch(plain):
                found.append((match.start(), AskedName(plain, "number")))
            elif re.fullmatch(r"@?(?:\w+\.)*[\w-]{2,}", plain) and not _FILE.fullmatch(plain):
                found.append((match.start(), AskedName(plain.rpartition(".")[2], "code")))
    # Identifiers and numbers. Of a dotted name, each part that looks like an identifier counts, or the last one.
    for match in _PIECE.finditer(rest):
        piece = match[0].rstrip("(=")
        if number := _NUMBER.fullmatch(piece):
            found.append((match.start(), AskedName(number[1], "number")))
        elif piece.startswith(("--", "@")) or "/" in piece or _FILE.fullmatch(piece):
            found.append((match.start(), AskedName(piece, "code")))
        elif not piece[0].isdigit():
            parts = piece.split(".")
            identifiers = [part for part in parts if _INNER.search(part) or _MIXED.fullmatch(part)]
            called = parts[-1:] if match["called"] and len(parts[-1]) > 2 else []
            own = dict.fromkeys([*identifiers, *called])
            found += [(match.start() + piece.find(part), AskedName(part, "code")) for part in own]
    # Capitalised words, unless all words are, and verbs too: then the question is a title.
    taken = [match.span() for match in coded] + [(start, start + len(name.text)) for start, name in found]
    words = [word for word in words_of(question) if word.text[:1].isalpha()]
    title = all(word.text[0].isupper() or word.text in STOP_WORDS for word in words) and not re.search(_VERB, question)
    marked = [] if title else [word for word in words if word.text[0].isupper() and not word.opens]
    german, single = bool(marked) and may_be_german(question), list[Word]()
    for at, word in enumerate(marked):
        plain = _POSSESSIVE.sub("", word.text)
        known = any(start <= word.start < end for start, end in taken)
        if known or len(plain) < 2 or (is_plain(plain) and not plain.isupper()):
            continue
        near = any(touch(question, word, other) for other in marked[max(0, at - 1) : at + 2])
        named = not german or is_strange(plain) or near
        found.append((word.start, AskedName(plain, "name" if named else "noun")))
        single += [] if german or plain.isupper() else [word]
    # Two adjacent names are a name, unless the first is a nation's adjective. Of more, some may be a title.
    adjacent = [(one, other) for one, other in pairwise(single) if question[one.end : other.start] == " "]
    shared = Counter(word for pair in adjacent for word in pair)
    for pair in adjacent:
        name = AskedName(_POSSESSIVE.sub("", question[pair[0].start : pair[1].end]), "names")
        if all(shared[word] == 1 for word in pair) and len(name.parts) == 2 and not DEMONYM.search(name.parts[0]):
            found.append((pair[0].start, name))
    names: dict[tuple[str, ...], AskedName] = {}
    for _, name in sorted(found, key=lambda one: one[0]):
        if name.parts:
            names.setdefault(name.parts, name)
    return tuple(names.values())


def may_be_german(question: str) -> bool:
    """Return True if no word of the question is English only, and its language may be German."""
    english = any(word.lower() in STOP_WORDS - _GERMAN_TOO for word in re.findall(r"\w+", question))
    return not english and "de" in question_languages(question, _LANGUAGES)
