"""An index on a bucket: the same answers as from a folder, few requests, one writer at a time, and no losses by faults."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import cycle, product
from pathlib import Path
from time import time
from typing import Any

import pytest
from tests.object_store import KEY, Proxy, Request
from tests.support import HashEmbedder, create_store, rows_of

import mergewise
from mergewise.designs import VIEWS
from mergewise.errors import CorruptIndex, IndexBusy, MergewiseError, StoreError, UsageError
from mergewise.store.lance import LanceStore
from mergewise.store.lance_indexes import Upkeep
from mergewise.store.lance_versions import sizes_of_version
from mergewise.store.manifest import NAME, Manifest, ViewState, manifest_record
from mergewise.store.places import copy_index, is_url, lease, place_of
from mergewise.store.places.bucket import Bucket, BucketTag, amount
from mergewise.store.places.cache import FileCache
from mergewise.store.places.objects import StoredObject
from mergewise.store.places.place import ManifestState
from mergewise.store.shards.store import ShardedStore
from mergewise.types import Document

# search indexes are updated in each change
EAGER = Upkeep(few_rows=0, many_rows=0)
EMBEDDER = HashEmbedder()
EMPTY = Manifest(embedder=EMBEDDER.spec, dimension=EMBEDDER.dimension, views={"leaf": ViewState(VIEWS["leaf"].dump())})
TABLES = ["documents", "leaf", "section", "name"]
ATTACK = bool(os.environ.get("MERGEWISE_ATTACK"))
long_form = pytest.mark.skipif(not ATTACK, reason="long: MERGEWISE_ATTACK=1 runs it")


class WideEmbedder(HashEmbedder):
    dimension = 256


def documents(first: int, end: int) -> list[Document]:
    text = "Cats number {0} eat fish.\n\nThey sleep {0} hours, as the {0} owls do."
    return [Document(id=f"d{at}", title=f"Title {at}", text=text.format(at)) for at in range(first, end)]


@pytest.fixture
def url(request: pytest.FixtureRequest) -> str:
    return f"s3://indexes/{request.node.name}"


def bucket(url: str, proxy: Proxy, cache: Path) -> Bucket:
    place = place_of(url, proxy.storage, cache, refresh="1h")
    assert isinstance(place, Bucket)
    return place


def store_at(url: str, proxy: Proxy, cache: Path) -> LanceStore:
    return create_store(bucket(url, proxy, cache), EMPTY, VIEWS, 1)


def contents(store: LanceStore | ShardedStore) -> dict[str, Any]:
    """Return all rows with their ids and numbers."""
    reader = store.reader()
    ids = [info.id for info in reader.documents()]
    return {rows.document.id: (rows.document.text, str(rows.tables)) for rows in reader.document_rows(ids)}


# -- compared with a folder


def test_an_index_on_a_bucket_equals_one_in_a_folder(url: str, proxy: Proxy, tmp_path: Path) -> None:
    on_bucket, in_folder = store_at(url, proxy, tmp_path), create_store(tmp_path / "index", EMPTY, VIEWS)
    for store in (on_bucket, in_folder):
        store.write(rows_of(documents(0, 20), EMBEDDER))
        store.optimize()
        store.write(rows_of(documents(18, 25), EMBEDDER), remove=["d3"])
        store.optimize()
        assert store.check() == []
    assert contents(on_bucket) == contents(in_folder)
    # scores differ a little: on a bucket the text index has every row
    found = [{row for row, _ in store.reader().text_search("owls", 40).result()} for store in (on_bucket, in_folder)]
    assert found[0] == found[1] and found[0]

    # another process with its own cache
    other = LanceStore(bucket(url, proxy, tmp_path / "other"), VIEWS)
    assert contents(other) == contents(in_folder)
    size = on_bucket.place.size()
    assert size.bytes > 10_000 and abs(size.changed - time()) < 600
    raw = json.dumps([json.loads(on_bucket.place.read(NAME)), repr(on_bucket.place), str(on_bucket.place.__dict__)])
    assert KEY not in raw

    copied = place_of(tmp_path / "copy")
    copy_index(on_bucket.place, copied, 1)
    assert contents(LanceStore(tmp_path / "copy", VIEWS)) == contents(in_folder)
    copy_index(copied, back := bucket(f"{url}-back", proxy, tmp_path), 1)
    assert LanceStore(back, VIEWS).check() == []
    with pytest.raises(UsageError, match="index already exists"):
        copy_index(copied, back, 1)


@pytest.mark.parametrize("shards", [1, 2])
def test_a_copy_has_the_vectors_of_its_index(url: str, proxy: Proxy, tmp_path: Path, shards: int) -> None:
    # mapped files of a folder lack vectors of this size
    embedder = WideEmbedder()
    local = mergewise.open(tmp_path / "index", embedder=embedder, shards=shards)
    local.add(documents(0, 20))
    local.add(documents(18, 22))
    embedded = list(embedder.asked)
    copy_index(local.store.place, bucket(url, proxy, tmp_path), 1)
    # the second cache has no room for copies of tables
    for name, size in (("large", "1GB"), ("small", "1KB")):
        copied = mergewise.open(
            url, embedder=embedder, storage=proxy.storage, cache=tmp_path / name, cache_size=size, refresh="1h"
        )
        assert copied.check() == []
        assert embedder.asked == embedded
        for question, strategy in product(("how long do owls sleep", "number 7"), ("topk", "weave")):
            own, others = (index.context(question, strategy=strategy) for index in (local, copied))
            assert own.text and own == others
            del embedder.asked[len(embedded) :]
    copied.add(documents(21, 25))
    assert copied.check() == [] and copied.vectors().waiting == 0


def test_a_warm_query_sends_no_request_to_the_bucket(url: str, proxy: Proxy, tmp_path: Path) -> None:
    index = mergewise.open(url, embedder=EMBEDDER, storage=proxy.storage, cache=tmp_path, refresh="1h")
    index.add(documents(0, 30))
    index.add(documents(30, 31))
    with proxy.counting() as adding:
        index.add(documents(31, 41))
    # digests read what LanceDB wrote, which the next question would read otherwise
    assert len(adding) <= 45
    # the manifest is written once
    assert sum(one.method == "PUT" and one.key.endswith(NAME) for one in adding) == 1
    for strategy in ("topk", "weave"):
        index.context("how long do owls sleep", strategy=strategy)
    with proxy.counting() as asking:
        for strategy in ("topk", "weave"):
            assert index.context("how many hours do the cats sleep", strategy=strategy).passages
    assert asking == []

    # a reader on another machine sends no request either, even for its first query: opening has fetched everything
    other = LanceStore(bucket(url, proxy, tmp_path / "other"), VIEWS)
    with proxy.counting() as opening:
        other.reader()
    assert len(opening) <= 40
    with proxy.counting() as asking:
        assert other.reader().text_search("owls", 5).result() and other.reader().texts(["d3"])
    assert asking == []
    # opening it again there sends one request
    with proxy.counting() as opening:
        LanceStore(bucket(url, proxy, tmp_path / "other"), VIEWS).reader()
    assert len(opening) == 1


@pytest.mark.parametrize("damage", ["garbled", *(pytest.param(kind, marks=long_form) for kind in ("cut", "deleted"))])
def test_damaged_copies_are_replaced_without_an_error(url: str, proxy: Proxy, tmp_path: Path, damage: str) -> None:
    store = store_at(url, proxy, tmp_path / "a")
    store.write(rows_of(documents(0, 3), EMBEDDER), optimize=True)
    reading = LanceStore(bucket(url, proxy, tmp_path / "b"), VIEWS)
    assert contents(reading) == contents(store)
    files = [path for path in (tmp_path / "b").rglob("copies/*/*.lance/data/*") if path.is_file()]
    assert files
    for path in files:
        damage_file(path, damage)
    assert contents(reading) == contents(store) and reading.check() == []
    # another process finds them whole again
    assert contents(LanceStore(bucket(url, proxy, tmp_path / "b"), VIEWS)) == contents(store)


def damage_file(path: Path, damage: str) -> None:
    content = path.read_bytes()
    # LanceDB and the mapped rows still have the old file open
    path.unlink()
    third = len(content) // 3
    if damage != "deleted":
        kinds = {
            "cut": content[:10],
            "garbled": bytes(len(content)),
            "hole": content[:third] + bytes(third) + content[2 * third :],
        }
        path.write_bytes(kinds[damage])


def answers(store: LanceStore) -> tuple[object, ...]:
    """Return texts, and what searches by text and by vector find."""
    reader = store.reader()
    vector = EMBEDDER.embed_queries(["how long do owls sleep"])[0]
    found = (reader.text_search("owls sleep", 9).result(), reader.vector_search(vector, 9).result())
    return contents(store), [[row for row, _ in ranking] for ranking in found]


def test_each_damaged_file_of_a_cache_is_replaced_without_an_error(url: str, proxy: Proxy, tmp_path: Path) -> None:
    store = store_at(url, proxy, tmp_path / "a")
    store.write(rows_of(documents(0, 9), EMBEDDER), optimize=True)
    expected = answers(store)
    warm = LanceStore(bucket(url, proxy, tmp_path / "b"), VIEWS)
    assert answers(warm) == expected
    files = [path.relative_to(tmp_path) for path in (tmp_path / "b").rglob("*") if path.is_file()]
    assert len(files) > 12
    kinds = ("hole", "garbled", "cut", "deleted")
    for file, damage in product(files, kinds) if ATTACK else zip(files, cycle(kinds), strict=False):
        damage_file(tmp_path / file, damage)
        assert answers(warm) == expected, file
        assert answers(LanceStore(bucket(url, proxy, tmp_path / "b"), VIEWS)) == expected, file
    assert answers(warm) == expected
    with proxy.counting() as asking:
        assert answers(warm) == expected
    assert asking == []


def test_a_check_leaves_the_caches_in_use(url: str, proxy: Proxy, tmp_path: Path) -> None:
    store = store_at(url, proxy, tmp_path)
    store.write(rows_of(documents(0, 9), EMBEDDER), optimize=True)
    expected = answers(store)
    assert store.check() == [] and answers(store) == expected
    with proxy.counting() as asking:
        assert answers(store) == expected
    assert asking == []


def test_a_cache_that_is_too_small_is_reported_once(
    url: str, proxy: Proxy, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store_at(url, proxy, tmp_path / "a").write(rows_of(documents(0, 40), EMBEDDER), optimize=True)
    for size in (10_000, 40_000):
        caplog.clear()
        place = place_of(url, proxy.storage, tmp_path / str(size), cache_size=size, refresh="1h")
        reading = LanceStore(place, VIEWS)
        assert answers(reading) == answers(reading)
        told = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
        mb = [round(one / 1e6, 1) for one in (size, place.size().bytes)]
        assert len(told) == 1 and f"holds {mb[0]} MB, the index has {mb[1]} MB" in told[0] and "cache_size" in told[0]


def test_a_change_of_another_process_becomes_visible(url: str, proxy: Proxy, tmp_path: Path) -> None:
    writer = store_at(url, proxy, tmp_path / "writer")
    reader = LanceStore(bucket(url, proxy, tmp_path / "reader"), VIEWS)
    assert contents(reader) == {}
    writer.write(rows_of(documents(0, 3), EMBEDDER))
    before = reader.reader()
    assert len(before.documents()) == 0
    reader.refresh()
    assert len(reader.reader().documents()) == 3 and before.documents() == []


# -- writers


def test_a_writer_waits_for_another_one(url: str, proxy: Proxy, tmp_path: Path) -> None:
    first, second = (store_at(url, proxy, tmp_path / name) for name in "ab")
    second.lock_wait = 0
    with first._writing(), pytest.raises(IndexBusy):
        second.remove(["x"])
    second.write(rows_of(documents(0, 1), EMBEDDER))


@pytest.mark.parametrize(
    "tables", [["leaf"], *(pytest.param(some, marks=long_form) for some in (*([one] for one in TABLES), TABLES))]
)
def test_a_writer_that_lost_its_lease_changes_nothing(
    url: str, proxy: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tables: list[str]
) -> None:
    first, second = (store_at(url, proxy, tmp_path / name) for name in "ab")
    first.write(rows_of(documents(0, 2), EMBEDDER))
    monkeypatch.setattr(lease, "LEASE", -1.0)
    with pytest.raises(IndexBusy), first._writing() as stale:
        # it has open tables and falls asleep
        for name in tables:
            stale.tables.open(name).count_rows()
        second.write(rows_of(documents(2, 4), EMBEDDER))
        stale.rows.append(stale.rows.storable(rows_of(documents(4, 6), EMBEDDER))[0])
        stale.tables.commit()
    assert second.check() == []
    second.write(rows_of(documents(6, 7), EMBEDDER))
    assert second.check() == []
    assert sorted(contents(second)) == ["d0", "d1", "d2", "d3", "d6"]


@pytest.mark.parametrize("table", [pytest.param("documents", marks=long_form), "leaf"])
def test_a_write_by_another_writer_ends_the_change(url: str, proxy: Proxy, tmp_path: Path, table: str) -> None:
    store = store_at(url, proxy, tmp_path)
    store.write(rows_of(documents(0, 2), EMBEDDER))
    with pytest.raises(IndexBusy), store._writing() as change:
        rows = change.tables.open(table).search().to_arrow()
        change.tables.place.database().open_table(table).add(rows)
        change.rows.append(change.rows.storable(rows_of(documents(2, 3), EMBEDDER))[0])
        change.tables.commit()
    store.write(rows_of(documents(2, 3), EMBEDDER))
    assert store.check() == [] and len(contents(store)) == 3


def test_only_the_reader_of_the_last_manifest_can_swap_it(url: str, proxy: Proxy, tmp_path: Path) -> None:
    place = bucket(url, proxy, tmp_path)
    place.create(EMPTY, 1)
    state = place.manifest()
    assert state is not None
    with place.writer(1) as writer:
        tag = place.swap(replace(EMPTY, next_id=1), state.tag, writer)
        with pytest.raises(IndexBusy):
            place.swap(replace(EMPTY, next_id=2), state.tag, writer)
        place.swap(replace(EMPTY, next_id=3), tag, writer)
    assert place.manifest() is not None and place.known() == replace(EMPTY, next_id=3)


@long_form
def test_concurrent_swaps_are_never_lost(url: str, proxy: Proxy, tmp_path: Path) -> None:
    places = [bucket(url, proxy, tmp_path / str(number)) for number in range(4)]
    places[0].create(EMPTY, 1)

    def count(place: Bucket) -> None:
        for _ in range(5):
            with place.writer(60) as writer:
                state = place.manifest()
                assert state is not None
                place.swap(replace(state.manifest, next_id=state.manifest.next_id + 1), state.tag, writer)

    with ThreadPoolExecutor(len(places)) as pool:
        list(pool.map(count, places))
    state = bucket(url, proxy, tmp_path).manifest()
    assert state is not None and state.manifest.next_id == 20


# -- faults


@pytest.mark.parametrize(
    "fault", ["cut after", *(pytest.param(fault, marks=long_form) for fault in ("cut before", "503", "409"))]
)
def test_a_swap_with_a_lost_response_happens_once(url: str, proxy: Proxy, tmp_path: Path, fault: str) -> None:
    store = store_at(url, proxy, tmp_path)
    met: list[Request] = []

    def once(request: Request) -> str | None:
        if request.method == "PUT" and request.key.endswith(NAME) and not met:
            met.append(request)
            return fault
        return None

    proxy.fault = once
    store.write(rows_of(documents(0, 2), EMBEDDER))
    assert met and len(contents(store)) == 2 and store.check() == []


@pytest.mark.parametrize(
    "fault", ["403", "truncated", *(pytest.param(fault, marks=long_form) for fault in ("503", "cut before"))]
)
def test_a_failing_bucket_is_not_damage(url: str, proxy: Proxy, tmp_path: Path, fault: str) -> None:
    store = store_at(url, proxy, tmp_path / "a")
    store.write(rows_of(documents(0, 2), EMBEDDER))
    proxy.fault = lambda request: fault
    with pytest.raises(StoreError) as raised:
        LanceStore(bucket(url, proxy, tmp_path / "b"), VIEWS).reader().documents()
    assert not isinstance(raised.value, CorruptIndex) and KEY not in str(raised.value)


@long_form
def test_a_slow_bucket_is_waited_for(url: str, proxy: Proxy, tmp_path: Path) -> None:
    undisturbed = store_at(f"{url}-whole", proxy, tmp_path / "whole")
    _two_changes(undisturbed)
    proxy.delay = 1.0
    store = store_at(url, proxy, tmp_path / "a")
    _two_changes(store)
    slow = contents(LanceStore(bucket(url, proxy, tmp_path / "b"), VIEWS))
    proxy.delay = 0.0
    assert slow == contents(undisturbed) and store.check() == []


@long_form
def test_two_writers_lose_no_change(url: str, proxy: Proxy, tmp_path: Path) -> None:
    stores = [store_at(url, proxy, tmp_path / name) for name in "ab"]

    def write(store: LanceStore, numbers: range) -> None:
        store.lock_wait = 120
        for number in numbers:
            store.write(rows_of(documents(number, number + 1), EMBEDDER), optimize=number % 5 == 0)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(write, stores, (range(0, 50, 2), range(1, 50, 2))))
    for store in stores:
        store.refresh()
        assert sorted(contents(store)) == sorted(f"d{number}" for number in range(50)) and store.check() == []
    undisturbed = create_store(tmp_path / "whole", EMPTY, VIEWS)
    undisturbed.write(rows_of(documents(0, 50), EMBEDDER))
    texts = [{doc_id: text for doc_id, (text, _) in contents(store).items()} for store in (stores[0], undisturbed)]
    assert texts[0] == texts[1]


@long_form
@pytest.mark.parametrize("hours", [-1, 1])
def test_a_wrong_local_clock_changes_nothing(
    url: str, proxy: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    """Only the cache uses the local clock: leases and cleaning use the clock of the object store."""
    first, second = (store_at(url, proxy, tmp_path / name) for name in "ab")
    _two_changes(first)
    monkeypatch.setattr("mergewise.store.places.cache.time", lambda: time() + 3600 * hours)
    second.refresh()
    second.write(rows_of(documents(4, 6), EMBEDDER), optimize=True)
    second.place.clean(second.manifest)
    first.refresh()
    assert contents(first) == contents(second) and first.check() == [] == second.check()


@long_form
def test_a_busy_bucket_keeps_few_versions(
    url: str, proxy: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LanceDB reads the manifests of all versions when it rearranges rows."""
    monkeypatch.setattr("mergewise.store.places.bucket.VERSIONS", 2)
    monkeypatch.setattr("mergewise.store.places.bucket.CLEANED_EVERY", 4)
    store = store_at(url, proxy, tmp_path / "a")
    for number in range(30):
        store.write(rows_of(documents(number, number + 1), EMBEDDER), optimize=True)
    for name in TABLES:
        versions = [file for file in store.place.files(f"{name}.lance/_versions") if file.endswith(".manifest")]
        assert len(versions) <= 8
    fresh = LanceStore(bucket(url, proxy, tmp_path / "b"), VIEWS)
    assert contents(fresh) == contents(store) and fresh.check() == []


def test_a_store_without_conditional_writes_is_refused(url: str, proxy: Proxy, tmp_path: Path) -> None:
    proxy.fault = lambda request: "unconditional" if request.method == "PUT" else None
    with pytest.raises(UsageError, match="ignores conditions"):
        store_at(url, proxy, tmp_path)


@long_form
def test_a_writer_killed_at_any_request_loses_nothing(
    url: str, proxy: Proxy, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG, "mergewise")
    # a killed writer frees no lease, and this test does not wait for it to expire
    monkeypatch.setattr(lease, "LEASE", -1.0)
    whole = store_at(f"{url}-whole", proxy, tmp_path / "whole")
    _two_changes(whole, EAGER)
    expected = contents(whole)
    for kill in range(1, 200):
        place = f"{url}-{kill}"
        store = store_at(place, proxy, tmp_path / "a")
        store.write(rows_of(documents(0, 2), EMBEDDER))
        begun = len(proxy.requests)

        def dead(request: Request, last: int = begun + kill) -> str | None:
            # every second time, the last request still takes effect
            if request.number < last:
                return None
            return "cut after" if request.number == last and last % 2 else "cut before"

        proxy.fault = dead
        try:
            _two_changes(store, EAGER)
            survived = True
        except MergewiseError as error:
            survived = False
            assert not isinstance(error, CorruptIndex)
        proxy.fault = lambda request: None
        after = LanceStore(bucket(place, proxy, tmp_path / "b"), VIEWS)
        assert after.check() == []
        _two_changes(after, EAGER)
        assert after.check() == [] and contents(after) == expected
        if survived:
            break
    assert KEY not in caplog.text


def _two_changes(store: LanceStore, upkeep: Upkeep | None = None) -> None:
    store.upkeep = upkeep or Upkeep()
    store.write(rows_of(documents(0, 2), EMBEDDER))
    store.write(rows_of(documents(1, 4), EMBEDDER), optimize=True)


# -- files on this machine


@long_form
def test_a_damaged_file_of_the_cache_is_fetched_again(url: str, proxy: Proxy, tmp_path: Path) -> None:
    store = store_at(url, proxy, tmp_path)
    store.write(rows_of(documents(0, 5), EMBEDDER))
    store.optimize()
    for number, path in enumerate((tmp_path / "buckets").glob("*/mapped/*.arrow")):
        path.write_bytes(path.read_bytes()[: 50 * number])
    fresh = LanceStore(bucket(url, proxy, tmp_path), VIEWS)
    assert contents(fresh) == contents(store) and fresh.check() == []


def test_a_cache_stays_below_its_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = FileCache(tmp_path, "one", 250)
    cache.named = frozenset({"mapped/a"})
    downloads: list[str] = []

    def fetch(file: str) -> Path:
        def download(part: Path) -> None:
            downloads.append(file)
            part.write_bytes(b"x" * 100)

        return cache.fetch(file, download)

    def files() -> list[str]:
        return sorted(path.name for path in cache.directory.rglob("*") if path.is_file())

    os.utime(fetch("mapped/a"), (1, 1))
    os.utime(fetch("copies/1/leaf.lance/b"), (2, 2))
    fetch("mapped/c")
    assert files() == ["a", "c"]
    fetch("mapped/a")
    assert downloads == ["mapped/a", "copies/1/leaf.lance/b", "mapped/c"]
    # another process may use the file that was just fetched
    with pytest.raises(OSError, match="full"):
        fetch("mapped/b")
    os.utime(cache.directory / "mapped/c", (3, 3))
    cache.named = frozenset({"mapped/a", "mapped/c"})
    monkeypatch.setattr("mergewise.store.places.cache.TOUCHED", -1.0)
    cache.touch()
    cache.named = frozenset({"mapped/a"})
    with pytest.raises(OSError, match="full"):
        fetch("mapped/b")
    assert files() == ["a", "c"]


@long_form
def test_cleaning_keeps_files_that_a_reader_may_read(
    url: str, proxy: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_at(url, proxy, tmp_path)
    for number in range(3):
        store.write(rows_of(documents(number, number + 1), EMBEDDER))
        store.optimize()
    before = sorted(store.place.files())
    store.place.clean(store.manifest)
    assert sorted(set(before) - set(store.place.files())) == []
    monkeypatch.setattr("mergewise.store.places.bucket.KEPT", timedelta(days=-1))
    store.place.clean(store.manifest)
    after = sorted(store.place.files())
    assert len(after) < len(before)
    fresh = LanceStore(bucket(url, proxy, tmp_path / "fresh"), VIEWS)
    assert fresh.check() == [] and len(contents(fresh)) == 3


@long_form
@pytest.mark.parametrize("size", ["10GB", "1KB"])
def test_cleaning_during_a_query_is_not_damage(
    url: str, proxy: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: str
) -> None:
    monkeypatch.setattr("mergewise.store.places.bucket.KEPT", timedelta(days=-1))
    monkeypatch.setattr("mergewise.store.places.bucket.VERSIONS", 1)
    writer = store_at(url, proxy, tmp_path / "writer")
    writer.upkeep = EAGER
    writer.write(rows_of(documents(0, 6), EMBEDDER), optimize=True)
    # without room for copies, the reader reads from the bucket
    reading = LanceStore(place_of(url, proxy.storage, tmp_path / "reader", size, refresh="1h"), VIEWS)
    before = reading.reader()
    for number in range(6, 9):
        writer.write(rows_of(documents(number, number + 1), EMBEDDER), remove=[f"d{number - 6}"], optimize=True)
        writer.place.clean(writer.manifest)
    try:
        assert before.text_search("owls", 9).result() and len(before.document_rows(["d0", "d5"])) == 2
        assert len(before.documents()) == 6
    except StoreError as error:
        assert size == "1KB" and not isinstance(error, CorruptIndex) and error.hint == "ask again"
    reading.refresh()
    assert contents(reading) == contents(writer) and reading.check() == []


@long_form
def test_two_processes_fill_one_cache(url: str, proxy: Proxy, tmp_path: Path) -> None:
    store = store_at(url, proxy, tmp_path / "writer")
    store.write(rows_of(documents(0, 40), EMBEDDER), optimize=True)
    proxy.delay = 0.02
    script = (
        "import json, sys, mergewise; from tests.support import HashEmbedder;"
        "index = mergewise.open(sys.argv[1], embedder=HashEmbedder(), storage=json.loads(sys.argv[2]), cache=sys.argv[3]);"
        "print(json.dumps([p.text for p in index.context('how long do owls sleep', strategy='topk').passages]))"
    )
    asked = [sys.executable, "-c", script, url, json.dumps(proxy.storage), str(tmp_path / "both")]
    begun = [subprocess.Popen(asked, stdout=subprocess.PIPE) for _ in range(2)]
    answers = [process.communicate(timeout=120)[0] for process in begun]
    assert answers[0] == answers[1] and json.loads(answers[0])
    assert not list((tmp_path / "both").rglob("*.part"))


# -- names


@pytest.mark.parametrize(
    ("given", "value"), [("10GB", 1e10), ("1s", 1.0), (3, 3.0), ("250ms", 0.25), ("1.5 TB", 1.5e12)]
)
def test_amounts_have_units(given: str | int, value: float) -> None:
    assert amount("it is", given) == value


def test_invalid_urls_and_options_are_refused(tmp_path: Path) -> None:
    assert is_url(Path("s3://bucket/prefix")) and not is_url("s3") and not is_url(tmp_path)
    assert str(place_of(Path("s3://bucket/prefix"), {}, tmp_path)) == "s3://bucket/prefix"
    with pytest.raises(UsageError, match="contains credentials") as raised:
        place_of(f"s3://user:{KEY}@bucket/prefix", {}, tmp_path)
    assert KEY not in str(raised.value)
    with pytest.raises(UsageError, match="invalid cache size"):
        place_of("s3://bucket/prefix", {}, tmp_path, cache_size="much")
    with pytest.raises(UsageError):
        mergewise.open("ftp://host/index")


def test_a_copy_stays_in_its_folder(tmp_path: Path) -> None:
    """Anyone who may write to a bucket can choose the file names."""

    def field(number: int, content: bytes) -> bytes:
        return bytes([number << 3 | 2, len(content)]) + content

    for name, is_plain in ((b"1.lance", True), (b"../../x", False), (b"/x", False), (b".x", False)):
        message = field(2, field(2, field(1, name)))
        content = len(message).to_bytes(4, "little") + message + bytes(12) + b"LANC"
        if is_plain:
            assert sizes_of_version(content) == {"data/1.lance": None}
        else:
            with pytest.raises(ValueError, match="outside"):
                sizes_of_version(content)
    place = place_of("s3://bucket/prefix", {}, tmp_path)
    assert isinstance(place, Bucket)
    beside = {"sequence": 1, "index": "../../x", "remade": 0}
    raw = json.dumps({**manifest_record(EMPTY), "place": beside}).encode()
    with pytest.raises(StoreError, match="is not a manifest for a bucket"):
        place._state(StoredObject(raw, "a", datetime.now(UTC)))


def test_a_replaced_index_is_refused(url: str, proxy: Proxy, tmp_path: Path) -> None:
    store = store_at(url, proxy, tmp_path)
    proxied = bucket(url, proxy, tmp_path)
    proxied._objects.delete([NAME])
    with pytest.raises(StoreError, match="replaced or deleted since it was opened"):
        store.remove(["x"])
    proxied.create(EMPTY, 1)
    with pytest.raises(StoreError, match="replaced or deleted since it was opened"):
        store.remove(["x"])


def test_a_later_state_is_never_replaced_by_an_earlier_one(tmp_path: Path) -> None:
    place = place_of("s3://bucket/prefix", {}, tmp_path)
    assert isinstance(place, Bucket)
    later = ManifestState(replace(EMPTY, next_id=2), BucketTag("b", 2, "i", 0))
    place.know(later)
    place.know(ManifestState(EMPTY, BucketTag("a", 1, "i", 0)))
    assert place.known() == later.manifest


class Wide(HashEmbedder):
    spec, dimension = "wide", 160


def test_a_change_of_embedder(url: str, proxy: Proxy, tmp_path: Path) -> None:
    def opened(name: str, embedder: HashEmbedder) -> mergewise.Index:
        return mergewise.open(url, embedder=embedder, storage=proxy.storage, cache=tmp_path / name, refresh="1h")

    with opened("one", HashEmbedder()) as index:
        index.add(documents(0, 12))
        with opened("two", HashEmbedder()) as other:
            before = other.context("cats 3", strategy="dense(k=2)").text
            assert index.embed(embedder=Wide()).waiting == 0 and index.check() == []
            # a reader of the old state
            assert before and other.context("cats 3", strategy="dense(k=2)").text == before
    with opened("three", Wide()) as again:
        assert again.context("cats 3", strategy="dense(k=2)").text and again.manifest.dimension == 160
