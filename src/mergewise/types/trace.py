"""Steps of a strategy: data for code, sentences for people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from enum import StrEnum
from typing import ClassVar, Protocol

from mergewise.types.documents import Span
from mergewise.types.records import frozen


class Cause(StrEnum):
    """The reason why a step took or left out the text that it `covers`.

    Causes that take text: SEARCH, found by search; TAKE, selected from the results; NAMED, defined by a section that the question
    names; HOP, reached from a name in the evidence; NEIGHBOUR, next to selected text; MERGE, a section whose parts were found;
    FUSION, kept from fused chunks; CUT, the first sentences of a text that did not fit; ROUND, found by a further search.

    Causes that take nothing: LINK, a name leads to a section (`HopNote`); MISSING, the index lacks something; LEFT, not selected;
    SKIP, did not fit; DROP, selected and removed again; STOP, not worth its tokens.
    """

    SEARCH = "search"
    TAKE = "take"
    NAMED = "named"
    HOP = "hop"
    NEIGHBOUR = "neighbour"
    MERGE = "merge"
    FUSION = "fusion"
    CUT = "cut"
    ROUND = "round"
    OTHER = "other"
    LINK = "link"
    MISSING = "missing"
    LEFT = "left"
    SKIP = "skip"
    DROP = "drop"
    STOP = "stop"


_CAUSES = {cause.value: cause for cause in Cause}


class Quoter(Protocol):
    """A formatter of spans: their places, and their texts if the documents are available."""

    def where(self, spans: Sequence[Span]) -> str: ...

    def quote(self, span: Span) -> str:
        """Return the place and the text of a span on one line."""


class Note(Protocol):
    """Details of a step that only one strategy knows. `kind` is their key in JSON. Notes are subclasses."""

    __slots__ = ()

    @property
    def kind(self) -> str: ...

    def as_dict(self) -> dict[str, object]:
        """Return the details as JSON values."""

    @property
    def covers(self) -> tuple[Span, ...] | None:
        """Text that the step is about, or None if that is its output or its inputs."""
        return None

    def lines(self, step: Step, quoter: Quoter) -> Sequence[str] | None:
        """Return the step as lines for people, None for the usual lines, or nothing to hide the step."""
        return None


@frozen
class HopNote(Note):
    """The name in the evidence that leads to a section, the number of the hop, from 1, and its expected gain, from 0."""

    kind: ClassVar[str] = "hop"

    number: int
    name: str
    gain: float = 0.0

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


@frozen
class Step:
    """One step of a strategy.

    Attributes:
        action: Verb for people.
        reason: Reason for people.
        inputs: Spans that the step started from.
        output: Span that it produced.
        score: Score of the output.
        note: Details for code.
        cause: Cause for code. By default the cause with the name of the action.
    """

    action: str
    reason: str
    inputs: tuple[Span, ...] = ()
    output: Span | None = None
    score: float | None = None
    note: Note | None = None
    cause: Cause = Cause.OTHER

    def __post_init__(self) -> None:
        if self.cause is Cause.OTHER:
            object.__setattr__(self, "cause", _CAUSES.get(self.action, Cause.OTHER))

    @property
    def covers(self) -> tuple[Span, ...]:
        """Text that the step is about."""
        if self.note is not None and self.note.covers is not None:
            return self.note.covers
        return self.inputs if self.output is None else (self.output,)
