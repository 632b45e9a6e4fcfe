"""Processor time of searches by the size of their filter, and of the first question after a small change.

python -m benchmarks.filters --keep DIR [--documents 200000] [--questions 30]

The index is artificial: a document is one leaf of random words, and its vector lies near one of a few centres. In `DIR/plain`
all documents differ. `DIR/copies` adds duplicates. The milliseconds of a search are medians over questions, summed over all
threads. The filter is already cached. To measure an older version, put its sources on the path.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Callable, Iterator
from itertools import chain, islice
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

import numpy as np

from benchmarks.cells import markdown
from mergewise.designs import VIEWS
from mergewise.index.tree import TreeSettings
from mergewise.protocols import FloatArray
from mergewise.retrieve.hybrid import HybridReader
from mergewise.store.lance import LanceStore
from mergewise.store.manifest import Manifest, ViewState
from mergewise.types import Document, DocumentRows, Leaf, Name, Rows, Section, Sentence

DIMENSION, CENTRES, SPREAD = 128, 500, 0.8
WORDS, VOCABULARY, ASKED = 30, 30_000, 5
AT_ONCE = 5_000
COPIES = 10_000
SIZES = (100, 1_000, 10_000, 100_000)
DEPTH = 100


class Drawing:
    """Random texts and vectors. The same number of documents gives the same ones."""

    def __init__(self, seed: int = 0) -> None:
        self._draw = np.random.default_rng(seed)
        self._centres = np.random.default_rng(1).normal(size=(CENTRES, DIMENSION))
        # Zipf's law: a few words are in most texts.
        shares = 1 / np.arange(10, VOCABULARY + 10)
        self._ends = np.cumsum(shares / shares.sum())

    def text(self, words: int) -> str:
        return " ".join(f"word{number}" for number in self._ends.searchsorted(self._draw.random(words))) + "."

    def vectors(self, count: int) -> FloatArray:
        near = self._centres[self._draw.integers(CENTRES, size=count)]
        drawn = near + SPREAD * self._draw.normal(size=(count, DIMENSION))
        unit: FloatArray = (drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).astype(np.float32)
        return unit

    def documents(self, first: int, count: int) -> Iterator[DocumentRows]:
        """Yield documents whose field `place` is a random permutation, so that `place < n` matches n scattered documents."""
        places = self._draw.permutation(np.arange(first, first + count)).tolist()
        for at, vector in enumerate(self.vectors(count)):
            yield rows_of(first + at, self.text(WORDS), vector, places[at])


def rows_of(number: int, text: str, vector: FloatArray | None, place: int, title: str = "") -> DocumentRows:
    """Return a document with one leaf. The title defaults to the id."""
    doc_id, sentence = f"d{number:07}", Sentence(0, len(text), WORDS)
    title = title or doc_id
    leaf = Leaf(0, doc_id, title, (1,), 0, 0, len(text), 0, (), text, WORDS, (sentence,))
    section = Section(1, doc_id, None, 0, 0, 1, 0, len(text), (), 0, 1, WORDS)
    columns: dict[str, Any] = {}
    if vector is not None:
        packed = [np.clip(vector * 127, -127, 127).astype(np.int8).tobytes()]
        columns = {"vector": vector[None], "sentence_vectors": packed}
    tables = {"leaf": Rows((leaf,), columns), "section": Rows((section,)), "name": Rows((Name(title, 0, 1),))}
    return DocumentRows(Document(id=doc_id, title=title, text=text, metadata={"place": place}), str(number), tables)


def write(store: LanceStore, rows: Iterator[DocumentRows]) -> None:
    while some := list(islice(rows, AT_ONCE)):
        store.write(some)
    store.optimize()


def make_index(directory: Path, documents: int) -> LanceStore:
    views = {"leaf": ViewState(VIEWS["leaf"].dump(TreeSettings()))}
    store = LanceStore(directory, VIEWS)
    store.place.create(Manifest("made", DIMENSION, views), store.lock_wait)
    if not store.reader().numbers():
        write(store, Drawing().documents(0, documents))
    return store


def with_copies(directory: Path, plain: LanceStore, documents: int) -> LanceStore:
    """Build the same index with copies of scattered documents, and an equal number of other documents between them."""
    if not directory.exists():
        shutil.copytree(plain.directory, directory)
        originals = {rows.document.id: rows for rows in Drawing().documents(0, documents)}
        drawn = np.random.default_rng(2).choice(sorted(originals), min(COPIES, documents), replace=False).tolist()
        others = Drawing(6).documents(documents, len(drawn))
        copies = (
            rows_of(2 * documents + at, rows.document.text, rows.column("leaf", "vector")[0], 2 * documents + at)
            for at, rows in enumerate(map(originals.__getitem__, drawn))
        )
        # Copies must not have consecutive numbers.
        write(LanceStore(directory, VIEWS), chain.from_iterable(zip(copies, others, strict=True)))
    return LanceStore(directory, VIEWS)


def milliseconds(asked: Callable[[int], object], times: int) -> float:
    used = []
    for number in range(times):
        began = process_time()
        asked(number)
        used.append(1000 * (process_time() - began))
    return median(used)


def search_costs(store: LanceStore, where: str | None, questions: int) -> tuple[float, float]:
    """Return the milliseconds of a search by text and of a search by vectors, after a warm-up."""
    reader, drawing = store.reader(), Drawing(3)
    texts, vectors = [drawing.text(ASKED) for _ in range(questions)], drawing.vectors(questions)
    costs = []
    for search in (
        lambda number: reader.text_search(texts[number], DEPTH, where).result(),
        lambda number: reader.vector_search(vectors[number], DEPTH, where).result(),
    ):
        milliseconds(search, min(3, questions))
        costs.append(milliseconds(search, questions))
    return costs[0], costs[1]


def first_question_cost(store: LanceStore, times: int) -> float:
    """Return the extra milliseconds of the first question after a change: the cost of a new state."""
    drawing = Drawing(4)
    first = 10_000_000 + store.manifest.next_number

    def ask() -> float:
        began = process_time()
        reader = HybridReader(store.reader(), None, VIEWS)
        leaves = reader.search(text, DEPTH)
        reader.sentences([hit.row.id for hit in leaves])
        reader.definitions([hit.row.title for hit in leaves])
        return 1000 * (process_time() - began)

    costs = []
    text = drawing.text(ASKED)
    ask()
    for rows in drawing.documents(first, times):
        text = drawing.text(ASKED)
        store.write([rows])
        costs.append(ask() - ask())
    return median(costs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=200_000)
    parser.add_argument("--questions", type=int, default=30)
    parser.add_argument("--keep", type=Path, required=True, help="Folder of the indexes, built if missing")
    options = parser.parse_args()
    plain = make_index(options.keep / "plain", options.documents)
    copies = with_copies(options.keep / "copies", plain, options.documents)
    conditions = {f"{size:,} documents": f"place < {size}" for size in SIZES if size <= options.documents}
    cases = [("no filter", plain, None), *((name, plain, where) for name, where in conditions.items())]
    cases += [(f"{COPIES:,} copies", copies, None), ("all, by a condition", plain, "place >= 0")]
    rows = []
    for name, store, where in cases:
        costs = search_costs(store, where, options.questions)
        rows.append([name, *(f"{cost:.1f}" for cost in costs)])
        print(" | ".join(rows[-1]), flush=True)
    print(markdown(["filter", "text, CPU ms", "vectors, CPU ms"], rows))
    with_one_more = options.keep / "grown"
    shutil.rmtree(with_one_more, ignore_errors=True)
    shutil.copytree(plain.directory, with_one_more)
    cost = first_question_cost(LanceStore(with_one_more, VIEWS), min(10, options.questions))
    print(f"first question after a new document: {cost:.1f} ms of CPU more than the second")
    shutil.rmtree(with_one_more)


if __name__ == "__main__":
    main()
