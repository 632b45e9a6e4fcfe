"""Views written by a chat model over real HTTP: failed and interrupted runs, and changes of documents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import mergewise
from mergewise.designs.aed.triplets import TripletSettings
from mergewise.designs.mrag.markers import MarkerSettings
from mergewise.engine import Index
from mergewise.errors import ModelError, UsageError
from mergewise.models.scripted import Turn
from mergewise.types import Document, Message
from tests.designs.aed import tripling
from tests.designs.mrag import marking
from tests.designs.mrag.marking import BRIDGES


@dataclass(frozen=True)
class WrittenView:
    name: str
    table: str  # of the state of the writing
    settings: Any
    good: Callable[[Sequence[Message]], str]

    def open(self, path: Path, chat: Any) -> Index:
        return mergewise.open(path, embedder="none", settings={self.name: self.settings}, chat=chat)

    def extraction(self, index: Index, doc_id: str) -> Any:
        (rows,) = index.store.reader().document_rows([doc_id])
        return rows[self.table][0]


WRITTEN = [
    WrittenView("marker", "marking", MarkerSettings(made="model", segment=48, window=400, overlap=1), marking.good),
    WrittenView("triplet", "extraction", TripletSettings(made="model", longest=80, window=300), tripling.good),
]
each_view = pytest.mark.parametrize("view", WRITTEN, ids=lambda view: view.name)


@each_view
def test_an_endpoint_that_is_down_writes_nothing(view: WrittenView, serve: Any, tmp_path: Path) -> None:
    server, chat = serve(lambda messages: Turn(status=401), retries=0)
    index = view.open(tmp_path / "i", chat)
    with pytest.raises(ModelError, match="run it again"):
        index.add([Document(str(n), f"Part {n}. {BRIDGES}") for n in range(4)])
    assert len(index) == 0 and len(server.asked) < 20


@each_view
def test_a_run_that_broke_off_is_not_paid_for_twice(view: WrittenView, serve: Any, tmp_path: Path) -> None:
    """The endpoint goes down half way. The second run requests only the missing answers."""
    left = {"calls": 4}

    def turn(messages: Sequence[Message]) -> Turn:
        left["calls"] -= 1
        return Turn(status=401) if left["calls"] < 0 else Turn(view.good(messages))

    server, chat = serve(turn, retries=0, concurrency=1)  # so that no answer is under way when one fails
    documents = [Document(str(n), f"Part {n}. {BRIDGES}", str(n)) for n in range(2)]
    with pytest.raises(ModelError):
        view.open(tmp_path / "i", chat).add(documents)
    answered = {one.messages[-1].text for one in server.asked[:4]}
    left["calls"] = 10_000
    before = len(server.asked)
    index = view.open(tmp_path / "i", chat)
    assert index.add(documents).added == 2 and index.check() == []
    again = [one.messages[-1].text for one in server.asked[before:]]
    assert again and answered.isdisjoint(again) and len(again) == len(set(again))


@each_view
def test_a_chat_model_is_required(view: WrittenView, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--chat"):
        view.open(tmp_path / "i", "extractive").add(Document("d", BRIDGES))


@each_view
def test_rows_come_and_go_with_their_documents(view: WrittenView, serve: Any, tmp_path: Path) -> None:
    server, chat = serve(lambda messages: Turn(view.good(messages)))
    mergewise.open(tmp_path / "i", embedder="none").add(Document("first", BRIDGES, "First"))
    index = view.open(tmp_path / "i", chat)
    assert view.extraction(index, "first").made == "model" and server.asked
    index.add(Document("second", "Cats eat fish in Rome. " * 20, "Second"))
    calls, counts = len(server.asked), index.store.reader().row_counts()
    assert counts[view.table] == 2
    index.remove(["second"])
    assert index.store.reader().row_counts()[view.table] == 1 and index.check() == []
    index.add(Document("second", "Cats eat fish in Rome. " * 20, "Second"))
    assert index.store.reader().row_counts() == counts and len(server.asked) == calls, "nothing is paid twice"
