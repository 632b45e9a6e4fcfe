"""The evaluator on a small set, with a causal model that follows a rule: scores, stored rows, and resumed runs."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.evaluate.measured_runs import evaluated_run
from tests.evaluate.towns import DOCUMENTS, QUESTIONS, TASK, TOWNS, Reader, WordReranker
from tests.support import HashEmbedder

import mergewise
from mergewise.asking import context
from mergewise.designs import STRATEGIES
from mergewise.engine import Index
from mergewise.errors import ModelError, UsageError
from mergewise.evaluate import searches
from mergewise.evaluate.evaluator import Asking, Evaluator
from mergewise.evaluate.experiment import Experiment
from mergewise.evaluate.means import MethodMeans, method_means, question_rows
from mergewise.evaluate.measured import measured_runs
from mergewise.evaluate.methods import METHODS, Method, methods_of
from mergewise.evaluate.question_sets import Question, QuestionSet
from mergewise.evaluate.runs.row_store import open_store
from mergewise.evaluate.runs.run_row import passages_of
from mergewise.evaluate.searches import SearchMemory, shared_state
from mergewise.generate.mode import Request
from mergewise.models.causal_chat import CausalChat
from mergewise.protocols import FloatArray
from mergewise.query import Query
from mergewise.retrieve.hybrid import HybridReader
from mergewise.types import Document, Message

SHORT = Method("short", "topk(k=1)", "short")


@pytest.fixture
def index(tmp_path: Path) -> Index:
    opened = mergewise.open(tmp_path / "index", views=("leaf", "triplet"), embedder="none", chat=CausalChat(Reader()))
    opened.add(DOCUMENTS)
    return opened


def reader_of(index: Index) -> Reader:
    assert isinstance(index.causal, Reader)
    return index.causal


def means(
    evaluator: Evaluator, methods: Sequence[Method], budgets: Sequence[int], questions: Sequence[Question]
) -> list[MethodMeans]:
    run = evaluated_run(evaluator, methods, budgets, questions)
    return list(method_means(run, measured_runs([run])))


def test_a_row_holds_scores_and_costs_of_an_answer(index: Index) -> None:
    evaluator = Evaluator(index, TASK, Asking(24))
    naive, short = means(evaluator, [METHODS["naive"], SHORT], [300], QUESTIONS)
    row = short.as_dict()
    assert (row["em"], row["f1"], row["relaxed_em"], row["accuracy"], row["failed"]) == (1, 1, 1, 1, 0)
    assert (row["strategy"], row["mode"], row["questions"], row["answer"]) == ("short", "short", 4, 1.0)
    assert row["output_tokens"] == len("Mason Ardeny") and row["input_tokens"] > 100
    assert row["seconds"] >= row["answer_seconds"] > 0 and row["tokens"] > 0
    assert row["em_interval"][1] == 1.0 and 0.5 < row["em_interval"][0] < 0.52  # Wilson's of four of four
    row = naive.as_dict()
    assert (row["em"], row["f1"], row["tokens"], row["answer"]) == (0.25, 0.25, 0.0, 0.0)
    assert row["input_tokens"] < short.as_dict()["input_tokens"]


def test_every_method_answers(index: Index) -> None:
    evaluator = Evaluator(index, TASK, Asking(24, together=4), utility=WordReranker())
    lacking = {name: needs for name, method in METHODS.items() if (needs := evaluator.unmet_needs(method))}
    assert lacking["dense"].startswith("needs vectors") and lacking["bge-reranker"].startswith("needs a reranker")
    methods = [method for name, method in METHODS.items() if name not in lacking]
    assert len(methods) > 30
    for row in means(evaluator, methods, [2000], QUESTIONS):
        assert row.mode is not None and row.failed == 0
        # REPLUG weighs passages almost equally, so those without the answer outvote the right one; Self-RAG's reader grades none
        assert row.scores["em"] == (0.25 if row.strategy in ("naive", "replug", "self-rag") else 1.0), row.strategy


def test_rows_are_stored_and_a_stopped_run_resumes(index: Index, tmp_path: Path) -> None:
    first = Evaluator(index, TASK, Asking(24), open_store(tmp_path / "run", "towns"))
    first.complete([first.method_rows(SHORT, 300)], QUESTIONS[:3])
    (file,) = (tmp_path / "run" / "rows").iterdir()
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [(line["question"], line["prediction"]) for line in lines] == [
        (str(i), f"Mason {TOWNS[i]}y") for i in range(3)
    ]
    whole = file.read_bytes()
    file.write_bytes(whole[:-20])  # as after a kill during the third write
    reader_of(index).started.clear()
    again = Evaluator(index, TASK, Asking(24), open_store(tmp_path / "run", "towns"))
    answered = again.method_rows(SHORT, 300)
    assert [question.id for question in answered.missing(QUESTIONS)] == ["2", "3"]
    again.complete([answered], QUESTIONS)
    assert len(reader_of(index).started) == 2
    reader_of(index).started.clear()
    third = Evaluator(index, TASK, Asking(24), open_store(tmp_path / "run", "towns"))
    (row,) = means(third, [SHORT], [300], QUESTIONS)
    assert row.scores["em"] == 1.0 and reader_of(index).started == []
    # stored answers are scored against the current gold
    mended = [replace(question, answers=("Mason",)) for question in QUESTIONS]
    (row,) = means(third, [SHORT], [300], mended)
    assert (row.scores["em"], row.scores["contains_words"]) == (0.0, 1.0)
    assert reader_of(index).started == []


def test_other_settings_are_asked_anew(index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(tmp_path / "run", "towns")

    def asked(asking: Asking | None, method: Method = SHORT, budget: int = 300) -> int:
        """Ask a question, and return the number of known rows."""
        evaluator = Evaluator(index, TASK, asking, store)
        evaluator.complete([evaluator.method_rows(method, budget)], QUESTIONS[:1])
        return len(store.known)

    asking = Asking(24)
    assert asked(asking) == 1
    assert asked(replace(asking, together=3)) == 1  # the batch size does not change answers
    assert asked(asking, budget=301) == 2
    assert asked(replace(asking, max_tokens=25)) == 3
    assert asked(asking, replace(SHORT, mode="naive")) == 4
    assert asked(asking, replace(SHORT, strategy="topk(k=2)")) == 5
    assert asked(asking, replace(SHORT, name="another name")) == 6
    assert asked(None) == 7
    with monkeypatch.context() as patch:  # a preset or a default may change its values
        changed = replace(STRATEGIES["topk"], parameters=replace(STRATEGIES["topk"].parameters, order="score"))
        patch.setitem(STRATEGIES, "topk", changed)
        assert asked(asking) == 8
    mergewise.open(tmp_path / "index", views=("leaf", "triplet", "slice"), embedder="none").close()
    assert asked(asking) == 8  # a view that the method does not use
    index.add(Document("more.md", "More of it.", "More"))
    assert asked(asking) == 9  # other documents may change answers


def test_contexts_are_judged_again_after_a_change_of_the_gold(index: Index) -> None:
    evaluator = Evaluator(index, TASK)
    one = evaluator.method_rows(SHORT, 300)
    evaluator.complete([one], QUESTIONS)
    assert one.missing(QUESTIONS) == []
    mended = replace(QUESTIONS[0], answers=("Mason",))
    assert one.missing([mended, QUESTIONS[1]]) == [mended]


def test_searches_are_made_once_for_all_methods(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    both = HybridReader._searches

    def counted(self: HybridReader, question: str, *more: Any) -> Any:
        made.append(question)
        return both(self, question, *more)

    evaluator = Evaluator(index, TASK)
    names = ("topk(k=1)", "topk", "hybrid", "bm25", "weave")
    asked = [evaluator.method_rows(Method(name, name), budget) for name in names for budget in (60, 300)]
    evaluator.complete(asked[-2:], QUESTIONS[:1])
    with monkeypatch.context() as patch:
        patch.setattr(HybridReader, "_searches", counted)
        evaluator.complete(asked, QUESTIONS[1:])
    # the first question also loads the models
    _, *own = [made.count(text) for text in dict.fromkeys(made)]
    # hybrid searches at the depths of topk and weave, and a full-text search
    assert own == [3, 3]
    for one in asked:
        rows = one.rows(QUESTIONS[1:])
        assert all(row.search_seconds and row.assembly_seconds is not None for row in rows)
        for question, row in zip(QUESTIONS[1:], rows, strict=True):
            found = index.context(question.text, strategy=one.method.strategy, budget=one.budget)
            assert row.passages == passages_of(found) and row.tokens == found.tokens


def test_a_text_is_embedded_once_for_all_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    embedder, memory = HashEmbedder(), SearchMemory()
    sharing = memory.embedder(embedder)
    before = sharing.embed_documents(["a", "b", "a"])
    sharing.embed_queries(["a"])
    memory.forget()
    after = sharing.embed_documents(["b", "c", "a"])
    assert (after[[2, 0, 2]] == before).all()
    sharing.embed_queries(["a"])
    assert embedder.asked == ["a", "b", "a", "c", "a"]
    # the question was embedded twice, because vectors of another embedder are useless
    memory.embedder(other := HashEmbedder()).embed_documents(["a"])
    assert other.asked == ["a"]
    monkeypatch.setattr(searches, "VECTOR_BYTES", 0)
    memory.forget()
    memory.embedder(other).embed_documents(["a"])
    assert other.asked == ["a", "a"]


def test_a_question_that_fails_counts_as_wrong_and_is_asked_again(
    index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluator = Evaluator(index, TASK, Asking(24, together=4), open_store(tmp_path / "run", "towns"))
    prompt = Reader.prompt

    def broken(self: Reader, messages: Sequence[Message]) -> list[int]:
        if "Corin" in messages[-1].text:
            raise ModelError("it broke", "mend it")
        return prompt(self, messages)

    with monkeypatch.context() as patch:
        patch.setattr(Reader, "prompt", broken)
        run = evaluated_run(evaluator, [SHORT], [300], QUESTIONS)
    (row,) = method_means(run, measured_runs([run]))
    assert (row.failed, row.scores["em"]) == (1, 0.75)
    (failed,) = [row for row in question_rows(run, measured_runs([run])) if row["error"]]
    assert failed["id"] == "2" and "it broke" in failed["error"] and failed["missed"]
    run = evaluated_run(evaluator, [SHORT], [300], QUESTIONS)
    (row,) = method_means(run, measured_runs([run]))
    assert (row.failed, row.scores["em"]) == (0, 1.0)
    assert not any(row["error"] or row["missed"] for row in question_rows(run, measured_runs([run])))


def test_a_run_without_any_answer_raises_the_error(index: Index) -> None:
    experiment = Experiment(sets=[TASK], methods=[(SHORT, 300)], index=index, answers=True, asking=Asking(24))
    with pytest.raises(UsageError, match="window"):
        reader_of(index).window = 10
        experiment.run()
    with pytest.raises(UsageError, match="no questions"):
        replace(experiment, limit=0).run()


def test_methods_of_one_call_share_background_passages(index: Index) -> None:
    betas = methods_of("beta-0,beta-0.5,beta-50")
    evaluator = Evaluator(index, TASK, Asking(24, together=2), backgrounds={}, utility=Contrary())
    asked = [evaluator.method_rows(method, 2000) for method in betas]
    done: list[tuple[int, int]] = []
    evaluator.complete(asked, QUESTIONS[:2], lambda now, total, _: done.append((now, total)))
    assert done == [(6, 6)]
    backgrounds = [text for text in reader_of(index).started if "hundred words" in text]
    assert len(backgrounds) == 2  # one a question, not one a method
    streams = [text for text in reader_of(index).started if "hundred words" not in text]
    assert len(streams) == len(set(streams))  # no prompt is read twice
    weights = [row.weights["memory"] for one in asked for row in one.rows(QUESTIONS[:1])]
    assert (
        weights == sorted(weights, reverse=True) and weights[0] > weights[-1]
    )  # a larger beta lowers the weight of the memory


def test_the_needs_of_a_method_are_reported(tmp_path: Path) -> None:
    opened = mergewise.open(tmp_path / "plain", embedder="none", chat=CausalChat(Reader()))
    opened.add(DOCUMENTS)
    with pytest.raises(UsageError, match="needs the view triplet"):
        Evaluator(opened, TASK, Asking(24)).method_rows(METHODS["aed-2"], 300)
    without = mergewise.open(tmp_path / "plain", embedder="none")
    with pytest.raises(UsageError, match="needs a causal model"):
        Evaluator(without, TASK, Asking(24)).method_rows(METHODS["replug"], 300)
    with pytest.raises(UsageError, match="unknown strategy"):
        Evaluator(opened, TASK, Asking(24)).method_rows(Method("x", "nope", "short"), 300)


def test_methods_use_their_judge(index: Index) -> None:
    class Fixed:
        def __init__(self, spec: str) -> None:
            self.spec = spec

        def score(self, question: str, texts: list[str]) -> list[float]:
            return [0.5] * len(texts)

    ours, theirs = Fixed("trained"), Fixed("given")
    index._models = replace(index._models, reranker=theirs)  # type: ignore[arg-type]
    evaluator = Evaluator(index, TASK, Asking(24), utility=ours)  # type: ignore[arg-type]
    runs = {name: evaluator.settings(METHODS[name], "aed") for name in ("rag-5", "reranker-5", "aed-2")}
    assert {name: (run["reranker"], run["judge"]) for name, run in runs.items()} == {
        "rag-5": (None, "shares of the question's terms"),
        "reranker-5": ("given", "given"),
        "aed-2": ("trained", "trained"),
    }
    assert evaluator.settings(SHORT, "short")["reranker"] == "given"


class Contrary:
    """A reranker with an order unrelated to the search."""

    spec = "contrary"

    def score(self, question: str, texts: Sequence[str]) -> FloatArray:
        digests = [blake2b(text.encode(), digest_size=2).hexdigest() for text in texts]
        return np.array([int(digest, 16) / 65536 for digest in digests], np.float32)


@pytest.fixture(scope="module")
def villages(tmp_path_factory: pytest.TempPathFactory) -> Index:
    """Return an index with more passages than any method retrieves."""
    opened = mergewise.open(
        tmp_path_factory.mktemp("villages"),
        views=("leaf", "triplet"),
        embedder="none",
        chat=CausalChat(Reader()),
        reranker=Contrary(),
    )
    text = "# Village {0}\n\nThe tower of village {0} is a tower.\n\nIt was built by Mason {0}."
    opened.add([Document(f"{n}.md", text.format(n), f"V{n}") for n in range(60)])
    return opened


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_a_method_gives_the_same_context_as_its_strategy(villages: Index, method: Method) -> None:
    models = villages._models if method.judge != "none" else replace(villages._models, reranker=None)
    question = Question("1", "Who built the tower of village 7?", ("Mason 7",), None)
    evaluator = Evaluator(villages, QuestionSet("villages", (), (question,)), Asking(24))
    if needs := evaluator.unmet_needs(method):
        with pytest.raises(UsageError, match=f"{method.name} {re.escape(needs)}"):
            evaluator.method_rows(method, 4096)
        return
    state = replace(evaluator.index.state(), models=evaluator._models(method, evaluator.index.models))
    one = evaluator.method_rows(method, 4096)
    request = evaluator._request(one, question, shared_state(state, SearchMemory()))
    assert isinstance(request, Request)
    if method.mode == "naive":
        assert not request.context.passages
        return
    state = replace(villages.state(), models=models)
    found = context(Query(question.text, strategy=method.strategy, budget=4096), state)
    assert found.passages and found == request.context


def test_rows_depend_on_the_documents_of_the_second_source(tmp_path: Path) -> None:
    specs = []
    for number, documents in enumerate([DOCUMENTS[:2], DOCUMENTS[:2], DOCUMENTS[2:], ()]):
        with mergewise.open(tmp_path / str(number), embedder="none") as other:
            other.add(documents)
            source = other if documents else None
            with mergewise.open(tmp_path / "index", embedder="none", second_source=source) as index:
                index.add(DOCUMENTS)
                specs.append(Evaluator(index, TASK).method_rows(Method("crag", "crag"), 300).spec)
    assert specs[0] == specs[1] and len(set(specs)) == 3
