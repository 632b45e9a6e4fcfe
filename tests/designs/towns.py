"""Five small towns with towers, in an index with slices, for tests of the strategies over chunks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mergewise.designs import VIEWS, strategies
from mergewise.designs.macrag.slices import SliceSettings
from mergewise.models.record import Models
from mergewise.models.tokens import count_tokens
from mergewise.protocols import FloatArray
from mergewise.retrieve.hybrid import HybridReader
from mergewise.types import Context, Document
from tests.memory_store import MemoryStore
from tests.support import HashEmbedder, memory_store

EMBEDDER = HashEmbedder()
SETTINGS = SliceSettings(chunk=60, overlap=20, slice=90, slice_overlap=45)
TOWNS = ("Arden", "Brook", "Corin", "Delos", "Eryx")


def document(number: int) -> Document:
    town = TOWNS[number % 5]
    parts = [
        f"## Part {i}\n\nThe tower {i} of {town} was built in {1500 + 7 * i}. "
        f"Its mason came from {TOWNS[(number + i) % 5]}. The river floods it in spring."
        for i in range(8)
    ]
    return Document(f"d{number}", "\n\n".join(parts), town)


def store_of(documents: Sequence[Document]) -> MemoryStore:
    return memory_store(documents, EMBEDDER, slice=SETTINGS)


DOCUMENTS = [document(number) for number in range(5)]
STORE = store_of(DOCUMENTS)
QUESTION = "Which tower of Corin was built in 1514?"


def reader() -> HybridReader:
    return HybridReader(STORE, EMBEDDER, VIEWS)


def ask(spec: str, budget: int = 200, models: Models | None = None, question: str = QUESTION) -> Context:
    return strategies.assemble(spec, question, reader(), budget, models or Models(count_tokens))


class Marks:
    """A reranker with scores from a list. It records its inputs."""

    spec = "marks"

    def __init__(self, scores: Sequence[float] = ()) -> None:
        self.scores = scores
        self.asked: list[list[str]] = []

    def score(self, question: str, texts: Sequence[str]) -> FloatArray:
        self.asked.append(list(texts))
        given = [self.scores[i % len(self.scores)] if self.scores else 0.5 for i in range(len(texts))]
        return np.array(given, np.float32)
