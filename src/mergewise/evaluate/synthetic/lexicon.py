"""Wordings of questions. They paraphrase the relations of triplets, and follow the document's language."""

from __future__ import annotations

import re
from collections.abc import Mapping

DATED = " #"
"""Suffix of a relation whose tail must hold a year."""


_WORDINGS: Mapping[str, str] = {
    "born on": "What is the date of birth of {}?",
    "born in #": "What is the birth year of {}?",
    "born in": "What is the birthplace of {}?",
    "died on": "What is the date of death of {}?",
    "died in #": "What is the year of death of {}?",
    "died in": "What is the place of death of {}?",
    "nationality|country of origin": "From which country does {} come?",
    "starring|stars|features voices of": "Which performer appears in {}?",
    "directed by": "Who is the director of {}?",
    "written by": "Who is the author of {}?",
    "produced by": "Who is the producer of {}?",
    "composed by|music by": "Who is the composer of {}?",
    "published by": "Which company is the publisher of {}?",
    "created by": "Who is the creator of {}?",
    "developed by": "Who is the developer of {}?",
    "designed by": "Who is the designer of {}?",
    "founded by|established by": "Who is the founder of {}?",
    "owned by": "Who is the owner of {}?",
    "operated by": "Who is the operator of {}?",
    "led by": "Who is the leader of {}?",
    "performed by|recorded by|sung by|album by|song by|single by": "Which artist is the performer of {}?",
    "located in|located on|located at|based in|headquartered in|situated in": "Where can {} be found?",
    "village in|town in|city in|community in": "Where can {} be found?",
    "founded in #|established in #|formed in #|created in #": "When was {} set up?",
    "released in #|released on|premiered on|published in #": "When did {} come out?",
    "built in #|opened in #|completed in #": "When was {} finished?",
    "year": "From which year is {}?",
    "population": "How many inhabitants does {} have?",
    "plays for|played for": "Which team has {} as a player?",
    "member of|part of": "What does {} belong to?",
    "son of|daughter of": "Who is a parent of {}?",
    "wife of|husband of|married": "Who is the spouse of {}?",
    "father of|mother of": "Who is a child of {}?",
    "brother of|sister of": "Who is a sibling of {}?",
    "father": "Who is the father of {}?",
    "mother": "Who is the mother of {}?",
    "wife|husband|spouse": "To whom is {} married?",
    "known for": "What made {} famous?",
    "also known as|known as|also called|nicknamed": "What is another name of {}?",
    "based on": "What is the source of {}?",
    "named after": "Whose name does {} bear?",
    "tributary of": "Into which river does {} flow?",
    "played by|portrayed by|voiced by": "Which actor gives life to {}?",
    "appeared in|starred in": "In what did {} act?",
    "consists of|composed of": "What are the parts of {}?",
    "served as|worked as|works as": "What was the job of {}?",
    "attended|studied at|educated at": "Where did {} go to school?",
    "used for|used to": "What is the purpose of {}?",
    "provides|supports|offers": "What does one get from {}?",
    "requires|needs": "What must be there for {}?",
    "returns": "What is the result of {}?",
}
_BY_RELATION = {relation: wording for listed, wording in _WORDINGS.items() for relation in listed.split("|")}
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
PERSON = "Who is {}?"
IS = frozenset(
    ("is a", "is an", "is", "are", "are a", "was a", "was an", "est", "ist", "es", "è", "é", "是", "は", "это")
)
"""Relations of triplets that define their head, in English and some other languages."""

DEFINITIONS: Mapping[str, str] = {
    "en": "What is {}?",
    "fr": "Qu’est-ce que {} ?",
    "de": "Was ist {}?",
    "es": "¿Qué es {}?",
    "it": "Che cos’è {}?",
    "pt": "O que é {}?",
    "nl": "Wat is {}?",
    "ru": "Что такое {}?",
    "zh": "什么是{}？",
    "ja": "{}とは何ですか？",
}
HEADINGS: Mapping[str, str] = {
    "en": "What does one have to know about {} in {}?",
    "fr": "Que faut-il savoir sur {} dans {} ?",
    "de": "Was muss man über {} in {} wissen?",
    "es": "¿Qué hay que saber sobre {} en {}?",
    "it": "Che cosa bisogna sapere su {} in {}?",
    "pt": "O que é preciso saber sobre {} em {}?",
    "nl": "Wat moet men weten over {} in {}?",
    "ru": "Что нужно знать о {} в {}?",
}
# for other languages, wordings without words
BARE_DEFINITION, BARE_HEADING = "{}?", "{} – {}?"
