"""Decoding with streams, on causal models that follow a rule, so that answers are known in advance."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import CancelledError
from typing import Any

import numpy as np
import pytest

from mergewise.concurrency import CancellableWork
from mergewise.errors import UsageError
from mergewise.models.decoding import Decoded, StreamPrompts, decode
from mergewise.models.scripted_causal import ScriptedCausal
from mergewise.protocols import Blend


def spelling_model(word: str, alphabet: str = "abcdef .", end: str = ".", **also: float) -> ScriptedCausal:
    """Return a model that spells the word and then ends, for any prompt. `also` gives weights to other characters."""

    def rule(text: str) -> dict[str, float]:
        said = text.rpartition(" ")[2]
        following = word[len(said)] if word.startswith(said) and len(said) < len(word) else end
        return {following: 50.0, **also}

    return ScriptedCausal(alphabet, rule, end=end)


def ask(model: ScriptedCausal, *prompts: str, weights: Sequence[float] = (1.0,), **options: Any) -> Decoded:
    streams = StreamPrompts(tuple(model.encode(prompt) for prompt in prompts), tuple(weights))
    return decode(model, [streams], **{"max_tokens": 20, **options})[0]


def test_an_end_token_ends_all_streams_of_a_question() -> None:
    found = ask(spelling_model("abba"), "a ", "bbb ", "c ", weights=(0.2, 0.3, 0.5))
    assert (found.text, found.complete, found.tokens) == ("abba", True, [0, 1, 1, 0])


def test_the_limit_of_tokens_and_the_window() -> None:
    found = ask(spelling_model("abcdef"), "a ", max_tokens=3)
    assert (found.text, found.complete) == ("abc", False)
    narrow = ScriptedCausal("ab ", lambda _: {"b": 9.0}, window=10)
    assert ask(narrow, "a" * 6, max_tokens=20).text == "bbbb"
    with pytest.raises(UsageError, match="fills the window"):
        ask(narrow, "a" * 10)


def test_pieces_are_shown_when_they_are_final() -> None:
    shown: list[tuple[int, str]] = []
    model = spelling_model("ace")
    streams = [StreamPrompts((model.encode("b "),), (1.0,))] * 2
    found = decode(model, streams, max_tokens=9, show=lambda number, piece: shown.append((number, piece)))
    assert shown == [(0, "a"), (1, "a"), (0, "c"), (1, "c"), (0, "e"), (1, "e")]
    assert [one.text for one in found] == ["ace", "ace"]


@pytest.mark.parametrize(
    "weights", [(0.5, 0.4), (0.5, 0.6), (1.5, -0.5), (float("nan"), 1.0), (1.0,), (0.3, 0.3, 0.4), ()]
)
def test_weights_that_do_not_add_up_to_one_are_refused(weights: tuple[float, ...]) -> None:
    with pytest.raises(UsageError) as error:
        StreamPrompts(([1], [2]), weights)
    assert error.value.hint


def test_the_carrying_stream_and_the_agreement() -> None:
    """One stream is sure of b, the other of a. With weights 0.7 and 0.3 the first one decides."""
    model = ScriptedCausal("ab.x", lambda text: {"b": 97.0} if text.startswith("x") else {"a": 97.0}, end=".")
    found = ask(model, "x", "a", weights=(0.7, 0.3), max_tokens=1)
    assert found.text == "b" and found.carried == [0]
    assert found.log_probs[0] == pytest.approx([np.log(0.97), np.log(0.01)], abs=1e-5)
    expected = 0.97**0.7 * 0.01**0.3 + 0.01**0.7 * 0.97**0.3 + 2 * 0.01
    assert found.agreement == pytest.approx([expected], abs=1e-5)
    same = ask(model, "x", "xx", weights=(0.7, 0.3), max_tokens=1)
    assert same.agreement == pytest.approx([1.0])


def test_a_mixture_and_a_product_can_differ() -> None:
    """REPLUG adds probabilities, so a token that one stream is sure of wins against a token that both allow."""
    rules = {"x": {"a": 60.0, "b": 36.0, "c": 1e-3, ".": 1e-3}, "y": {"c": 60.0, "b": 36.0, "a": 1e-3, ".": 1e-3}}
    model = ScriptedCausal("abc.xy", lambda text: {"x": 1e-3, "y": 1e-3, **rules[text[0]]}, end=".")
    assert ask(model, "x", "y", weights=(0.55, 0.45), max_tokens=1).text == "b"
    mixed = ask(model, "x", "y", weights=(0.7, 0.3), max_tokens=1, mixture=True)
    assert mixed.text == "a"


def test_more_questions_than_rows_are_decoded_in_several_batches() -> None:
    model = spelling_model("abe")
    questions = [StreamPrompts((model.encode("c "), model.encode("dd ")), (0.5, 0.5))] * 5
    assert [one.text for one in decode(model, questions, max_tokens=9, rows=4)] == ["abe"] * 5
    assert decode(model, [], max_tokens=9) == []


def test_cancelled_work_stops() -> None:
    work = CancellableWork()

    def rule(text: str) -> dict[str, float]:
        if len(text) > 8:
            work.cancel()
        return {}

    model = ScriptedCausal("ab", rule, window=1000)
    with pytest.raises(CancelledError):
        work.do(lambda: decode(model, [StreamPrompts(([0],), (1.0,))], max_tokens=500))
    assert model.tokens_run < 20


def test_the_best_token_is_chosen() -> None:
    model = spelling_model("a")
    state = model.start([model.encode("b "), model.encode("c ")])
    choice = model.choose(state, Blend([[0, 1], [1]], [[0.5, 0.5], [1.0]]))
    assert choice.tokens == [0, 0]
    assert [len(row) for row in choice.log_probs] == [2, 1]
