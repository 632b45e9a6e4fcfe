"""The gatherer over shards: messages, what is kept from state to state, order of ties, and contexts as of one index."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support import HashEmbedder

import mergewise as mw
from mergewise import asking
from mergewise.asking import IndexState
from mergewise.designs import VIEWS
from mergewise.query import Query
from mergewise.store.manifest import Manifest
from mergewise.store.shards.calls import Answers, Calls, Shards
from mergewise.store.shards.place import shard_of
from mergewise.store.shards.reader import ShardedReader
from mergewise.types import Leaf

PLACES = ("Brook", "Spire", "Harbour", "Meadow", "Castle", "Mill")
QUESTIONS = ("When did Tower 7 of Brook fall?", "Who built the Mill of Spire 3?", "What colour has Castle 5?")


def documents(count: int) -> list[mw.Document]:
    """Return documents that name each other, some with equal texts under other titles."""
    made = []
    for n in range(count):
        place, other = PLACES[n % 6], PLACES[(n * 5 + 1) % 6]
        text = f"# Tower {n}\n\nTower {n} of {place} fell in {1200 + n}. It is called {other} {n % 9}.\n\n"
        text += f"# {place} {n}\n\nThe {other} of {place} {n} was built by Master {n * 7 % 40}. Its colour is grey.\n\n"
        text += "# Notes\n\nThe towers stand near the river. Nobody knows their age.\n"
        made.append(mw.Document(f"d{n * 7919 % 1000:03}", text, f"Tower {n}"))
    return made


class CountingShards:
    """Shards that count messages. Calls and results are pickled as on a wire."""

    gaps = ""

    def __init__(self, shards: Shards) -> None:
        self._shards = shards
        self.asked: list[Calls] = []

    @property
    def manifests(self) -> tuple[Manifest, ...]:
        return self._shards.manifests

    def ask(self, calls: Calls) -> Answers:
        self.asked.append(calls)
        answers: Answers = pickle.loads(pickle.dumps(self._shards.ask(pickle.loads(pickle.dumps(calls)))))
        return answers


def index_of(directory: Path, shards: int | None, count: int = 90) -> mw.Index:
    index = mw.open(directory, embedder=HashEmbedder(), shards=shards)
    index.add(documents(count))
    return index


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gathering")
    for shards in (None, 1, 2, 4, 8):
        index_of(folder / str(shards), shards)
    return folder


def counted(folder: Path, name: str) -> tuple[IndexState, CountingShards]:
    """Return the state of an index in shards that counts its messages."""
    index = mw.open(folder / name, embedder=HashEmbedder())
    state = index.state()
    assert isinstance(state.store, ShardedReader)
    counting = CountingShards(state.store.shards)
    return replace(state, store=ShardedReader(counting, folder, VIEWS)), counting


@pytest.mark.parametrize("shards", [1, 2, 4, 8])
@pytest.mark.parametrize("strategy", ["topk", "weave"])
def test_contexts_equal_those_of_one_index(folder: Path, shards: int, strategy: str) -> None:
    whole = mw.open(folder / "None", embedder=HashEmbedder())
    state, _ = counted(folder, str(shards))
    for question in QUESTIONS:
        for where in (None, "title < 'Tower 5'"):
            query = Query(question, strategy=strategy, budget=150, where=where)
            expected, found = whole.context(query), asking.context(query, state)
            assert found.text == expected.text != ""
            for one, other in zip(found.passages, expected.passages, strict=True):
                assert one.score == pytest.approx(other.score, abs=1e-3)


@pytest.mark.parametrize(("strategy", "most"), [("topk", 2), ("weave", 6)])
def test_a_question_needs_few_messages(folder: Path, strategy: str, most: int) -> None:
    state, counting = counted(folder, "4")
    for question in (*QUESTIONS, *QUESTIONS):
        asking.context(Query(question, strategy=strategy, budget=150), state)
    for question in QUESTIONS:
        counting.asked.clear()
        asking.context(Query(question, strategy=strategy, budget=150), state)
        assert 0 < len(counting.asked) <= most
        assert all(set(calls) <= set(range(4)) for calls in counting.asked)


def test_unchanged_shards_are_not_asked_again_for_what_is_fixed(tmp_path: Path) -> None:
    index = index_of(tmp_path, 4)
    before, _ = counted(tmp_path.parent, tmp_path.name)
    asking.context(Query(QUESTIONS[0], strategy="weave"), before)
    index.add([mw.Document("new", "# Tower 7\n\nTower 7 of Brook was rebuilt in 1950.", "Tower 7")])
    store = index.state().store
    assert isinstance(store, ShardedReader) and isinstance(before.store, ShardedReader)
    counting = CountingShards(store.shards)
    after = replace(before, store=ShardedReader(counting, tmp_path, VIEWS, before.store))
    assert "1950" in asking.context(Query("What was rebuilt in 1950?", strategy="weave"), after).text
    searches = {"hits", "stored_rows", "vectors", "text_frequencies"}
    fixed = [
        (at, call.method)
        for calls in counting.asked
        for at, own in calls.items()
        for call in own
        if call.method not in searches
    ]
    assert {method for _, method in fixed} >= {"languages", "repeated_texts", "sorted_columns"}
    assert {at for at, _ in fixed} == {shard_of("new", 4)}
    same = ShardedReader(store.shards, tmp_path, VIEWS)
    assert sorted(same.numbers()) == sorted(after.store.numbers())
    ours, theirs = (
        reader.sorted_columns("name", ("hash", "first_leaf", "doc", "leaf_count")) for reader in (after.store, same)
    )
    assert all((ours[name] == theirs[name]).all() for name in theirs)


def test_an_abandoned_search_is_not_sent(folder: Path) -> None:
    state, _ = counted(folder, "4")
    state.store.text_search("tower", 5, "no condition")
    assert state.store.text_search("tower", 5).result()
    wrong, right = state.store.text_search("tower", 5, "no condition"), state.store.text_search("grey", 5)
    with pytest.raises(mw.UsageError):
        wrong.result()
    with pytest.raises(mw.UsageError):
        right.result()
    assert state.store.text_search("grey", 5).result()


def test_equal_texts_are_in_the_order_of_document_ids(tmp_path: Path) -> None:
    same = "The towers stand near the river.\n\nNobody knows their age."
    ids = [f"d{n * 37 % 50:02}" for n in range(50)]
    rankings = []
    for shards in (None, 4):
        index = mw.open(tmp_path / str(shards), embedder=HashEmbedder(), shards=shards)
        # titles differ, so that the documents are no copies of each other
        index.add([mw.Document(doc_id, same, f"T{doc_id[1:]}") for doc_id in ids])
        reader = index.state().store
        vector = HashEmbedder().embed_queries(["near the river"])[0]
        for search in (reader.text_search("towers near the river", 30), reader.vector_search(vector, 30)):
            hits = search.result()
            rows = reader.rows("leaf", Leaf, [row for row, _ in hits])
            rankings.append([(rows[row].doc_id, rows[row].start) for row, _ in hits])
    assert rankings[0] == rankings[2] == sorted(rankings[0])
    assert rankings[1] == rankings[3]


@pytest.mark.parametrize("shards", [None, 3])
def test_scores_count_only_the_documents_that_an_asker_knows(tmp_path: Path, shards: int | None) -> None:
    """Scores are those of an index without the other documents, and without `counted` they are as before."""
    own = documents(60)
    kinds = [replace(one, metadata={"kind": "open" if n % 3 else "hidden"}) for n, one in enumerate(own)]
    known, condition = [one for one in kinds if one.metadata["kind"] == "open"], "kind = 'open'"
    found: list[list[dict[tuple[str, int], float]]] = []
    for given, where, counted in ((known, None, None), (kinds, condition, condition), (kinds, condition, None)):
        index = mw.open(tmp_path / f"{len(found)}", embedder="none", shards=shards)
        index.add(given)
        reader = index.store.reader()
        rankings = [reader.text_search(one, 200, where, counted=counted).result() for one in (*QUESTIONS, QUESTIONS[0])]
        leaves = reader.rows("leaf", Leaf, [row for ranking in rankings for row, _ in ranking])
        places = [{(leaves[row].doc_id, leaves[row].start): score for row, score in one} for one in rankings]
        found.append(places)
        if where is not None and counted is None:
            whole = dict(reader.text_search(QUESTIONS[0], 200).result())
            assert {row: whole[row] for row, _ in rankings[0]} == dict(rankings[0])
    assert found[0] == found[1] != found[2]
