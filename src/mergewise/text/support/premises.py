"""Contradictions of what a question takes for granted: another number in the same role, a negation, or an opposite.

Only questions for a reason ("Why is the port 9000?") and questions for a yes or no ("Is the port 9000?") take something for
granted. Rules look at one sentence that has the question's names and most of its other terms.
"""

from __future__ import annotations

import re
from functools import cache

from mergewise.text.languages.table import language_table
from mergewise.text.question import AskedName, asked_names, may_be_german
from mergewise.text.support.denial import denies, says_no
from mergewise.text.support.figures import Figure, figures
from mergewise.text.support.judge import Judge
from mergewise.text.support.sources import Extract, ReadSource, without_figures
from mergewise.text.terms import content_terms
from mergewise.types import Part

MOST_TERMS, SOME_TERMS = 0.85, 0.5
"""Minimum shares of the question's other terms in a sentence with its titles. It denies the question, or has another number."""
OWN_TERMS = 0.5
"""Minimum share of the terms in the sentence alone, if it denies the question."""

_ASKS_WHY = re.compile(
    r"^\W*(?:why|how come|warum|wieso|weshalb|pourquoi|por qu[eé]|perch[eé]|waarom|почему)\b", re.IGNORECASE
)
_REASON = re.compile(
    r"\b(?:because|since|as|without|weil|denn|da|damit|ohne|parce|car|puisque|afin|sans)\b", re.IGNORECASE
)
_ASKS_WHETHER = re.compile(
    r"^\W*(?:is|are|was|were|does|do|did|has|have|ist|sind|war|hat|benötigt|braucht|est-ce que)\b", re.IGNORECASE
)
_STATE = re.compile(r"^\W{0,6}(?:status|état|estado|stato)\b[\W_]{1,6}(\w+)[^\n]*", re.IGNORECASE | re.MULTILINE)
# States that a document gives itself, by stem, and words that contradict all of them.
_LIVE = frozenset("activ accept final stabl maintain support current adopt approv".split())
_DEAD = frozenset("abandon reject withdrawn withdraw deprec discontinu obsolet remov drop supersed cancel".split())
_DEFAULT = frozenset("default défaut standardwert standardmäßig standard vorgab".split())
_RANGE = re.compile(
    r"\b(?:or|and|oder|und|ou|et)\s+(?:higher|newer|later|above|greater|more|lower|below|less|earlier|höher|neuer|plus)\b|[<>≤≥+]|"
    r"\b(?:at (?:least|most)|up to|between|minimum|maximum|mindestens|höchstens|bis zu|au moins|au plus|jusqu)\b",
    re.IGNORECASE,
)
_WORD = re.compile(r"[^\W\d_]+")
_YEAR = re.compile(r"(?:1\d|20)\d\d")
NEAR_BEFORE, NEAR_AFTER = 4, 2
"""Words around a number that tell its role."""
_TIME = frozenset(
    "second minut hour day week month year sekund stund tag woch monat jahr jahren second heur jour semain mois année an".split()
)


def contradicts(sentence: str, path: str, question: str, known: str) -> bool:
    """Return True if the sentence, under the titles of `path`, contradicts what the question takes for granted.

    A number that occurs in `known`, the whole text that was found, is not contradicted.
    """
    why = _ASKS_WHY.match(question)
    asked = why or _ASKS_WHETHER.match(question)
    if asked is not None and asked[0].strip().lower() == "was" and may_be_german(question):
        asked = None  # "was" asks for a thing in German
    source = f"{path}\n{sentence}"
    if asked is None or not all(name.is_in(source) for name in asked_names(question) if name.kind == "code"):
        return False
    stated = question[asked.end() :].strip(" ?\n") if why else question.strip(" ?\n")
    terms = content_terms(without_figures(stated, figures(stated))) - _function_words()
    covered = _share(terms, source)
    if covered >= SOME_TERMS and _has_another_number(stated, sentence, known):
        return True
    if why is None or len(terms) <= 1 or covered < MOST_TERMS or _share(terms, sentence) < OWN_TERMS:
        return False
    # what the reason denies contradicts nothing
    said = _REASON.split(sentence)[0]
    said = said if _share(terms, said) >= OWN_TERMS else sentence
    read = ReadSource.of([Extract(said, 0, len(said))], path)
    judge: Judge = Judge(lambda key: read)
    return any(flag.kind in ("negation", "opposite") for flag in judge.judge(stated, [path], ()).flagged)


def contradicted_state(question: str, opening: str, path: str) -> Part | None:
    """Return the place of a document's own state, such as "Status: Active", if it contradicts a question such as "Why was X
    rejected?".

    `opening` is the beginning of the document, and `path` its id and title, which must have the subject of the question.
    """
    state = _STATE.search(opening)
    terms = content_terms(question) - _function_words()
    subject = terms - _DEAD
    if state is None or not _ASKS_WHY.match(question) or not terms & _DEAD or not content_terms(state[1]) & _LIVE:
        return None
    return state.span() if subject and _share(subject, path) >= MOST_TERMS else None


def _share(terms: frozenset[str], text: str) -> float:
    """Return the share of the terms that a text has."""
    return len(terms & content_terms(text)) / max(1, len(terms))


def lacks_denial(question: str, quoted: str, best: str) -> bool:
    """Return True if a question asks why something is not so, or no longer so, and the quotation does not say that.

    Also if it asks why something is so, and the best sentence of the quotation denies something before it gives a reason.
    """
    if not _ASKS_WHY.match(question):
        return False
    ends = content_terms(question) & _DEAD
    if ends and not ends & content_terms(quoted):
        return True
    denied = says_no(question) or denies(question, quoted)
    return not (says_no(best) or denies(best, question)) if denied else says_no(_REASON.split(best)[0])


@cache
def _function_words() -> frozenset[str]:
    return content_terms(" ".join(language.words for language in language_table().languages.values()))


def _has_another_number(stated: str, sentence: str, known: str) -> bool:
    """Return True if a number of the statement is unknown, and the sentence has another one with the same role."""
    if says_no(stated) or _RANGE.search(sentence):
        return False
    others, asks_default = figures(sentence), bool(content_terms(stated) & _DEFAULT)
    for figure in figures(stated):
        if AskedName(stated[figure.start : figure.end], "number").is_in(known):
            continue
        is_year, here = _YEAR.fullmatch(stated[figure.start : figure.end]) is not None, _words_near(figure, stated)
        for other in others:
            if is_year or _YEAR.fullmatch(sentence[other.start : other.end]):
                # A year contradicts a year alone.
                if is_year and _YEAR.fullmatch(sentence[other.start : other.end]):
                    return True
                continue
            there = _words_near(other, sentence)
            if here & there - _DEFAULT or (here & _TIME and there & _TIME) or (there & _DEFAULT and asks_default):
                return True
    return False


def _words_near(figure: Figure, text: str) -> frozenset[str]:
    """Return the stems of the content words close to a number."""
    before = [match[0] for match in _WORD.finditer(text, 0, figure.start)][-NEAR_BEFORE:]
    after = [match[0] for match in _WORD.finditer(text, figure.end)][:NEAR_AFTER]
    return content_terms(" ".join([*before, *after])) - _function_words()
