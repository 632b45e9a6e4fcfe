"""Contrastive perplexity on a causal model that follows a rule: arithmetic, limits and refused inputs."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from mergewise.errors import UsageError
from mergewise.models.cppl import cppl
from mergewise.models.scripted_causal import ScriptedCausal


def model(window: int = 32) -> ScriptedCausal:
    """Return a model that gives "b" the weight 2 of 4 after "a", and otherwise equal weights to all three characters."""

    def rule(text: str) -> Mapping[str, float]:
        return {"b": 2.0} if text.endswith("a") else {}

    return ScriptedCausal("ab.", rule, window=window)


def of(*answers: str, window: int = 32, contexts: tuple[str, ...] = (".a", "..", "..a"), batch: int = 2) -> list[float]:
    m = model(window)
    found = cppl(m, m.encode("."), [m.encode(text) for text in contexts], answers, alpha=0.5, batch=batch)
    return [float(value) for value in found]


def perplexity(weight: float, others: float) -> float:
    """Return the CPPL of a token of this weight and two others of weight 1, all equal without the context."""
    with_context, total = np.array([weight, others, others]), weight + 2 * others
    raised = (with_context / total) ** 1.5
    return float(raised.sum() / raised[0])


def test_cppl_of_a_single_token_matches_the_formula() -> None:
    assert of("b") == pytest.approx([perplexity(2, 1), 3.0, perplexity(2, 1)], rel=1e-5)


def test_the_lowest_cppl_counts_for_any_order_and_batch_size() -> None:
    alone = [of("b"), of("..")]
    for batch in (1, 2, 8):
        assert of("b", "..", "", "b", batch=batch) == pytest.approx(np.min(alone, axis=0), rel=1e-5)
        assert of("..", "b", batch=batch) == pytest.approx(np.min(alone, axis=0), rel=1e-5)


def test_the_longest_answer_must_fit_into_the_window() -> None:
    assert len(of("b", "....", window=7)) == 3
    for answers in (("b", "....."), (".....", "b")):
        with pytest.raises(UsageError, match="prompt of 3 tokens and answer of 5 exceed the window"):
            of(*answers, window=7)


@pytest.mark.parametrize("answers", [(), ("",), ("?", "")])
def test_empty_answers_are_refused(answers: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match="missing gold answer"):
        of(*answers)


def test_no_contexts_give_no_values() -> None:
    assert of("b", contexts=()) == []
