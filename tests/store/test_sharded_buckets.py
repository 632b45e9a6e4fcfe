"""Shards on a bucket: the same answers as from a folder, one swap for a change of all shards, and no losses by faults."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from threading import Event

import pytest
from tests.object_store import Proxy, Request
from tests.store.test_object_storage import EAGER, EMBEDDER, EMPTY, bucket, contents, documents, long_form
from tests.support import patience, rows_of

import mergewise
from mergewise.errors import CorruptIndex, IndexBusy, MergewiseError, StoreError, UsageError
from mergewise.opening import store_at
from mergewise.store.lance_indexes import Upkeep
from mergewise.store.manifest import NAME, SHARDS_NAME, ShardedManifest
from mergewise.store.places import copy_index, lease, place_of
from mergewise.store.places.place import Place
from mergewise.store.shards.calls import LocalShards
from mergewise.store.shards.place import shard_of
from mergewise.store.shards.store import ShardedStore

SHARDS = 2


@pytest.fixture
def url(request: pytest.FixtureRequest) -> str:
    return f"s3://indexes/{request.node.name}"


def opened(place: Place) -> ShardedStore:
    store = store_at(place, 1)
    assert isinstance(store, ShardedStore)
    return store


def created(place: Place, shards: int = SHARDS) -> ShardedStore:
    place.create(ShardedManifest.of([EMPTY] * shards, None), 1)
    return opened(place)


def ids(store: ShardedStore) -> list[str]:
    return sorted(store.reader().ids())


def change_twice(store: ShardedStore, upkeep: Upkeep | None = None) -> None:
    store.upkeep = upkeep or Upkeep()
    store.write(rows_of(documents(0, 4), EMBEDDER))
    store.write(rows_of(documents(2, 9), EMBEDDER), optimize=True)


# -- compared with a folder


def test_shards_on_a_bucket_equal_those_in_a_folder(url: str, proxy: Proxy, tmp_path: Path) -> None:
    on_bucket, in_folder = created(bucket(url, proxy, tmp_path)), created(place_of(tmp_path / "index"))
    for store in (on_bucket, in_folder):
        store.write(rows_of(documents(0, 9), EMBEDDER))
        store.write(rows_of(documents(8, 12), EMBEDDER), remove=["d3"], optimize=True)
        store.describe({"d4": {"year": 7}})
        assert store.reader().ids("year = 7") == ["d4"]
        assert store.remove(["d5", "nobody"]) == 1
        assert store.repair() == [] and store.check() == []
    assert contents(on_bucket) == contents(in_folder)
    other = opened(bucket(url, proxy, tmp_path / "other"))
    assert contents(other) == contents(in_folder) and other.check() == []
    assert other.reader().snapshot == on_bucket.reader().snapshot
    assert other.place.size().bytes > 20_000
    names = sorted(other.place.files())
    assert SHARDS_NAME in names and NAME not in names
    assert sum(name.endswith("writer.json") for name in names) == 1


def test_views_and_vectors_are_added_later(url: str, proxy: Proxy, tmp_path: Path) -> None:
    def index(**options: object) -> mergewise.Index:
        return mergewise.open(
            url,
            embedder=EMBEDDER,
            storage=proxy.storage,
            cache=tmp_path,
            refresh="1h",
            **options,  # type: ignore[arg-type]
        )

    first = index(shards=2)
    first.add(documents(0, 6), embed="later")
    assert first.embed().waiting == 0
    second = index(views=("leaf", "slice"))
    assert second.context("owls", strategy="macrag", budget=60).text and second.check(repair=True) == []
    with pytest.raises(UsageError, match="has 2 shards"):
        index(shards=3)


def test_copies_go_to_and_from_buckets(url: str, proxy: Proxy, tmp_path: Path) -> None:
    local = created(place_of(tmp_path / "index"))
    change_twice(local)
    places = [bucket(f"{url}-{n}", proxy, tmp_path / f"cache{n}") for n in range(2)]
    copied: Place = local.place
    for goal in (*places, place_of(tmp_path / "back")):
        assert copy_index(copied, goal, 1) > 20
        store, copied = opened(goal), goal
        assert contents(store) == contents(local) and store.check() == []
        with pytest.raises(UsageError, match="index already exists"):
            copy_index(local.place, goal, 1)
    # the shards of a copy are its own
    swapped = [tmp_path / name / "shard-0000" for name in ("back", "index")]
    swapped[0].rename(tmp_path / "away")
    swapped[1].rename(swapped[0])
    with pytest.raises(CorruptIndex, match="wrong shard"):
        opened(place_of(tmp_path / "back")).reader()


def test_an_interrupted_copy_is_repeated(url: str, proxy: Proxy, tmp_path: Path) -> None:
    local = created(place_of(tmp_path / "index"))
    change_twice(local)
    begun = len(proxy.requests)
    proxy.fault = lambda request: "503" if request.number > begun + 30 else None
    with pytest.raises(StoreError):
        copy_index(local.place, bucket(url, proxy, tmp_path), 1)
    proxy.reset()
    goal = bucket(url, proxy, tmp_path)
    assert goal.known() is None and copy_index(local.place, goal, 1)
    assert contents(opened(goal)) == contents(local)


# -- requests


def test_a_warm_question_sends_no_request(url: str, proxy: Proxy, tmp_path: Path) -> None:
    index = mergewise.open(url, embedder=EMBEDDER, storage=proxy.storage, cache=tmp_path, refresh="1h", shards=4)
    index.add(documents(0, 40))
    index.add(documents(40, 41))
    with proxy.counting() as adding:
        index.add(documents(41, 51))
    assert sum(one.method == "PUT" and one.key.endswith(SHARDS_NAME) for one in adding) == 1
    assert len(adding) <= 4 * 42
    for strategy in ("topk", "weave"):
        index.context("how long do owls sleep", strategy=strategy)
    with proxy.counting() as asking:
        for strategy in ("topk", "weave"):
            assert index.context("how many hours do the cats sleep", strategy=strategy).passages
    assert asking == []
    # reads the changed tables that no question has read
    opened(bucket(url, proxy, tmp_path)).reader()
    with proxy.counting() as opening:
        opened(bucket(url, proxy, tmp_path)).reader()
    # one more than a single index: it has no manifest
    assert len(opening) == 2


def test_a_change_of_another_process_opens_one_shard_again(url: str, proxy: Proxy, tmp_path: Path) -> None:
    writer = created(bucket(url, proxy, tmp_path / "writer"))
    writer.write(rows_of(documents(0, 9), EMBEDDER))
    reading = opened(bucket(url, proxy, tmp_path / "reader"))
    before = reading.reader()
    writer.write(rows_of(documents(9, 10), EMBEDDER))
    with proxy.counting() as asking:
        assert len(reading.reader().ids()) == 9
    assert asking == []
    reading.refresh()
    after = reading.reader()
    assert isinstance(after.shards, LocalShards) and isinstance(before.shards, LocalShards)
    changed = [own is not then for own, then in zip(after.shards.readers, before.shards.readers, strict=True)]
    assert changed == [at == shard_of("d9", SHARDS) for at in range(SHARDS)]
    assert (len(after.ids()), len(before.ids())) == (10, 9)
    with proxy.counting() as asking:
        assert after.text_search("owls", 20).result() and reading.reader() is after
    assert asking == []


def test_states_are_followed_in_the_background(url: str, proxy: Proxy, tmp_path: Path) -> None:
    writer = created(bucket(url, proxy, tmp_path / "writer"))
    reading = opened(place_of(url, proxy.storage, tmp_path / "reader", refresh="50ms"))
    assert ids(reading) == []
    writer.write(rows_of(documents(0, 6), EMBEDDER))
    until = time.monotonic() + patience(10)
    while not ids(reading):
        assert time.monotonic() < until
        time.sleep(0.02)
    assert len(ids(reading)) == 6


# -- faults


def test_a_reader_sees_all_shards_of_one_commit(url: str, proxy: Proxy, tmp_path: Path) -> None:
    """Each commit replaces the documents of all shards by those of the next generation."""

    def generation(number: int) -> list[mergewise.Document]:
        text = "The owls of generation {} sleep in tree {}."
        return [mergewise.Document(f"d{at}", text.format(number, at), f"{number}") for at in range(8)]

    writer = created(bucket(url, proxy, tmp_path / "writer"))
    writer.write(rows_of(generation(0), EMBEDDER, digest="0"))
    reading = opened(bucket(url, proxy, tmp_path / "reader"))
    seen, done = list[tuple[set[str], int]](), Event()

    def read() -> None:
        while not done.is_set():
            reader = reading.reader()
            found = len(reader.text_search("owls", 50).result())
            seen.append(({str(info.title) for info in reader.documents()}, found))
            time.sleep(0.005)

    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(read)
        try:
            for number in range(1, 4):
                writer.write(rows_of(generation(number), EMBEDDER, digest=str(number)))
                reading.refresh()
                before = len(seen)
                while len(seen) < before + 3 and not asked.done():
                    time.sleep(0.005)
        finally:
            done.set()
        asked.result()
    assert all(len(generations) == 1 and found == 8 for generations, found in seen)
    assert set.union(*(generations for generations, _ in seen)) >= {"1", "2", "3"}


@pytest.mark.parametrize("shard", [0, 1])
def test_a_death_between_shards_leaves_the_state_before(url: str, proxy: Proxy, tmp_path: Path, shard: int) -> None:
    # no fault is wanted here, and connections of the test before may be dead
    store = created(place_of(url, {**proxy.storage, "client_max_retries": "5"}, tmp_path, refresh="1h"))
    store.write(rows_of(documents(0, 9), EMBEDDER))
    before = store.reader().snapshot
    with pytest.raises(KeyboardInterrupt), store._change() as shards:
        for at in range(shard + 1):
            own = [one for one in documents(9, 30) if shard_of(one.id, SHARDS) == at]
            shards[at].write(rows_of(own, EMBEDDER))
        raise KeyboardInterrupt
    assert store.reader().snapshot == before == opened(bucket(url, proxy, tmp_path / "b")).reader().snapshot
    # other documents get the same numbers and ids
    assert store.write(rows_of(documents(30, 50), EMBEDDER)).added == 20
    assert store.check() == [] and ids(store) == sorted(f"d{n}" for n in (*range(9), *range(30, 50)))


def kill(proxy: Proxy, work: Callable[[], None], number: int) -> bool:
    """Cut all connections from this request on. Return whether the work was done before."""
    last = len(proxy.requests) + number

    def dead(request: Request) -> str | None:
        # every second time, the last request still takes effect
        if request.number < last:
            return None
        return "cut after" if request.number == last and last % 2 else "cut before"

    proxy.fault = dead
    try:
        work()
        return True
    except MergewiseError as error:
        assert not isinstance(error, CorruptIndex)
        return False
    finally:
        proxy.fault = lambda request: None


@pytest.mark.parametrize("step", [97, pytest.param(1, marks=long_form)])
def test_a_writer_killed_at_any_request_loses_nothing(
    url: str, proxy: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    # a killed writer frees no lease, and this test does not wait for it to expire
    monkeypatch.setattr(lease, "LEASE", -1.0)
    whole = created(place_of(tmp_path / "whole"), 2)
    change_twice(whole, EAGER)
    survived = False
    for number in range(step // 2 + 1, 1000, step):
        place = f"{url}-{number}"
        store = created(bucket(place, proxy, tmp_path / "a"), 2)
        store.write(rows_of(documents(0, 2), EMBEDDER))
        survived = kill(proxy, lambda store=store: change_twice(store, EAGER), number)  # type: ignore[misc]
        after = opened(bucket(place, proxy, tmp_path / "b"))
        assert after.check() == []
        assert len(ids(after)) in (2, 4, 9)
        change_twice(after, EAGER)
        assert after.check() == []
        texts = [{name: text for name, (text, _) in contents(one).items()} for one in (after, whole)]
        assert texts[0] == texts[1]
        if survived:
            break
    assert survived


def test_a_writer_that_lost_its_lease_changes_nothing(
    url: str, proxy: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = created(bucket(url, proxy, tmp_path / "a")), opened(bucket(url, proxy, tmp_path / "b"))
    first.write(rows_of(documents(0, 9), EMBEDDER))
    monkeypatch.setattr(lease, "LEASE", -1.0)
    by_shard = [[one for one in documents(9, 40) if shard_of(one.id, SHARDS) == at] for at in range(SHARDS)]
    with pytest.raises(IndexBusy), first._change() as stale:
        stale[0].write(rows_of(by_shard[0], EMBEDDER))
        with stale[1]._writing() as change:
            change.tables.open("leaf").count_rows()
            # it falls asleep, and another writer takes over and changes one shard
            second.write(rows_of(documents(40, 41), EMBEDDER))
            change.rows.append(change.rows.storable(rows_of(by_shard[1], EMBEDDER))[0])
    expected = sorted(f"d{number}" for number in (*range(9), 40))
    assert second.check() == [] and ids(second) == expected
    second.write(rows_of(documents(41, 50), EMBEDDER))
    first.refresh()
    assert second.check() == [] == first.check() and len(ids(first)) == 19


def test_cleaning_keeps_what_a_pinned_question_reads(
    url: str, proxy: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mergewise.store.places.bucket.KEPT", timedelta(days=-1))
    monkeypatch.setattr("mergewise.store.places.bucket.VERSIONS", 1)
    writer = created(bucket(url, proxy, tmp_path / "writer"))
    writer.upkeep = EAGER
    writer.write(rows_of(documents(0, 12), EMBEDDER), optimize=True)
    reading = opened(bucket(url, proxy, tmp_path / "reader"))
    before = reading.reader()
    sizes = []
    for number in range(12, 15):
        writer.write(rows_of(documents(number, number + 6), EMBEDDER), remove=[f"d{number - 12}"], optimize=True)
        unclean = len(list(writer.place.files()))
        writer.place.clean(writer.manifest)
        sizes.append((len(list(writer.place.files())), unclean))
    assert all(after < unclean for after, unclean in sizes)
    with proxy.counting() as asking:
        assert len(before.document_rows([f"d{number}" for number in range(12)])) == 12
        assert before.text_search("owls", 30).result()
    assert asking == []
    reading.refresh()
    fresh = opened(bucket(url, proxy, tmp_path / "fresh"))
    assert contents(reading) == contents(writer) == contents(fresh) and fresh.check() == []


def test_questions_are_answered_while_the_bucket_is_down(url: str, proxy: Proxy, tmp_path: Path) -> None:
    store = created(bucket(url, proxy, tmp_path / "a"))
    store.write(rows_of(documents(0, 9), EMBEDDER))
    reading = opened(bucket(url, proxy, tmp_path / "b"))
    assert len(ids(reading)) == 9
    proxy.fault = lambda request: "503"
    assert reading.reader().text_search("owls", 20).result()
    with pytest.raises(StoreError) as raised:
        reading.refresh()
    assert not isinstance(raised.value, CorruptIndex)
    with pytest.raises(StoreError):
        store.write(rows_of(documents(9, 12), EMBEDDER))
    with pytest.raises(StoreError):
        bucket(url, proxy, tmp_path / "c").known()
    assert len(ids(reading)) == 9
    proxy.reset()
    assert opened(bucket(url, proxy, tmp_path / "c")).write(rows_of(documents(9, 12), EMBEDDER)).added == 3
    reading.refresh()
    assert len(ids(reading)) == 12


def test_a_dropped_table_is_rebuilt(url: str, proxy: Proxy, tmp_path: Path) -> None:
    index = mergewise.open(url, embedder=EMBEDDER, storage=proxy.storage, cache=tmp_path / "a", refresh="1h", shards=2)
    index.add(documents(0, 8))
    reading = opened(bucket(url, proxy, tmp_path / "b"))
    expected = contents(reading)
    for name in [name for name in index.store.place.files("shard-0001/name.lance") if name.endswith(".manifest")]:
        damaged = tmp_path / "damaged"
        damaged.write_bytes(b"x")
        index.store.place.upload(damaged, name)
    assert index.check() != []
    assert index.check(repair=True) == []
    reading.refresh()
    assert reading.check() == [] and contents(reading).keys() == expected.keys()
