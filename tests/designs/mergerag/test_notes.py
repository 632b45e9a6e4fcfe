from __future__ import annotations

import json
from collections.abc import Sequence

from mergewise.designs.mergerag.notes import MergeNode, MergeNote, TreeNote
from mergewise.types import Note, Quoter, Span, Step


class Offsets(Quoter):
    """A quoter that shows spans by their documents and offsets."""

    def where(self, spans: Sequence[Span]) -> str:
        return ", ".join(map(self.quote, spans))

    def quote(self, span: Span) -> str:
        return f"{span.doc_id}:{span.start}-{span.end}"


def test_a_note_as_json() -> None:
    source, host = MergeNode(1, 0.25, 12, (Span("d", 3, 9),)), MergeNode(0, 0.5, 20)
    result = MergeNode(2, 0.5, 24, (Span("d", 3, 9), Span("e", 0, 4)))
    note: Note = MergeNote(1, source, host, result, "point", nll=2.5, calls=1, unsupported=3, taken=False)
    assert note.kind == "merge"
    assert json.loads(json.dumps(note.as_dict())) == {
        "round": 1,
        "how": "point",
        "nll": 2.5,
        "calls": 1,
        "unsupported": 3,
        "taken": False,
        "problem": "",
        "source": {"number": 1, "score": 0.25, "tokens": 12, "spans": [{"doc": "d", "start": 3, "end": 9}]},
        "host": {"number": 0, "score": 0.5, "tokens": 20, "spans": []},
        "result": {
            "number": 2,
            "score": 0.5,
            "tokens": 24,
            "spans": [{"doc": "d", "start": 3, "end": 9}, {"doc": "e", "start": 0, "end": 4}],
        },
    }


def merged(number: int, source: int, host: int, taken: bool = True, problem: str = "") -> MergeNote:
    first, second, result = (MergeNode(i, 0.5, 10 * i, (Span("d", i, i + 1),)) for i in (source, host, number))
    return MergeNote(number, first, second, result, "point", taken=taken, problem=problem)


def test_a_tree_lists_remaining_chunks_and_then_unneeded_merges() -> None:
    tree = TreeNote((merged(5, 1, 2), merged(6, 3, 5), merged(7, 4, 6, taken=False)))
    assert tree.as_dict() == {"roots": [6], "not_needed": [7]}
    assert tree.lines(Step("merged", "4 chunks to 2"), Offsets()) == [
        "merged: 4 chunks to 2",
        "├── d:6-7  score 0.500, 60 tokens: round 6, point, 30 + 50 → 60 tokens",
        "│   ├── d:5-6  score 0.500, 50 tokens: round 5, point, 10 + 20 → 50 tokens",
        "│   │   ├── d:2-3  score 0.500, 20 tokens",
        "│   │   └── d:1-2  score 0.500, 10 tokens",
        "│   └── d:3-4  score 0.500, 30 tokens",
        "└── d:7-8  score 0.500, 70 tokens: round 7, point, 40 + 60 → 70 tokens, not needed",
        "    ├── d:6-7  score 0.500, 60 tokens",
        "    └── d:4-5  score 0.500, 40 tokens",
    ]


def test_a_single_merge_has_a_line_only_if_the_model_failed() -> None:
    step = Step("merge", "the model failed: it was cut off")
    assert merged(5, 1, 2).lines(step, Offsets()) == []
    assert merged(5, 1, 2, problem="it was cut off").lines(step, Offsets()) == [
        "merge: the model failed: it was cut off"
    ]


def test_a_merge_that_was_not_needed_explains_no_text() -> None:
    assert merged(5, 1, 2).covers == (Span("d", 5, 6),) and merged(5, 1, 2, taken=False).covers == ()
