"""How questions are worded: for relations of triplets in other words than texts say them, and by the document's language."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

DATED = " #"
"""Behind a relation: its tail holds a year."""


class Wording(NamedTuple):
    """How a relation is asked for. `role` names what it leads to, for a question of two steps; empty where none begins there."""

    question: str
    role: str = ""


_WORDINGS: Mapping[str, Wording] = {
    "born on": Wording("What is the date of birth of {}?"),
    "born in #": Wording("What is the birth year of {}?"),
    "born in": Wording("What is the birthplace of {}?", "the birthplace of {}"),
    "died on": Wording("What is the date of death of {}?"),
    "died in #": Wording("What is the year of death of {}?"),
    "died in": Wording("What is the place of death of {}?", "the place of death of {}"),
    "nationality|country of origin": Wording("From which country does {} come?"),
    "starring|stars|features voices of": Wording("Which performer appears in {}?", "a performer in {}"),
    "directed by": Wording("Who is the director of {}?", "the director of {}"),
    "written by": Wording("Who is the author of {}?", "the author of {}"),
    "produced by": Wording("Who is the producer of {}?", "the producer of {}"),
    "composed by|music by": Wording("Who is the composer of {}?", "the composer of {}"),
    "published by": Wording("Which company is the publisher of {}?", "the publisher of {}"),
    "created by": Wording("Who is the creator of {}?", "the creator of {}"),
    "developed by": Wording("Who is the developer of {}?", "the developer of {}"),
    "designed by": Wording("Who is the designer of {}?", "the designer of {}"),
    "founded by|established by": Wording("Who is the founder of {}?", "the founder of {}"),
    "owned by": Wording("Who is the owner of {}?", "the owner of {}"),
    "operated by": Wording("Who is the operator of {}?", "the operator of {}"),
    "led by": Wording("Who is the leader of {}?", "the leader of {}"),
    "performed by|recorded by|sung by|album by|song by|single by": Wording(
        "Which artist is the performer of {}?", "the performer of {}"
    ),
    "located in|located on|located at|based in|headquartered in|situated in|village in|town in|city in|community in": Wording(
        "Where can {} be found?", "the place where {} is"
    ),
    "founded in #|established in #|formed in #|created in #": Wording("When was {} set up?"),
    "released in #|released on|premiered on|published in #": Wording("When did {} come out?"),
    "built in #|opened in #|completed in #": Wording("When was {} finished?"),
    "year": Wording("From which year is {}?"),
    "population": Wording("How many inhabitants does {} have?"),
    "plays for|played for": Wording("Which team has {} as a player?", "the team of {}"),
    "member of|part of": Wording("What does {} belong to?", "what {} belongs to"),
    "son of|daughter of": Wording("Who is a parent of {}?", "a parent of {}"),
    "wife of|husband of|married": Wording("Who is the spouse of {}?", "the spouse of {}"),
    "father of|mother of": Wording("Who is a child of {}?", "a child of {}"),
    "brother of|sister of": Wording("Who is a sibling of {}?", "a sibling of {}"),
    "father": Wording("Who is the father of {}?", "the father of {}"),
    "mother": Wording("Who is the mother of {}?", "the mother of {}"),
    "wife|husband|spouse": Wording("To whom is {} married?", "the spouse of {}"),
    "known for": Wording("What made {} famous?"),
    "also known as|known as|also called|nicknamed": Wording("What is another name of {}?"),
    "based on": Wording("What is the source of {}?"),
    "named after": Wording("Whose name does {} bear?"),
    "tributary of": Wording("Into which river does {} flow?"),
    "played by|portrayed by|voiced by": Wording("Which actor gives life to {}?", "the actor of {}"),
    "appeared in|starred in": Wording("In what did {} act?", "what {} acted in"),
    "consists of|composed of": Wording("What are the parts of {}?"),
    "served as|worked as|works as": Wording("What was the job of {}?"),
    "attended|studied at|educated at": Wording("Where did {} go to school?"),
    "used for|used to": Wording("What is the purpose of {}?"),
    "provides|supports|offers": Wording("What does one get from {}?"),
    "requires|needs": Wording("What must be there for {}?"),
    "returns": Wording("What is the result of {}?"),
}
_BY_RELATION = {relation: wording for listed, wording in _WORDINGS.items() for relation in listed.split("|")}
_YEAR = re.compile(r"\b\d{3,4}\b")
# keys of tables and of "key: value" lines
_KEY = re.compile(r"[A-ZÀ-Þ][^\W\d_]{3,}(?: [^\W\d_]{2,}){0,3}")
_EMPTY_KEYS = frozenset("text note notes abstract example examples parameters returns source warning tip".split())


def wording_of(relation: str, tail: str) -> Wording | None:
    """How a relation of a triplet is asked for; None where there are no words for it."""
    relation = relation.strip()
    if (_YEAR.search(tail) and (dated := _BY_RELATION.get(relation + DATED))) or (dated := _BY_RELATION.get(relation)):
        return dated
    named = _KEY.fullmatch(relation) is not None and relation.lower() not in _EMPTY_KEYS
    return Wording(f"What is the {relation.lower()} of {{}}?") if named else None


IS = frozenset(
    ("is a", "is an", "is", "are", "are a", "was a", "was an", "est", "ist", "es", "è", "é", "是", "は", "это")
)
"""Relations of triplets that say what something is, of English and of some other languages."""

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
CLOZES: Mapping[str, str] = {
    "en": "Who or what",
    "fr": "Qui ou quoi",
    "de": "Wer oder was",
    "es": "Quién o qué",
    "it": "Chi o che cosa",
    "pt": "Quem ou o que",
    "nl": "Wie of wat",
    "ru": "Кто или что",
}
# for every other language, words that are in none
BARE_DEFINITION, BARE_HEADING, BARE_CLOZE = "{}?", "{} – {}?", "…"
