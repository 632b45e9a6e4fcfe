"""Metadata of any kind is stored, or fails its document with a reason. The other documents of the call are stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mergewise
from mergewise.types import Document, Metadata

WRONG: list[Any] = [
    *({5: "x"}, {None: "x"}, {b"year": 1}, {("a",): 1}, {"year": 1, 2: 3}),
    *({key: 1} for key in ("a\nb", "a\0", "\x1b[31m", "\u202e", "\ud800", "k" * 201, "a`b", "", "_a")),
    *({"a": None}, {"a": [1]}, {"a": {}}, {"a": b"x"}, {"a": 1j}, {"a": 10**19}, {"a": -(10**5000)}, {"a": "\ud800"}),
    *({"a": np.array([1])}, {"a": object()}, [("a", 1)], None, 5, "a"),
]


@pytest.mark.parametrize("metadata", WRONG, ids=range(len(WRONG)))
def test_a_document_with_invalid_metadata_fails_alone(tmp_path: Path, metadata: Any) -> None:
    index = mergewise.open(tmp_path / "index", embedder="none")
    wrong = Document("wrong", "Dogs bark.", metadata=metadata)
    report = index.add(Document("good", "Cats eat fish.", metadata={"year": 2020}), wrong)
    assert (report.added, [failure.source for failure in report.failed]) == (1, ["wrong"])
    reason = report.failed[0].reason
    assert "metadata" in reason and reason.isprintable() and len(reason) < 300
    assert [info.id for info in index.documents()] == ["good"]
    assert index.context("What do cats eat?", where="year = 2020").passages


@pytest.mark.parametrize("field", ["id", "title", "text"])
@pytest.mark.parametrize("value", [5, None, b"x", ["x"]])
def test_a_document_with_invalid_texts_fails_alone(tmp_path: Path, field: str, value: Any) -> None:
    index = mergewise.open(tmp_path / "index", embedder="none")
    wrong = Document(**{"id": "wrong", "text": "Dogs bark.", "title": "T", field: value})
    report = index.add(Document("good", "Cats eat fish."), wrong)
    assert report.added == 1 and f"invalid {field}: " in report.failed[0].reason


def test_keys_of_any_language_and_values_at_the_bounds_are_stored(tmp_path: Path) -> None:
    index = mergewise.open(tmp_path / "index", embedder="none")
    metadata: Metadata = {"année": 2**63 - 1, "年": "猫", "two words": -(2**63), "k" * 200: True, "f": 0.5}
    assert index.add(Document("d", "Cats eat fish.", metadata=metadata)).added == 1
    assert index.document("d").metadata == metadata
