"""The searcher of a node, in this process: caches that are too small, and tables that were made again."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
from tests.object_store import KEY, Proxy
from tests.store.test_object_storage import EMBEDDER, bucket, documents
from tests.store.test_sharded_buckets import created
from tests.support import rows_of
from tests.test_tracing import by_name
from tests.test_tracing import exporter as exporter

import mergewise as mw
from mergewise import tracing
from mergewise.cluster.placement import CACHE, Placement, sharded_place
from mergewise.cluster.searcher import Searcher
from mergewise.store.shards.calls import Call
from mergewise.store.shards.store import ShardedStore

NAME = "node"


@pytest.fixture
def url(request: pytest.FixtureRequest, proxy: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of an index whose store is named by the environment."""
    keys = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": KEY, "AWS_REGION": "us-east-1"}
    keys |= {"AWS_ENDPOINT": proxy.storage["endpoint"], "AWS_ALLOW_HTTP": "true", "XDG_CACHE_HOME": str(tmp_path)}
    for name, value in keys.items():
        monkeypatch.setenv(name, value)
    return f"s3://indexes/{request.node.name}"


@pytest.fixture
def written(url: str, proxy: Proxy, tmp_path: Path) -> ShardedStore:
    store = created(bucket(url, proxy, tmp_path / "writer"))
    store.write(rows_of(documents(0, 30), EMBEDDER), optimize=True)
    return store


def prepared(searcher: Searcher, url: str) -> dict[str, Any]:
    """Let the searcher open both shards of the present state, and return its report."""
    state = sharded_place(url).manifest()
    assert state is not None
    placement = Placement(1, "", state, ((NAME,), (NAME,)), 1, frozenset(), CACHE)
    # in this thread
    searcher._prepare(placement)
    assert searcher.report()["error"] == ""
    return searcher.report()


def texts(searcher: Searcher, store: ShardedStore) -> set[str]:
    """Ask the searcher for the texts of all documents."""
    calls = {at: [Call.of("texts", reader.ids())] for at, reader in enumerate(store.shard_readers())}
    answers = pickle.loads(searcher.ask(pickle.dumps((store.reader().snapshot, 60, calls, None, {}))))
    return {document.text for own in answers.values() for document in own[0].values()}


def test_the_span_of_a_searcher_belongs_to_the_question(exporter: Any, url: str, written: ShardedStore) -> None:
    searcher = Searcher(url, NAME, CACHE)
    prepared(searcher, url)
    calls = {0: [Call.of("row_counts")]}
    for parent, snapshot in (("question", written.reader().snapshot), ("late", "0" * 16)):
        with tracing.span(parent):
            message = pickle.dumps((snapshot, 60, calls, None, tracing.carrier()))
        # another process
        searcher.ask(message)
        own, question = by_name(exporter)["mergewise.shards"], by_name(exporter)[parent]
        assert own.parent.span_id == question.context.span_id and own.context.trace_id == question.context.trace_id
        assert own.attributes.get("error.type") == (None if parent == "question" else "NoSuchSnapshot")
    searcher.ask(pickle.dumps((written.reader().snapshot, 60, calls, None, {})))
    assert by_name(exporter)["mergewise.shards"].parent is None


@pytest.mark.parametrize("size", ["1KB", "60KB"])
def test_a_small_cache_is_reported_and_answers(url: str, written: ShardedStore, size: str) -> None:
    searcher = Searcher(url, NAME, (None, size))
    for year in range(2):
        report = prepared(searcher, url)
        assert report["copied"] > report["cache_bytes"] == 1000 * int(size[:-2])
        assert texts(searcher, written) == {one.text for one in documents(0, 30)}
        written.describe({"d5": {"year": year}})


def test_the_needed_copies_are_counted(url: str, written: ShardedStore, tmp_path: Path) -> None:
    searcher = Searcher(url, NAME, (str(tmp_path / "own"), "1GB"))
    report = prepared(searcher, url)
    copies = [path.stat().st_size for path in (tmp_path / "own").rglob("*") if path.is_file()]
    assert sum(copies) <= report["copied"] < 1.2 * sum(copies) < report["cache_bytes"] == 10**9


def test_tables_that_were_made_again_are_read_again(url: str, proxy: Proxy, tmp_path: Path) -> None:
    """Their versions have the numbers of older ones, so copies of these must not be used."""
    index = mw.open(url, embedder=EMBEDDER, cache=tmp_path / "writer", refresh="1h", shards=2)
    index.add(documents(0, 8))
    searcher, store = Searcher(url, NAME, CACHE), index.store
    assert isinstance(store, ShardedStore)
    prepared(searcher, url)
    (tmp_path / "damaged").write_bytes(b"x")
    for name in [name for name in store.place.files("shard-0001/name.lance") if name.endswith(".manifest")]:
        store.place.upload(tmp_path / "damaged", name)
    assert index.check(repair=True) == []
    prepared(searcher, url)
    calls = {at: [Call.of("whole", "name", ["name", "doc"])] for at in range(2)}
    found = pickle.loads(searcher.ask(pickle.dumps((store.reader().snapshot, 60, calls, None, {}))))
    expected = [one.whole("name", ["name", "doc"]) for one in store.shard_readers()]
    assert [own[0] for own in found.values()] == expected and all(map(len, expected))
