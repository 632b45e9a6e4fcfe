"""CRAG with scripted scores: every action, the passages it refines, and its second search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mergewise
from mergewise.designs.crag.keywords import by_rarity, keywords
from mergewise.designs.crag.strategy import (
    BIAS,
    BIAS_ALONE,
    COSINE,
    COVERAGE,
    COVERAGE_ALONE,
    action_of,
    evaluations,
    strips_of,
)
from mergewise.designs.strategies import assemble
from mergewise.models import release
from mergewise.models.openai_chat import OpenAIChat
from mergewise.models.record import Models
from mergewise.models.tokens import count_tokens
from mergewise.protocols import FloatArray
from mergewise.types import Context, Document, Step
from tests.chat_server import ChatServer
from tests.support import HashEmbedder, memory_store, reader_of

QUESTION = "Which wheel has the mill of Arden?"
MILL = " ".join(f"The mill of Arden has wheel {i}." for i in range(7))
DOCUMENTS = [
    Document("mill", MILL, "Mill"),
    Document("builder", "Corin the mason built a mill. He was old then. He built much for others.", "Corin"),
    Document("cats", "Cats sleep all day long. They eat fish at night.", "Cats"),
]
STORE = memory_store(DOCUMENTS)


class Judge:
    """A reranker that returns the share of the first word in `shares` that a text contains. It records the texts."""

    spec = "script"

    def __init__(self, shares: Mapping[str, float]) -> None:
        self.shares = shares
        self.asked: list[str] = []

    def score(self, question: str, texts: Sequence[str]) -> FloatArray:
        self.asked += texts
        found = [next((s for word, s in self.shares.items() if word in text), 0.0) for text in texts]
        return np.array(found, np.float32)


def crag(shares: Mapping[str, float], parameters: str = "k=1", budget: int = 500, **models: object) -> Context:
    given = Models(count_tokens, reranker=Judge(shares), **models)  # type: ignore[arg-type]
    return assemble(f"crag({parameters})", QUESTION, reader_of(STORE), budget, given)


def steps(context: Context, action: str) -> list[Step]:
    return [step for step in context.trace if step.action == action]


# -- the evaluator


def test_shares_become_scores_from_minus_one_to_one() -> None:
    judged = Models(count_tokens, reranker=Judge({"good": 0.9, "fair": 0.5}))
    texts = ["a good text it is", "a fair text it is", "nothing of it is here", "good but short"]
    assert evaluations("q", texts, judged) == pytest.approx([0.8, 0.0, -1.0, -1.0])
    assert evaluations("q", [], judged) == []


def test_scores_without_a_reranker_use_cosine_and_coverage() -> None:
    embedder = HashEmbedder()
    text, question = "the mill stands by the river", "which mill stands in town"
    cosine = float(embedder.embed_documents([text])[0] @ embedder.embed_queries([question])[0])
    # two of the three terms: mill, stand, town
    share = 1 / (1 + exp(-(COSINE * cosine + COVERAGE * 2 / 3 + BIAS)))
    assert evaluations(question, [text], Models(count_tokens, embedder)) == pytest.approx([2 * share - 1], abs=1e-5)
    alone = 1 / (1 + exp(-(COVERAGE_ALONE * 2 / 3 + BIAS_ALONE)))
    assert evaluations(question, [text], Models(count_tokens)) == pytest.approx([2 * alone - 1])


@pytest.mark.parametrize(
    ("scores", "wanted"),
    [
        ([0.5, -1.0], "correct"), ([0.49, -1.0], "ambiguous"), ([-0.9, -0.9], "ambiguous"), ([-0.91], "incorrect"),
        ([], "incorrect"), ([-1.0], "incorrect"),
    ],
)  # fmt: skip
def test_best_passage_selects_the_action(scores: list[float], wanted: str) -> None:
    assert action_of(scores, 0.5, -0.9) == wanted


# -- strips


@given(st.integers(0, 30))
@settings(max_examples=12, deadline=None)
def test_strips_have_three_sentences_and_a_single_last_one_is_joined(count: int) -> None:
    store = memory_store([Document("d", " ".join(f"Sentence number {i} is here." for i in range(count)) or "-")])
    reader = reader_of(store)
    leaves = [leaf for leaf in reader.sentences(range(40)).values() if count]
    strips = strips_of(leaves)
    sizes = [3] * (count // 3) + [count % 3] * (count % 3 > 0)
    if len(sizes) > 1 and sizes[-1] == 1:
        sizes = [*sizes[:-2], sizes[-2] + 1]
    assert [len(strip) for strip in strips] == sizes
    assert [one.text for strip in strips for one in strip] == [f"Sentence number {i} is here." for i in range(count)]
    assert [len(strip) for strip in strips_of(leaves, whole=True)] == ([count] if count else [])


# -- the actions


def test_correct_refines_the_retrieved_passages() -> None:
    shares = {"wheel 6": 0.7, "wheel 0": 0.2, "Arden": 0.9}
    # the passage contains all wheels, and the judge looks for wheel 6 first: 2 * 0.7 - 1 = 0.4
    context = crag(shares, "k=1, upper=0.39, n=1")
    (judged,) = steps(context, "evaluate")
    assert judged.reason == "correct, by script" and judged.score == pytest.approx(0.4)
    assert steps(context, "keywords") == []
    (passage,) = context.passages
    assert passage.text == " ".join(f"The mill of Arden has wheel {i}." for i in (3, 4, 5, 6))
    assert passage.score == pytest.approx(0.4)


def test_ambiguous_uses_both_searches() -> None:
    context = crag({"wheel 6": 0.7, "wheel 0": 0.2, "Corin": 0.6, "Arden": 0.9}, "k=1, upper=0.5, lower=0.3, n=1")
    assert steps(context, "evaluate")[0].reason == "ambiguous, by script"
    assert [one.spans[0].doc_id for one in context.passages] == ["mill", "builder"]
    assert [one.reason for one in steps(context, "strips")] == ["the best 1 of 2", "the best 1 of 1"]
    # 2 * 0.7 - 1 and 2 * 0.6 - 1
    assert [one.score for one in context.passages] == pytest.approx([0.4, 0.2])


def test_incorrect_uses_only_the_second_search() -> None:
    context = crag({"wheel": 0.0, "Corin": 0.6}, "k=1")
    assert steps(context, "evaluate")[0].reason == "incorrect, by script"
    assert {one.spans[0].doc_id for one in context.passages} == {"builder"}
    (named,) = steps(context, "keywords")
    assert named.reason == "arden, wheel, mill"


def test_five_strips_of_the_second_search_and_whole_passages() -> None:
    long = Document("long", " ".join(f"Corin the mason built tower {i} of stone." for i in range(24)), "Long")
    store = memory_store([DOCUMENTS[0], long])
    models = Models(count_tokens, reranker=Judge({"wheel": 0.0, "Corin": 0.6}))
    context = assemble("crag(k=1)", f"{QUESTION} Corin?", reader_of(store), 900, models)
    assert [one.reason for one in steps(context, "strips")] == ["the best 5 of 8"], context.trace
    whole = assemble("crag(k=5, cut=whole, upper=-1)", "Who is Corin the mason?", reader_of(store), 900, models)
    assert steps(whole, "strips")[0].reason == "the best 1 of 1" and len(whole.passages[0].text) == len(long.text)


def test_strips_below_the_least_score_are_left_out() -> None:
    """Each strip is scored alone: those with wheels 0, 3 and 6 have 2 * 0.9 - 1, 2 * 0.2 - 1 and 2 * 0.7 - 1."""
    shares = {"wheel 6": 0.7, "wheel 0": 0.9, "wheel 3": 0.2}
    kept = crag(shares, "k=1, upper=-1, least=-0.5, cut=sentences, n=6, order=document")
    assert steps(kept, "strips")[0].reason == "the best 2 of 2"
    context = crag({"wheel 6": 0.1, "wheel 0": 0.9}, "k=1, upper=-1, least=-0.5, n=6")
    assert steps(context, "strips")[0].reason == "the best 1 of 2"
    assert [one.text for one in context.passages] == [" ".join(f"The mill of Arden has wheel {i}." for i in range(3))]


def test_strips_are_put_together_in_their_order() -> None:
    shares = {"wheel 6": 0.9, "wheel 0": 0.2}
    by_score = crag(shares, "k=1, upper=-1, n=6")
    in_order = crag(shares, "k=1, upper=-1, n=6, order=document")
    assert by_score.text.index("wheel 6") < by_score.text.index("wheel 0")
    assert in_order.text.index("wheel 0") < in_order.text.index("wheel 6")


# -- the second source


def test_a_search_function_is_asked_with_the_keywords() -> None:
    asked: list[tuple[str, int]] = []

    def search(keywords: str, k: int) -> list[Document]:
        asked.append((keywords, k))
        return [Document("https://mills.org/arden", "Corin gave the mill four wheels. They turn. One is new.", "Mills")]

    context = crag({"wheel 0": 0.0, "four wheels": 0.8}, "k=3", second_source=search)
    assert asked == [("arden wheel mill", 3)]
    (passage,) = context.passages
    assert passage.text == "Corin gave the mill four wheels. They turn. One is new." and passage.title == "Mills"
    assert [(one.doc_id, one.start, one.end) for one in passage.spans] == [("second:https://mills.org/arden", 0, 55)]
    assert passage.score == pytest.approx(0.6) and [one.reason for one in steps(context, "second source")] == [
        "1 texts"
    ]


def test_the_second_source_is_not_asked_for_a_correct_passage() -> None:
    def search(keywords: str, k: int) -> list[Document]:
        raise AssertionError

    assert crag({"wheel": 0.9}, "k=1", second_source=search).passages


def test_an_empty_second_source_leaves_the_first_passages() -> None:
    context = crag({"wheel": 0.0}, "k=1", second_source=lambda keywords, k: [])
    assert {one.spans[0].doc_id for one in context.passages} == {"mill"}


@pytest.mark.parametrize("by_path", [True, False])
def test_another_index_is_the_second_source(by_path: bool, tmp_path: Path) -> None:
    reranker = Judge({"wheel 0": 0.0, "four wheels": 0.8})
    with mergewise.open(tmp_path / "other", embedder="none") as other:
        other.add([Document("book", "# Mills\n\nThe mill of Arden got four wheels from Corin. All turn.", "Book")])
        source = tmp_path / "other" if by_path else other
        with mergewise.open(tmp_path / "mine", embedder="none", reranker=reranker, second_source=source) as index:
            index.add(DOCUMENTS)
            answer = index.ask(QUESTION, strategy="crag(k=1)", budget=300)
    assert "four wheels" in answer.context.text
    assert {one.doc_id.partition("@")[0] for passage in answer.context.passages for one in passage.spans} == {
        "second:book"
    }
    assert all(one.text in answer.context.text for one in answer.citations)


def test_search_without_results_is_incorrect() -> None:
    context = assemble("crag", "xyzzy", reader_of(STORE), 100, Models(count_tokens))
    assert steps(context, "evaluate")[0].reason.startswith("incorrect") and context.text == ""


def test_budget_is_kept_without_a_model() -> None:
    for budget in (1, 12, 40, 200):
        context = assemble("crag(upper=1)", QUESTION, reader_of(STORE), budget, Models(count_tokens))
        assert context.tokens <= budget and context.usage.calls == 0


# -- keywords


def test_keywords_are_names_then_the_rarest_terms() -> None:
    found = ["The mill of Arden.", "A mill and a baker.", "The mill again, built."]
    assert by_rarity("Who built the mill of Arden?", found) == ["arden", "built", "mill"]
    assert by_rarity("When did Ada Brix of Oak Hill marry the baker and sing?", found) == [
        "ada brix of oak hill", "marry", "sing"
    ]  # fmt: skip
    assert by_rarity("who", found) == []


def test_chat_model_writes_keywords_over_http() -> None:
    with ChatServer(["Corin mason, “towers”\nArden, a fourth, a fifth", " ,;\n"]) as server:
        chat = OpenAIChat("any", base_url=server.base_url, api_key="none", retries=0)
        models = Models(count_tokens, chat=chat)
        named, usage = keywords(QUESTION, [], models)
        assert named == ["Corin mason", "towers", "Arden"] and usage.calls == 1 and usage.unread == 0
        assert "at most 3 keywords" in server.asked[0].text and QUESTION in server.asked[0].text
        named, usage = keywords(QUESTION, [], models)
        assert named == by_rarity(QUESTION, []) and usage.unread == 1
        context = crag({"wheel": 0.0, "Corin": 0.6}, "k=1", chat=chat)
        release(chat)
    assert context.usage.calls == 1 and context.usage.unread == 1
