"""Tasks for a chat model that writes about documents, and their results, in one form for the rows of all views.

A view defines a `WritingTask`: the prompt of a call, the fields of the records in an answer, and the conversion of a record to an
item. `write` does the rest: windows, calls, further attempts, caching and cost.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from mergewise.index.writing.segments import TextSegment
from mergewise.prompting.quoting import code_for, quotation, turn, warning
from mergewise.prompting.records import Fields
from mergewise.protocols import Schema
from mergewise.text.spans import number_ranges
from mergewise.types import JsonDict, Message, Usage, frozen

Item = TypeVar("Item")


class Rejected(Exception):
    """A rejected record of an answer. The text is the kind of fault, by which rejects are counted."""


@dataclass(frozen=True, slots=True, eq=False)
class WritingSource:
    """A document as a model reads it. It is compared by identity, so that it can be a dictionary key."""

    id: str
    title: str
    text: str
    segments: Sequence[TextSegment]

    def of(self, number: int) -> str:
        """Return the text of a segment."""
        return self.text[self.segments[number].start : self.segments[number].end].strip()

    def tokens(self, numbers: Sequence[int]) -> int:
        return sum(self.segments[number].tokens for number in numbers)


@frozen
class WritingRequest:
    """One call: the segments to show, in order, and the segments to write about (`asked`).

    `attempt` counts from 1. `again` is true if the same call may have been made before. The prompt then includes the attempt's
    number, because a cache or a model at temperature 0 would otherwise repeat its answer. `rejected` holds the reasons for which
    earlier records about the document were rejected.
    """

    source: WritingSource
    shown: tuple[int, ...]
    asked: tuple[int, ...]
    attempt: int = 1
    again: bool = False
    rejected: tuple[str, ...] = ()


@frozen
class WritingTask(Generic[Item]):
    """A writing task of a view.

    `name` is the name of the items in messages. `schema` describes the whole answer. `item` converts a record of an answer to an
    item, or raises `Rejected`. `paragraphs` returns the segments that an item is about, `repeats` whether two items say the same,
    and `output` the expected tokens of an answer.
    """

    name: str
    schema: Schema
    fields: Fields
    prompt: Callable[[WritingRequest], list[Message]]
    item: Callable[[Mapping[str, object], WritingRequest], Item]
    paragraphs: Callable[[Item], Sequence[int]]
    repeats: Callable[[Item, Item], bool]
    output: Callable[[WritingRequest], int]


@frozen
class Policy:
    """The number of attempts, and the amount of text per call.

    Below a `coverage` (share of the segments that items are about) further attempts follow, up to `attempts` in all. They ask
    about the uncovered segments. With `again`, they repeat the same calls, and the best answer counts. `window` is in tokens of
    text. Neighbouring windows share up to `overlap` tokens.
    """

    attempts: int = 1
    coverage: float = 0.0
    again: bool = False
    window: int = 2048
    overlap: int = 0


@dataclass(slots=True)
class Written(Generic[Item]):
    """The items about one document, which grow answer by answer.

    `usage` is the cost of this run, without cached answers. `coverages` holds the coverage after each attempt. `failure` is the
    reason why a call has no answer.
    """

    items: tuple[Item, ...] = ()
    rejects: Counter[str] = field(default_factory=Counter)
    coverages: tuple[float, ...] = ()
    usage: Usage = field(default_factory=Usage)
    failure: str = ""

    def as_fields(self, more_rejects: Mapping[str, int]) -> JsonDict:
        """Return the fields that rows store: all rejects with later ones, the cost, and the failure."""
        rejects = self.rejects + Counter(more_rejects)
        kinds = sorted(rejects)
        return {
            "rejects": tuple(kinds),
            "reject_counts": tuple(rejects[kind] for kind in kinds),
            "calls": self.usage.calls,
            "input_tokens": self.usage.input_tokens,
            "output_tokens": self.usage.output_tokens,
            "failure": self.failure,
        }


# -- prompts about segments, which are paragraphs below their tags [Paragraph N]

_TAG = re.compile(r"\[(?=\s*paragraph\b)", re.IGNORECASE)


def request_messages(request: WritingRequest, rules: str, wish: str, items: str, name: str) -> list[Message]:
    """Build the prompt of a request: the constant `rules`, the segments under a `name`, and the `wish` for `items`."""
    paragraphs = "\n\n".join(f"[Paragraph {n}]\n{_without_tags(request.source.of(n))}" for n in request.shown)
    title = request.source.title
    code = code_for([paragraphs, title])
    if request.asked != request.shown:
        wish += " The other paragraphs are there to be understood with them."
    if request.again:
        wish += f" This is attempt {request.attempt}."
    if request.rejected:
        wish += f" {items} of earlier answers could not be used: {', '.join(request.rejected)}."
    titled = [quotation("title", _without_tags(title), code)] if title.strip() else []
    return turn(rules, [warning("text"), *titled, quotation(name, paragraphs, code), wish], code)


def _without_tags(text: str) -> str:
    """Remove everything that looks like one of our tags."""
    return _TAG.sub("(", text)


def paragraph_names(numbers: Sequence[int]) -> str:
    """Write paragraph numbers, with runs as "3 to 7"."""
    return f"{'paragraph' if len(numbers) == 1 else 'paragraphs'} {number_ranges(numbers, ' to ')}"


def text_of_field(given: object) -> str:
    """Return the text of a field, which models may write as a list of one text."""
    if isinstance(given, list) and len(given) == 1:
        given = given[0]
    return given.replace("\0", "").strip() if isinstance(given, str) else ""
