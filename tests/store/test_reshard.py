"""Another number of shards: the same rows and contexts, changes meanwhile, kills at each step, readers of the shards before."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.cli.invoking import invoke
from tests.object_store import Proxy
from tests.store.test_object_storage import EMBEDDER, bucket, documents
from tests.store.test_sharded_buckets import created, kill, opened
from tests.support import HashEmbedder, rows_of

import mergewise as mw
from mergewise.designs import STRATEGIES, VIEWS
from mergewise.errors import CorruptIndex, IndexBusy, UsageError
from mergewise.store import sweep
from mergewise.store.lance import LanceStore
from mergewise.store.manifest import SHARDS_NAME
from mergewise.store.places import folder, lease, place_of
from mergewise.store.places.folder import Folder
from mergewise.store.places.place import Place
from mergewise.store.shards import reshard as resharding
from mergewise.store.shards.reshard import reshard
from mergewise.store.shards.store import ShardedStore
from mergewise.store.tables import with_own_ids
from mergewise.types import DocumentRows

SECOND = "generation-0002"
LONG = "MERGEWISE_ATTACK" in os.environ


@pytest.fixture
def url(request: pytest.FixtureRequest) -> str:
    return f"s3://indexes/{request.node.name}"


@pytest.fixture(params=["folder", "bucket"])
def place(request: pytest.FixtureRequest, url: str, tmp_path: Path) -> Callable[[str], Place]:
    """Return a function that opens the same place for a process of this name."""
    if request.param == "folder":
        return lambda name: place_of(tmp_path / "index")
    proxy = request.getfixturevalue("proxy")
    return lambda name: bucket(url, proxy, tmp_path / name)


def contents(store: LanceStore | ShardedStore) -> dict[str, DocumentRows]:
    """Return all rows, with ids from 0 in each document, and the metadata keys of each shard."""
    reader = store.reader()
    views = [VIEWS[name].tables_of(settings) for name, settings in store.settings.items()]
    assert len({tuple(sorted(shard.metadata_kinds())) for shard in store.shard_readers()}) == 1
    return {rows.document.id: with_own_ids(rows, views) for rows in reader.document_rows(reader.ids())}


def same(one: dict[str, DocumentRows], other: dict[str, DocumentRows]) -> bool:
    """Compare the rows with their vectors."""
    return {name: str(rows) for name, rows in one.items()} == {name: str(rows) for name, rows in other.items()}


def change(store: ShardedStore) -> None:
    """Add, replace, describe and remove documents."""
    store.write(rows_of(documents(20, 24), EMBEDDER), remove=["d1"])
    store.write(rows_of([replace(one, text=f"{one.text} New.") for one in documents(2, 4)], EMBEDDER, digest="new"))
    store.describe({"d5": {"year": 7}})


@pytest.mark.parametrize(("before", "after"), [(2, 5), (3, 1), *([(3, 8), (4, 1)] if LONG else [])])
def test_rows_stay(place: Callable[[str], Place], before: int, after: int) -> None:
    store = created(place("a"), before)
    store.write(rows_of(documents(0, 20), EMBEDDER), optimize=True)
    change(store)
    expected, old, snapshot = contents(store), store.reader(), store.reader().snapshot
    other = opened(place("b"))
    before_change = other.reader()
    reshard(store, after)
    assert len(store.manifest.parts) == after and store.check() == [] and same(contents(store), expected)
    # readers that were open, and those of other processes that do not know of it yet, see the shards before
    for reader in (old, before_change):
        assert len(reader.manifests) == before and len(reader.document_rows(list(expected))) == len(expected)
        assert reader.text_search("owls", 50).result()
    assert old.snapshot == snapshot
    other.refresh()
    assert same(contents(other), expected)
    # changes of both, and of a new process
    assert other.write(rows_of(documents(30, 33), EMBEDDER), optimize=True).added == 3
    assert opened(place("c")).remove(["d30"]) == 1
    if store.place.refresh is not None:
        store.refresh()
    assert store.write(rows_of(documents(40, 42), EMBEDDER)).added == 2 and store.check() == []
    assert sorted(store.reader().ids()) == sorted([*expected, "d31", "d32", "d40", "d41"])
    # and once more
    reshard(store, before)
    assert store.manifest.generation == 3 and store.check() == [] and len(store.reader().ids()) == len(expected) + 4
    reshard(store, before)
    assert store.manifest.generation == 3


def test_contexts_stay(tmp_path: Path) -> None:
    text = "# Tower {0}\n\nTower {0} of Brook fell in {1}. It is called Spire {0}.\n\n## Walls\n\nIts walls are {2} m high. {3}"
    embedder = HashEmbedder()
    index = mw.open(tmp_path, embedder=embedder, views=("leaf", "slice"), shards=2)
    index.add(
        [mw.Document(f"d{n}", text.format(n, 1900 + n, 3 * n, "Moss. " * n), f"Tower {n}", {"n": n}) for n in range(40)]
    )

    def contexts() -> list[str]:
        questions = ("When did Tower 7 of Brook fall?", "How high are the walls of Spire 12?")
        return [
            index.context(question, strategy=strategy, budget=90, where=where).text
            for question in questions
            for strategy in ("topk", "weave", "auto-merge")
            for where in (None, "n < 20")
        ]

    before = contexts()
    asked = len(embedder.asked)
    index.reshard(5)
    assert len(embedder.asked) == asked
    assert contexts() == before and all(before)
    assert index.check() == [] and len(index) == 40
    with pytest.raises(UsageError, match="has 5 shards"):
        mw.open(tmp_path, embedder=EMBEDDER, shards=2)
    for wrong in (0, 5000, "3"):
        with pytest.raises(UsageError, match="number of shards"):
            index.reshard(wrong)  # type: ignore[arg-type]


def test_an_index_without_shards_is_copied_into_shards(
    place: Callable[[str], Place], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = mw.open(tmp_path / "whole", embedder=EMBEDDER, views=("leaf", "slice"))
    text = "# Tower {0}\n\nTower {0} of Brook fell in {1}. {2}\n"
    index.add([mw.Document(f"d{n}", text.format(n, 1900 + n, "Moss. " * n), metadata={"n": n}) for n in range(30)])
    with pytest.raises(UsageError, match="no shards"):
        index.reshard(2)
    questions = [f"When did Tower {n} of Brook fall?" for n in (3, 17, 29)]
    before = [
        index.context(question, strategy=strategy).text for question in questions for strategy in ("topk", "weave")
    ]
    # the process ends in the copy, and the documents change before the next call
    copy, goal = resharding._copy_documents, place("a")
    monkeypatch.setattr(resharding, "CHARACTERS", 8 * resharding.OF_EACH)
    copied = list[int]()

    def interrupted(source: ShardedStore, doc_ids: list[str], to: ShardedStore) -> None:
        copied.append(len(doc_ids))
        if len(copied) == 2:
            raise KeyboardInterrupt
        copy(source, doc_ids, to)

    monkeypatch.setattr(resharding, "_copy_documents", interrupted)
    with pytest.raises(KeyboardInterrupt):
        resharding.copy_into_shards(index.store, goal, 3)
    assert goal.known() is None
    with pytest.raises(UsageError, match="unfinished change to 3 shards"):
        resharding.copy_into_shards(index.store, place("a"), 4)
    first, asked = copied[0], len(EMBEDDER.asked)
    resharding.copy_into_shards(index.store, place("a"), 3)
    assert sum(copied[2:]) == 30 - first and len(EMBEDDER.asked) == asked
    with pytest.raises(UsageError, match="already exists"):
        resharding.copy_into_shards(index.store, place("a"), 3)
    store = opened(place("a"))
    assert store.check() == [] and len(store.manifest.parts) == 3 and same(contents(store), contents(index.store))
    assert index.check() == [] and len(index) == 30
    # changes go on, and the number changes once more
    assert store.write(rows_of(documents(40, 42), EMBEDDER)).added == 2
    reshard(store, 2)
    assert store.check() == [] and len(store.reader().ids()) == 32
    if isinstance(goal, Folder):
        again = mw.open(goal.directory, embedder=EMBEDDER)
        again.remove(["d40", "d41"])
        assert before == [
            again.context(question, strategy=strategy).text for question in questions for strategy in ("topk", "weave")
        ]


def test_changes_during_the_copy_are_not_lost(place: Callable[[str], Place], monkeypatch: pytest.MonkeyPatch) -> None:
    index = created(place("a"), 2)
    index.write(rows_of(documents(0, 20), EMBEDDER), optimize=True)
    monkeypatch.setattr(resharding, "CHARACTERS", 5 * resharding.OF_EACH)
    other, copy, copies = opened(place("b")), resharding._copy_documents, list[int]()

    def copy_and_change(source: Any, doc_ids: list[str], goal: ShardedStore) -> None:
        copy(source, doc_ids, goal)
        copies.append(len(doc_ids))
        if len(copies) == 2:
            change(other)

    monkeypatch.setattr(resharding, "_copy_documents", copy_and_change)
    reshard(index, 3)
    assert sum(copies) == 27
    if other.place.refresh is not None:
        other.refresh()
    whole = created(place_of(Path(str(other.place.directory)) / "whole"), 3)
    whole.write(rows_of(documents(0, 20), EMBEDDER))
    change(whole)
    assert other.check() == [] and same(contents(other), contents(whole))


def test_views_and_vectors_that_come_later_are_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = mw.open(tmp_path / "index", embedder=EMBEDDER, shards=2)
    index.add(documents(0, 6))
    index.add(documents(6, 12), embed="later")
    copy = resharding._copy_documents

    def copy_and_catch_up(source: Any, doc_ids: list[str], goal: ShardedStore) -> None:
        copy(source, doc_ids, goal)
        monkeypatch.setattr(resharding, "_copy_documents", copy)
        other = mw.open(tmp_path / "index", embedder=EMBEDDER, views=("leaf", "slice"))
        assert other.embed().waiting == 0

    index.reshard(3)
    assert index.vectors().waiting == 6 and index.check() == []
    assert index.embed().waiting == 0
    index.add(documents(12, 20), embed="later")
    stale = index.store.reader().unembedded().tolist()
    monkeypatch.setattr(resharding, "_copy_documents", copy_and_catch_up)
    index.reshard(2)
    assert index.vectors().waiting == 0 and index.check() == [] and index.manifest.views.keys() == {"leaf", "slice"}
    assert index.context("owls", strategy="macrag", budget=60).text
    # a process that has embedded rows of the shards before
    columns = {"vector": [[0.0] * EMBEDDER.dimension] * len(stale), "sentence_vectors": [b""] * len(stale)}
    index.add(documents(20, 25), embed="later")
    assert index.store.write_vectors("leaf", stale, columns) == 0
    assert index.embed().waiting == 0 and index.check() == []


# -- kills


class Killed(BaseException):
    """The death of the process."""


def die(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Die before or after the n-th step that changes files."""
    steps = iter(range(10**6))

    def step(owner: Any, name: str) -> None:
        method = getattr(owner, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            at = next(steps)
            if at >= number and number % 2:
                raise Killed
            done = method(*args, **kwargs)
            if at >= number:
                raise Killed
            return done

        monkeypatch.setattr(owner, name, call)

    for owner, names in ((folder, ("write_whole", "write_manifest", "sweep", "drop_generations")), (os, ("mkdir",))):
        for name in names:
            step(owner, name)
    for name in ("create_table", "publish", "drop_state", "swap"):
        step(Folder, name)


@pytest.mark.slow
def test_a_copy_killed_at_any_step_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resharding, "CHARACTERS", 8 * resharding.OF_EACH)
    survived, kills, step = False, 0, 13 if LONG else 41
    while not survived:
        directory = tmp_path / str(kills)
        store = created(place_of(directory), 2)
        store.write(rows_of(documents(0, 12), EMBEDDER), optimize=True)
        expected = contents(store)
        with monkeypatch.context() as patch:
            die(patch, kills)
            try:
                reshard(store, 3)
                survived = True
            except Killed:
                kills += step
        after = opened(place_of(directory))
        assert len(after.manifest.parts) in (2, 3) and same(contents(after), expected)
        after.write(rows_of(documents(30, 31), EMBEDDER), remove=["d3"])
        reshard(after, 3)
        assert len(after.manifest.parts) == 3 and after.check() == []
        assert sorted(after.reader().ids()) == sorted([*(expected.keys() - {"d3"}), "d30"])
        after.place.clean(after.manifest)
        assert not (directory / SECOND / SHARDS_NAME).exists()
    assert kills > 78


@pytest.mark.slow
def test_a_copy_killed_at_any_request_goes_on(
    url: str, proxy: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # a killed process frees no lease
    monkeypatch.setattr(lease, "LEASE", -1.0)
    survived, number, step = False, 3, 67 if LONG else 151
    while not survived:
        prefix = f"{url}-{number}"
        store = created(bucket(prefix, proxy, tmp_path / "a"), 2)
        store.write(rows_of(documents(0, 6), EMBEDDER))
        expected = contents(store)
        survived = kill(proxy, lambda store=store: reshard(store, 3), number)  # type: ignore[misc]
        after = opened(bucket(prefix, proxy, tmp_path / "b"))
        assert same(contents(after), expected)
        reshard(after, 3)
        assert len(after.manifest.parts) == 3 and same(contents(after), expected) and after.check() == []
        number += step
    assert number > 335


def test_an_unfinished_change_must_be_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = created(place_of(tmp_path), 2)
    store.write(rows_of(documents(0, 5), EMBEDDER))
    die(monkeypatch, 20)
    with pytest.raises(Killed):
        reshard(store, 3)
    monkeypatch.undo()
    with pytest.raises(UsageError, match="change to 3 shards") as raised:
        reshard(store, 4)
    assert "--shards 3" in str(raised.value.hint)
    reshard(store, 3)
    assert store.check() == []


def test_a_view_that_is_removed_during_the_copy_stays_removed(
    place: Callable[[str], Place], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = created(place("a"), 2)
    store.write(rows_of(documents(0, 9), EMBEDDER))
    for view in ("outline", "fixed"):
        store.begin_view(view, VIEWS[view].dump())
        rows = rows_of(documents(0, 9), EMBEDDER, **{view: VIEWS[view].settings()})
        store.write_view(view, rows)
        assert store.finish_view(view)
    copy = resharding._copy_documents

    def interrupted(source: Any, doc_ids: list[str], goal: ShardedStore) -> None:
        copy(source, doc_ids, goal)
        raise KeyboardInterrupt

    monkeypatch.setattr(resharding, "_copy_documents", interrupted)
    with pytest.raises(KeyboardInterrupt):
        reshard(store, 3)
    monkeypatch.undo()
    store.remove_view("outline")
    store.remove_view("fixed")
    store.begin_view("fixed", VIEWS["fixed"].dump(VIEWS["fixed"].load({"size": 40})))
    reshard(store, 3)
    assert store.settings.keys() == {"leaf", "fixed"} and store.settings["fixed"]["size"] == 40
    assert len(store.missing("fixed")) == 9 and store.check() == []


def test_two_processes_copy_at_once(place: Callable[[str], Place], monkeypatch: pytest.MonkeyPatch) -> None:
    first = created(place("a"), 2)
    first.write(rows_of(documents(0, 9), EMBEDDER))
    second, copy = opened(place("b")), resharding._copy_documents

    def copy_twice(source: Any, doc_ids: list[str], goal: ShardedStore) -> None:
        monkeypatch.setattr(resharding, "_copy_documents", copy)
        reshard(second, 3)
        copy(source, doc_ids, goal)

    monkeypatch.setattr(resharding, "_copy_documents", copy_twice)
    with pytest.raises((IndexBusy, CorruptIndex, mw.MergewiseError)):
        reshard(first, 3)
    after = opened(place("c"))
    assert after.check() == [] and len(after.manifest.parts) == 3 and len(after.reader().ids()) == 9


# -- cleaning


def test_the_shards_before_stay_for_an_hour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = created(place_of(tmp_path), 2)
    store.write(rows_of(documents(0, 9), EMBEDDER))
    before = store.reader()
    reshard(store, 3)
    (tmp_path / "generation-0003").mkdir()
    store.place.clean(store.manifest)
    assert len(before.document_rows([f"d{n}" for n in range(9)])) == 9
    assert sorted(path.name for path in tmp_path.glob("[sg]*-*")) == [
        SECOND,
        "generation-0003",
        "shard-0000",
        "shard-0001",
    ]
    monkeypatch.setattr(sweep, "GENERATION_KEPT", -1.0)
    store.place.clean(store.manifest)
    # the next one may be in progress
    assert sorted(path.name for path in tmp_path.glob("[sg]*-*")) == [SECOND, "generation-0003"]
    assert store.check() == [] and len(store.reader().ids()) == 9


def test_a_bucket_keeps_the_shards_before_for_an_hour(
    url: str, proxy: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = created(bucket(url, proxy, tmp_path), 2)
    store.write(rows_of(documents(0, 9), EMBEDDER))
    reshard(store, 3)
    own = tmp_path / "file"
    own.write_bytes(b"x")
    store.place.upload(own, "generation-0003/shard-0000/data")
    store.place.clean(store.manifest)
    assert any(name.startswith("shard-") for name in store.place.files())
    monkeypatch.setattr("mergewise.store.places.bucket.KEPT", timedelta(seconds=-10))
    store.place.clean(store.manifest)
    left = {name.split("/")[0] for name in store.place.files()}
    assert left == {SECOND, "generation-0003", SHARDS_NAME, "unneeded.json", lease.NAME, lease.CLOCK}
    assert opened(bucket(url, proxy, tmp_path / "b")).check() == []


def test_the_command(tmp_path: Path) -> None:
    index = mw.open(tmp_path / "index", embedder=EMBEDDER, shards=2)
    index.add(documents(0, 3))
    assert "3 documents in 3 shards" in invoke("reshard", "--index", str(tmp_path / "index"), "--shards", "3")
    assert len(index.store.manifest.parts) == 3
    mw.open(tmp_path / "whole", embedder=EMBEDDER).add(documents(0, 4))
    goal = str(tmp_path / "copy")
    command = ("reshard", "--index", str(tmp_path / "whole"), "--shards", "2", "--into", goal)
    assert f"4 documents in 2 shards in {goal}" in invoke(*command)
    assert len(mw.open(goal, embedder=EMBEDDER)) == 4


# -- the same contexts

DOCUMENTS = 300
# views and strategies that need a model; `full` reads documents in the order of the shards
LEFT_OUT = {"marker", "raptor", "reranker", "full"}
COLOURS = ("red", "blue", "green")


def alike(n: int) -> mw.Document:
    """A document that scores as some others do: the texts have equal lengths, and few different words."""
    colour, other = COLOURS[n % 3], COLOURS[n // 3 % 3]
    text = (
        f"# Tower {n:03}\n\nThe {colour} tower stands near a {other} river. Its walls are high. Nobody lives there.\n\n"
    )
    return mw.Document(
        f"d{n * 7919 % 1000:03}", f"{text}## Walls\n\nThe {other} walls were built of stone.\n", f"Tower {n:03}"
    )


def test_equal_scores_keep_their_order(tmp_path: Path) -> None:
    """Contexts of all strategies without a model stay with another number of shards, in spite of many equal scores."""
    views = ("leaf", *sorted({view for one in STRATEGIES.values() for view in one.views} - LEFT_OUT))
    index = mw.open(tmp_path / "index", embedder=HashEmbedder(), views=views, shards=3)
    index.add([alike(n) for n in range(DOCUMENTS)])

    def contexts() -> dict[tuple[str, str], str]:
        questions = ("Which tower stands near a red river?", "Who built the blue walls?")
        return {
            (name, question): index.context(question, strategy=name, budget=300).text
            for name, strategy in STRATEGIES.items()
            if not LEFT_OUT & {name, *strategy.views}
            for question in questions
        }

    before = contexts()
    index.reshard(5)
    after = contexts()
    changed = {name for (name, question), text in before.items() if after[name, question] != text}
    assert changed == set()
    assert len(before) > 30
