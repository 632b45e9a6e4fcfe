"""SIGKILL at random moments of indexing: the index opens, its invariants hold, and a second run does the rest."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest

import mergewise
from tests.kills import kill_while_working
from tests.support import whole_views

KILLS = int(os.environ.get("MERGEWISE_KILLS", "2"))
DOCUMENTS = 40

WRITER = """
import sys
import pytest

import mergewise
from dataclasses import replace
from mergewise.designs import VIEWS
from mergewise.index import pipeline

pipeline.BATCH_DOCUMENTS = 4
VIEWS["slice"] = replace(VIEWS["slice"], batch=4)
views = ("leaf", "slice") if "slice" in sys.argv else ("leaf",)
if "later" in sys.argv:
    print("ready", flush=True)
index = mergewise.open(sys.argv[1], views=views)
if "later" not in sys.argv:
    print("ready", flush=True)
    index.add(sys.argv[2])
print("done", flush=True)
"""


def write_version(folder: Path, version: int) -> dict[str, str]:
    """Write the documents of this version: all changed, one deleted since the last version, one new."""
    folder.mkdir(exist_ok=True)
    for path in folder.iterdir():
        path.unlink()
    texts = {}
    for number in range(version, version + DOCUMENTS):
        path = folder / f"{number:04}.md"
        body = " ".join(f"Sentence {i} of version {version}." for i in range(20))
        path.write_text(f"# Document {number}\n\n{body}\n")
        texts[f"documents/{path.name}"] = path.read_text()
    return texts


@pytest.mark.slow
@pytest.mark.parametrize("views", [("leaf",), ("leaf", "slice")], ids=["leaf", "slice"])
def test_killed_at_random_moments(tmp_path: Path, views: tuple[str, ...]) -> None:
    folder, path = tmp_path / "documents", tmp_path / "index"
    index = mergewise.open(path, embedder="none", views=views)
    draw, full, killed = random.Random(0), 1.0, 0
    standing: dict[str, str] = {}
    for version in range(4 * KILLS):
        if killed == KILLS:
            break
        wanted = write_version(folder, version)
        was_working = kill_while_working(WRITER, path, folder, *views, after=draw.uniform(0, full))
        full = full * 1.1 if was_working else max(0.1, full * 0.7)
        killed += was_working

        fresh = mergewise.open(path)
        assert fresh.check() == []
        found = {info.id: fresh.document(info.id).text for info in fresh.documents()}
        for doc_id, text in found.items():
            assert text in (standing.get(doc_id), wanted.get(doc_id)), "neither the old document nor the new one"
        assert standing.keys() <= found.keys(), "a document was lost"

        report = fresh.add(folder)
        assert not report.failed
        assert report.added + report.replaced + report.unchanged == DOCUMENTS
        standing = found | wanted
        assert {info.id: index.document(info.id).text for info in index.documents()} == standing
        assert len(index) == len(standing)
        strategy = "macrag" if "slice" in views else "topk"
        hits = index.context(f"version {version}", strategy=strategy, budget=300)
        assert f"version {version}." in hits.text
    assert killed == KILLS
    assert index.check() == []


@pytest.mark.slow
def test_killed_while_a_view_is_added(tmp_path: Path) -> None:
    """The slice view is added to an existing index. Built rows stay, and the next call builds each missing row once."""
    folder, path = tmp_path / "documents", tmp_path / "index"
    write_version(folder, 0)
    mergewise.open(path, embedder="none").add(folder)
    draw = random.Random(1)
    rounds = killed = 0
    while rounds < KILLS and "slice" not in whole_views(mergewise.open(path).manifest):
        killed += kill_while_working(WRITER, path, folder, "slice", "later", after=draw.uniform(0.4, 1.4))
        rounds += 1
        assert mergewise.open(path).check() == []
    index = mergewise.open(path, views=("leaf", "slice"))
    assert index.check() == []
    assert "slice" in whole_views(index.manifest) and len(index) == DOCUMENTS
    found = [rows["chunk"] for rows in index.store.reader().document_rows([info.id for info in index.documents()])]
    assert all(found)
    counts = index.store.reader().row_counts()
    assert counts["chunk"] == sum(map(len, found))
    assert "version 0" in index.context("version 0", strategy="macrag", budget=300).text
    assert killed > 0


EMBEDDER = """
import time
import numpy as np


class Numbers:
    '''The words of a text hashed, at the pace of a slow embedder.'''

    spec, dimension = "numbers", 16

    def __init__(self, pace=0.0):
        self.pace = pace

    def embed_documents(self, texts):
        if self.pace:
            print("embeds", flush=True)
            time.sleep(self.pace * len(texts))
        rows = np.full((len(texts), self.dimension), 0.01, np.float32)
        for row, text in zip(rows, texts):
            for word in text.split():
                row[sum(map(ord, word)) % self.dimension] += 1
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    embed_queries = embed_documents
"""

EMBEDDING_WRITER = f"""
import sys
import pytest
{EMBEDDER}
import mergewise
from mergewise.index import pipeline, vectors

pipeline.SMALL, pipeline.BATCH_DOCUMENTS, vectors.CHANGE_LEAVES, vectors.FIRST_PART = 100, 8, 10, 3
print("ready", flush=True)
mergewise.open(sys.argv[1], embedder=Numbers(0.004)).add(sys.argv[2])
print("done", flush=True)
"""


def vectors_by_text(index: mergewise.Index) -> dict[tuple[str, int], list[float]]:
    rows = index.store.reader().document_rows([info.id for info in index.documents()])
    return {
        (row.document.id, leaf.start): vector
        for row in rows
        for leaf, vector in zip(row["leaf"], row.column("leaf", "vector").tolist(), strict=True)
    }


@pytest.mark.slow
def test_killed_while_texts_come_first_and_vectors_later(tmp_path: Path) -> None:
    """Once all texts are there, they stay. Vectors only become more, and the final index equals one without kills."""
    names: dict[str, Any] = {}
    exec(EMBEDDER, names)
    embedder, folder, path = names["Numbers"](), tmp_path / "documents", tmp_path / "index"
    write_version(folder, 0)
    mergewise.open(path, embedder=embedder)
    draw = random.Random(2)
    embedded = partial = 0
    for _ in range(2 * KILLS):
        # kill shortly after a random number of batches
        kill_while_working(EMBEDDING_WRITER, path, folder, lines=1 + draw.randrange(6), after=draw.uniform(0, 0.05))
        fresh = mergewise.open(path, embedder=embedder)
        assert fresh.check() == []
        count = fresh.vectors()
        assert count.embedded >= embedded
        embedded = count.embedded
        if len(fresh):
            assert "version 0" in fresh.context("version 0", strategy="topk", budget=100).text
        partial += 0 < count.waiting < count.leaves
    assert partial > 0
    index = mergewise.open(path, embedder=embedder)
    index.add(folder)
    assert index.check() == [] and index.vectors().waiting == 0 and len(index) == DOCUMENTS
    once = mergewise.open(tmp_path / "once", embedder=embedder)
    once.add(folder)
    assert vectors_by_text(index) == vectors_by_text(once)
