"""Texts first, vectors later: found by text search at once, nothing lost by a kill, and finally the rows of a single step."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support import SMALL, HashEmbedder, manifest_record, new_store, whole_views
from tests.support import rows_of as made

import mergewise as mw
from mergewise.designs import STRATEGIES, VIEWS
from mergewise.index import pipeline, vectors
from mergewise.index.work import IndexingProgress
from mergewise.models.record import Models
from mergewise.models.tokens import count_tokens
from mergewise.protocols import FloatArray, Store
from mergewise.store.lance import LanceStore
from mergewise.store.lance_indexes import Upkeep
from mergewise.store.lance_tables import SteppedTable
from mergewise.store.manifest import NAME, read_manifest, with_run, without_span
from mergewise.store.tables import Table
from mergewise.types import Document, DocumentRows, VectorCount

EMBEDDER = HashEmbedder()
LONG = bool(os.environ.get("MERGEWISE_ATTACK"))
ALL_VIEWS = ("leaf", "slice", "marker", "fixed", "semantic", "pic", "triplet") if LONG else ("leaf", "slice")
# the other strategies merge the results of another one, or do not search
_LEFT_OUT = {"mergerag-asym", "reranker", "full"}
ABLE = [name for name in STRATEGIES if name not in _LEFT_OUT and {*STRATEGIES[name].views} <= {*ALL_VIEWS}]
QUESTION = "Which tower of Brook fell in 1905?"


class SentenceEmbedder(HashEmbedder):
    """An embedder that also returns vectors of sentences, and can be stopped."""

    def __init__(self, before: Callable[[], None] = lambda: None) -> None:
        super().__init__()
        self.before = before

    def embed_parts(
        self, texts: Sequence[str], parts: Sequence[Sequence[tuple[int, int]]]
    ) -> tuple[FloatArray, list[FloatArray]]:
        self.before()
        whole = self.embed_documents(texts)
        spans = [[text[a:b] for a, b in own] for text, own in zip(texts, parts, strict=True)]
        return whole, [super(SentenceEmbedder, self).embed_documents(own) for own in spans]


def tower(number: int, sentences: int = 12, word: str = "fell") -> Document:
    body = " ".join(f"The tower {number} of Brook {word} in {1900 + i}. A mason built it." for i in range(sentences))
    return Document(
        f"d{number}", f"# Tower {number}\n\n{body}\n\n## Names\n\nIt is called Spire {number}.", f"Tower {number}"
    )


DOCUMENTS = [tower(number) for number in range(4)]


@pytest.fixture(autouse=True)
def small_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small limits, so that the work takes several changes of several parts."""
    monkeypatch.setattr(pipeline, "SMALL", 500)
    monkeypatch.setattr(vectors, "CHANGE_LEAVES", 7)
    monkeypatch.setattr(vectors, "FIRST_PART", 2)
    monkeypatch.setattr(vectors, "LARGEST_PART", 3)


def in_one_step(path: Path, documents: Sequence[Document] = DOCUMENTS, **opened: Any) -> mw.Index:
    index = mw.open(path, **opened)
    given = [(document, "1") for document in documents]
    index.store.write(pipeline.rows_of(given, VIEWS, index.store.settings, index._builders()))
    index.store.optimize()
    return index


def contexts(index: mw.Index, strategies: Sequence[str]) -> dict[str, str]:
    return {name: index.context(QUESTION, strategy=name, budget=200).text for name in strategies}


def rows_by_document(store: Store) -> dict[str, Any]:
    """Return the tree's rows of each document, without their ids and without unused words."""
    found: dict[str, Any] = {}
    for rows in store.reader().document_rows([info.id for info in store.reader().documents()]):
        first = rows["leaf"][0].id
        found[rows.document.id] = (
            [(leaf.id - first, leaf.start, leaf.text, leaf.sentences) for leaf in rows["leaf"]],
            np.round(rows.column("leaf", "vector"), 4).tolist(),
            rows.column("leaf", "sentence_vectors"),
            len(rows["section"]),
            len(rows["name"]),
        )
    return found


def test_a_run_in_two_phases_gives_the_rows_and_contexts_of_one_step(tmp_path: Path) -> None:
    once = in_one_step(tmp_path / "a", embedder=SentenceEmbedder(), views=ALL_VIEWS)
    twice = mw.open(tmp_path / "b", embedder=SentenceEmbedder(), views=ALL_VIEWS)
    assert twice.add(DOCUMENTS).added == 4
    assert twice.check() == [] and not twice.manifest.unembedded
    assert twice.vectors() == VectorCount(twice.vectors().leaves, twice.vectors().leaves, 0)
    assert rows_by_document(twice.store) == rows_by_document(once.store)
    counts, expected = twice.store.reader().row_counts(), once.store.reader().row_counts()
    assert counts == expected and all(counts.values())
    found, wanted = contexts(twice, ABLE), contexts(once, ABLE)
    assert [name for name in ABLE if found[name] != wanted[name]] == []


def test_texts_are_found_before_embedding_begins(tmp_path: Path) -> None:
    seen: list[tuple[int, int, str]] = []

    def ask() -> None:
        other = mw.open(tmp_path / "i", embedder=SentenceEmbedder())
        count = other.vectors()
        seen.append((len(other), count.embedded, other.context(QUESTION, strategy="topk").text))

    index = mw.open(tmp_path / "i", embedder=SentenceEmbedder(ask))
    index.add(DOCUMENTS)
    documents, embedded, texts = zip(*seen, strict=True)
    assert set(documents) == {4} and embedded[0] == 0
    assert list(embedded) == sorted(embedded) and len(set(embedded)) > 2
    assert all("1905" in text for text in texts)


def test_no_query_fails_while_vectors_are_computed(tmp_path: Path) -> None:
    """In all designs, complete views stay in use, and text search finds leaves without vectors."""
    index = mw.open(tmp_path / "i", embedder=SentenceEmbedder(), views=ALL_VIEWS)
    index.add(DOCUMENTS[:2])
    index.add(DOCUMENTS[2:], embed="later")
    assert set(index.manifest.offered) == set(ALL_VIEWS) and whole_views(index.manifest) == ("leaf",)
    for _ in range(3 if LONG else 1):
        waiting = index.vectors().waiting
        for strategy in ABLE:
            context = index.context(QUESTION, strategy=strategy, budget=200)
            assert context.passages and (context.trace[0].action == "vectors") == bool(waiting)
        index.embed(seconds=0)
    index.embed()
    assert index.context(QUESTION, budget=200).trace[0].action != "vectors"
    assert index.check() == [] and whole_views(index.manifest) == index.manifest.offered


def test_a_server_continues_step_by_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each call makes at least one change: first of vectors, then of documents that lack a view."""
    monkeypatch.setitem(VIEWS, "slice", replace(VIEWS["slice"], batch=1))
    index = mw.open(tmp_path / "i", embedder=SentenceEmbedder(), views=("leaf", "slice"))
    index.add(DOCUMENTS, embed="later")
    states = []
    while index.vectors().waiting or index.store.missing("slice"):
        index.embed(seconds=0)
        states.append((index.vectors().waiting, len(index.store.missing("slice"))))
    assert states == sorted(states, reverse=True) and len(set(states)) == len(states)
    assert [missing for waiting, missing in states if not waiting] == [4, 3, 2, 1, 0]
    assert index.check() == [] and index.context(QUESTION, strategy="macrag").passages


def test_an_index_without_vectors_answers_by_text_search(tmp_path: Path) -> None:
    words = mw.open(tmp_path / "w", embedder="none")
    words.add(DOCUMENTS)
    waiting = mw.open(tmp_path / "i", embedder=SentenceEmbedder())
    waiting.add(DOCUMENTS, embed="later")
    assert waiting.vectors().embedded == 0
    strategies = ["weave", "topk", "auto-merge", "sentence", "mergerag-sym"]
    assert contexts(waiting, strategies) == contexts(words, strategies)
    assert waiting.context(QUESTION, strategy="auto-merge(mode=semantic)").passages


def test_leaves_without_vectors_are_ranked_by_text_search(tmp_path: Path) -> None:
    index = mw.open(tmp_path / "i", embedder=SentenceEmbedder())
    index.add(DOCUMENTS[:2])
    index.add(Document("late", "# Castles\n\nThe castle of Umbria burnt in 1633, and nobody knows why."), embed="later")
    hits = index.state().reader(None).search("Why did the castle of Umbria burn?", 5)
    assert hits[0].row.doc_id == "late" and hits[0].cosine is None and hits[0].score == 1.0
    assert any(hit.cosine is not None for hit in hits)


def test_a_kill_in_any_change_loses_only_that_change(tmp_path: Path) -> None:
    """An embedder ends the run at its n-th call, for every n: written rows stay, and the next run does the rest."""
    expected = rows_by_document(in_one_step(tmp_path / "a", embedder=SentenceEmbedder()).store)
    left, killed = 0, 0
    calls = 0

    def stop() -> None:
        nonlocal calls
        calls += 1
        if calls > left:
            raise KeyboardInterrupt

    index = mw.open(tmp_path / "i", embedder=SentenceEmbedder(stop))
    before = 0
    while True:
        calls, left = 0, left + 1
        try:
            index.add(DOCUMENTS)
            break
        except KeyboardInterrupt:
            killed += 1
        fresh = mw.open(tmp_path / "i", embedder=SentenceEmbedder())
        now = fresh.vectors().embedded
        assert fresh.check() == [] and len(fresh) == 4 and now >= before
        assert now - before >= 7 * ((left - 1) // 4), "more than one change was lost"
        assert "1905" in fresh.context(QUESTION, strategy="topk").text
        before = now
    assert killed > 2
    assert index.check() == [] and rows_by_document(index.store) == expected


def test_one_large_document_gets_its_vectors_in_several_changes(tmp_path: Path) -> None:
    long = tower(1, sentences=200)
    index = mw.open(tmp_path / "i", embedder=SentenceEmbedder())
    index.add(long, embed="later")
    counts = [index.embed(seconds=0).embedded for _ in range(3)]
    assert counts == [7, 14, 21] and index.vectors().waiting > 20
    assert index.check() == []
    index.embed()
    once = in_one_step(tmp_path / "a", [long], embedder=SentenceEmbedder())
    assert rows_by_document(index.store) == rows_by_document(once.store)


def test_a_change_comes_within_half_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts become smaller for a slow embedder."""
    monkeypatch.setattr(vectors, "CHANGE_LEAVES", 4096)
    monkeypatch.setattr(vectors, "FIRST_PART", 32)
    monkeypatch.setattr(vectors, "LARGEST_PART", 512)
    now = each = 0.0

    def clock() -> float:
        return now

    class Slow(HashEmbedder):
        def embed_documents(self, texts: Sequence[str]) -> FloatArray:
            nonlocal now
            now += each * len(texts)
            return super().embed_documents(texts)

    for pace in (0.001, 0.05, 0.5):
        each = pace
        store = new_store("memory", Path(), VIEWS, EMBEDDER, {"leaf": SMALL})
        store.write(made([tower(number, 60) for number in range(5)]))
        models, work = Models(count_tokens, Slow()), IndexingProgress()
        table = VIEWS["leaf"].tables_of(store.settings["leaf"])[0]
        while len(store.reader().unembedded()):
            began = now
            assert vectors.embed_some(store, table, models, work, clock)
            assert now - began <= 30
        assert store.finish_vectors() and store.check() == []


def test_rows_that_another_writer_has_embedded_are_skipped(tmp_path: Path) -> None:
    index = mw.open(tmp_path / "i", embedder=SentenceEmbedder())
    index.add(DOCUMENTS, embed="later")
    others: Iterator[None] = iter([None])

    def other_goes_on() -> None:
        for _ in others:
            mw.open(tmp_path / "i", embedder=SentenceEmbedder()).embed()

    slow = mw.open(tmp_path / "i", embedder=SentenceEmbedder(other_goes_on))
    assert slow.embed().waiting == 0 and slow.check() == []
    assert rows_by_document(slow.store) == rows_by_document(
        in_one_step(tmp_path / "a", embedder=SentenceEmbedder()).store
    )


def test_documents_may_be_removed_or_changed_before_they_are_embedded(tmp_path: Path) -> None:
    index = mw.open(tmp_path / "i", embedder=SentenceEmbedder())
    index.add(DOCUMENTS, embed="later")
    index.embed(seconds=0)
    index.remove(["d1"])
    index.add(tower(2, word="stood"), embed="later")
    assert index.check() == []
    index.embed(seconds=0)
    index.remove([info.id for info in index.documents() if info.id != "d2"])
    assert index.check() == []
    assert index.embed().waiting == 0 and index.check() == [] and not index.manifest.unembedded
    once = in_one_step(tmp_path / "a", [tower(2, word="stood")], embedder=SentenceEmbedder())
    assert rows_by_document(index.store) == rows_by_document(once.store)
    index.add(DOCUMENTS, embed="later")
    index.remove([document.id for document in DOCUMENTS])
    assert index.manifest.unembedded and index.embed() == VectorCount(0, 0, 0) and not index.manifest.unembedded


Step = tuple[str, int]
STEPS = st.lists(
    st.tuples(st.sampled_from(["later", "now", "embed", "remove", "change", "move", "optimize"]), st.integers(0, 3)),
    max_size=7,
)


def take(step: Step, store: Store, standing: dict[str, Document]) -> None:
    """Take one step in a store and in the expected documents."""
    action, number = step
    models = Models(count_tokens, EMBEDDER)
    table = VIEWS["leaf"].tables_of(store.settings["leaf"])[0]
    if action in ("later", "now", "change"):
        document = tower(number, 3, "leant" if action == "change" else "fell")
        digest = action if action == "change" else "1"
        given = made([document], None if action == "later" else EMBEDDER, digest=digest)
        store.write(given, force=action == "change")
        if (
            action == "change"
            or document.id not in standing
            or store.reader().known_documents([document.id])[0].digest == "1"
        ):
            standing[document.id] = document
    elif action == "embed":
        vectors.embed_some(store, table, models, IndexingProgress(), lambda: 0.0)
    elif action == "remove":
        store.remove([f"d{number}"])
        standing.pop(f"d{number}", None)
    elif action == "move" and f"d{number}" in standing:
        # a document without vectors keeps its rows when it moves
        (rows,) = store.reader().document_rows([f"d{number}"])
        first = {name: min((r.id for r in rows[name]), default=0) for name in ("leaf", "section")}
        again = made([standing[f"d{number}"]], digest="2")[0]
        columns = {k: v for k, v in rows.tables["leaf"].columns.items() if k in ("vector", "sentence_vectors")}
        leaves = type(rows.tables["leaf"])(again["leaf"], columns)
        assert first["leaf"] < first["section"]
        store.write([DocumentRows(again.document, "2", {**again.tables, "leaf": leaves})], force=True)
    elif action == "optimize":
        store.optimize()


def check_invariants(store: Store) -> None:
    assert store.check() == []
    reader = store.reader()
    waiting = set(reader.unembedded().tolist())
    query = EMBEDDER.embed_queries([QUESTION])[0]
    found = {row for row, _ in reader.vector_search(query, 1000).result()}
    leaves = reader.row_counts()["leaf"]
    assert not found & waiting and len(found) == leaves - len(waiting)
    ids = sorted(found | waiting)
    assert set(reader.vectors(ids)) == found
    assert bool(reader.text_search("tower", 5).result()) == bool(leaves)


def run_steps(store: Store, steps: Sequence[Step]) -> None:
    standing: dict[str, Document] = {}
    for step in steps:
        take(step, store, standing)
        check_invariants(store)
    pipeline.go_on(store, VIEWS, Models(count_tokens, EMBEDDER), None)
    check_invariants(store)
    assert not len(store.reader().unembedded()) and store.finish_vectors()
    expected = new_store("memory", Path(), VIEWS, EMBEDDER, {"leaf": SMALL})
    expected.write(made(list(standing.values()), EMBEDDER))
    assert rows_by_document(store) == rows_by_document(expected)


@given(STEPS)
@settings(max_examples=200 if LONG else 10, deadline=None)
def test_any_order_of_steps_ends_in_the_same_rows_in_memory(steps: list[Step]) -> None:
    run_steps(new_store("memory", Path(), VIEWS, EMBEDDER, {"leaf": SMALL}), steps)


@given(STEPS)
@settings(max_examples=40 if LONG else 2, deadline=None)
def test_any_order_of_steps_ends_in_the_same_rows_on_disk(
    tmp_path_factory: pytest.TempPathFactory, steps: list[Step]
) -> None:
    run_steps(new_store("lance", tmp_path_factory.mktemp("index"), VIEWS, EMBEDDER, {"leaf": SMALL}), steps)


def test_rows_without_vectors_keep_their_addresses_and_are_mapped_later(tmp_path: Path) -> None:
    index = mw.open(tmp_path / "i", embedder=SentenceEmbedder())
    index.add(DOCUMENTS[:1])
    end = index.manifest.mapped["leaf"]["end"]
    index.add(DOCUMENTS[1:], embed="later")
    assert index.manifest.mapped["leaf"]["end"] == end
    index.embed(seconds=0)
    assert index.manifest.mapped["leaf"]["end"] == end and index.check() == []
    index.embed()
    assert index.manifest.mapped["leaf"]["end"] > end and index.check() == []


def test_rows_without_vectors_are_found_by_an_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outside: list[int] = []
    update = SteppedTable.updating

    def watched(self: SteppedTable, column: str, rows: Any) -> int:
        stats = self.index_stats(f"{column}_idx")
        outside.append(stats.num_unindexed_rows)
        return update(self, column, rows)

    monkeypatch.setattr(SteppedTable, "updating", watched)
    index = mw.open(tmp_path / "i", embedder=SentenceEmbedder())
    index.store.upkeep = Upkeep(few_rows=0, many_rows=0)
    index.add(DOCUMENTS[:1])
    index.add(DOCUMENTS[1:])
    # the rows of the change before have their vectors
    assert len(outside) > 2 and max(outside) <= 1
    assert index.check() == []


def test_a_table_of_an_older_mergewise_accepts_rows_without_vectors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its columns of vectors are not nullable."""
    schema = Table.schema

    def firm(self: Table, dimension: int) -> pa.Schema:
        return pa.schema([f.with_nullable(f.nullable and f.name != "vector") for f in schema(self, dimension)])

    with monkeypatch.context() as patched:
        patched.setattr(Table, "schema", firm)
        in_one_step(tmp_path / "i", DOCUMENTS[:3], embedder=SentenceEmbedder())
    index = mw.open(tmp_path / "i", embedder=SentenceEmbedder())
    index.add(DOCUMENTS[3:], embed="later")
    assert index.check() == [] and index.vectors().waiting > 0
    index.embed()
    assert index.check() == []
    once = in_one_step(tmp_path / "a", embedder=SentenceEmbedder())
    assert rows_by_document(index.store) == rows_by_document(once.store)


def test_an_unlisted_missing_vector_is_reported(tmp_path: Path) -> None:
    index = mw.open(tmp_path / "i", embedder=SentenceEmbedder())
    index.add(DOCUMENTS, embed="later")
    index.embed(seconds=0)
    raw = manifest_record(tmp_path / "i" / NAME)
    first = raw["unembedded"]["leaf"][0][0]
    for runs in ([[first + 3, raw["unembedded"]["leaf"][0][1]]], [[0, raw["next_id"]]]):
        (tmp_path / "i" / NAME).write_text(json.dumps({**raw, "unembedded": {"leaf": runs}}))
        assert any("lack vectors" in problem.what for problem in index.check())
    assert index.check(repair=True) == [] and index.embed().waiting == 0 and index.check() == []


@pytest.mark.parametrize(
    "unembedded", [{"leaf": [[3, 1]]}, {"leaf": [[0, 10**9]]}, {"../leaf": []}, {"leaf": 3}, [], {"leaf": [[0]]}]
)
def test_runs_of_rows_are_checked(tmp_path: Path, unembedded: Any) -> None:
    index = mw.open(tmp_path / "i", embedder=SentenceEmbedder())
    index.add(DOCUMENTS, embed="later")
    raw = manifest_record(tmp_path / "i" / NAME)
    (tmp_path / "i" / NAME).write_text(json.dumps({**raw, "unembedded": unembedded}))
    with pytest.raises(mw.errors.CorruptIndex):
        read_manifest(tmp_path / "i")


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 9)), max_size=4), st.integers(0, 50), st.integers(0, 20))
def test_spans_are_removed_from_runs(gaps: list[tuple[int, int]], first: int, length: int) -> None:
    runs: tuple[tuple[int, int], ...] = ()
    numbers: set[int] = set()
    at = 0
    for gap, size in gaps:
        runs = with_run(runs, at + gap, at + gap + size)
        numbers |= set(range(at + gap, at + gap + size))
        at += gap + size
    assert {n for a, b in runs for n in range(a, b)} == numbers
    assert all(a[1] < b[0] for a, b in pairwise(runs))
    left = without_span(runs, first, first + length)
    assert {n for a, b in left for n in range(a, b)} == numbers - set(range(first, first + length))


def test_little_work_is_one_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "SMALL", 100_000)
    index = mw.open(tmp_path / "i", embedder=SentenceEmbedder())
    changes: list[str] = []
    write = LanceStore.write
    monkeypatch.setattr(LanceStore, "write", lambda *a, **k: changes.append("rows") or write(*a, **k))  # type: ignore[func-returns-value]
    monkeypatch.setattr(LanceStore, "write_vectors", lambda *a, **k: changes.append("vectors"))
    index.add(DOCUMENTS)
    assert changes == ["rows"] and index.vectors().waiting == 0


def test_progress_over_two_phases_never_decreases(tmp_path: Path) -> None:
    seen: list[tuple[int, int, str]] = []
    index = mw.open(tmp_path / "i", embedder=SentenceEmbedder(), views=("leaf", "slice"))
    index.add(DOCUMENTS, progress=lambda *told: seen.append(told))
    done = [now for now, total, _ in seen if total]
    total = sum(len(document.text) for document in DOCUMENTS)
    assert done == sorted(done) and seen[-1][:2] == (total, total)
    assert len(set(done)) > 6
    texts = max(now for now in done if now <= total * 0.08)
    assert texts == pytest.approx(0.07 * total, abs=2)
    names = list(dict.fromkeys(name for now, _, name in seen if now > texts))
    assert names[:3] == ["d0", "d1", "d2"], "the message names the current document"


def test_indexes_without_embedder_need_no_vectors(tmp_path: Path) -> None:
    index = mw.open(tmp_path / "i", embedder="none")
    index.add(DOCUMENTS)
    index.add(tower(9), embed="later")
    count = index.vectors()
    assert (count.embedded, count.waiting) == (0, 0) and index.embed() == count and not index.manifest.unembedded
    with pytest.raises(mw.UsageError, match="invalid embed"):
        index.add(tower(10), embed="sometimes")


def test_synchronising_while_vectors_wait(tmp_path: Path) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    for document in DOCUMENTS:
        (folder / f"{document.id}.md").write_text(document.text)
    index = mw.open(tmp_path / "i", embedder=SentenceEmbedder())
    index.sync(folder, embed="later")
    index.embed(seconds=0)
    (folder / "d0.md").rename(folder / "moved.md")
    (folder / "d1.md").unlink()
    (folder / "d2.md").write_text(tower(2, word="stood").text)
    assert 0 < index.vectors().embedded < index.vectors().leaves
    report = index.sync(folder, embed="later")
    assert (report.moved, report.removed, report.replaced) == (1, 1, 1) and index.check() == []
    assert index.vectors().embedded > 0, "the moved document keeps its vectors"
    assert index.sync(folder).unchanged == 3 and index.vectors().waiting == 0 and index.check() == []
