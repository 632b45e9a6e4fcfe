"""Wordings of questions. They paraphrase the relations of triplets, and follow the document's language."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from importlib.resources import files

DATED = " #"
"""Suffix of a relation whose tail must hold a year."""
_LISTED: Mapping[str, Mapping[str, str]] = tomllib.loads(
    (files("mergewise.evaluate.synthetic") / "wordings.toml").read_text(encoding="utf-8")
)
_BY_RELATION = {relation: wording for listed, wording in _LISTED["relations"].items() for relation in listed.split("|")}
_YEAR = re.compile(r"\b\d{3,4}\b")
# keys of tables and of "key: value" lines
_KEY = re.compile(r"[A-ZÀ-Þ][^\W\d_]{3,}(?: [^\W\d_]{2,}){0,3}")
_EMPTY_KEYS = frozenset("text note notes abstract example examples parameters returns source warning tip".split())


def wording_of(relation: str, tail: str) -> str | None:
    """Return a question for the tail of a triplet, with {} for its head, or None if the relation has no wording."""
    relation = relation.strip()
    if (_YEAR.search(tail) and (dated := _BY_RELATION.get(relation + DATED))) or (dated := _BY_RELATION.get(relation)):
        return dated
    named = _KEY.fullmatch(relation) is not None and relation.lower() not in _EMPTY_KEYS
    return f"What is the {relation.lower()} of {{}}?" if named else None


def is_paraphrase(relation: str) -> bool:
    """Check that the wording paraphrases a verb, and is not the key of a row."""
    return relation.strip() in _BY_RELATION or relation.strip() + DATED in _BY_RELATION


def is_definition(relation: str, tail: str) -> bool:
    """Check that a triplet says what its head is, in more than one word. In English, that takes an article."""
    said = relation.lower().strip()
    needs_article = said in ("is", "are", "are a")
    return said in IS and len(tail.split()) > 1 and (not needs_article or _ARTICLE.match(tail) is not None)


_ARTICLE = re.compile(r"(?:an?|the|one of)\s", re.IGNORECASE)
IS = frozenset(
    ("is a", "is an", "is", "are", "are a", "was a", "was an", "est", "ist", "es", "è", "é", "是", "は", "это")
)
"""Relations of triplets that define their head, in English and some other languages."""

DEFINITIONS, HEADINGS = _LISTED["definitions"], _LISTED["headings"]
"""Questions for the meaning of a name, and for the beginning of a section, by language."""
# for other languages, wordings without words
BARE_DEFINITION, BARE_HEADING = "{}?", "{} – {}?"
