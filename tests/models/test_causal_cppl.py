"""Contrastive perplexity against a literal form of both equations, in float64 and without a cache."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from tests.causal_models import TEXTS, network, tokenizer

from mergewise.models.cppl import cppl

torch = pytest.importorskip("torch", reason="the extra `hf` is not installed")
pytest.importorskip("transformers", reason="the extra `hf` is not installed")

from mergewise.models.causal import HFCausalModel  # noqa: E402

WORDS = tokenizer()
CONTEXTS = [text for text in TEXTS if text]
QUESTION = "\nWho studied there?\n"
ANSWERS = ["Larry Alcala", "Rice", "It began early in 1912."]


def causal(kind: str) -> HFCausalModel:
    return HFCausalModel(kind, model=network(kind, WORDS).double(), tokenizer=WORDS, device="cpu")


def reference(
    model: HFCausalModel, question: Sequence[int], context: Sequence[int], answer: str, alpha: float
) -> float:
    """Compute Eq. 2 and 3 token by token, each from a separate run."""
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
def test_cppl_matches_equations_2_and_3(kind: str, batch: int, alpha: float) -> None:
    model = causal(kind)
    question, contexts = rows(model)
    for answer in ANSWERS:
        found = cppl(model, question, contexts, [answer], alpha=alpha, batch=batch)
        expected = [reference(model, question, context, answer, alpha) for context in contexts]
        np.testing.assert_allclose(found, expected, rtol=1e-6)
        assert found.shape == (len(CONTEXTS),) and (found >= 1).all() and found.std() > 0.01


def test_the_question_is_read_once() -> None:
    model = causal("llama")
    question, contexts = rows(model)
    answer = model.encode(ANSWERS[2])
    before = model.tokens_run
    cppl(model, question, contexts, [ANSWERS[2]], batch=2)
    expected = len(question) + sum(map(len, contexts)) + (len(contexts) + 1) * (len(answer) - 1)
    assert model.tokens_run - before == expected
