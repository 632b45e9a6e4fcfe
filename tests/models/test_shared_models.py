"""Objects that open indexes share in a process: the network of MiniLM, and the vectors of questions."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any, cast

import numpy as np
import pytest
from tests.support import HashEmbedder

import mergewise as mw
from mergewise import models
from mergewise.designs import VIEWS
from mergewise.models import load_embedder, onnx
from mergewise.protocols import FloatArray
from mergewise.retrieve.hybrid import QUESTIONS, HybridReader, QuestionMemory
from mergewise.store import kept
from mergewise.store.lance_reader import LanceReader

QUESTION = "What do cats eat?"


class Counting(HashEmbedder):
    def __init__(self) -> None:
        super().__init__()
        self.calls: list[list[str]] = []

    def embed_queries(self, texts: Sequence[str]) -> FloatArray:
        self.calls.append(list(texts))
        return super().embed_queries(texts)


def test_open_indexes_share_one_network_and_release_it_with_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # other tests of this process may have indexes open
    monkeypatch.setitem(models.EMBEDDERS, "minilm", models._shared(lambda name: onnx.minilm()))
    loaded: list[object] = []
    load = onnx.load_session

    def load_counted(*given: Any) -> object:
        loaded.append(None)
        return load(*given)

    monkeypatch.setattr(onnx, "load_session", load_counted)
    indexes = [mw.open(tmp_path / str(n)) for n in range(3)]
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda index: index.add(mw.Document("d", "Cats eat fish.")), indexes))
        contexts = list(pool.map(lambda index: index.context(QUESTION, budget=40), indexes))
    assert len({context.text for context in contexts}) == 1 and len(loaded) == 1
    embedder = indexes[0].embedder
    assert embedder is not None and all(index.embedder is embedder for index in indexes)
    left = weakref.ref(embedder)
    indexes[0].close()
    indexes[1].close()
    assert left() is indexes[2].embedder is load_embedder("minilm")
    del embedder, contexts
    indexes[2].close()
    gc.collect()
    assert left() is None


def test_a_question_is_embedded_once_for_all_indexes_and_contexts_stay_identical(tmp_path: Path) -> None:
    embedder = Counting()
    index = mw.open(tmp_path / "index", embedder=embedder)
    index.add(mw.Document("cats", "Cats eat fish. Cats sleep."), mw.Document("dogs", "Dogs eat meat."))
    first = index.context(QUESTION)
    index.add(mw.Document("owls", "Owls eat mice."))
    index.remove(["owls"])
    again = index.context(QUESTION)
    assert again == first and [passage.score for passage in again.passages] == [p.score for p in first.passages]
    assert embedder.calls == [[QUESTION]]
    # another object has its own cache, even with the same spec
    other = Counting()
    reader = HybridReader(index.store.reader(), other, VIEWS)
    assert reader.question_vector(QUESTION) is reader.question_vector(QUESTION) and other.calls == [[QUESTION]]


def test_recent_questions_are_cached() -> None:
    memory, embedder = QuestionMemory(3), Counting()
    for question in "abcadbe":
        vector = memory.vector(embedder, question)
        assert (vector == HashEmbedder().embed_queries([question])[0]).all()
        with pytest.raises(ValueError, match="read-only"):
            vector[0] = 1
    # a stays because it was asked again, c and then b are dropped
    assert [call[0] for call in embedder.calls] == list("abcdbe")
    with ThreadPoolExecutor(8) as pool:
        vectors = list(pool.map(memory.vector, [embedder] * 400, [str(n % 5) for n in range(400)]))
    assert all((vectors[n] == vectors[n % 5]).all() for n in range(400))
    assert len(memory._known[embedder]) == 3
    del embedder
    gc.collect()
    assert not memory._known and QUESTIONS._most == 4096


def test_threads_wait_for_a_value_in_progress(tmp_path: Path) -> None:
    index = mw.open(tmp_path / "index", embedder="none")
    reader, barrier = index.store.reader(), Barrier(8)
    assert isinstance(reader, LanceReader)
    made: list[None] = []

    def make() -> int:
        made.append(None)
        return len(reader.once("inner", lambda: np.zeros(5)))

    def ask(_: int) -> int:
        barrier.wait(20)
        return reader.once("outer", make)

    def fail() -> int:
        raise mw.UsageError("no")

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(ask, range(8))) == [5] * 8 and len(made) == 1
    with pytest.raises(mw.UsageError):
        reader.once("failing", fail)
    assert reader.once("failing", lambda: 3) == 3 and not reader.state.kept._making
    assert reader.once("nothing", lambda: None) is None is reader.once("nothing", fail)


def test_cached_conditions_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "CONDITIONS", 4)
    index = mw.open(tmp_path / "index", embedder="none")
    index.add(mw.Document(str(n), "Cats eat fish.", metadata={"n": n}) for n in range(3))
    whole = {n: index.context(QUESTION, where=f"n = {n}", budget=30) for n in range(3)}
    for n in range(40):
        assert index.context(QUESTION, where=f"n = {n % 3} and n < {n + 100}", budget=30).text == whole[n % 3].text
    held = {where for _, where in cast(LanceReader, index.store.reader()).state.kept._values} - {None}
    assert 0 < len(held) <= 4
