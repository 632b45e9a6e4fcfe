"""Repair beside other writers: what they changed since the repair read the documents stays changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from tests.support import HashEmbedder

import mergewise as mw
from mergewise.protocols import FloatArray

CHANGED = {"d1": "The lighthouse was sold to a painter.", "d6": "A new pier was built."}


class InterruptedEmbedder(HashEmbedder):
    """An embedder that runs `meanwhile` once, at the first text that it embeds after `meanwhile` was set."""

    meanwhile: Callable[[], object] | None = None

    def embed_documents(self, texts: Sequence[str]) -> FloatArray:
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            meanwhile()
        return super().embed_documents(texts)


def document(number: int) -> mw.Document:
    text = f"The lighthouse {number} stands at the sea.\n\nIts builder was mason {number} of Norr."
    return mw.Document(f"d{number}", text, f"Place {number}", {"year": 1900 + number})


def damage(directory: Path, table: str) -> None:
    """Delete the rows of a table in all shards."""
    paths = list(directory.rglob(f"{table}.lance/data/*"))
    assert paths
    for path in paths:
        path.unlink()


@pytest.mark.parametrize("shards", [None, 3])
@pytest.mark.parametrize("table", ["leaf", "slice"])
def test_changes_during_a_repair_stay(tmp_path: Path, shards: int | None, table: str) -> None:
    embedder, place = InterruptedEmbedder(), tmp_path / "index"
    index = mw.open(place, embedder=embedder, views=("leaf", "slice"), shards=shards)
    index.add([document(number) for number in range(6)])
    damage(place, table)
    done: list[bool] = []

    def change() -> None:
        with mw.open(place, embedder=HashEmbedder()) as other:
            other.add([mw.Document(doc_id, text, "New") for doc_id, text in CHANGED.items()])
            assert other.remove(["d3"]) == 1
            assert other.describe(["d4"], {"year": 7, "town": "Norr"}) == 1
            done.append(True)

    embedder.meanwhile = change
    assert index.check(repair=True) == [] and done
    found = {info.id: index.document(info.id) for info in index.documents()}
    assert found.keys() == {"d0", "d1", "d2", "d4", "d5", "d6"}
    assert {doc_id: found[doc_id].text for doc_id in CHANGED} == CHANGED
    assert found["d4"] == mw.Document("d4", document(4).text, "Place 4", {"year": 7, "town": "Norr"})
    assert found["d5"] == document(5)
    index.context("Who built the lighthouse?", strategy="macrag")
