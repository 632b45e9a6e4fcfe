"""Self-RAG with scripted probabilities and grades. Expected values are computed by hand."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from mergewise.designs import MODES
from mergewise.designs.modes import answer, mode_for
from mergewise.designs.self_rag.answering import GradedAnswer, best_answer, graded_value
from mergewise.designs.self_rag.strategy import SelfRAG
from mergewise.designs.strategies import assemble
from mergewise.errors import ModelError, UsageError
from mergewise.generate.mode import Request
from mergewise.generate.sources import Source
from mergewise.models import release
from mergewise.models.openai_chat import OpenAIChat
from mergewise.models.record import Models
from mergewise.models.scripted_causal import ScriptedCausal
from mergewise.models.tokens import count_tokens
from mergewise.types import Answer, Document, Message
from tests.chat_server import ChatServer
from tests.support import memory_store, reader_of

QUESTION = "Who built the mill?"
DOCUMENTS = [
    Document("one", "The mill was built by Corin.", "One"),
    Document("two", "Some say that the mill was built by Delos.", "Two"),
    Document("three", "A mill stands there. Corin built the mill once.", "Three"),
]
STORE = memory_store(DOCUMENTS)
ALPHABET = "".join(chr(i) for i in range(32, 127)) + "\n\0"


def request(models: Models, parameters: str = "", budget: int = 300) -> Request:
    context = assemble(f"self-rag({parameters})", QUESTION, reader_of(STORE), budget, models)
    return Request(context, STORE.document, models, 20)


def graded(text: str, relevant: float, supported: float, useful: float, likely: float = 0.0) -> GradedAnswer:
    return GradedAnswer(Source(1, "", (), text, (), 1.0), text, likely, relevant, supported, useful)


# -- the score


def test_score_matches_the_paper() -> None:
    # exp(mean logp) + 1.0 ISREL + 1.0 ISSUP + w ISUSE
    assert graded("x", 0.9, 0.75, -0.5, likely=0.6).score(SelfRAG()) == pytest.approx(0.6 + 0.9 + 0.75 - 0.25)
    weights = SelfRAG(relevance=0, support=2, use=1)
    assert graded("x", 0.9, 0.75, -0.5, likely=0.6).score(weights) == pytest.approx(0.6 + 1.5 - 0.5)


def test_grades_are_weighted_by_the_probabilities_of_their_words() -> None:
    log_probs = np.log(np.array([0.1, 0.3, 0.2, 0.4], np.float32))
    # 0.3 full, 0.2 part, 0.1 none; other tokens do not count
    assert graded_value(log_probs, {1: 1.0, 2: 0.5, 0: 0.0}) == pytest.approx((0.3 + 0.1) / 0.6)
    assert graded_value(log_probs - 900, {0: 1.0, 1: 0.0}) == pytest.approx(0.25, abs=1e-4)


def test_scores_of_equal_answers_are_summed_for_closed_tasks() -> None:
    answers = [graded("Delos", 1, 0.6, 0), graded("Corin.", 1, 0, 0), graded("corin", 0.7, 0.2, 0)]
    best, score = best_answer(answers, SelfRAG())
    assert best.text == "Corin." and score == pytest.approx(1.9)
    best, score = best_answer(answers, SelfRAG(closed=False))
    assert best.text == "Delos" and score == pytest.approx(1.6)


# -- by a causal model


def causal(wants: float, grades: Mapping[str, Mapping[str, Mapping[str, float]]]) -> ScriptedCausal:
    """Return a model that grades each document by `grades`: word weights by question, 1e-9 for all other words."""

    def rule(text: str) -> Mapping[str, float]:
        spoken = text.rpartition(f"Question: {QUESTION}")[2]
        if "Would documents help" in text:
            return only({"Y": wants, "N": 1 - wants})
        document = next((d for d in grades if d in text), "")
        said = {"Corin": "Corin", "Delos": "Delos"}.get("Delos" if "Delos" in text else "Corin", "")
        said = said if document or "Delos" in text or "Corin" in text else "Nobody"
        if "Does the source say" in text:
            return only(grades[document]["relevant"])
        if "How much of the answer" in text:
            return only(grades[document]["support"])
        if "How useful" in text:
            return only(grades["Two" if "Delos" in text else "One"]["useful"])
        # the characters of the answer, each with probability 1/2, then the end
        return only({(said + "\0")[len(spoken)]: 0.5, "~": 0.5}, 0.0001)

    return ScriptedCausal(ALPHABET, rule, end="\0", window=20_000)


def only(weights: Mapping[str, float], more: float = 0.0) -> dict[str, float]:
    first = max(weights, key=lambda word: weights[word])
    return {**dict.fromkeys(ALPHABET, 1e-12), **weights, first: weights[first] + more}


GRADES = {
    "One": {
        "relevant": {"Y": 0.8, "N": 0.2},
        "support": {"F": 0.5, "P": 0.3, "N": 0.2},
        "useful": {"5": 0.5, "3": 0.5},
    },
    "Two": {"relevant": {"Y": 0.9, "N": 0.1}, "support": {"F": 1.0, "P": 1e-9, "N": 1e-9}, "useful": {"5": 1.0}},
    "Three": {"relevant": {"Y": 0.1, "N": 0.9}, "support": {"F": 1e-9, "P": 0.4, "N": 0.6}, "useful": {}},
}


def test_each_passage_gives_a_graded_answer() -> None:
    model = causal(0.9, GRADES)
    said = answer("self-rag", request(Models(count_tokens, causal=model)))
    scores = {step.reason[:3]: step.score for step in said.trace if step.action == "grade"}
    number = {one.title: f"[{i}]" for i, one in enumerate(said.context.passages, 1)}
    # characters of 0.5001 / 1.0001, then the three grades
    likely = 0.5001 / 1.0001
    assert scores[number["One"]] == pytest.approx(likely + 0.8 + 0.65 + 0.5 * 0.5, abs=1e-3)
    assert scores[number["Two"]] == pytest.approx(likely + 0.9 + 1.0 + 0.5 * 1.0, abs=1e-3)
    assert scores[number["Three"]] == pytest.approx(likely + 0.1 + 0.2 + 0.5 * 0.5, abs=1e-3)
    # two answers say Corin: 2.2 + 1.05 against 2.9
    assert said.text.startswith("Corin [") and said.mode == "self-rag"
    assert [one.text for one in said.citations] == ["The mill was built by Corin."]
    alone = answer("self-rag", request(Models(count_tokens, causal=model), "closed=false"))
    assert alone.text.startswith("Delos [")
    # a retrieval decision, three answers, three grades for each
    assert said.usage.calls == 1 + 3 + 9


def test_model_without_need_for_documents_answers_alone() -> None:
    for wants, retrieves in ((0.19, False), (0.21, True)):
        said = answer("self-rag", request(Models(count_tokens, causal=causal(wants, GRADES))))
        (step,) = [one for one in said.trace if one.action == "retrieve"]
        assert step.score == pytest.approx(wants, abs=1e-3) and bool(said.citations) is retrieves
        assert said.text.startswith("Corin [" if retrieves else "Nobody")
    always = answer("self-rag", request(Models(count_tokens, causal=causal(1e-9, GRADES)), "threshold=0"))
    assert always.citations


def test_model_with_equal_first_tokens_of_grades_is_rejected() -> None:
    # the alphabet has no digits
    model = ScriptedCausal(ALPHABET.translate({ord(c): None for c in "12345"}), lambda text: {"x": 9.0}, window=20_000)
    with pytest.raises(ModelError, match=r"grades share a first token in .*: 1, 2, 3, 4, 5"):
        answer("self-rag", request(Models(count_tokens, causal=model), "threshold=0"))


# -- by a chat model, over HTTP


def reply(said: str, relevant: object = True, support: str = "full", useful: object = 5) -> str:
    return json.dumps({"answer": said, "relevant": relevant, "support": support, "useful": useful})


def by_chat(script: Mapping[str, str], parameters: str = "") -> tuple[Answer, list[str]]:
    def turn(messages: Sequence[Message]) -> str:
        return next(text for document, text in script.items() if f"\n{document}\n" in messages[-1].text)

    with ChatServer(turn) as server:
        chat = OpenAIChat("any", base_url=server.base_url, api_key="none", retries=0)
        try:
            said = answer("self-rag", request(Models(count_tokens, chat=chat), parameters))
        finally:
            release(chat)
        return said, [one.text for one in server.asked]


def test_a_chat_model_grades_as_json() -> None:
    script = {
        "One": reply("Corin", True, "part", 4),  # 1 + 0.5 + 0.25
        "Two": reply("Delos", True, "full", 5),  # 1 + 1 + 0.5
        "Three": f"Sure!\n```json\n{reply('corin', False, 'none', 3)}\n```",  # 0
    }
    said, asked = by_chat(script)
    assert said.text.startswith("Delos [") and said.usage.calls == 3 and len(asked) == 3
    assert sorted(step.score or 0.0 for step in said.trace if step.action == "grade") == pytest.approx([0, 1.75, 2.5])
    assert all("instructions" in text and QUESTION in text for text in asked)
    said, _ = by_chat({**script, "Three": reply("corin", True, "part", 3)})
    # 1.75 + 1.5 for Corin
    assert said.text.startswith("Corin [") and [step.score for step in said.trace if step.action == "best"] == [3.25]


def test_unreadable_replies_are_counted_and_skipped() -> None:
    script = {
        "One": reply("Corin", "maybe"),
        "Two": reply("Delos", True, "some"),
        "Three": reply("Corin", True, "none", 2),
    }
    said, _ = by_chat(script)
    assert said.text.startswith("Corin [") and said.usage.unread == 2
    with pytest.raises(ModelError, match="no readable answer from"):
        by_chat(dict.fromkeys(script, "no"))


def test_mode_without_a_model_names_the_missing_model() -> None:
    assert mode_for(None, Models(count_tokens), "self-rag") == "extractive"
    with pytest.raises(UsageError, match="'self-rag' needs a causal model"):
        mode_for("self-rag", Models(count_tokens))
    assert MODES["self-rag"].answer is not None
