"""The table of the README, on a set of two questions, with a fake LlamaIndex retriever."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from benchmarks import beside
from hypothesis import given
from hypothesis import strategies as st

from mergewise.models.tokens import count_tokens

TEXT = "Cats eat fish. Dogs eat meat."


def write_set(folder: Path) -> None:
    rows: dict[str, list[Any]] = {
        "corpus": [{"id": "pets", "title": "Pets", "text": TEXT}],
        "questions": [
            {
                "id": str(i),
                "question": q,
                "answers": [a],
                "evidence": [{"doc": "pets", "start": s, "end": e, "text": t}],
            }
            for i, (q, a, s, e, t) in enumerate(
                [("What do cats eat?", "fish", 0, 14, TEXT[:14]), ("What do dogs eat?", "meat", 15, 29, TEXT[15:])]
            )
        ],
    }
    folder.mkdir()
    for name, lines in rows.items():
        with gzip.open(folder / f"{name}.jsonl.gz", "wt") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)


def test_share_of_questions_with_all_evidence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_set(tmp_path / "pets")
    exam = beside.examination("pets", tmp_path, tmp_path / "cache")
    assert [text for text, _ in exam.questions] == ["What do dogs eat?"]
    monkeypatch.setattr(beside, "llamaindex", lambda exam: lambda question: TEXT)
    assert dict(beside.rows(exam, [5, 64])) == {"weave": [0.0, 1.0], "topk": [0.0, 1.0], "LlamaIndex": [0.0, 1.0]}


@given(st.text(max_size=200), st.integers(1, 40))
def test_first_tokens_fit_the_budget(text: str, budget: int) -> None:
    context = beside.first_tokens("?", text, budget)
    assert text.startswith(context.text) and context.tokens == count_tokens([context.text])[0] <= budget
    assert context.text == text or context.tokens == budget
