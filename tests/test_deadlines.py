"""Questions with a deadline, and ceilings of their parameters."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import mergewise as mw
from mergewise.concurrency import check_time, deadline_in, run
from mergewise.models.scripted import ScriptedChat, Turn
from mergewise.protocols import FloatArray
from mergewise.store.snapshot import Snapshot
from tests.support import HashEmbedder, patience

QUESTION = "What do cats eat?"
# much longer than a question with a deadline takes, and much shorter than without
PATIENCE = 20.0


class SlowEmbedder(HashEmbedder):
    pause = 0.0

    def embed_queries(self, texts: Sequence[str]) -> FloatArray:
        time.sleep(self.pause)
        return super().embed_queries(texts)


def open_in(folder: Path, **models: object) -> mw.Index:
    index = mw.open(folder / "index", **{"embedder": "none", **models})  # type: ignore[arg-type]
    index.add(mw.Document("cats", "# Cats\n\nCats eat fish. Cats sleep."), mw.Document("dogs", "Dogs eat meat."))
    return index


@pytest.mark.parametrize(
    "ask",
    [
        lambda index: index.ask(QUESTION, deadline=0.4),
        lambda index: index.prepare(QUESTION, deadline=PATIENCE).answer(deadline=0.2),
        lambda index: asyncio.run(index.aask(QUESTION, deadline=0.4)),
        lambda index: list(index.ask_stream(QUESTION, deadline=0.4)),
        lambda index: list(index.prepare(QUESTION).answer_stream(deadline=0.2)),
        lambda index: index.context("And when do they sleep?", history=[(QUESTION, "Fish.")], deadline=0.2),
    ],
    ids=["ask", "prepared", "awaited", "streamed", "prepared stream", "follow-up"],
)
def test_slow_model_is_cancelled_at_the_deadline(tmp_path: Path, ask: Callable[[mw.Index], object]) -> None:
    chat = ScriptedChat([Turn("Cats eat fish [1].", pause=600)])
    index = open_in(tmp_path, chat=chat)
    began = time.monotonic()
    with pytest.raises(mw.DeadlineExceeded, match="deadline exceeded"):
        ask(index)
    assert time.monotonic() - began < patience(PATIENCE)
    end = time.monotonic() + patience(PATIENCE)
    while chat.transcript._under_way and time.monotonic() < end:
        time.sleep(0.01)
    assert not chat.transcript._under_way


def test_index_is_not_read_after_the_deadline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    embedder = SlowEmbedder()
    index = open_in(tmp_path, embedder=embedder)
    expected = index.context(QUESTION)
    margin = patience(0.1)
    embedder.pause = 0.3 + 2 * margin
    late: list[float] = []
    end = time.monotonic() + 0.3
    plain = Snapshot.table

    def table(self: Snapshot, name: str) -> object:
        opened = plain(self, name)
        late.extend([time.monotonic()] if time.monotonic() > end + margin else [])
        return opened

    monkeypatch.setattr(Snapshot, "table", table)
    with pytest.raises(mw.DeadlineExceeded):
        index.context("What do dogs eat?", deadline=0.3)
    assert late == []
    assert index.context(QUESTION, deadline=3600) == expected == index.context(QUESTION)


def test_met_deadline_changes_nothing(tmp_path: Path) -> None:
    index = open_in(tmp_path, chat=ScriptedChat(["Cats eat fish [1]."]))
    assert index.ask(QUESTION, deadline=3600) == index.ask(QUESTION)
    assert index.prepare(QUESTION, deadline=3600).answer(deadline=3600) == index.ask(QUESTION)
    asks: list[Callable[..., object]] = [index.ask, index.context, index.prepare]
    wrong: list[object] = [0, -1, float("nan"), "soon", True]
    for deadline in wrong:
        for ask in asks:
            with pytest.raises(mw.UsageError, match="deadline"):
                ask(QUESTION, deadline=deadline)
        with pytest.raises(mw.UsageError, match="deadline"):
            index.prepare(QUESTION).answer(deadline=deadline)  # type: ignore[arg-type]


def test_nearest_deadline_counts_and_other_timeouts_are_passed_on() -> None:
    async def wait(seconds: float) -> str:
        await asyncio.sleep(seconds)
        return "done"

    async def fail() -> None:
        raise TimeoutError("another")

    assert check_time() is None
    with deadline_in(3600):
        with deadline_in(60), deadline_in(7200):
            left = check_time()
            assert left is not None and 0 < left <= 60
        with deadline_in(0.05), pytest.raises(mw.DeadlineExceeded):
            run(wait(60))
        with pytest.raises(TimeoutError, match="another"):
            run(fail())
        assert run(wait(0)) == "done"
    assert check_time() is None
    with deadline_in(1e-9):
        time.sleep(0.001)
        with pytest.raises(mw.DeadlineExceeded):
            run(wait(0))


# -- ceilings


@pytest.mark.parametrize(
    ("spec", "parameters"),
    [
        ("weave(k=501)", None),
        ("weave", {"k": 10_000}),
        ("mergerag-sym(k=501)", None),
        ("sentence(among=2001)", None),
        ("recomp(n=2001)", None),
    ],
)
def test_value_above_a_ceiling_is_refused(tmp_path: Path, spec: str, parameters: dict[str, object]) -> None:
    index = open_in(tmp_path, ceilings=mw.Ceilings(k=500, candidates=2000))
    with pytest.raises(mw.UsageError, match=r"cannot be .*its ceiling here is (500|2,000)"):
        index.ask(QUESTION, strategy=spec, parameters=parameters)
    assert open_in(tmp_path / "free").context(QUESTION, strategy=spec, parameters=parameters).passages


def test_value_at_a_ceiling_is_accepted(tmp_path: Path) -> None:
    index = open_in(tmp_path, ceilings=mw.Ceilings(k=5, candidates=7))
    for spec in ("weave(k=5)", "weave", "weave(k=60)", "topk", "sentence(among=24)", "fixed", "macrag"):
        try:
            assert index.context(QUESTION, strategy=spec).passages
        except mw.UsageError as error:
            assert "has no" in error.message
    with pytest.raises(mw.UsageError, match="its ceiling here is 5"):
        index.context(QUESTION, strategy="topk", merge_with="mergerag-asym(k=51)")
    for wrong in ({"k": 0}, {"candidates": "many"}, {"k": 10**9}):
        with pytest.raises(mw.UsageError, match="ceiling"):
            mw.Ceilings(**wrong)
