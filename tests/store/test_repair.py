"""Check and repair beside other writers: one state is checked, and no change is reverted."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.support import HashEmbedder

import mergewise as mw
from mergewise.protocols import FloatArray
from mergewise.store import sweep
from mergewise.types import Problem

ROUNDS = 60 if "MERGEWISE_ATTACK" in os.environ else 6

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


def check_beside(place: Path, work: Callable[[], object]) -> list[list[Problem]]:
    """Check the index again and again while `work` runs in another thread. Return the problems of each check."""
    found = []
    with mw.open(place, embedder=HashEmbedder()) as index, ThreadPoolExecutor(1) as pool:
        running = pool.submit(work)
        while not running.done():
            found.append(index.check())
        running.result()
    return found


def test_checks_beside_reshards_find_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = mw.open(tmp_path, embedder=HashEmbedder(), shards=2)
    index.add([document(number) for number in range(30)])

    def reshard() -> None:
        for round_ in range(ROUNDS):
            # every second time, the files of the generation before are dropped at once
            monkeypatch.setattr(sweep, "GENERATION_KEPT", -1.0 if round_ % 2 else 3600.0)
            index.reshard(3 if len(index.store.manifest.parts) == 2 else 2)

    found = check_beside(tmp_path, reshard)
    assert len(found) >= ROUNDS // 2 and not any(found)
    assert index.check() == [] and len(index) == 30


@pytest.mark.parametrize("shards", [None, 2])
def test_checks_beside_changes_find_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shards: int | None
) -> None:
    """Each change drops the files of all states before it."""
    index = mw.open(tmp_path, embedder=HashEmbedder(), shards=shards)
    index.add([document(number) for number in range(30)])
    for name, value in (("KEPT", -1.0), ("LEAST", 0)):
        monkeypatch.setattr(sweep, name, value)

    def change() -> None:
        for number in range(3 * ROUNDS):
            index.add(mw.Document(f"d{number % 30}", f"Text {number} of the sea.", "New"))
            index.store.place.clean(index.manifest)

    found = check_beside(tmp_path, change)
    assert found and not any(found)


def test_real_damage_is_found_beside_changes(tmp_path: Path) -> None:
    index = mw.open(tmp_path, embedder=HashEmbedder())
    index.add([document(number) for number in range(6)])
    for path in tmp_path.glob("section.lance/data/*"):
        path.unlink()

    def change() -> None:
        for number in range(ROUNDS):
            index.describe(["d1"], {"year": number})

    found = check_beside(tmp_path, change)
    assert found and all(any("'section'" in problem.what for problem in problems) for problems in found)


@pytest.mark.parametrize("shards", [None, 2])
def test_a_repair_that_is_killed_before_it_rebuilds_rows_is_found(tmp_path: Path, shards: int | None) -> None:
    index = mw.open(tmp_path, embedder=HashEmbedder(), views=("leaf", "slice"), shards=shards)
    index.add([document(number) for number in range(6)])
    damage(tmp_path, "section")
    # it drops the rows of all views
    assert sorted(index.store.repair()) == [f"d{number}" for number in range(6)]
    again = mw.open(tmp_path, embedder=HashEmbedder())
    assert {problem.doc_id for problem in again.check()} == {f"d{number}" for number in range(6)}
    assert again.check(repair=True) == [] and again.context("Who built the lighthouse?", strategy="macrag").text
