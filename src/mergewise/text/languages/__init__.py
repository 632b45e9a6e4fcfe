"""Languages of documents and questions: detection, sizes of texts, and search words."""

from __future__ import annotations

from mergewise.text.languages.analysis import VERSION, neutral_lengths, question_words, search_words
from mergewise.text.languages.detection import (
    ENGLISH,
    UNKNOWN,
    detect,
    document_language,
    language_code,
    likely_language,
    question_languages,
    script_of,
)
from mergewise.text.languages.terms import Terms, shares_of_forms

__all__ = [
    "ENGLISH",
    "UNKNOWN",
    "VERSION",
    "Terms",
    "detect",
    "document_language",
    "language_code",
    "likely_language",
    "neutral_lengths",
    "question_languages",
    "question_words",
    "script_of",
    "search_words",
    "shares_of_forms",
]
