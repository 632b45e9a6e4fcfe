"""Markers by a chat model (M-RAG section 2.1, Tables 1 and 4): the prompt, the schema, and what is taken of an answer.

The prompt says every rule of the paper's tables in words of our own. Where we differ, and why:
- a field's name is a word (value, key, paragraphs), and the key is one text; the paper's names, and a list with one key,
  are read too;
- values are asked for as "a few sentences" instead of 200 to 300 words: a segment has about 90, and the values of the paper's own
  Figure 5 have 50 to 65 tokens;
- the document is quoted between lines with a code, and what looks like a tag in it is blunted, so that no text can number itself;
- the numbers of a marker are checked: small models copy a sentence rightly and name the wrong paragraph, or name one and the same
  for all. A sentence that another paragraph of the window holds brings that number, and when all of a value is found, only
  numbers of paragraphs that hold some of it stay. So coverage is what values say, and not what a model says of them;
- a document longer than `MarkerSettings.window` tokens is read in overlapping windows, since answers are as long as what is read,
  and most endpoints write a few thousand tokens at most.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from typing import Any

from mergewise.designs.mrag.grounding.grounding import ground
from mergewise.designs.mrag.markers.settings import MarkerSettings
from mergewise.errors import UsageError
from mergewise.index.writing.paragraphs import blunted, named, shown_paragraphs
from mergewise.index.writing.task import Policy, Rejected, Request, Source, Task
from mergewise.prompting.quoting import code_for, quotation, turn, warning
from mergewise.prompting.records import Fields
from mergewise.text.alignment import words
from mergewise.text.keys import heading_path
from mergewise.types import Message

PROMPT_VERSION = 1
"""Part of the prompt, and so of the cache's key: with a new version the model is asked again."""

SAME = 0.9  # share of words that two values have in common, from which on one repeats the other
_LONGEST_KEY = 2_000  # characters
_LONGEST_VALUE = 20_000
_ASKS = ("?", "？", "؟", ";")  # the last one in Greek
_FEW = 6  # words of a key that is no question, below which it is a mere heading
VALUE, KEY, FORM = 60, 20, 20  # tokens that a marker mostly has: the paper's Figure 5, and the JSON around them
OVERLAP = 1.25  # markers for each segment

FIELDS: Fields = {
    "value": ("text", ("v",)),
    "key": ("text", ("k",)),
    "paragraphs": ("numbers", ("paragraph_indices", "paragraph")),
}


@dataclass(frozen=True, slots=True)
class RawMarker:
    """A marker as a model wrote it."""

    value: str
    key: str
    paragraphs: tuple[int, ...]
    renumbered: bool = False  # it named other paragraphs than those that hold what it says


def task(settings: MarkerSettings) -> Task[RawMarker]:
    """Raises UsageError where the examples cannot be read."""
    examples = _examples(settings.examples)

    def output(request: Request) -> int:
        markers = OVERLAP * request.source.tokens(request.asked) / settings.segment
        return max(1, ceil(markers * (min(VALUE, settings.segment) + KEY + FORM)))

    return Task(
        name="markers",
        schema=schema(settings.most),
        fields=FIELDS,
        prompt=lambda request: prompt(request, settings, examples),
        item=lambda record, request: placed(marker_of(record, request, settings.most), request, settings.most),
        paragraphs=lambda marker: marker.paragraphs,
        repeats=repeats,
        output=output,
    )


def policy(settings: MarkerSettings) -> Policy:
    return Policy(
        attempts=settings.attempts,
        coverage=settings.coverage,
        again=settings.policy == "again",
        window=settings.window,
        overlap=settings.overlap * settings.segment,
    )


def schema(most: int) -> dict[str, object]:
    """Strict, with the value before the key: a model writes the fields in this order."""
    marker = {
        "type": "object",
        "properties": {
            "value": {"type": "string"},
            "key": {"type": "string"},
            "paragraphs": {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": most},
        },
        "required": ["value", "key", "paragraphs"],
        "additionalProperties": False,
    }
    return {
        "type": "object",
        "properties": {"markers": {"type": "array", "items": marker}},
        "required": ["markers"],
        "additionalProperties": False,
    }


# -- the prompt

_RULES = """You prepare documents for a search engine (instructions, version {version}).
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
3. "paragraphs": the numbers of the paragraphs that the value is taken from. One or two are best, {most} is the most. A list of
   {over} numbers makes a marker worthless: write several markers instead. [4] is good, [4, 5] is good, [{too_many}] is not.

How many:
- Many small markers, not a few large ones. Ten paragraphs need ten markers or more.
- At least as many markers as you are asked for. More are welcome; do not save on them.
- Nothing may be lost: each paragraph that you are asked about is in at least one marker, and mostly in two or three, each about
  another side of it. One and the same paragraph may serve for a person, an event and a place.

Answer with JSON alone, in this form, with every double quote inside a text written as \\":
{{"markers": [{{"value": "...", "key": "...?", "paragraphs": [0]}}, ...]}}
{examples}"""


def prompt(request: Request, settings: MarkerSettings, examples: Sequence[Mapping[str, Any]] = ()) -> list[Message]:
    """What is asked about these segments of a document. The rules come first and are the same in every call: endpoints that keep
    what they have read of a prompt read them once."""
    source = request.source
    rules = _RULES.format(
        version=PROMPT_VERSION,
        most=settings.most,
        over=settings.most + 1,
        too_many=", ".join(str(4 + i) for i in range(settings.most + 1)),
        examples=_shown_examples(examples),
    )
    shown = shown_paragraphs(request)
    code = code_for([shown, source.title])
    least = max(1, ceil(source.tokens(request.asked) / settings.segment))
    about = f"Write at least {least} markers for {named(request.asked)} of this document."
    if request.asked != request.shown:
        about += " The other paragraphs are there to be understood with them."
    if request.again:
        about += f" This is attempt {request.attempt}."
    if request.rejected:
        about += f" Markers of earlier answers could not be used: {', '.join(request.rejected)}."
    titled = [quotation("title", blunted(source.title), code)] if source.title.strip() else []
    return turn(rules, [warning(code, "text"), *titled, quotation("document", shown, code), about])


# -- examples

BUILT_IN: tuple[Mapping[str, Any], ...] = (
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


def _examples(chosen: str) -> Sequence[Mapping[str, Any]]:
    if chosen == "none":
        return ()
    return BUILT_IN if chosen == "built-in" else _own_examples(Path(chosen))


def _own_examples(path: Path) -> Sequence[Mapping[str, Any]]:
    hint = 'a JSON list of {"value": "...", "key": "...?", "paragraphs": [0]}, each with a "text" where it helps'
    try:
        given = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(
            f"the examples of markers are not at {path}: {error.strerror}", f"{hint}; or built-in, or none"
        ) from None
    except (ValueError, RecursionError):
        raise UsageError(f"{path} is not JSON", hint) from None
    if not isinstance(given, list) or not given or not all(map(_is_example, given)):
        raise UsageError(f"{path} holds no examples of markers", hint)
    return given


def _is_example(given: object) -> bool:
    if not isinstance(given, dict) or not isinstance(given.get("paragraphs"), list):
        return False
    texts = (given.get("value"), given.get("key"), given.get("text", ""))
    return all(isinstance(text, str) for text in texts) and all(type(n) is int for n in given["paragraphs"])


def _shown_examples(examples: Sequence[Mapping[str, Any]]) -> str:
    if not examples:
        return ""
    lines = ["\nGood markers of other documents, to show the form. None of it belongs into your answer:"]
    for example in examples:
        marker = {name: example[name] for name in ("value", "key", "paragraphs")}
        given = f"{example['text']}\n=> " if example.get("text") else ""
        lines.append(given + json.dumps(marker, ensure_ascii=False))
    return "\n".join(lines) + "\n"


# -- an answer


def marker_of(record: Mapping[str, object], request: Request, most: int) -> RawMarker:
    """The marker that a record is. Raises `Rejected` with the reason for which it is none."""
    value, key = _text(record.get("value")), _text(record.get("key"))
    if not words(value):  # empty, or the dots of the form that was asked for
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


def placed(marker: RawMarker, request: Request, most: int) -> RawMarker:
    """The marker with the numbers of the paragraphs that hold what it says, as far as they are found among those shown."""
    source = request.source
    path = heading_path(source.title, [h for n in marker.paragraphs for h in source.segments[n].headings])
    judged = ground(marker.value, [_part(source, n) for n in marker.paragraphs], source.text, "keep", path).sentences
    supports = [span for sentence in judged for span in sentence.support]
    holding = Counter(n for n in marker.paragraphs if any(_is_in(span, source, n) for span in supports))
    lost = False
    for sentence in judged:
        if not sentence.supported:
            found = _elsewhere(marker.value[sentence.start : sentence.end], marker, request, path)
            holding.update(found)
            lost = lost or not found
    if not holding:
        return marker
    standing = {n: holding[n] for n in (*(marker.paragraphs if lost else ()), *holding)}
    best = sorted(standing, key=lambda n: (-standing[n], n))[:most]
    numbers = tuple(sorted(best))
    return marker if numbers == marker.paragraphs else replace(marker, paragraphs=numbers, renumbered=True)


def _elsewhere(stated: str, marker: RawMarker, request: Request, path: str) -> list[int]:
    """The first paragraph shown that holds the sentence, of those that the marker does not name; nothing where none does."""
    for n in request.shown:
        if n not in marker.paragraphs:
            found = ground(stated, [_part(request.source, n)], request.source.text, "keep", path).sentences
            if found and all(sentence.supported for sentence in found):
                return [n]
    return []


def _part(source: Source, number: int) -> tuple[int, int]:
    return source.segments[number].start, source.segments[number].end


def _is_in(span: tuple[int, int], source: Source, number: int) -> bool:
    start, end = _part(source, number)
    return start <= span[0] < end


def _text(given: object) -> str:
    """A text, or the only one of a list, as the paper has it."""
    if isinstance(given, list) and len(given) == 1:
        given = given[0]
    return given.replace("\0", "").strip() if isinstance(given, str) else ""


def _numbers(given: object) -> tuple[int, ...]:
    """Numbers of paragraphs in order, each once; also one alone, and "[Paragraph 3]"."""
    listed = given if isinstance(given, list) else [given]
    found: list[int] = []
    for one in listed:
        if isinstance(one, str) and (match := re.fullmatch(r"\D{0,12}(\d{1,9})\D{0,2}", one.strip())):
            found.append(int(match[1]))
        elif isinstance(one, int | float) and not isinstance(one, bool) and one == one // 1:
            found.append(int(one))
        else:
            return ()
    return tuple(sorted(set(found)))


def repeats(marker: RawMarker, other: RawMarker) -> bool:
    """Whether two markers say the same in nearly the same words."""
    mine, others = set(words(marker.value)), set(words(other.value))
    if not mine or not others:
        return marker.value == other.value
    differing = (word for word in mine ^ others if any(character.isdigit() for character in word))
    return len(mine & others) >= SAME * len(mine | others) and not any(differing)
