"""Which language a text is in: by its script, and among the languages of a script by words and letters that tell them.

Codes are those of ISO 639-1. What cannot be told is `UNKNOWN`. English wins where it is close: documents in English are then cut
and searched as English ones are.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache

from mergewise.text.languages.table import language_of, language_table
from mergewise.text.terms import LETTERS
from mergewise.types import Document, FileMetadata

ENGLISH = "en"
UNKNOWN = "und"
SAMPLE = 2000  # characters of a document that are looked at
_WITH_CODE = 4  # times as many, code included

_WORD = re.compile(rf"{LETTERS}(?:['’]{LETTERS})*")
_NOT_PROSE = re.compile(
    r"^[ \t]*(?P<fence>`{3,}|~{3,})[^\n]*\n.*?(?:^[ \t]*(?P=fence)|\Z)|`[^`\n]*`|<[^<>\n]{1,200}>|https?://\S+|\{[^{}\n]*\}",
    re.DOTALL | re.MULTILINE,
)
# A sign of these scripts says as much as so many letters.
_WORTH = {"latin": 1, "han": 3, "kana": 2, "hangul": 2}
_LEAST, _SHARE = 3.5, 0.04  # telling words of a document, and their share of its words
_BEATS_ENGLISH = 3


def detect(text: str) -> str:
    """The language of a text, by its first `SAMPLE` characters without code."""
    return _detect(text[: _WITH_CODE * SAMPLE])


@lru_cache(512)
def _detect(text: str) -> str:
    prose = _NOT_PROSE.sub(" ", text)[:SAMPLE]
    script = main_script(prose)
    of_script = [code for code, language in language_table().languages.items() if language.script == script]
    words = _words(prose)
    scores = _scores(words, of_script)
    ranked = sorted(scores, key=lambda language: (-scores[language], language))
    if not ranked or scores[ranked[0]] < max(_LEAST, _SHARE * len(words)):
        # no word tells: the commonest language of the script
        return UNKNOWN if script == "latin" else of_script[0]
    best = ranked[0]
    if best != ENGLISH and scores[best] < _BEATS_ENGLISH * scores.get(ENGLISH, 0):
        return ENGLISH
    return best


def document_language(document: Document) -> str:
    """The language of a document: what its caller says in the metadata `language` or `lang`, else what the text tells.

    What a file says of itself counts where the text does not tell: pages are often marked by their template.
    """
    named = language_code(document.metadata.get("language")) or language_code(document.metadata.get("lang"))
    if named and not isinstance(document.metadata, FileMetadata):
        return named
    found = detect(document.text)
    return named if named and found == UNKNOWN else found


def question_languages(question: str, among: Mapping[str, int]) -> tuple[str, ...]:
    """The languages of an index that a question may be in: one where that can be told, else all of its script.

    `among` are the languages of the index, with their documents. The question is in one of them whatever it looks like: where
    none has its script, in any.
    """
    languages = [language for language in among if language != UNKNOWN]
    if len(languages) < 2:
        return tuple(languages)
    script = main_script(question, latin=0.25)
    same = [
        language for language in languages if script_of(language) == script or {script, script_of(language)} <= _EASTERN
    ]
    if len(same) < 2:
        return tuple(same or sorted(languages))
    scores = _scores(_words(question), same)
    ranked = sorted(
        same, key=lambda language: (-scores.get(language, 0), language != ENGLISH, -among[language], language)
    )
    first, second = scores.get(ranked[0], 0), scores.get(ranked[1], 0)
    if script == "kana" and "ja" in same:
        return ("ja",)
    return (ranked[0],) if first >= 1 and first >= 2 * second else tuple(sorted(same))


def main_script(text: str, latin: float = 0.5) -> str:
    """The script of most of a text's letters. Names and terms in Latin letters stand in texts of all scripts: they count less."""
    found = Counter(str(match.lastgroup) for match in _letter().finditer(text))
    counts: dict[str, float] = {script: found[script] * _WORTH.get(script, 1) for script in language_table().scripts}
    if counts["kana"] * 10 > counts["han"]:
        counts["kana"] += counts.pop("han")
    counts["latin"] *= latin
    return max(counts, key=lambda script: counts[script])


@cache
def _letter() -> re.Pattern[str]:
    """A letter of each script, by the name of its group. A question to an index in one language needs none."""
    return re.compile("|".join(f"(?P<{script}>[{letters}])" for script, letters in language_table().scripts.items()))


def script_of(language: str) -> str:
    """Return the script of a language; languages that the table lacks are taken for Latin."""
    return language_of(language).script


_EASTERN = {"han", "kana"}


def language_code(named: object) -> str:
    """The code in what somebody names a language by: "de" of "de-DE", "de_AT.UTF-8", "ger" or "German"; empty where none is."""
    if not isinstance(named, str):
        return ""
    first = re.split(r"[-_.\s,;]", named.strip().lower(), maxsplit=1)[0]
    two = first if len(first) == 2 and first.isascii() and first.isalpha() else ""
    return _codes_by_name().get(first, two)


@cache
def _codes_by_name() -> Mapping[str, str]:
    return {name: code for code, language in language_table().languages.items() for name in language.names.split()}


# -- words that tell


def _words(text: str) -> list[str]:
    return [word.replace("’", "'") for word in _WORD.findall(text.lower())]


def _scores(words: Iterable[str], among: Iterable[str]) -> dict[str, float]:
    """For each of the languages the words that tell it; one that several have counts for each as its share."""
    by_word, by_letter = _telling(tuple(sorted(among)))
    scores: dict[str, float] = defaultdict(float)
    for word in words:
        for language in (known := by_word.get(word, ())):
            scores[language] += 1 / len(known)
        if not known and not word.isascii():
            marked = {code for letter in set(word) for code in by_letter.get(letter, ())}
            for language in marked:
                scores[language] += 0.5 / len(marked)
    return scores


@cache
def _telling(among: tuple[str, ...]) -> tuple[Mapping[str, Sequence[str]], Mapping[str, Sequence[str]]]:
    """Return the languages that have each word, and each rare letter."""
    by_word: dict[str, list[str]] = defaultdict(list)
    by_letter: dict[str, list[str]] = defaultdict(list)
    for code in among:
        language = language_of(code)
        for word in set(language.words.split()):
            by_word[word].append(code)
        for letter in language.letters:
            by_letter[letter].append(code)
    return by_word, by_letter
