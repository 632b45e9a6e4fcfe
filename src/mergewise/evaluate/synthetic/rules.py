"""Questions made by rules, without a model.

A slot question asks for the tail of a triplet (a rule's precision is about 0.85), its relation in other words. A definition
question asks what a name is, a heading question what a section says first.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias, TypeVar

from mergewise.designs.aed import Triplet
from mergewise.evaluate.synthetic import lexicon
from mergewise.evaluate.synthetic.records import MadeQuestion
from mergewise.evaluate.synthetic.sections import SectionSentence, SourceReader, SourceSection
from mergewise.text.alignment import words
from mergewise.text.terms import STOP_WORDS

SHORTEST, LONGEST = 6, 40
"""Words of a sentence that can be evidence."""
PASSAGE = 10
"""Sentences of a section up to which all of them speak of what it is named after."""

Part = TypeVar("Part")

_ANCHOR = re.compile(r"\{[#/][^{}]*\}")
_PROSE = re.compile(r"(?!.*::)[\"“«‘'¿¡]?\w[^{}|<>=\\`─-▟]*[.!?。！？][\"”»’')]?")
_LEADING = re.compile(
    r"(?:The|A|An|In|On|At|By|For|From|After|Before|With|When|While|As|It|He|She|This|These|Its|His|Her)\s+"
)


def slots(section: SourceSection, reader: SourceReader) -> Iterator[MadeQuestion]:
    for triplet in _shuffled(section.triplets, section):
        wording = lexicon.wording_of(triplet.relation, triplet.tail)
        if wording is not None and _is_about(triplet, section) and not _contains(triplet.head, triplet.tail):
            evidence = (section.sentence(triplet.start, triplet.end).evidence,)
            yield MadeQuestion(wording.format(triplet.head), (triplet.tail,), evidence, "slot")


def definitions(section: SourceSection, reader: SourceReader) -> Iterator[MadeQuestion]:
    for triplet in _shuffled(section.triplets, section):
        known = triplet.relation.lower() in lexicon.IS and len(words(triplet.tail)) > 1
        if (
            known
            and _is_about(triplet, section)
            and (_contains(section.name, triplet.head) or any(reader.defined(triplet.head)))
        ):
            text = lexicon.DEFINITIONS.get(section.language, lexicon.BARE_DEFINITION).format(triplet.head)
            sentence = section.sentence(triplet.start, triplet.end)
            yield MadeQuestion(text, (triplet.tail,), (sentence.evidence,), "definition")


def headings(section: SourceSection, reader: SourceReader) -> Iterator[MadeQuestion]:
    """What a section says first, asked for by its heading and what stands above that. There is no short answer."""
    above = (section.title, *section.headings)[-2] if section.headings else ""
    first = next((one for one in section.sentences if _is_prose(one)), None)
    if first is not None and above and not _contains(above, section.name):
        wording = lexicon.HEADINGS.get(section.language, lexicon.BARE_HEADING)
        yield MadeQuestion(wording.format(_quoted(section.name), _quoted(above)), (), (first.evidence,), "heading")


Rule: TypeAlias = Callable[[SourceSection, SourceReader], Iterator[MadeQuestion]]
RULES: tuple[Rule, ...] = (slots, definitions, headings)


def _is_about(triplet: Triplet, section: SourceSection) -> bool:
    """Whether the head can be asked about: a name, and in a section of many sentences one that the sentence has itself."""
    sentence = section.sentence(triplet.start, triplet.end)
    near = len(section.sentences) <= PASSAGE or _contains(sentence.plain, triplet.head.split()[-1])
    return near and _is_name(triplet.head)


def _is_name(head: str) -> bool:
    """What a question can name alone: neither "The summit" nor a sentence."""
    said = head.split()
    if not 0 < len(said) <= 8 or not words(head) or set(words(head)) <= STOP_WORDS or _LEADING.match(head):
        return False
    return said[0] != said[0].lower() or not said[0].isascii()


def _shuffled(parts: Sequence[Part], section: SourceSection) -> list[Part]:
    """In an order that is the section's own: what documents say first is no fairer than the rest."""
    return random.Random(section.leaves[0].id).sample(parts, len(parts))


def _is_prose(sentence: SectionSentence) -> bool:
    """A whole sentence: neither a row of a table nor code."""
    return SHORTEST <= len(sentence.plain.split()) <= LONGEST and _PROSE.fullmatch(sentence.plain) is not None


def _contains(text: str, part: str) -> bool:
    return f" {' '.join(words(part))} " in f" {' '.join(words(text))} "


def _quoted(name: str) -> str:
    return f"“{' '.join(_ANCHOR.sub('', name).split())}”"
