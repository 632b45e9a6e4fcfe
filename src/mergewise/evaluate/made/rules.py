"""Questions made by rules, without a model.

A slot question asks for the tail of a triplet (a rule's precision is about 0.85), its relation in other words. A question of two
steps goes on where the tail is a name that another section defines. A cloze leaves a name out of one sentence, and its evidence
is *another* sentence with the same names (Fabbri et al. 2020): a question and its own sentence only have to be matched word by
word. The words stand as Lewis et al. (2019, section 2.3.1) found best: what stands behind the gap, then what stands before it.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import permutations
from typing import TypeVar

from mergewise.designs.aed.triplets.phrases import DATE, NAME, trim
from mergewise.designs.aed.triplets.records import Triplet
from mergewise.evaluate.made import lexicon
from mergewise.evaluate.made.records import MadeQuestion
from mergewise.evaluate.made.sections import SectionSentence, SourceReader, SourceSection
from mergewise.text.alignment import words
from mergewise.text.terms import STOP_WORDS

SHORTEST, LONGEST = 6, 40
"""Words of a sentence that is evidence, or a cloze."""
ALIKE = 0.6
"""Share of a sentence's words above which another one says the same."""
PASSAGE = 10
"""Sentences of a section up to which all of them speak of what it is named after."""
COMMON = 4
"""Leaves near two names that hold both: with more of them, nothing tells which one is asked for."""

Part = TypeVar("Part")

_NAME = re.compile(NAME)
_DATE = re.compile(DATE)
_ANCHOR = re.compile(r"\{[#/][^{}]*\}")
_PROSE = re.compile(r"(?!.*::)[\"“«‘'¿¡]?\w[^{}|<>=\\`─-▟]*[.!?。！？][\"”»’')]?")
_LEADING = re.compile(
    r"(?:The|A|An|In|On|At|By|For|From|After|Before|With|When|While|As|It|He|She|This|These|Its|His|Her)\s+"
)


def slots(section: SourceSection, reader: SourceReader) -> Iterator[MadeQuestion]:
    for triplet, wording in _worded(section):
        evidence = (section.sentence(triplet.start, triplet.end).evidence,)
        yield MadeQuestion(wording.question.format(triplet.head), (triplet.tail,), evidence, "slot")


def two_hops(section: SourceSection, reader: SourceReader) -> Iterator[MadeQuestion]:
    for first, wording in _worded(section):
        if not wording.role or len(words(first.tail)) < 2:
            continue
        for other in reader.defined(first.tail):
            if (other.doc_id, other.headings) == (section.doc_id, section.headings):
                continue
            for second, onward in _worded(other):
                if _contains(other.name, second.head) and not _contains(first.head, second.tail):
                    text = onward.question.format(wording.role.format(first.head))
                    evidence = (
                        section.sentence(first.start, first.end).evidence,
                        other.sentence(second.start, second.end).evidence,
                    )
                    yield MadeQuestion(text, (second.tail,), evidence, "two-hop")


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


def clozes(section: SourceSection, reader: SourceReader) -> Iterator[MadeQuestion]:
    for sentence in _shuffled(section.sentences, section):
        names = _names(sentence.plain) if _is_prose(sentence) else []
        for shared, answer in list(permutations(names, 2))[:3]:
            other = _other_sentence(sentence, shared, answer, reader)
            if other is not None:
                yield MadeQuestion(_cloze(other, answer, section.language), (answer,), (sentence.evidence,), "cloze")
                break


RULES: tuple[Callable[[SourceSection, SourceReader], Iterator[MadeQuestion]], ...] = (
    slots,
    two_hops,
    clozes,
    definitions,
    headings,
)


def _worded(section: SourceSection) -> Iterator[tuple[Triplet, lexicon.Wording]]:
    """The triplets that there are words for."""
    for triplet in _shuffled(section.triplets, section):
        wording = lexicon.wording_of(triplet.relation, triplet.tail)
        if wording is not None and _is_about(triplet, section) and not _contains(triplet.head, triplet.tail):
            yield triplet, wording


def _is_about(triplet: Triplet, section: SourceSection) -> bool:
    """Whether the head can be asked about: a name, and in a section of many sentences one that the sentence has itself."""
    sentence = section.sentence(triplet.start, triplet.end)
    near = len(section.sentences) <= PASSAGE or _contains(sentence.plain, triplet.head.split()[-1])
    return near and _is_name(triplet.head)


def _other_sentence(
    sentence: SectionSentence, shared: str, answer: str, reader: SourceReader
) -> SectionSentence | None:
    """A sentence elsewhere that has both names, and says something else."""
    own = set(words(sentence.plain))
    leaves = [leaf for leaf, _ in reader.nearest(f"{shared} {answer}") if shared in leaf.text and answer in leaf.text]
    for leaf in leaves if len(leaves) <= COMMON else ():
        if leaf.span.overlaps(sentence.span):
            continue
        for section in reader.sections(leaf.doc_id):
            for other in section.sentences if leaf in section.leaves else ():
                if shared in other.plain and other.plain.count(answer) == 1 and _is_prose(other):
                    theirs = set(words(other.plain))
                    if len(own & theirs) <= ALIKE * min(len(own), len(theirs)):
                        return other
    return None


def _cloze(sentence: SectionSentence, answer: str, language: str) -> str:
    before, _, after = sentence.plain.rstrip(" .!?。").partition(answer)
    gap = lexicon.CLOZES.get(language)
    if gap is None:
        return f"{before}{lexicon.BARE_CLOZE}{after}?"
    return " ".join(f"{gap} {after.strip(' ,;:')} {before.strip(' ,;:')}".split()) + "?"


def _names(plain: str) -> list[str]:
    """Names in a sentence, each once; not a single word that merely begins it."""
    found = []
    for match in _NAME.finditer(plain):
        name = trim(_LEADING.sub("", match[0]))
        alone = match.start() == 0 and " " not in name
        if len(name) > 2 and not alone and not set(words(name)) <= STOP_WORDS and not _DATE.search(name):
            found.append(name)
    return list(dict.fromkeys(found))


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
