"""What the trace tells of a merge: the two chunks, the chunk made of them, and how it was made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from mergewise.types import Span


@dataclass(frozen=True, slots=True)
class MergeNode:
    """A chunk in a tree of merges: its number, S(c; q), its tokens, and the spans of its sentences."""

    number: int
    score: float
    tokens: int
    spans: tuple[Span, ...] = ()

    def as_dict(self) -> dict[str, object]:
        spans = [{"doc": span.doc_id, "start": span.start, "end": span.end} for span in self.spans]
        return {"number": self.number, "score": self.score, "tokens": self.tokens, "spans": spans}


@dataclass(frozen=True, slots=True)
class MergeNote:
    """One merge: `source` went into `host`, and `result` came of it. `nll` is set where it chose the host.

    `taken` is False where the budget was held without it. `unsupported` counts sentences of a model that were dropped.
    """

    kind: ClassVar[str] = "merge"

    round: int
    source: MergeNode
    host: MergeNode
    result: MergeNode
    how: str
    nll: float | None = None
    calls: int = 0
    unsupported: int = 0
    taken: bool = True

    def as_dict(self) -> dict[str, object]:
        return {
            "round": self.round,
            "how": self.how,
            "nll": self.nll,
            "calls": self.calls,
            "unsupported": self.unsupported,
            "taken": self.taken,
            "source": self.source.as_dict(),
            "host": self.host.as_dict(),
            "result": self.result.as_dict(),
        }
