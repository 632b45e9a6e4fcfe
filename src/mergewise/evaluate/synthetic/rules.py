"""Questions made by rules, without a model.

- A slot question asks for the tail of a triplet and paraphrases its relation. The rules' precision is about 0.85.
- A definition question asks for the meaning of a name.
- A heading question asks for the beginning of a section.

Names and answers with marks of code, and sentences that are no prose, give no slots and no definitions: such questions cannot be
read.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias, TypeVar

from mergewise.evaluate.synthetic import lexicon
from mergewise.evaluate.synthetic.records import MadeQuestion
from mergewise.evaluate.synthetic.sections import SectionSentence, SourceReader, SourceSection
from mergewise.extend import STOP_WORDS, Triplet, words

SHORTEST, LONGEST = 6, 40
"""Minimum and maximum of words of a sentence that can be evidence."""
PASSAGE = 10
"""Maximum of sentences of a section whose sentences are all assumed to be about its heading."""

Part = TypeVar("Part")

_ANCHOR = re.compile(r"\{[#/][^{}]*\}")
_PROSE = re.compile(r"(?!.*::)[\"“«‘'¿¡]?\w[^{}|<>=\\`─-▟]*[.!?。！？][\"”»’')]?")
_CODE = re.compile(r"[`{}|<>=\[\]\\_/]|\w\(|[a-z]\.[a-zA-Z]|\w::")
_LIFE = re.compile(r"\b(?:born|died)\b|\([^()]*\d{4}\s*[–-][^()]*\d{4}\)[^.]* was ")
_LEADING = re.compile(
    r"(?:The|A|An|In|On|At|By|For|From|After|Before|With|When|While|As|It|He|She|This|These|Its|His|Her)\s+"
)


def slots(section: SourceSection, reader: SourceReader) -> Iterator[MadeQuestion]:
    for triplet in _shuffled(section.triplets, section):
        wording = lexicon.wording_of(triplet.relation, triplet.tail)
        sentence = section.sentence(triplet.start, triplet.end)
        if lexicon.is_paraphrase(triplet.relation):
            readable = _is_prose(sentence)
        else:
            # a row such as "Population: 50", and neither code nor a list entry
            readable = not _CODE.search(sentence.plain) and not sentence.text.lstrip().startswith(("-", "*", "#"))
        if (
            wording is not None
            and readable
            and _is_plain(triplet)
            and _is_about(triplet, section)
            and not _contains(triplet.head, triplet.tail)
        ):
            yield MadeQuestion(wording.format(triplet.head), (triplet.tail,), (sentence.evidence,), "slot")


def definitions(section: SourceSection, reader: SourceReader) -> Iterator[MadeQuestion]:
    for triplet in _shuffled(section.triplets, section):
        sentence = section.sentence(triplet.start, triplet.end)
        if (
            lexicon.is_definition(triplet.relation, triplet.tail)
            and _is_plain(triplet)
            and _PROSE.fullmatch(sentence.plain)
            and _is_about(triplet, section)
            and (_contains(section.name, triplet.head) or any(reader.defined(triplet.head)))
        ):
            wording = lexicon.DEFINITIONS.get(section.language, lexicon.BARE_DEFINITION)
            if section.language == "en" and _LIFE.search(sentence.plain):
                wording = "Who is {}?"
            yield MadeQuestion(wording.format(triplet.head), (triplet.tail,), (sentence.evidence,), "definition")


def headings(section: SourceSection, reader: SourceReader) -> Iterator[MadeQuestion]:
    """Yield a question for the first sentence of a section, by its heading and the heading above. It has no short answer."""
    above = (section.title, *section.headings)[-2] if section.headings else ""
    first = next((one for one in section.sentences if _is_prose(one)), None)
    if first is not None and above and not _contains(above, section.name):
        wording = lexicon.HEADINGS.get(section.language, lexicon.BARE_HEADING)
        yield MadeQuestion(wording.format(_quoted(section.name), _quoted(above)), (), (first.evidence,), "heading")


Rule: TypeAlias = Callable[[SourceSection, SourceReader], Iterator[MadeQuestion]]
RULES: tuple[Rule, ...] = (slots, definitions, headings)


def _is_about(triplet: Triplet, section: SourceSection) -> bool:
    """Check that the head can be asked about. It must be a name, which in a long section the sentence itself must contain."""
    sentence = section.sentence(triplet.start, triplet.end)
    near = len(section.sentences) <= PASSAGE or _contains(sentence.plain, triplet.head.split()[-1])
    return near and _is_name(triplet.head)


def _is_plain(triplet: Triplet) -> bool:
    """Check that neither the head nor the tail has marks of code, and that the tail is no fragment."""
    return not (_CODE.search(triplet.head) or _CODE.search(triplet.tail)) and words(triplet.tail)[-1:] != ["such"]


def _is_name(head: str) -> bool:
    """Check that a text is a name that a question can use without context: neither "The summit" nor a sentence."""
    said = head.split()
    if not 0 < len(said) <= 8 or not words(head) or set(words(head)) <= STOP_WORDS or _LEADING.match(head):
        return False
    return said[0] != said[0].lower() or not said[0].isascii()


def _shuffled(parts: Sequence[Part], section: SourceSection) -> list[Part]:
    """Shuffle parts by a seed of the section, so that the beginning of a document is not preferred."""
    return random.Random(section.leaves[0].id).sample(parts, len(parts))


def _is_prose(sentence: SectionSentence) -> bool:
    """Check that a sentence is complete prose: neither a row of a table nor code."""
    return SHORTEST <= len(sentence.plain.split()) <= LONGEST and _PROSE.fullmatch(sentence.plain) is not None


def _contains(text: str, part: str) -> bool:
    return f" {' '.join(words(part))} " in f" {' '.join(words(text))} "


def _quoted(name: str) -> str:
    return f"“{' '.join(_ANCHOR.sub('', name).split())}”"
