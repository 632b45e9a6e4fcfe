"""Detection of a text's language, by its script and, among the languages of a script, by typical words.

A document that has too few of them, because it is short, is told by the model of `py3langid`, unless its few words are English.
The model is loaded then (0.5 CPU seconds, 70 MB). By the first 100 characters of 2,374 paragraphs in ten languages, both tell
2,365, and the words alone 1,885 (`python -m benchmarks.languages --beginnings 100`).

Codes are those of ISO 639-1. An undetected language is `UNKNOWN`. English wins close calls: documents in English are then split
and searched as English.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

from mergewise.text.languages.table import language_of, language_table
from mergewise.text.terms import LETTERS
from mergewise.types import Document, FileMetadata

ENGLISH = "en"
UNKNOWN = "und"
SAMPLE = 2000  # characters of a document to examine
_WITH_CODE = 4  # factor on the sample if code is included

_WORD = re.compile(rf"{LETTERS}(?:['’]{LETTERS})*")
# A word with at most punctuation around it, unlike a name or a key in code.
_FREE = re.compile(rf"(?<!\S)[^\w\s]?({LETTERS}(?:['’]{LETTERS})*)(?![:()])[^\w\s]?(?!\S)")
_NOT_PROSE = re.compile(
    r"^[ \t]*(?P<fence>`{3,}|~{3,})[^\n]*\n.*?(?:^[ \t]*(?P=fence)|\Z)|`[^`\n]*`|<[^<>\n]{1,200}>|https?://\S+|\{[^{}\n]*\}",
    re.DOTALL | re.MULTILINE,
)
# Letters that a character of these scripts counts for.
_WORTH = {"latin": 1, "han": 3, "kana": 2, "hangul": 2}
# Minimum of typical words in a document, and their minimum share of its words.
_LEAST, _SHARE = 3.5, 0.04
_BEATS_ENGLISH = 3
# By the first 40 characters of 240 paragraphs in English, 216 are told with this rule, and 188 by the model; others stay.
_BEATS_OTHERS = 2
_ASKED = 500  # characters for the model
# minimum of letters in words of a sentence for the model, and its minimum share of the probability: of 850 paragraphs' first 60
# characters, 799 were right and 5 wrong at 0.8, and 807 and 17 at 0.5
_FEWEST, _SURE = 20, 0.8


def detect(text: str) -> str:
    """Detect the language of a text from its first `SAMPLE` characters without code."""
    return _detect(text[: _WITH_CODE * SAMPLE])


@lru_cache(512)
def _detect(text: str) -> str:
    prose = _NOT_PROSE.sub(" ", text)[:SAMPLE]
    script = main_script(prose)
    of_script = [code for code, language in language_table().languages.items() if language.script == script]
    words = _words(prose)
    scores = _scores(words, of_script)
    ranked = sorted(scores, key=lambda language: (-scores[language], language))
    best = ranked[0] if ranked else UNKNOWN
    if scores.get(best, 0) < max(_LEAST, _SHARE * len(words)):
        # some words of English and few of other languages: the model would say English, too
        if best == ENGLISH and scores[best] >= _BEATS_OTHERS * scores.get(ranked[1] if ranked[1:] else UNKNOWN, 0):
            return ENGLISH
        # Without a telling word, the default is the most common language of the script.
        return _by_model(prose[:_ASKED], of_script) or (UNKNOWN if script == "latin" else of_script[0])
    if best != ENGLISH and scores[best] < _BEATS_ENGLISH * scores.get(ENGLISH, 0):
        return ENGLISH
    return best


def _by_model(prose: str, among: Sequence[str]) -> str:
    """Return the language that the model tells, or "" if it is not sure or the script has a single language."""
    if len(among) < 2 or sum(map(len, _FREE.findall(prose))) < _FEWEST:
        return ""
    try:
        ranked = _model().rank(prose)
    except OSError:
        # the library unpacks its model into a temporary file, and the disk may be full
        return ""
    shares = {language: share for language, share in ranked if language in among}
    best = max(shares, key=lambda language: shares[language])
    return best if shares[best] > _SURE * sum(shares.values()) else ""


@cache
def _model() -> Any:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


def document_language(document: Document) -> str:
    """Return the language of a document, from its metadata `language` or `lang` if the caller set it, else from the text.

    Metadata that a file declares itself counts only if the text is undetected, since pages often copy them from a template.
    """
    named = language_code(document.metadata.get("language")) or language_code(document.metadata.get("lang"))
    if named and not isinstance(document.metadata, FileMetadata):
        return named
    found = detect(document.text)
    return named if named and found == UNKNOWN else found


def question_languages(question: str, among: Mapping[str, int]) -> tuple[str, ...]:
    """Return the languages of an index that a question may be in: one if it is clear, else all of the question's script.

    `among` maps the languages of the index to their number of documents. The question is always in one of them: if none has its
    script, all are returned.
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


def likely_language(question: str) -> str:
    """Return the language that a question is in by its script and typical words, or `UNKNOWN` if they do not tell."""
    script = main_script(question, latin=0.25)
    same = [code for code, language in language_table().languages.items() if language.script == script]
    scores = _scores(_words(question), same)
    ranked = sorted(same, key=lambda language: -scores[language])
    is_clear = len(same) == 1 or (same and scores[ranked[0]] >= max(1, 2 * scores[ranked[1]]))
    return ranked[0] if is_clear else UNKNOWN


def main_script(text: str, latin: float = 0.5) -> str:
    """Return the main script of a text's letters. Latin letters count less, since names and terms use them in all scripts."""
    if text.isascii():
        return "latin"
    found = Counter[str]()
    for match in _letters().finditer(text):
        found[str(match.lastgroup)] += len(match[0])
    counts: dict[str, float] = {script: found[script] * _WORTH.get(script, 1) for script in language_table().scripts}
    if counts["kana"] * 10 > counts["han"]:
        counts["kana"] += counts.pop("han")
    counts["latin"] *= latin
    return max(counts, key=lambda script: counts[script])


@cache
def _letters() -> re.Pattern[str]:
    """Return the pattern of letters of a script, with the script as group name. An index in one language never needs it."""
    return re.compile("|".join(f"(?P<{script}>[{letters}]+)" for script, letters in language_table().scripts.items()))


def script_of(language: str) -> str:
    """Return the script of a language. Languages missing from the table count as Latin."""
    return language_of(language).script


_EASTERN = {"han", "kana"}


def language_code(named: object) -> str:
    """Return the code for a language tag or name, or "" if unknown.

    The code is "de" for "de-DE", "de_AT.UTF-8", "ger" and "German".
    """
    if not isinstance(named, str):
        return ""
    first = re.split(r"[-_.\s,;]", named.strip().lower(), maxsplit=1)[0]
    return _codes_by_name().get(first, first if len(first) == 2 and first.isascii() and first.isalpha() else "")


@cache
def _codes_by_name() -> Mapping[str, str]:
    return {name: code for code, language in language_table().languages.items() for name in language.names.split()}


# -- typical words


def _words(text: str) -> list[str]:
    return [word.replace("’", "'") for word in _WORD.findall(text.lower())]


def _scores(words: Iterable[str], among: Iterable[str]) -> defaultdict[str, float]:
    """Score each language by its typical words. A word that several languages share counts in equal parts."""
    typical = _typical(tuple(sorted(among)))
    scores: defaultdict[str, float] = defaultdict(float)
    for word in words:
        for language in (known := typical.get(word, ())):
            scores[language] += 1 / len(known)
    return scores


@cache
def _typical(among: tuple[str, ...]) -> Mapping[str, Sequence[str]]:
    """Return the languages that have each word."""
    by_word: dict[str, list[str]] = defaultdict(list)
    for code in among:
        for word in set(language_of(code).words.split()):
            by_word[word].append(code)
    return by_word
