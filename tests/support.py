"""Small handmade indexes, and readers with scripted results."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mergewise.defaults import When
from mergewise.designs import VIEWS
from mergewise.index.executors import HERE, Executors
from mergewise.index.pipeline import carry_out
from mergewise.index.pipeline import rows_of as made
from mergewise.index.plan import plan
from mergewise.index.tree import TreeSettings
from mergewise.index.work import IndexingProgress
from mergewise.inputs import Input
from mergewise.models.onnx import MINILM, load_session, truncate
from mergewise.models.record import Models
from mergewise.models.tokens import count_tokens, encode
from mergewise.protocols import Embedder, FloatArray, OrderedBy, SearchKind, Store
from mergewise.readers import read_file
from mergewise.retrieve.hybrid import HybridReader
from mergewise.store.lance import LanceStore
from mergewise.store.manifest import Manifest, ViewState
from mergewise.store.places.place import Place
from mergewise.store.views import Registry
from mergewise.types import AddReport, Definition, Document, DocumentRows, Hit, Leaf, LeafSentences, Section, Span
from tests.memory_store import MemoryStore


def lance_connection(directory: Path) -> Any:
    """Open a folder with LanceDB itself. An import before mergewise's own one takes seconds."""
    import lancedb

    return lancedb.connect(directory)


# a fixed piece of work, and its time on an idle machine
_STEPS, _IDLE_SECONDS = 2_000_000, 0.03
_measured = (float("-inf"), 1.0)


def slowness() -> float:
    """Return how many times slower this machine is now than an idle one, at least 1. It is measured every five seconds at most.

    The load average counts too, because a short piece of work may run between those of other processes.
    """
    global _measured
    began = time.monotonic()
    if began - _measured[0] > 5:
        sum(range(_STEPS))
        taken = (time.monotonic() - began) / _IDLE_SECONDS
        load = os.getloadavg()[0] / (os.cpu_count() or 1) if hasattr(os, "getloadavg") else 0.0
        _measured = began, max(1.0, taken, load)
    return _measured[1]


def patience(seconds: float) -> float:
    """Return the seconds to wait now for what takes less than `seconds` on an idle machine, at most three minutes."""
    return max(seconds, min(180.0, seconds * slowness()))


def until(holds: Callable[[], bool], seconds: float = 60.0) -> bool:
    """Wait until the condition holds, and return whether it does. The timeout is generous: usually it takes milliseconds."""
    end = time.monotonic() + patience(seconds)
    while not holds() and time.monotonic() < end:
        time.sleep(0.01)
    return holds()


async def cancel_when(ready: Callable[[], bool], work: Coroutine[Any, Any, object]) -> None:
    """Cancel the awaited work once `ready()` is true."""
    task = asyncio.create_task(work)
    while not ready():
        await asyncio.sleep(0.005)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def add_inputs(
    inputs: Sequence[Input],
    store: Store,
    registry: Registry,
    models: Models,
    work: IndexingProgress | None = None,
    embed: When = "now",
    executors: Executors = HERE,
) -> AddReport:
    """Add inputs as `Index.add` does."""
    work = work or IndexingProgress()
    planned = plan(inputs, store.reader(), work.look_at)
    return carry_out(planned, store, registry, models, work, embed, executors)


SMALL = TreeSettings(leaf_tokens=18, max_leaf_tokens=36, section_tokens=90, min_section_tokens=0)


_session = cache(partial(load_session, MINILM, False))


def read(path: Path, *, id: str | None = None) -> Document:
    return read_file(path, id=id).document


def token_vectors(text: str) -> tuple[FloatArray, Sequence[tuple[int, int]]]:
    """Return the network's vectors of a text's word pieces, and their places. Special tokens are at (0, 0)."""
    (encoding,) = encode([text], marks=True, offsets=True)
    ids = np.array([truncate(encoding.ids, 256)])
    inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
    (vectors,) = _session().run(["token_vectors"], inputs)
    return vectors[0], truncate(encoding.offsets, 256)


class HashEmbedder:
    """An embedder that hashes bags of words into unit vectors. It is deterministic across runs, and records its inputs."""

    spec = "hash"
    dimension = 64

    def __init__(self) -> None:
        self.asked: list[str] = []

    def embed_documents(self, texts: Sequence[str]) -> FloatArray:
        self.asked += texts
        rows = np.zeros((len(texts), self.dimension), np.float32)
        for row, text in zip(rows, texts, strict=True):
            for word in text.lower().split() or [""]:
                row[int(hashlib.md5(word.encode("utf-8", "replace")).hexdigest(), 16) % self.dimension] += 1
        rows /= np.linalg.norm(rows, axis=1, keepdims=True).clip(1e-9)
        return rows

    def embed_queries(self, texts: Sequence[str]) -> FloatArray:
        return self.embed_documents(texts)


def rows_of(
    documents: Sequence[Document],
    embedder: Embedder | None = None,
    settings: TreeSettings = SMALL,
    digest: str = "1",
    **views: Any,
) -> list[DocumentRows]:
    """Return the rows of the tree, and of further views by their settings."""
    stored = {name: VIEWS[name].dump(own) for name, own in {"leaf": settings, **views}.items()}
    return made([(document, digest) for document in documents], VIEWS, stored, Models(count_tokens, embedder))


def memory_store(documents: Sequence[Document], embedder: Embedder | None = None, **views: Any) -> MemoryStore:
    stored = {name: VIEWS[name].dump(own) for name, own in {"leaf": SMALL, **views}.items()}
    store = MemoryStore(VIEWS, 0 if embedder is None else embedder.dimension, stored)
    store.write(rows_of(documents, embedder, **views))
    return store


def new_store(
    kind: str,
    place: Path | Place,
    registry: Registry = VIEWS,
    embedder: Embedder | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Store:
    """Create an empty store, in "memory" or at a place, with views of these settings (default: a small tree)."""
    dimension = 0 if embedder is None else embedder.dimension
    stored = {name: registry[name].dump(own) for name, own in (settings or {"leaf": SMALL}).items()}
    if kind == "memory":
        return MemoryStore(registry, dimension, stored)
    views = {name: ViewState(own) for name, own in stored.items()}
    manifest = Manifest(embedder="none" if embedder is None else embedder.spec, dimension=dimension, views=views)
    return create_store(place, manifest, registry)


def create_store(place: Path | Place, manifest: Manifest, registry: Registry, lock_wait: float = 3600) -> LanceStore:
    """Create an index in the place, unless another process just did."""
    store = LanceStore(place, registry, lock_wait)
    store.place.create(manifest, lock_wait)
    return store


def whole_views(manifest: Manifest) -> tuple[str, ...]:
    """Return the views that every document has."""
    return tuple(name for name, view in manifest.views.items() if not view.missing)


def reader_of(store: Store, embedder: Embedder | None = None, where: str | None = None) -> HybridReader:
    return HybridReader(store.reader(), embedder, VIEWS, where)


class ScriptedReader:
    """An `IndexReader` over a store in memory whose searches return given leaves with given scores. It counts its calls."""

    def __init__(self, store: MemoryStore, scores: dict[int, float] | Sequence[tuple[int, float]]) -> None:
        self.reader = reader_of(store)
        self.scores = list(scores.items() if isinstance(scores, dict) else scores)
        self.calls: list[str] = []
        self.lost: set[int] = set()  # sections missing from the index

    def search(self, question: str, k: int, by: OrderedBy = "both") -> list[Hit]:
        leaves = self.reader.leaves([leaf for leaf, _ in self.scores])
        return [Hit(leaves[i], score) for i, score in sorted(self.scores, key=lambda s: -s[1])[:k]]

    def searching_by(self, kind: SearchKind) -> ScriptedReader:
        return self

    def documents(self) -> list[str]:
        return self.reader.documents()

    def sections(self, ids: Sequence[int]) -> dict[int, Section]:
        self.calls.append("sections")
        return {i: s for i, s in self.reader.sections(ids).items() if i not in self.lost}

    def leaves(self, ids: Sequence[int]) -> dict[int, Leaf]:
        self.calls.append("leaves")
        return self.reader.leaves(ids)

    def vectors(self, ids: Sequence[int]) -> dict[int, FloatArray]:
        return self.reader.vectors(ids)

    def rank(self, question: str, k: int, by: OrderedBy = "both") -> list[tuple[int, float]]:
        return sorted(self.scores, key=lambda s: -s[1])[:k]

    def has(self, view: str) -> bool:
        return self.reader.has(view)

    def view(self, name: str) -> Any:
        return self.reader.view(name)

    def question_vector(self, question: str) -> FloatArray | None:
        return None

    def word_shares(self, question: str) -> dict[str, Mapping[str, float]]:
        return {}

    def languages(self, text: str) -> tuple[str, ...]:
        return self.reader.languages(text)

    def sentences(self, ids: Sequence[int]) -> dict[int, LeafSentences]:
        self.calls.append("sentences")
        return self.reader.sentences(ids)

    def leaves_under(self, spans: Sequence[Span]) -> list[int]:
        return self.reader.leaves_under(spans)

    def definitions(self, names: Sequence[str]) -> dict[str, list[Definition]]:
        return self.reader.definitions(names)


def manifest_record(path: Path) -> dict[str, Any]:
    """Read a manifest as JSON to change it. It has no digest, so that the changed one counts as written by hand."""
    record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    # a record that was changed before has none
    record.pop("digest", None)
    return record
