"""What a strategy did, step by step: data for code, sentences for people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Protocol

from mergewise.types.documents import Span


class Cause(StrEnum):
    """Why a step took the text that it `covers`, or left it out, as far as others than its strategy need to know.

    SEARCH found it, and TAKE selected it from what was found. The question NAMED what its section defines; a HOP led to it from
    a name in the evidence; it is a NEIGHBOUR of what was taken. MERGE: a section whose parts were found; FUSION: what was kept
    of fused chunks; CUT: the first sentences of what did not fit; ROUND: found by a further search.

    The causes from LINK on took nothing. LINK: a name leads to a section (`HopNote`); MISSING: the index lacks something; LEFT:
    not selected; SKIP: did not fit; DROP: taken, and gone again; STOP: not worth its tokens.
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
    """Says where spans stand, and quotes them where their documents are at hand."""

    def where(self, spans: Sequence[Span]) -> str: ...

    def quote(self, span: Span) -> str:
        """The place of a span and its text, on one line."""
        ...


class Note(Protocol):
    """Details of a step that only one strategy knows. `kind` is their key in JSON. Notes subclass this protocol."""

    __slots__ = ()

    @property
    def kind(self) -> str: ...

    def as_dict(self) -> dict[str, object]:
        """The details as JSON can hold them: numbers, texts, lists and dictionaries."""
        ...

    @property
    def covers(self) -> tuple[Span, ...] | None:
        """The text that the step says something of, where that is neither its output nor its inputs; else None."""
        return None

    def lines(self, step: Step, quoter: Quoter) -> Sequence[str] | None:
        """The step as lines for people. None: like a step without a note; no lines: not at all."""
        return None


@dataclass(frozen=True, slots=True)
class HopNote(Note):
    """The name in the evidence that leads to a section, and the number of the hop, from 1."""

    kind: ClassVar[str] = "hop"

    number: int
    name: str

    def as_dict(self) -> dict[str, object]:
        return {"number": self.number, "name": self.name}


@dataclass(frozen=True, slots=True)
class Step:
    """One thing a strategy did, and why: what it took (`inputs`), what came of it (`output`), at what score.

    `action` and `reason` are for people. Code reads `cause`, which is that of the action's name where none is given, and `note`.
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
        """The text that the step says something of."""
        if self.note is not None and self.note.covers is not None:
            return self.note.covers
        return self.inputs if self.output is None else (self.output,)
