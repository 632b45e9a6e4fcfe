"""The tree over an index: it is grown once, stored, independent of interruptions, and searched as in the paper."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import sleep
from typing import Any

import numpy as np
import pytest

import mergewise as mw
from mergewise.designs.raptor.chunks import RaptorSettings
from mergewise.designs.raptor.tree import MMR, RaptorReader, SummaryTree, grow, marginal
from mergewise.errors import ModelError, UsageError
from mergewise.models import release
from mergewise.models.openai_chat import OpenAIChat
from mergewise.models.scripted import Turn
from mergewise.models.tokens import count_tokens
from mergewise.protocols import FloatArray
from mergewise.types import Document
from tests.chat_server import ChatServer
from tests.support import HashEmbedder

TOPICS = ("towers stone mason", "rivers flood bridge", "bread oven flour", "ships sail harbour")
SETTINGS = RaptorSettings(chunk=24, summary_tokens=40)
QUESTION = "Which mason built towers of stone?"


def document(number: int, sentences: int = 7) -> Document:
    words = TOPICS[number % 4].split()
    text = " ".join(
        f"The {words[i % 3]} number {number} {i} needs {words[(i + 1) % 3]} and {words[(i + 2) % 3]} in {1500 + i}."
        for i in range(sentences)
    )
    return Document(f"d{number}", text, f"About {words[0]}")


DOCUMENTS = [document(number) for number in range(8)]


class WideEmbedder(HashEmbedder):
    """An embedder whose questions have a distinct distance to every text, to avoid ties."""

    def embed_queries(self, texts: Sequence[str]) -> FloatArray:
        asked = np.random.default_rng(1).normal(size=(len(texts), self.dimension)).astype(np.float32)
        return np.asarray(asked / np.linalg.norm(asked, axis=1, keepdims=True), np.float32)


class StoppedEmbedder(HashEmbedder):
    """An embedder that fails after a number of calls."""

    left = 10_000

    def embed_documents(self, texts: Sequence[str]) -> FloatArray:
        self.left -= 1
        if self.left < 0:
            raise ModelError("it was stopped", "go on")
        return super().embed_documents(texts)


def opened(path: Path, settings: RaptorSettings = SETTINGS, **models: object) -> mw.Index:
    given = {"embedder": HashEmbedder(), **models}
    return mw.open(path, views=["raptor"], settings={"raptor": settings}, **given)  # type: ignore[arg-type]


def view_of(index: mw.Index) -> RaptorReader:
    view: RaptorReader = index.state().reader(None).view("raptor")
    return view


def tree_of(index: mw.Index) -> SummaryTree:
    return view_of(index).tree(index.models)


def shape(tree: SummaryTree) -> list[tuple[int, str, int]]:
    return [(node.layer, node.text, len(node.children)) for node in tree.nodes]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[mw.Index]:
    with opened(tmp_path_factory.mktemp("raptor") / "index", embedder=WideEmbedder()) as made:
        made.add(*DOCUMENTS)
        made.context(QUESTION, strategy="raptor", budget=100)
        yield made


# -- the tree


def test_every_chunk_is_below_the_highest_layer(index: mw.Index) -> None:
    tree = tree_of(index)
    assert tree.layers >= 2
    for layer in range(1, tree.layers + 1):
        held = {
            c for node, below in zip(tree.nodes, tree.chunks_below, strict=True) if node.layer == layer for c in below
        }
        assert held == set(tree.numbers)
    counts = [sum(node.layer == layer for node in tree.nodes) for layer in range(1, tree.layers + 1)]
    assert [len(tree.numbers), *counts] == sorted([len(tree.numbers), *counts], reverse=True)
    assert index.check() == []


def test_summaries_are_sentences_of_the_chunks_below(index: mw.Index) -> None:
    tree, view = tree_of(index), view_of(index)
    for node, below in zip(tree.nodes, tree.chunks_below, strict=True):
        texts = " ".join(row.text for row in view.chunks(sorted(below)).values())
        assert node.sentences and count_tokens([node.text])[0] <= SETTINGS.summary_tokens + 5
        assert all(f"{sentence}." in texts for sentence in node.text.rstrip(".").split(". "))


def test_a_tree_is_stored_and_computed_again_after_changes(tmp_path: Path) -> None:
    with opened(tmp_path / "index") as index:
        index.add(*DOCUMENTS[:6])
        first = tree_of(index)
    embedder = HashEmbedder()
    with opened(tmp_path / "index", embedder=embedder) as index:
        kept = tree_of(index)
        assert kept.nodes == first.nodes and np.array_equal(kept.vectors, first.vectors) and embedder.asked == []
        index.add(*DOCUMENTS[6:])
        grown = tree_of(index)
        assert len(frozenset().union(*grown.documents)) == 8 and len(frozenset().union(*first.documents)) == 6
        index.remove(["d6", "d7"])
        assert shape(tree_of(index)) == shape(first)
    assert len(list((tmp_path / "index" / "raptor").glob("*.json"))) == 1


def test_two_readers_that_need_a_tree_grow_it_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(tmp_path / "index") as index:
        index.add(*DOCUMENTS)
    grown = []

    def slowly(*given: Any) -> SummaryTree:
        grown.append(given)
        sleep(0.3)
        return grow(*given)

    monkeypatch.setattr("mergewise.designs.raptor.tree.grow", slowly)
    with opened(tmp_path / "index") as one, opened(tmp_path / "index") as other, ThreadPoolExecutor(2) as pool:
        first, second = pool.map(tree_of, (one, other))
    assert len(grown) == 1 and first.nodes == second.nodes


@pytest.mark.parametrize("damage", ["cut", "child", "layer", "vectors", "dimension", "link"])
def test_an_invalid_tree_is_computed_again(index: mw.Index, tmp_path: Path, damage: str) -> None:
    shutil.copytree(index.store.directory, tmp_path / "index")
    first = tree_of(index)
    (path,) = (tmp_path / "index" / "raptor").glob("*.json")
    raw = json.loads(path.read_text())
    if damage == "child":
        raw["nodes"][0][2] = [10**6]
    elif damage == "layer":
        raw["nodes"][0][0] = 7
    elif damage == "vectors":
        raw["vectors"] = raw["vectors"][:40]
    elif damage == "dimension":
        raw["vectors"] *= 2
    path.write_text(json.dumps(raw)[: 99 if damage == "cut" else None])
    if damage == "link":
        (tmp_path / "elsewhere").write_bytes(path.read_bytes())
        path.unlink()
        path.symlink_to(tmp_path / "elsewhere")
        # The index is rejected as a whole before any of it is read.
        with opened(tmp_path / "index") as own, pytest.raises(mw.errors.CorruptIndex):
            tree_of(own)
        return
    with opened(tmp_path / "index") as own:
        assert tree_of(own).nodes == first.nodes


def test_a_tree_that_was_stopped_is_the_same_in_the_end(index: mw.Index, tmp_path: Path) -> None:
    embedder = StoppedEmbedder()
    with opened(tmp_path / "index", embedder=embedder) as own:
        own.add(*DOCUMENTS)
        embedder.left = 1
        with pytest.raises(ModelError):
            tree_of(own)
        embedder.left = 10_000
        assert tree_of(own).nodes == tree_of(index).nodes


def test_few_chunks_have_no_tree(tmp_path: Path) -> None:
    with opened(tmp_path / "index") as own:
        assert own.context("q", strategy="raptor", budget=50).text == ""
        own.add(Document("one", "Cats sleep all day."))
        assert tree_of(own).nodes == ()
        for spec in ("raptor", "raptor(tree=traverse)"):
            assert "Cats sleep" in own.context("Who sleeps?", strategy=spec, budget=50).text


def test_copies_are_in_the_tree_once(tmp_path: Path) -> None:
    with opened(tmp_path / "index") as own:
        own.add(*DOCUMENTS, *(Document(f"copy{i}", one.text, one.title) for i, one in enumerate(DOCUMENTS)))
        tree = tree_of(own)
        assert len({number for below in tree.documents for number in below}) == len(DOCUMENTS)
        assert "summary" in [step.action for step in own.context(QUESTION, strategy="raptor", budget=200).trace]


def test_mmr_weighs_nearness_against_chosen_sentences() -> None:
    mean = np.array([1.0, 0.0], np.float32)
    rows = np.array([[0.9, 0.436], [0.89, 0.456], [0.8, -0.6]], np.float32)
    # 0.7 * 0.9 first; then 0.7 * 0.89 - 0.3 * 0.9998 = 0.323 against 0.7 * 0.8 - 0.3 * 0.4584 = 0.422
    assert MMR == 0.7 and marginal(rows, mean, [10, 10, 10], 20) == [0, 2]
    assert marginal(rows, mean, [10, 10, 15], 20) == [0, 1]
    assert marginal(rows, mean, [50, 1, 1], 20) == [0]


# -- summaries by a model, over HTTP


WRITTEN = RaptorSettings(chunk=24, summary_tokens=40, summary="abstractive")


def test_a_model_writes_each_summary_once(tmp_path: Path) -> None:
    def script(messages: Sequence[mw.Message]) -> str | Turn:
        asked.append(messages[-1].text)
        return Turn(status=400) if len(asked) == failing else f"{QUESTION} {messages[-1].text.splitlines()[3]}"

    asked: list[str] = []
    failing = 4
    with ChatServer(script) as server:
        chat = OpenAIChat("any", base_url=server.base_url, api_key="none", retries=0)
        with opened(tmp_path / "index", WRITTEN, chat=chat) as own:
            own.add(*DOCUMENTS)
            with pytest.raises(mw.MergewiseError):
                own.context(QUESTION, strategy="raptor", budget=100)
            before, failing = list(asked), 0
            context = own.context(QUESTION, strategy="raptor", budget=100)
            tree = tree_of(own)
            # Each cluster is requested once, except the one that failed.
            assert len(asked) == len(set(asked)) + 1 and len(before) >= 4
            assert len(set(asked)) >= len([node for node in tree.nodes if node.layer == 1])
        release(chat)
    assert all(node.text.startswith(QUESTION) and not node.sentences for node in tree.nodes)
    assert "#" in asked[0] and "at most 30 words" in server.asked[0].text
    written = [one for one in context.passages if not one.verbatim]
    assert written and all(one.text.startswith(QUESTION) and one.spans for one in written)
    assert "written, not quoted" in context.text and context.tokens <= 100
    # Without the model the stored tree is used, and no new one can be made.
    with opened(tmp_path / "index", WRITTEN) as own:
        assert tree_of(own).nodes == tree.nodes
        own.remove(["d0"])
        with pytest.raises(UsageError, match="not written yet"):
            own.context(QUESTION, strategy="raptor", budget=100)


# -- retrieval


def literal(index: mw.Index, kind: str, k: int) -> list[str]:
    """Return the chosen texts by the paper's rules, from the cosines of all pairs."""
    tree, view = tree_of(index), view_of(index)
    embedder = WideEmbedder()
    (asked,) = embedder.embed_queries([QUESTION])
    chunks = view.cosines(list(tree.numbers), asked)
    scores = {("node", i): float(vector @ asked) for i, vector in enumerate(tree.vectors)}
    every = {**scores, **{("chunk", row): score for row, score in chunks.items()}}

    def layer_of(key: tuple[str, int]) -> int:
        return 0 if key[0] == "chunk" else tree.nodes[key[1]].layer

    def best(keys: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
        return sorted(keys, key=lambda key: (-every[key], key))[:k]

    top = tree.layers
    if kind == "collapsed":
        chosen = best(list(every))
    else:
        chosen = best([key for key in every if layer_of(key) == top])
        below = chosen
        for layer in range(top, 0, -1):
            children = {c for _, i in below for c in tree.nodes[i].children}
            below = best([("chunk" if layer == 1 else "node", child) for child in children])
            chosen = chosen + below
    rows = view.chunks(list(tree.numbers))
    return sorted(tree.nodes[i].text if kind == "node" else rows[i].text.strip() for kind, i in chosen)


@pytest.mark.parametrize("kind", ["collapsed", "traverse"])
@pytest.mark.parametrize("k", [2, 3, 7])
def test_results_match_the_paper(index: mw.Index, kind: str, k: int) -> None:
    context = index.context(QUESTION, strategy=f"raptor(tree={kind}, k={k})", budget=100_000)
    wanted = literal(index, kind, k)
    search = next(step for step in context.trace if step.action == "search")
    found = len(wanted)
    chunks, summaries = (int(word) for word in search.reason.split() if word.isdigit())
    assert chunks + summaries == found
    held = " ".join(context.text.replace(" …\n", " ").split())
    for text in wanted:
        for sentence in text.rstrip(".").split(". "):
            assert sentence in held


def test_a_summary_counts_only_if_all_documents_below_match(index: mw.Index) -> None:
    tree, reader = tree_of(index), index.state().reader("id in ('d0', 'd4')")
    searchable = reader.view("raptor").searchable(tree)
    wanted = {
        number for chunk, number in tree.numbers.items() if view_of(index).chunks([chunk])[chunk].doc_id in ("d0", "d4")
    }
    assert searchable == [place for place, below in enumerate(tree.documents) if below <= wanted]
    assert 0 < len(searchable) < len(tree.nodes)
    for spec in ("raptor", "raptor(tree=traverse)"):
        context = index.context(QUESTION, strategy=spec, budget=300, where="id in ('d0', 'd4')")
        assert {span.doc_id for one in context.passages for span in one.spans} <= {"d0", "d4"} and context.passages
    assert index.context(QUESTION, strategy="raptor(tree=traverse)", budget=300, where="id = 'd1'").passages


def test_a_reranker_orders_the_nodes(tmp_path: Path, index: mw.Index) -> None:
    class Longest:
        spec = "longest"

        def score(self, question: str, texts: Sequence[str]) -> FloatArray:
            return np.array([len(text) / 10_000 for text in texts], np.float32)

    with opened(tmp_path / "index", reranker=Longest()) as own:
        own.add(*DOCUMENTS)
        context = own.context(QUESTION, strategy="raptor(k=5, order=score)", budget=5000)
    scores = [one.score for one in context.passages]
    assert scores == sorted(scores, reverse=True) and max(scores) < 0.1
