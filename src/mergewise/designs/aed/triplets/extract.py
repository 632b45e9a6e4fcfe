"""Triplets by a chat model (AED-RAG, the extractor Psi of Eq. 4): the prompt, the schema, and the checks of an answer.

The paper uses a published extractor and shows no prompt, so the prompt is ours. It follows the paper's description of triplets:
atomic facts with little noise. A triplet is accepted if head and tail occur in the passage, or in its title and headings. Its
source is the sentence that holds most of it. We do not ask the model for sentence numbers, because it would have to count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from math import ceil
from typing import NamedTuple

from mergewise.designs.aed.triplets.records import Triplet, TripletSettings
from mergewise.index.writing.task import (
    Policy,
    Rejected,
    WritingRequest,
    WritingSource,
    WritingTask,
    paragraph_names,
    request_messages,
    text_of_field,
)
from mergewise.prompting.records import Fields
from mergewise.prompting.replies import object_schema
from mergewise.text.alignment import words
from mergewise.text.spans import one_line
from mergewise.text.terms import STOP_WORDS
from mergewise.types import SHIPPED, Message, Part, Prompts, PromptTemplate

HELD = 0.75  # minimum share of a part's words in a sentence or title that holds the part
LONGEST = 300  # characters of a head or tail
LONGEST_RELATION = 120
TOKENS, EVERY = 40, 20  # expected tokens of a triplet in an answer, and tokens of text per triplet

FIELDS: Fields = {
    "head": ("text", ("subject", "h")),
    "relation": ("text", ("predicate", "r")),
    "tail": ("text", ("object", "t")),
    "paragraph": ("numbers", ("paragraphs", "passage")),
}
_PART = {"type": "string"}
_TRIPLET = object_schema({"paragraph": {"type": "integer"}, "head": _PART, "relation": _PART, "tail": _PART})
SCHEMA = object_schema({"triplets": {"type": "array", "items": _TRIPLET}})


class PassageTriplet(NamedTuple):
    """A triplet by a model, with the number of its passage."""

    triplet: Triplet
    passage: int


def task(settings: TripletSettings, prompts: Prompts = SHIPPED) -> WritingTask[PassageTriplet]:
    # cached, since each triplet of a passage is compared with the passage
    passage = lru_cache(256)(read_passage)
    return WritingTask(
        name="triplets",
        schema=SCHEMA,
        fields=FIELDS,
        prompt=lambda request: prompt(request, prompts),
        item=lambda record, request: triplet_of(record, request, passage),
        paragraphs=lambda item: (item.passage,),
        repeats=lambda one, other: same_words(one.triplet) == same_words(other.triplet),
        output=lambda request: max(1, ceil(TOKENS * request.source.tokens(request.asked) / EVERY)),
    )


def policy(settings: TripletSettings) -> Policy:
    return Policy(settings.attempts, settings.coverage, window=settings.window, overlap=settings.overlap)


def same_words(triplet: Triplet) -> tuple[str, ...]:
    """Return the normalised words of a triplet. They are equal for duplicates."""
    return tuple(" ".join(words(part)) for part in triplet[:3])


# -- the prompt

RULES = PromptTemplate(
    "triplets",
    "extracts the facts of passages, for the view triplet",
    """\
You take the facts out of a text (instructions, version 1).
Write each fact as a triplet of three short texts: what it is about ("head"), how the two are related ("relation"), and what is
said of it ("tail"). A triplet is read alone, by somebody who does not have the text.

- Take one fact a triplet. A sentence with three facts gives three triplets; a list of names gives a triplet for each of them.
- Take head and tail from the text as it writes them: names, dates, numbers with units, places, titles, kinds of things. They
  are short: a name or a phrase, never a clause or a sentence.
- Where the text says "he", "it" or "the company", write the name that is meant. It may stand in the title.
- Keep the relation to a few words, as the text says it: "directed by", "born in", "is a", "default value".
- Add nothing that the text does not say, and leave out opinions, asides and what is said of the text itself.
- The text comes as numbered paragraphs, each below its tag [Paragraph N]; "paragraph" is the number of the one with the fact.
- A paragraph without any fact gives no triplet.

Answer with JSON alone, in this form, with every double quote inside a text written as \\":
{"triplets": [{"paragraph": 0, "head": "...", "relation": "...", "tail": "..."}, ...]}""",
)


def prompt(request: WritingRequest, prompts: Prompts = SHIPPED) -> list[Message]:
    """Build the prompt about some passages. The rules come first and are the same in every call."""
    wish = f"Write the triplets of {paragraph_names(request.asked)} of this text."
    return request_messages(request, prompts.fill(RULES), wish, "Triplets", "text")


# -- an answer


def triplet_of(
    record: Mapping[str, object], request: WritingRequest, passage: Callable[[WritingSource, int], PassageWords]
) -> PassageTriplet:
    """Return the triplet of a record, with its sentence. Raise `Rejected` with the reason if the record is invalid."""
    head, relation, tail = (_line(record.get(name)) for name in ("head", "relation", "tail"))
    for name, part in (("head", head), ("relation", relation), ("tail", tail)):
        if not words(part):
            raise Rejected(f"no {name}")
    if max(len(head), len(tail)) > LONGEST or len(relation) > LONGEST_RELATION:
        raise Rejected("too long")
    if words(head) == words(tail):
        raise Rejected("head and tail are the same")
    reasons = []
    # The passages to search for the triplet: the ones that the record names, then the rest of the prompt.
    given = record.get("paragraph")
    named = [n for n in (given if isinstance(given, list) else [given]) if type(n) is int and n in request.shown]
    for number in [*named, *(n for n in request.shown if n not in named)]:
        place = passage(request.source, number).sentence(head, relation, tail)
        if not isinstance(place, str):
            return PassageTriplet(Triplet(head, relation, tail, *place), number)
        reasons.append(place)
    raise Rejected(reasons[0])


class PassageWords(NamedTuple):
    """The words of a passage: of its title and headings, of each sentence with its offsets, and of all together."""

    above: frozenset[str]
    sentences: tuple[tuple[frozenset[str], Part], ...]
    everything: frozenset[str]

    def sentence(self, head: str, relation: str, tail: str) -> Part | str:
        """Return the offsets of the sentence that holds most of the triplet, or the reason why no sentence fits.

        The sentence must hold the head or the tail. The other part may be elsewhere in the passage, or in its title and headings,
        since a sentence may say "he" or "the film". If the title and headings hold both parts, the sentence must hold both.
        """
        # The words of each part without stop words, or all words if they are all stop words.
        wholes = [frozenset(words(part)) for part in (head, relation, tail)]
        parts = [whole - STOP_WORDS or whole for whole in wholes]
        for name, part in (("head", parts[0]), ("tail", parts[2])):
            if not _holds(self.everything, part):
                return f"{name} not in the text"

        def score(sentence: tuple[frozenset[str], Part]) -> float:
            in_head, in_relation, in_tail = (len(sentence[0] & part) / len(part) for part in parts)
            return in_head + 0.5 * in_relation + in_tail

        best = max(self.sentences, key=score, default=None)
        own = [part for part in (parts[0], parts[2]) if not _holds(self.above, part)]
        enough = any if own else all
        if best is None or not enough(_holds(best[0], part) for part in own or (parts[0], parts[2])):
            return "no sentence"
        return best[1]


def read_passage(source: WritingSource, number: int) -> PassageWords:
    segment = source.segments[number]
    above = frozenset(words("\n".join((source.title, *segment.headings))))
    sentences = tuple((frozenset(words(source.text[s.start : s.end])), (s.start, s.end)) for s in segment.sentences)
    return PassageWords(above, sentences, above.union(*(held for held, _ in sentences)))


def _holds(held: frozenset[str], part: frozenset[str]) -> bool:
    """Check that most of a part's words occur, and all words with a digit."""
    exact = {word for word in part if any(character.isdigit() for character in word)}
    return exact <= held and len(held & part) >= HELD * len(part)


def _line(given: object) -> str:
    """Return a text or a number as a single line. A list of one value counts as the value."""
    if isinstance(given, list) and len(given) == 1:
        given = given[0]
    if isinstance(given, int | float) and not isinstance(given, bool):
        given = str(given)
    return one_line(text_of_field(given))
