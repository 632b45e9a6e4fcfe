"""What a chat model is to write about documents, and what came of it: one form for the rows of any view.

A view gives a `WritingTask`: how one call is put into words, the fields of the records that the answer holds, and how a record
becomes an item. `write` does the rest: windows, calls, further attempts, what is kept and what it costs.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from mergewise.index.writing.segments import TextSegment
from mergewise.prompting.quoting import code_for, quotation, turn, warning
from mergewise.prompting.records import Fields
from mergewise.text.keys import short_name
from mergewise.types import DocumentRows, Message, Usage

Item = TypeVar("Item")


class Rejected(Exception):  # an answer, not a failure
    """A record of an answer that cannot be taken; the text is its kind, by which it is counted."""


@dataclass(frozen=True, slots=True, eq=False)
class WritingSource:
    """A document as a model reads it. It equals itself alone, so that what is known of it can be kept by it."""

    id: str
    title: str
    text: str
    segments: Sequence[TextSegment]

    @classmethod
    def of_document(cls, rows: DocumentRows, segments: Sequence[TextSegment]) -> WritingSource:
        return cls(rows.document.id, short_name(rows.document.title), rows.document.text, segments)

    def of(self, number: int) -> str:
        """The text of a segment."""
        return self.text[self.segments[number].start : self.segments[number].end].strip()

    def tokens(self, numbers: Sequence[int]) -> int:
        return sum(self.segments[number].tokens for number in numbers)


@dataclass(frozen=True, slots=True)
class WritingRequest:
    """One call: the segments that are shown, in order, and those of them that something is to be written about.

    `attempt` counts from 1. `again` is set where the same may have been asked before: the prompt then carries the attempt's
    number, since neither a cache nor a model at temperature 0 would give another answer otherwise. `rejected` are the reasons
    for which records of earlier answers about the document were not taken.
    """

    source: WritingSource
    shown: tuple[int, ...]
    asked: tuple[int, ...]
    attempt: int = 1
    again: bool = False
    rejected: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WritingTask(Generic[Item]):
    """`schema` is that of the whole answer. `item` makes an item of a record and the request, or raises `Rejected`.

    `paragraphs` are the segments that an item is about; `repeats` says whether it says what another one says. `output` are the
    tokens that an answer to a request will have, more or less.
    """

    name: str  # of the items, as people call them
    schema: Mapping[str, object]
    fields: Fields
    prompt: Callable[[WritingRequest], list[Message]]
    item: Callable[[Mapping[str, object], WritingRequest], Item]
    paragraphs: Callable[[Item], Sequence[int]]
    repeats: Callable[[Item, Item], bool]
    output: Callable[[WritingRequest], int]


@dataclass(frozen=True, slots=True)
class Policy:
    """How often a model is asked, and how much it is shown at once.

    Below a `coverage` (share of the segments that some item is about) there are further attempts, `attempts` in all: about the
    segments that are left, or with `again` about the same once more, of which the best answer is kept. `window` is in tokens of
    text; neighbouring windows share up to `overlap` tokens.
    """

    attempts: int = 1
    coverage: float = 0.0
    again: bool = False
    window: int = 2048
    overlap: int = 0


@dataclass(slots=True)
class Written(Generic[Item]):
    """What was written about one document; it grows answer by answer.

    `usage` is what was paid for in this run; answers that were kept cost nothing. `coverages` are those after each attempt.
    `failure` says why something that should have been asked was not answered.
    """

    items: tuple[Item, ...] = ()
    rejects: Counter[str] = field(default_factory=Counter)
    coverages: tuple[float, ...] = ()
    usage: Usage = field(default_factory=Usage)
    failure: str = ""

    def as_fields(self, more_rejects: Mapping[str, int]) -> dict[str, Any]:
        """What rows keep of it: the rejects with those that were found later, what was paid, and the failure."""
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


# -- prompts about segments: numbered paragraphs, each below its tag [Paragraph N]

_TAG = re.compile(r"\[(?=\s*paragraph\b)", re.IGNORECASE)


def request_messages(request: WritingRequest, rules: str, wish: str, items: str, name: str) -> list[Message]:
    """The prompt of a request: the `rules`, which are the same in every call, the segments under this `name`, and the
    `wish`, which says what of them `items` are to be written about."""
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
    return turn(rules, [warning(code, "text"), *titled, quotation(name, paragraphs, code), wish])


def _without_tags(text: str) -> str:
    """The text without what could be taken for a tag of ours."""
    return _TAG.sub("(", text)


def paragraph_names(numbers: Sequence[int]) -> str:
    """Numbers of paragraphs, runs as "3 to 7"."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    listed = ", ".join(str(a) if a == b else f"{a} to {b}" for a, b in runs)
    return f"paragraph {listed}" if len(numbers) == 1 else f"paragraphs {listed}"


def text_of_field(given: object) -> str:
    """The text of a field, or the only one of a list, as models write it."""
    if isinstance(given, list) and len(given) == 1:
        given = given[0]
    return given.replace("\0", "").strip() if isinstance(given, str) else ""
