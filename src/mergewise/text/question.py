"""The type of a question and the type of the requested answer, by rules that take microseconds."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal, TypeAlias

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
_YES_NO = re.compile(
    r"^\W*(?:is|are|was|were|do|does|did|has|have|had|can|could|will|would|should|may|must)\b", re.IGNORECASE
)
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
