"""Contrastive perplexity against the two equations written down, in float64 and without a cache."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from tests.causal_models import TEXTS, network, tokenizer

from mergewise.errors import UsageError
from mergewise.models.cppl import cppl
from mergewise.models.scripted_causal import ScriptedCausal

torch = pytest.importorskip("torch", reason="the extra `hf` is not installed")
pytest.importorskip("transformers", reason="the extra `hf` is not installed")

from mergewise.models.causal import HFCausalModel  # noqa: E402

WORDS = tokenizer()
CONTEXTS = [text for text in TEXTS if text]
QUESTION = "\nWho studied there?\n"
ANSWERS = ["Larry Alcala", "Rice", "It began early in 1912."]


def causal(kind: str, dtype: object = torch.float64) -> HFCausalModel:
    return HFCausalModel(kind, model=network(kind, WORDS).to(dtype), tokenizer=WORDS, device="cpu")


def reference(
    model: HFCausalModel, question: Sequence[int], context: Sequence[int], answer: str, alpha: float
) -> float:
    """Eq. 2 and 3, token by token, each from a run of its own."""
    ids = model.encode(answer)
    total = 0.0
    for j, token in enumerate(ids):
        with torch.inference_mode():
            with_context = model.network(torch.tensor([[*context, *ids[:j]]])).logits[0, -1].double()
            without = model.network(torch.tensor([[*question, *ids[:j]]])).logits[0, -1].double()
        adjusted = torch.softmax((1 + alpha) * with_context - alpha * without, -1)
        total += float(torch.log(adjusted[token]))
    return float(np.exp(-total / len(ids)))


def rows(model: HFCausalModel) -> tuple[list[int], list[list[int]]]:
    return model.encode(QUESTION), [model.encode(context + QUESTION) for context in CONTEXTS]


@pytest.mark.parametrize("batch", [1, 3, 8])
@pytest.mark.parametrize("kind", ["llama", "qwen3", "gpt2"])
@pytest.mark.parametrize("alpha", [0.5, 0.0, 2.0])
def test_it_is_equations_2_and_3(kind: str, batch: int, alpha: float) -> None:
    model = causal(kind)
    question, contexts = rows(model)
    for answer in ANSWERS:
        found = cppl(model, question, contexts, [answer], alpha=alpha, batch=batch)
        expected = [reference(model, question, context, answer, alpha) for context in contexts]
        np.testing.assert_allclose(found, expected, rtol=1e-6)
        assert found.shape == (len(CONTEXTS),) and (found >= 1).all() and found.std() > 0.01


def test_in_float32_it_is_near() -> None:
    model, exact = causal("llama", torch.float32), causal("llama")
    question, contexts = rows(model)
    found = cppl(model, question, contexts, ANSWERS[:1])
    expected = [reference(exact, question, context, ANSWERS[0], 0.5) for context in contexts]
    np.testing.assert_allclose(found, expected, rtol=1e-3)


def test_of_several_answers_the_least_counts() -> None:
    model = causal("llama")
    question, contexts = rows(model)
    each = [cppl(model, question, contexts, [answer]) for answer in ANSWERS]
    np.testing.assert_allclose(cppl(model, question, contexts, [*ANSWERS, ANSWERS[0], ""]), np.min(each, 0), rtol=1e-9)


def test_the_question_alone_is_run_once() -> None:
    model = causal("llama")
    question, contexts = rows(model)
    answer = model.encode(ANSWERS[2])
    before = model.tokens_run
    cppl(model, question, contexts, [ANSWERS[2]], batch=2)
    expected = len(question) + sum(map(len, contexts)) + (len(contexts) + 1) * (len(answer) - 1)
    assert model.tokens_run - before == expected


def test_a_context_that_tells_the_answer_is_worth_more_than_one_that_does_not() -> None:
    """Lower is better. A model that says b after x would say a by itself."""
    model = ScriptedCausal("abx?", lambda text: {"b": 30.0} if "x" in text else {"a": 30.0})
    question, contexts = model.encode("?"), [model.encode("x?"), model.encode("a?")]
    told, silent = cppl(model, question, contexts, ["bb"])
    assert 1 <= told < 1.1 < silent
    plain = cppl(model, question, contexts, ["bb"], alpha=0.0)
    assert told < plain[0]  # the contrast takes off what the question alone says
    assert silent == pytest.approx(plain[1])  # a context that changes nothing: the contrast is the model itself


def test_what_cannot_be_measured_is_refused() -> None:
    model = ScriptedCausal("abc", lambda _: {}, window=8)
    with pytest.raises(UsageError, match="no answer"):
        cppl(model, [0], [[1]], ["", "?"])
    with pytest.raises(UsageError, match="do not fit"):
        cppl(model, [0], [[1] * 7], ["ab"])
    assert cppl(model, [0], [], ["a"]).shape == (0,)
