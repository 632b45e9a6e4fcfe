"""Suggested questions of a collection, made from the headings of its documents without a model.

A heading that is a question is suggested as it is. Any other heading is a topic, whose question names its document too. Templates
such as "What does X say about Y?" read badly for headings like "Running the tests", and exist for one language only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from mergewise.types import Heading, frozen

_ANCHOR = re.compile(r"\s*\{[#/][^{}]*\}\s*$")
# code, numbers of versions and dates, and lists of names
_UNREADABLE = re.compile(r"[_(){}<>=/\\|@#`\[\].:,;*]|\d[\d-]|^\d|[^\w\s](?<![?!？！'’“”\"«»&-])")
_QUESTION = re.compile(r"[?？؟]$")
_DENSE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\u0e00-\u0e7f]")
_WORDS, _LENGTHS, _DENSE_LENGTHS = range(3, 10), range(14, 71), range(6, 31)


@frozen
class SuggestedQuestion:
    """A suggestion: the `text` to show, the `title` of its document, and the `question` to ask."""

    text: str
    title: str
    question: str


def suggested_questions(outlines: Iterable[tuple[str, Sequence[Heading]]], most: int) -> list[SuggestedQuestion]:
    """Return up to `most` suggestions, one per document, from documents' titles and outlines. Questions come first."""
    found: dict[str, SuggestedQuestion] = {}
    for title, outline in outlines:
        texts = filter(_is_readable, (_ANCHOR.sub("", heading.title).strip() for heading in outline))
        for text in sorted(texts, key=_is_topic)[:1]:
            is_whole = not _is_topic(text) or text.casefold() == title.casefold()
            found.setdefault(text, SuggestedQuestion(text, title, text if is_whole else f"{title}: {text}"))
    return sorted(found.values(), key=lambda one: _is_topic(one.text))[:most]


def _is_topic(text: str) -> bool:
    return not _QUESTION.search(text)


def _is_readable(title: str) -> bool:
    """Check for a phrase of several words. Code, numbers and short headings such as "Complete example" say too little."""
    if _UNREADABLE.search(title):
        return False
    if _DENSE.search(title):
        return len(title) in _DENSE_LENGTHS
    words = len(re.findall(r"[\w-]{2,}", title)) - (not _is_topic(title))
    return words in _WORDS and len(title) in _LENGTHS
