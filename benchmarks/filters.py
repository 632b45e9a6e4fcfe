"""Processor time of searches by the size of their filter, and of the first question after a small change.

python -m benchmarks.filters --keep DIR [--documents 200000] [--questions 30]

The index is made: a document is one leaf of drawn words, and its vector is drawn around one of some centres. In `DIR/plain` no
document says the same as another; in `DIR/copies` so many more do. A search's milliseconds are medians over questions, of
all threads; the condition has been asked before. What older versions cost is measured by the path of their sources.
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
    """Texts and vectors: the same number of documents gives the same ones."""

    def __init__(self, seed: int = 0) -> None:
        self._draw = np.random.default_rng(seed)
        self._centres = np.random.default_rng(1).normal(size=(CENTRES, DIMENSION))
        # Zipf's law: a few words are in most texts
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
        """Their numbers are in the metadata in a drawn order, so that `place < n` is met by n scattered ones."""
        places = self._draw.permutation(np.arange(first, first + count)).tolist()
        for at, vector in enumerate(self.vectors(count)):
            yield rows_of(first + at, self.text(WORDS), vector, places[at])


def rows_of(number: int, text: str, vector: FloatArray | None, place: int, title: str = "") -> DocumentRows:
    """A document with one leaf. Without a title it is called by its id."""
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


def made_index(directory: Path, documents: int) -> LanceStore:
    views = {"leaf": ViewState(VIEWS["leaf"].dump(TreeSettings()))}
    store = LanceStore.create(directory, Manifest("made", DIMENSION, views), VIEWS)
    if not store.reader().numbers():
        write(store, Drawing().documents(0, documents))
    return store


def with_copies(directory: Path, plain: LanceStore, documents: int) -> LanceStore:
    """The same index with copies of scattered documents, and as many others between them."""
    if not directory.exists():
        shutil.copytree(plain.directory, directory)
        originals = {rows.document.id: rows for rows in Drawing().documents(0, documents)}
        drawn = np.random.default_rng(2).choice(sorted(originals), min(COPIES, documents), replace=False).tolist()
        others = Drawing(6).documents(documents, len(drawn))
        copies = (
            rows_of(2 * documents + at, rows.document.text, rows.column("leaf", "vector")[0], 2 * documents + at)
            for at, rows in enumerate(map(originals.__getitem__, drawn))
        )
        # their numbers do not follow each other
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
    """Of a search by text and one by vectors, after a few that warm up."""
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
    """Of the first question after a document came, beside that of the second one: what a state costs."""
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
    parser.add_argument("--keep", type=Path, required=True, help="where the indexes are, or are made")
    options = parser.parse_args()
    plain = made_index(options.keep / "plain", options.documents)
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
    print(f"first question after a document came: {cost:.1f} ms of CPU more than the second")
    shutil.rmtree(with_one_more)


if __name__ == "__main__":
    main()
