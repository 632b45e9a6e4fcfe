"""Trace notes of merges: the two input chunks, the result and the method of each, and the tree of all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import ClassVar, NamedTuple

from mergewise.jsonable import span_json
from mergewise.types import Cause, Note, Quoter, Span, Step, frozen


class MergeNode(NamedTuple):
    """A chunk in a tree of merges: its number, S(c; q), its tokens, and the spans of its sentences."""

    number: int
    score: float
    tokens: int
    spans: tuple[Span, ...] = ()

    def as_dict(self) -> dict[str, object]:
        spans = list(map(span_json, self.spans))
        return {"number": self.number, "score": self.score, "tokens": self.tokens, "spans": spans}


@frozen
class MergeNote(Note):
    """One merge of `source` into `host`, with its `result`. `nll` is set if it chose the host.

    `taken` is false if the budget was met without this merge. `unsupported` counts dropped sentences of a model, and `problem`
    describes a failure of the model.
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
        """Return the trace step of this merge."""
        inputs = (*self.source.spans, *self.host.spans)
        return Step("merge", str(self), inputs, score=self.result.score, note=self, cause=Cause.FUSION)

    @property
    def covers(self) -> tuple[Span, ...]:
        return self.result.spans if self.taken else ()

    def lines(self, step: Step, quoter: Quoter) -> list[str]:
        """Return a line if a model failed, else nothing, since the tree shows the merge."""
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


@frozen
class TreeNote(Note):
    """All merges of a context as trees: the inputs of each remaining chunk, the host above the source.

    The merges that were not needed follow at the end.
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
    """Return the chunk and, below it, its inputs."""
    note = made.get(node.number)
    line = f"{quoter.where(node.spans) or 'nothing'}  score {node.score:.3f}, {node.tokens} tokens"
    if note is None:
        return [line]
    return [f"{line}: {note}", *_branches([_tree(child, made, quoter) for child in (note.host, note.source)])]


def _branches(trees: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of trees below one another, each with its branch in front."""
    for number, (first, *rest) in enumerate(trees, 1):
        branch, gap = ("└── ", "    ") if number == len(trees) else ("├── ", "│   ")
        yield branch + first
        yield from (gap + line for line in rest)
