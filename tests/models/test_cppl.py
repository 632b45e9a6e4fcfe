"""Contrastive perplexity, on a causal model that follows a rule: its arithmetic, its bounds and what it refuses."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from mergewise.errors import UsageError
from mergewise.models.cppl import cppl
from mergewise.models.scripted_causal import ScriptedCausal


def model(window: int = 32) -> ScriptedCausal:
    """After "a" comes "b" with weight 2 of 4, after anything else all three are alike."""

    def rule(text: str) -> Mapping[str, float]:
        return {"b": 2.0} if text.endswith("a") else {}

    return ScriptedCausal("ab.", rule, window=window)


def of(*answers: str, window: int = 32, contexts: tuple[str, ...] = (".a", "..", "..a"), batch: int = 2) -> list[float]:
    m = model(window)
    found = cppl(m, m.encode("."), [m.encode(text) for text in contexts], answers, alpha=0.5, batch=batch)
    return [float(value) for value in found]


def perplexity(weight: float, others: float) -> float:
    """Of a token of this weight beside two others, where the question alone finds all three alike."""
    with_context, total = np.array([weight, others, others]), weight + 2 * others
    raised = (with_context / total) ** 1.5
    return float(raised.sum() / raised[0])


def test_it_is_the_formula_for_a_single_token() -> None:
    assert of("b") == pytest.approx([perplexity(2, 1), 3.0, perplexity(2, 1)], rel=1e-5)


def test_the_least_of_several_answers_counts_whatever_their_order_and_the_batch() -> None:
    alone = [of("b"), of("..")]
    for batch in (1, 2, 8):
        assert of("b", "..", "", "b", batch=batch) == pytest.approx(np.min(alone, axis=0), rel=1e-5)
        assert of("..", "b", batch=batch) == pytest.approx(np.min(alone, axis=0), rel=1e-5)


def test_the_longest_answer_must_fit_into_the_window() -> None:
    assert len(of("b", "....", window=7)) == 3
    for answers in (("b", "....."), (".....", "b")):
        with pytest.raises(UsageError, match="a prompt of 3 tokens and an answer of 5 do not fit"):
            of(*answers, window=7)


@pytest.mark.parametrize("answers", [(), ("",), ("?", "")])
def test_without_a_token_to_measure_it_is_refused(answers: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match="there is no answer to measure"):
        of(*answers)


def test_no_context_is_no_value() -> None:
    assert of("b", contexts=()) == []
