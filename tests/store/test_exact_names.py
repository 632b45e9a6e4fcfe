"""Exact names in an index of an older mergewise: a repair adds them, on a bucket, in shards, and after a kill."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.kills import kill_while_working
from tests.object_store import Proxy

import mergewise
from mergewise.engine import Index
from mergewise.store import postings
from mergewise.types import Document

REPAIR = """
import sys
import mergewise

index = mergewise.open(sys.argv[1], embedder="none")
print("ready", flush=True)
index.check(repair=True)
print("done", flush=True)
"""


def fill(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    """Add releases like a version that knew no exact names."""
    with monkeypatch.context() as patch:
        patch.setattr(postings, "_SCHEMA", postings._SCHEMA.remove_metadata())
        patch.setattr(postings, "index_terms", lambda text: ())
        texts = (f"# Release 3.{n}.1\n\nThe parser reads {n} tabs.\n" for n in range(1, 16))
        index.add([Document(f"{n}.md", text) for n, text in enumerate(texts)])


def missing(index: Index) -> str:
    """Ask for a release that does not exist."""
    answer = index.ask("What is new in 3.12.2?", mode="extractive")
    assert not answer.found and not answer.sure and answer.text.startswith("'3.12.2' does not occur in these documents")
    return answer.text


def assert_repaired(index: Index) -> None:
    assert index.check(repair=True) == [] and index.store.reader().has_exact_names()
    assert "3.12.1" in missing(index) and "reads 12 tabs" in index.ask("What is new in 3.12.1?").text


def test_a_repair_on_a_bucket(proxy: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = "s3://indexes/exact-names"
    index = mergewise.open(url, embedder="none", storage=proxy.storage, cache=tmp_path / "one", refresh="1h")
    fill(index, monkeypatch)
    other = mergewise.open(url, embedder="none", storage=proxy.storage, cache=tmp_path / "two", refresh="0")
    assert not other.store.reader().has_exact_names() and missing(other)
    assert_repaired(index)
    # an index that was open before
    assert "3.12.1" in missing(other)


def test_a_repair_of_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with mergewise.open(tmp_path / "index", embedder="none", shards=2) as index:
        fill(index, monkeypatch)
        assert not index.store.reader().has_exact_names() and missing(index)
        assert_repaired(index)


@pytest.mark.parametrize("after", [0.0, 0.02, 0.1])
def test_a_killed_repair_begins_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: float) -> None:
    with mergewise.open(tmp_path / "index", embedder="none") as index:
        fill(index, monkeypatch)
    kill_while_working(REPAIR, tmp_path / "index", after=after)
    with mergewise.open(tmp_path / "index", embedder="none") as index:
        assert missing(index)
        assert_repaired(index)
