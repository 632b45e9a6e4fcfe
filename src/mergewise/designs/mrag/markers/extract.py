"""Markers by a chat model (M-RAG section 2.1, Tables 1 and 4): the prompt, the schema, and the checks of an answer.

The prompt has every rule of the paper's tables in our own words. Differences:
- Field names are words (value, key, paragraphs), and the key is a single text. The paper's names, and a list with one key, are
  also accepted.
- The prompt asks for values of "a few sentences" instead of 200 to 300 words. A segment has about 90 words, and the values in the
  paper's Figure 5 have 50 to 65 tokens.
- The document is quoted between lines with a code, and tags in its text are defused, so that a text cannot number itself.
- The numbers of a marker are checked. Small models often copy a sentence correctly but name the wrong paragraph, or the same
  paragraph for all markers. If another paragraph of the window holds a sentence, its number is added. If every sentence of a
  value is found, only numbers of paragraphs that hold a part of the value stay. So coverage depends on the values, not on the
  model's claims. `numbers=given` disables this.
- A document of more than `MarkerSettings.window` tokens is read in overlapping windows. Answers are as long as their input, and
  most endpoints write at most a few thousand tokens.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from itertools import islice
from math import ceil
from pathlib import Path
from typing import TypeAlias

from mergewise.designs.mrag.chunks.summaries import INSTRUCTIONS
from mergewise.designs.mrag.markers.grounding import GroundedValue, Grounder, ValueSentence
from mergewise.designs.mrag.markers.records import MarkerSettings
from mergewise.errors import UsageError
from mergewise.files import regular_bytes
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
from mergewise.text.sections import heading_path
from mergewise.text.support.judge import Judge
from mergewise.text.support.sources import Extract, ReadSource
from mergewise.types import SHIPPED, Json, Message, Prompts, PromptTemplate, frozen

SAME = 0.9  # minimum share of common words of duplicate values
_LONGEST_KEY = 2_000  # characters
_LONGEST_VALUE = 20_000
_ASKS = ("?", "？", "؟", ";")  # the last is the Greek question mark
_FEW = 6  # minimum words of a key without a question mark; a shorter key is only a heading
VALUE, KEY, FORM = 60, 20, 20  # typical tokens of a marker: the paper's Figure 5, and the JSON around it
OVERLAP = 1.25  # expected markers per segment

FIELDS: Fields = {
    "value": ("text", ("v",)),
    "key": ("text", ("k",)),
    "paragraphs": ("numbers", ("paragraph_indices", "paragraph")),
}


@frozen
class RawMarker:
    """A marker as a model wrote it, and its value grounded in its paragraphs."""

    value: str
    key: str
    paragraphs: tuple[int, ...]
    # true if the paragraph numbers were corrected
    renumbered: bool = False
    grounded: GroundedValue | None = field(default=None, compare=False)


def task(settings: MarkerSettings, prompts: Prompts = SHIPPED) -> WritingTask[RawMarker]:
    """Return the writing task. Raise UsageError if the examples are invalid."""
    stored = settings.examples
    examples: Sequence[Json] = BUILT_IN if stored == "built-in" else ()
    if stored.startswith("["):
        examples = _examples_in(stored, "the settings of the view 'marker'")
    elif stored not in ("none", "built-in"):
        raise UsageError(
            "examples of markers not in the index: its settings name a file",
            "index the documents into another directory, with --set marker.examples=FILE",
        )

    def read(key: _SegmentKey) -> ReadSource:
        # A segment is a source for grounding, with its title and headings.
        source, number = key
        segment = source.segments[number]
        extract = Extract(source.text, segment.start, segment.end)
        return ReadSource.of([extract], heading_path(source.title, segment.headings))

    judge = Judge(read)

    def output(request: WritingRequest) -> int:
        markers = OVERLAP * request.source.tokens(request.asked) / settings.segment
        return max(1, ceil(markers * (min(VALUE, settings.segment) + KEY + FORM)))

    return WritingTask(
        name="markers",
        schema=schema(settings.most),
        fields=FIELDS,
        prompt=lambda request: prompt(request, settings, examples, prompts),
        item=lambda record, request: ground(marker_of(record, request, settings.most), request, settings, judge),
        paragraphs=lambda marker: marker.paragraphs,
        repeats=repeats,
        output=output,
    )


def policy(settings: MarkerSettings) -> Policy:
    again, overlap = settings.policy == "again", settings.overlap * settings.segment
    return Policy(settings.attempts, settings.coverage, again, settings.window, overlap)


def schema(most: int) -> dict[str, object]:
    """Return a strict schema. The value comes before the key, because a model writes the fields in this order."""
    text, numbers = {"type": "string"}, {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": most}
    marker = object_schema({"value": text, "key": text, "paragraphs": numbers})
    return object_schema({"markers": {"type": "array", "items": marker}})


# -- the prompt

RULES = PromptTemplate(
    "markers",
    "writes the markers of M-RAG: at least `$least`, of up to `$most` paragraphs each, after the `$examples`",
    """\
You prepare documents for a search engine (instructions, version 1).
Your work is a list of markers. A marker takes the place of a chunk of text: its key is what a question is compared with, its
value is what is read when the key is found. Whoever reads a value does not see the document.

The document is given as numbered paragraphs, each below its tag [Paragraph N]. N begins with 0 at the beginning of the document.

Each marker has three parts. Write them in this order:
1. "value": a passage that stands alone and tells one fact, event, definition, step or aspect, narrow and complete, in a few full
   sentences. Take over every name, date, number, unit, condition and relation that the paragraphs give about it, exactly as
   they stand, and nothing that they do not say. Write out what a pronoun or "this" stands for: "she" becomes the person's full
   name. Tie attributes to what they belong to: a person's dates, offices and relatives; an organisation's place and founding
   year; a work's author and year; an event's date and figures; a statistic's exact value.
2. "key": one question, made after the value, that this value answers. It may be long. It names the people, things, places and
   dates that the value is about, so that it is understood by itself, and it is as close as possible to what somebody would
   ask who needs this value. One question, never a list, never a heading.
3. "paragraphs": the numbers of the paragraphs that the value is taken from. One or two are best, $most is the most. A list of
   $over numbers makes a marker worthless: write several markers instead. [4] is good, [4, 5] is good, [$too_many] is not.

How many:
- Many small markers, not a few large ones. Ten paragraphs need ten markers or more.
- At least as many markers as you are asked for. More are welcome; do not save on them.
- Nothing may be lost: each paragraph that you are asked about is in at least one marker, and mostly in two or three, each about
  another side of it. One and the same paragraph may serve for a person, an event and a place.

Answer with JSON alone, in this form, with every double quote inside a text written as \\":
{"markers": [{"value": "...", "key": "...?", "paragraphs": [0]}, ...]}
$examples""",
    needs=("most", "examples"),
    may=("over", "too_many", "least"),
)

_ORDERS = {"a": (1, 2, 0), "b": (1, 0, 2), "c": (2, 0, 1)}


def ordered(order: str) -> PromptTemplate:
    """Return the built-in prompt with its parts, which are the rules, the goals and the form of the answer, in another order."""
    if order not in _ORDERS:
        return RULES
    task, document, *parts = RULES.text.removesuffix("\n$examples").split("\n\n")
    text = "\n\n".join([task, document, *(parts[place] for place in _ORDERS[order])])
    return replace(RULES, text=f"{text}\n$examples")


def prompt(
    request: WritingRequest, settings: MarkerSettings, examples: Sequence[Json] = (), prompts: Prompts = SHIPPED
) -> list[Message]:
    """Build the prompt about some segments. The rules come first and never change, for endpoints with a prefix cache."""
    least = max(1, ceil(request.source.tokens(request.asked) / settings.segment))
    lines = ["\nGood markers of other documents, to show the form. None of it belongs into your answer:"]
    for example in examples:
        marker = {name: example[name] for name in ("value", "key", "paragraphs")}
        given = f"{example['text']}\n=> " if example.get("text") else ""
        lines.append(given + json.dumps(marker, ensure_ascii=False))
    rules = prompts.fill(
        ordered(settings.order),
        most=settings.most,
        over=settings.most + 1,
        too_many=", ".join(str(4 + i) for i in range(settings.most + 1)),
        least=least,
        examples="\n".join([*lines, ""]) if examples else "",
    )
    wish = f"Write at least {least} markers for {paragraph_names(request.asked)} of this document."
    return request_messages(request, rules, wish, "Markers", "document")


# -- examples

BUILT_IN: tuple[Json, ...] = (
    {
        "text": "[Paragraph 6]\nAfter the flood she moved the workshop to Tallow Street, where it stayed until 1931. He never "
        "forgave her the loss of the river frontage.",
        "value": "After the flood of 1911 the glassmaker Ines Verhoeven moved the Verhoeven workshop to Tallow Street, where it "
        "stayed until 1931. Her brother Pieter Verhoeven never forgave Ines Verhoeven the loss of the river frontage.",
        "key": "Where did the glassmaker Ines Verhoeven move the Verhoeven workshop after the flood of 1911, and until when did "
        "it stay there?",
        "paragraphs": [5, 6],
    },
    {
        "text": "[Paragraph 12]\nretry_limit: how often a job is started again (default 5). With 0 a job that fails is dropped.",
        "value": "The option retry_limit of the job queue says how often a job is started again; its default is 5. With "
        "retry_limit set to 0, a job that fails is dropped.",
        "key": "What does the option retry_limit of the job queue do, what is its default value, and what happens with 0?",
        "paragraphs": [12],
    },
)


_LONGEST = 1_000_000
"""Maximum size of a file of examples, in bytes."""
_LOST = "lost"
_FORM = 'write a JSON list of {"value": "...", "key": "...?", "paragraphs": [0]}, each with an optional "text"'


def with_file_of_examples(settings: MarkerSettings) -> MarkerSettings:
    """Replace the path of a file of examples by its content. Raise UsageError if the file is invalid."""
    if _is_stored(settings.examples):
        return settings
    path = Path(settings.examples)
    try:
        content = regular_bytes(path, _LONGEST, follow=True)
    except OSError as error:
        problem = f"cannot read the examples of markers: {path}: {error.strerror}"
        raise UsageError(problem, f"{_FORM}, or use built-in or none") from None
    return replace(settings, examples=json.dumps(_examples_in(content, path), ensure_ascii=False))


def without_file_of_examples(settings: MarkerSettings) -> MarkerSettings:
    """Replace the path of a file, which older versions stored, by a mark that the examples are lost."""
    return settings if _is_stored(settings.examples) else replace(settings, examples=_LOST)


def _is_stored(examples: str) -> bool:
    return examples in ("none", "built-in", _LOST) or examples.startswith("[")


def _examples_in(content: bytes | str, place: object) -> Sequence[Json]:
    try:
        examples = json.loads(content)
    except (ValueError, RecursionError):
        raise UsageError(f"invalid JSON: {place}", _FORM) from None
    if not isinstance(examples, list) or not examples or not all(map(_is_example, examples)):
        raise UsageError(f"invalid examples of markers: {place}", _FORM)
    return examples


def _is_example(given: object) -> bool:
    if not isinstance(given, dict) or not isinstance(given.get("paragraphs"), list):
        return False
    texts = (given.get("value"), given.get("key"), given.get("text", ""))
    return all(isinstance(text, str) for text in texts) and all(type(n) is int for n in given["paragraphs"])


# -- an answer


def marker_of(record: Mapping[str, object], request: WritingRequest, most: int) -> RawMarker:
    """Return the marker of a record. Raise `Rejected` with the reason if the record is invalid."""
    value, key = text_of_field(record.get("value")), text_of_field(record.get("key"))
    # empty, or the dots of the form in the prompt
    if not words(value):
        raise Rejected("no value")
    if not words(key):
        raise Rejected("no key")
    if len(value) > _LONGEST_VALUE or len(key) > _LONGEST_KEY:
        raise Rejected("too long")
    if not key.endswith(_ASKS) and len(words(key)) < _FEW:
        raise Rejected("no question")
    numbers = _numbers(record.get("paragraphs"))
    if not numbers:
        raise Rejected("no paragraph")
    if len(numbers) > most:
        raise Rejected("too many paragraphs")
    if not set(numbers) <= set(request.shown):
        raise Rejected("paragraph out of range")
    return RawMarker(value, key, numbers)


_SegmentKey: TypeAlias = tuple[WritingSource, int]


def ground(marker: RawMarker, request: WritingRequest, settings: MarkerSettings, judge: Judge) -> RawMarker:
    """Correct the paragraph numbers of the marker by the paragraphs in the prompt, and ground its value in them."""
    grounder = _grounder(marker.paragraphs, request.source, settings, judge)
    judged = grounder.sentences(marker.value)
    checked = settings.numbers == "checked"
    numbers = _holding_paragraphs(marker, judged, request, settings.most, judge) if checked else marker.paragraphs
    if numbers == marker.paragraphs:
        return replace(marker, grounded=grounder.ground(marker.value, judged))
    grounded = _grounder(numbers, request.source, settings, judge).ground(marker.value)
    return replace(marker, paragraphs=numbers, renumbered=True, grounded=grounded)


def _grounder(numbers: Sequence[int], source: WritingSource, settings: MarkerSettings, judge: Judge) -> Grounder:
    return Grounder(judge, [(source, number) for number in numbers], source.text, settings.ungrounded)


def _holding_paragraphs(
    marker: RawMarker, judged: Sequence[ValueSentence], request: WritingRequest, most: int, judge: Judge
) -> tuple[int, ...]:
    source = request.source
    supports = [start for sentence in judged for start, _ in sentence.support]
    bounds = {n: (source.segments[n].start, source.segments[n].end) for n in marker.paragraphs}
    holding = Counter(n for n, (start, end) in bounds.items() if any(start <= at < end for at in supports))
    lost = False
    for sentence in judged:
        if not sentence.supported:
            # The first other paragraph of the prompt that holds the sentence, if any.
            stated = marker.value[sentence.start : sentence.end]
            others = (n for n in request.shown if n not in marker.paragraphs)
            elsewhere = list(islice((n for n in others if judge.judge(stated, [(request.source, n)]).support), 1))
            holding.update(elsewhere)
            lost = lost or not elsewhere
    if not holding:
        return marker.paragraphs
    counts = {n: holding[n] for n in (*(marker.paragraphs if lost else ()), *holding)}
    best = sorted(counts, key=lambda n: (-counts[n], n))[:most]
    return tuple(sorted(best))


def _numbers(given: object) -> tuple[int, ...]:
    """Parse a list of paragraph numbers, or a single one. Accepts "[Paragraph 3]". Returns distinct numbers in order."""
    listed = given if isinstance(given, list) else [given]
    numbers: set[int] = set()
    for one in listed:
        if isinstance(one, str) and (match := re.fullmatch(r"\D{0,12}(\d{1,9})\D{0,2}", one.strip())):
            numbers.add(int(match[1]))
        elif isinstance(one, int | float) and not isinstance(one, bool) and one == one // 1:
            numbers.add(int(one))
        else:
            return ()
    return tuple(sorted(numbers))


def repeats(marker: RawMarker, other: RawMarker) -> bool:
    """Check whether two markers have nearly the same words and the same numbers."""
    mine, others = set(words(marker.value)), set(words(other.value))
    if not mine or not others:
        return marker.value == other.value
    differing = (word for word in mine ^ others if any(character.isdigit() for character in word))
    return len(mine & others) >= SAME * len(mine | others) and not any(differing)


PROMPTS = {one.name: one for one in (RULES, INSTRUCTIONS)}
