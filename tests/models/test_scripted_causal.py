"""The scripted causal model, and the scorer on it: probabilities, cached anchors, and truncation."""

from __future__ import annotations

import numpy as np
import pytest

from mergewise.models.causal_scorer import CausalScorer
from mergewise.models.scripted_causal import ScriptedCausal


def rule(text: str) -> dict[str, float]:
    """Give "b" the weight 2 of 5 after "a", and otherwise equal weights to all four characters."""
    return {"b": 2.0} if text.endswith("a") else {}


def model(window: int = 256) -> ScriptedCausal:
    return ScriptedCausal("ab.\n", rule, end=".", window=window)


def test_the_rule_gives_the_probabilities() -> None:
    m = model()
    state = m.start([m.encode("a"), m.encode("b.b")])
    np.testing.assert_allclose(np.exp(state.log_probs), [[0.2, 0.4, 0.2, 0.2], [0.25] * 4], rtol=1e-6)
    state = m.extend(state, m.encode("ba"))
    np.testing.assert_allclose(np.exp(state.log_probs), [[0.25] * 4, [0.2, 0.4, 0.2, 0.2]], rtol=1e-6)
    assert (m.started, m.tokens_run, {*m.ends}, m.decode(m.encode("a!b."))) == (["a", "b.b"], 6, {2}, "ab.")


def test_nll_is_the_mean_over_the_source_after_its_anchor() -> None:
    scorer = CausalScorer(model())
    # "ab" after "..\n\n": log 4 and log 5/2; "b" after "a\n\n": log 4, because of the blank line between them
    expected = [[(np.log(4) + np.log(2.5)) / 2] * 2, [np.log(4)] * 2, [0.0, 0.0]]
    np.testing.assert_allclose(scorer.nll(["ab", "b", ""], ["..", "a"]), expected, rtol=1e-6)


@pytest.mark.parametrize("batch_pairs", [1, 3])
def test_anchors_are_read_once_and_pairs_scored_once(batch_pairs: int) -> None:
    m = model()
    scorer = CausalScorer(m, batch_pairs=batch_pairs)
    first = scorer.nll(["ab", "b."], ["a", "b", "a."])
    assert m.started == ["a\n\n", "b\n\n", "a.\n\n"]
    before = m.tokens_run
    assert (scorer.nll(["ab", "b."], ["a", "b", "a."]) == first).all() and m.tokens_run == before
    scorer.nll(["aa"], ["b"])
    assert m.started == ["a\n\n", "b\n\n", "a.\n\n"] and m.tokens_run == before + 2


@pytest.mark.parametrize(("anchor", "prefix"), [("ab" * 9 + "a", "bababa\n\n"), ("ab", "ab\n\n")])
def test_an_anchor_keeps_its_end_and_a_source_its_beginning(anchor: str, prefix: str) -> None:
    m = model(window=16)
    CausalScorer(m).nll(["ab" * 9], [anchor])
    assert m.started == [prefix] and m.tokens_run == len(prefix) + 8
