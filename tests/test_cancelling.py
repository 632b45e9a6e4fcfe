"""Cancelled changes of an index, at any point: the index is sound, written batches stay, and the same call does the rest."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock
from hypothesis import given, settings
from hypothesis import strategies as st

import mergewise as mw
from mergewise.index import pipeline
from mergewise.models.scripted import ScriptedChat
from tests.support import HashEmbedder, patience

TEXTS = {
    f"{name}.md": f"# {name}\n\n" + f"{name} eats number {i}. " * 5
    for i, name in enumerate(("Cat", "Dog", "Owl", "Gnu"))
}


def after(calls: int) -> Callable[[], bool]:
    """Return a condition that is false for this many calls."""
    left = iter(range(calls))
    return lambda: next(left, None) is None


def documents() -> list[mw.Document]:
    return [mw.Document(name, text) for name, text in TEXTS.items()]


@settings(max_examples=4, deadline=None)
@given(calls=st.integers(0, 24), later=st.booleans(), small=st.booleans())
def test_a_second_call_finishes_cancelled_work(
    tmp_path_factory: pytest.TempPathFactory, calls: int, later: bool, small: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "BATCH_DOCUMENTS", 2)
        patch.setattr(pipeline, "SMALL", 10**6 if small else 0)
        index = mw.open(tmp_path_factory.mktemp("i") / "index", embedder=HashEmbedder())
        when = "later" if later else "now"
        try:
            index.add(documents(), cancel=after(calls), embed=when)
        except mw.Cancelled:
            assert index.check() == []
        standing = len(index)
        report = index.add(documents())
        assert (report.unchanged, report.added) == (standing, 4 - standing)
        assert index.vectors().waiting == 0 and index.check() == []


def test_written_batches_survive_cancelling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "BATCH_DOCUMENTS", 2)
    index = mw.open(tmp_path / "index", embedder="none")
    with pytest.raises(mw.Cancelled):
        index.add(documents(), cancel=lambda: len(index) > 0)
    assert [info.id for info in index.documents()] == ["Cat.md", "Dog.md"]
    assert index.context("What does the cat eat?", budget=40).passages


def test_sync_and_embed_can_be_cancelled(tmp_path: Path) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    for name, text in TEXTS.items():
        (folder / name).write_text(text)
    index = mw.open(tmp_path / "index", embedder=HashEmbedder())
    for dry_run in (False, True):
        with pytest.raises(mw.Cancelled):
            index.sync(folder, cancel=lambda: True, dry_run=dry_run)
    assert len(index) == 0 and index.sync(folder, embed="later", cancel=lambda: False).added == 4
    with pytest.raises(mw.Cancelled):
        index.embed(cancel=lambda: True)
    assert index.vectors().waiting > 0
    assert index.embed(cancel=lambda: False).waiting == 0


def test_lock_wait_is_limited(tmp_path: Path) -> None:
    index = mw.open(tmp_path / "index", embedder="none", lock_wait=0.05)
    patient = mw.open(tmp_path / "index", embedder="none", lock_wait=60)
    with FileLock(tmp_path / "index" / ".lock"):
        with pytest.raises(mw.IndexBusy):
            index.add(documents())
        done: list[mw.AddReport] = []
        waiting = threading.Thread(target=lambda: done.append(patient.add(documents())))
        waiting.start()
        waiting.join(0.2)
        assert not done
    waiting.join(patience(30))
    assert [report.added for report in done] == [4]
    with pytest.raises(mw.UsageError, match="invalid lock_wait"):
        mw.open(tmp_path / "index", lock_wait=-1)


def test_replies_of_a_chat_model_survive_cancelling(tmp_path: Path) -> None:
    chat = ScriptedChat(["Cat eats fish and sleeps all day."])
    views = {"slice": mw.SliceSettings(summary="abstractive")}
    index = mw.open(tmp_path / "index", embedder="none", chat=chat, settings=views)
    texts = [f"# {n}\n\n" + f"Cat {n} eats fish and sleeps all day long. " * 90 for n in range(6)]
    with pytest.raises(mw.Cancelled):
        index.add([mw.Document(str(n), text) for n, text in enumerate(texts)], cancel=lambda: len(chat.asked) > 2)
    before = [request.text for request in chat.asked]
    assert len(index) == 0 and index.check() == [] and len(before) < 12
    assert index.add([mw.Document(str(n), text) for n, text in enumerate(texts)]).added == 6
    after = [request.text for request in chat.asked[len(before) :]]
    assert after and len(set(after) & set(before)) < len(before)
