"""What the trace tells of merges: the two chunks of each, the chunk made of them, how it was made; and the tree of all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import ClassVar

from mergewise.types import Cause, Note, Quoter, Span, Step


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
class MergeNote(Note):
    """One merge: `source` went into `host`, and `result` came of it. `nll` is set where it chose the host.

    `taken` is False where the budget was held without it. `unsupported` counts sentences of a model that were dropped, and
    `problem` says why a model failed.
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
    problem: str = ""

    def as_dict(self) -> dict[str, object]:
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value.as_dict() if isinstance(value, MergeNode) else value for name, value in values.items()}

    def step(self) -> Step:
        """Return the step of the trace that tells this merge."""
        inputs = (*self.source.spans, *self.host.spans)
        return Step("merge", str(self), inputs, score=self.result.score, note=self, cause=Cause.FUSION)

    @property
    def covers(self) -> tuple[Span, ...]:
        return self.result.spans if self.taken else ()

    def lines(self, step: Step, quoter: Quoter) -> list[str]:
        """Nothing, since the tree shows it, but where a model failed."""
        return [f"{step.action}: {step.reason}"] if self.problem else []

    def __str__(self) -> str:
        parts = (
            f"round {self.round}",
            self.how,
            f"{self.source.tokens} + {self.host.tokens} → {self.result.tokens} tokens",
            "" if self.nll is None else f"NLL {self.nll:.2f}",
            f"{self.calls} call{'' if self.calls == 1 else 's'}" if self.calls else "",
            f"{self.unsupported} unsupported dropped" if self.unsupported else "",
            "" if self.taken else "not needed",
            f"the model failed: {self.problem}" if self.problem else "",
        )
        return ", ".join(filter(None, parts))


@dataclass(frozen=True, slots=True)
class TreeNote(Note):
    """All merges of a context as the trees that they make: what each remaining chunk was made of, the host above the source.

    Behind them stand the merges that were not needed.
    """

    kind: ClassVar[str] = "tree"

    merges: tuple[MergeNote, ...]

    @property
    def roots(self) -> list[MergeNote]:
        used = {node.number for note in self.merges if note.taken for node in (note.source, note.host)}
        return [note for note in self.merges if note.taken and note.result.number not in used]

    def as_dict(self) -> dict[str, object]:
        return {
            "roots": [note.result.number for note in self.roots],
            "not_needed": [note.result.number for note in self.merges if not note.taken],
        }

    def lines(self, step: Step, quoter: Quoter) -> list[str]:
        made = {note.result.number: note for note in self.merges if note.taken}
        roots = [_tree(note.result, made, quoter) for note in self.roots]
        roots += [_tree(note.result, {note.result.number: note}, quoter) for note in self.merges if not note.taken]
        return [f"{step.action}: {step.reason}", *_branches(roots)]


def _tree(node: MergeNode, made: Mapping[int, MergeNote], quoter: Quoter) -> list[str]:
    """The chunk, and below it what it was made of."""
    note = made.get(node.number)
    line = f"{quoter.where(node.spans) or 'nothing'}  score {node.score:.3f}, {node.tokens} tokens"
    if note is None:
        return [line]
    return [f"{line}: {note}", *_branches([_tree(child, made, quoter) for child in (note.host, note.source)])]


def _branches(trees: Sequence[Sequence[str]]) -> Iterator[str]:
    """Trees below one another, each with its branch in front."""
    for number, (first, *rest) in enumerate(trees, 1):
        branch, gap = ("└── ", "    ") if number == len(trees) else ("├── ", "│   ")
        yield branch + first
        yield from (gap + line for line in rest)
