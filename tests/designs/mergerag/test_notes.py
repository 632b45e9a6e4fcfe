from __future__ import annotations

import json

from mergewise.designs.mergerag.notes import MergeNode, MergeNote
from mergewise.types import Note, Span


def test_a_note_is_told_as_json() -> None:
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
        "source": {"number": 1, "score": 0.25, "tokens": 12, "spans": [{"doc": "d", "start": 3, "end": 9}]},
        "host": {"number": 0, "score": 0.5, "tokens": 20, "spans": []},
        "result": {
            "number": 2,
            "score": 0.5,
            "tokens": 24,
            "spans": [{"doc": "d", "start": 3, "end": 9}, {"doc": "e", "start": 0, "end": 4}],
        },
    }
