"""The causal model, against single rows and whole sequences."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from tests.causal_models import KINDS, TEXTS, network, tokenizer

from mergewise.errors import ModelError

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from mergewise.models.causal import HFCausalModel  # noqa: E402
from mergewise.models.causal.network import HFState  # noqa: E402
from mergewise.models.causal.rows import common_beginning  # noqa: E402

SPOKEN = [text for text in TEXTS if text]


def causal(kind: str, share_caches: bool = True) -> HFCausalModel:
    words = tokenizer()
    return HFCausalModel(kind, model=network(kind, words), tokenizer=words, device="cpu", share_caches=share_caches)


def next_log_probs(model: HFCausalModel, ids: list[int]) -> np.ndarray:
    """Compute by definition: the whole row, by itself."""
    with torch.inference_mode():
        return model.network(torch.tensor([ids])).logits[0, -1].float().log_softmax(-1).numpy()


@pytest.mark.parametrize("kind", KINDS)
def test_rows_in_a_batch_equal_single_rows(kind: str) -> None:
    model = causal(kind)
    rows = [model.encode(text) for text in SPOKEN]
    state = model.start(rows)
    said = model.encode(" rice and")
    for token in [None, *said]:
        if token is not None:
            state = model.extend(state, [token] * len(rows))
            rows = [[*row, token] for row in rows]
        assert state.log_probs.dtype == np.float32 and state.log_probs.shape == (len(rows), len(tokenizer()))
        for row, found in zip(rows, state.log_probs, strict=True):
            np.testing.assert_allclose(found, next_log_probs(model, row), atol=1e-4)
    assert model.tokens_run == sum(map(len, rows))


@pytest.mark.parametrize("share_caches", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_scores_are_sums_of_next_tokens(kind: str, share_caches: bool) -> None:
    model = causal(kind, share_caches)
    prompts = [model.encode(text) for text in SPOKEN]
    continuations = [model.encode(text) for text in (" It began.", "", " A", " with lime")]
    found = model.score([model.start([prompt]) for prompt in prompts], continuations)
    for prompt, ids, values in zip(prompts, continuations, found, strict=True):
        expected = [next_log_probs(model, prompt + ids[:i])[token] for i, token in enumerate(ids)]
        assert values.dtype == np.float32
        np.testing.assert_allclose(values, expected, atol=1e-4)
    assert model.score([], []) == []


def test_begin_and_end_tokens() -> None:
    model = causal("gpt2")
    assert model.decode(model.encode(TEXTS[1])) == TEXTS[1]
    assert (list(model.begin), model.window) == ([], 256)
    model.network.generation_config.eos_token_id = [3, 5]
    assert model.ends == {3, 5}


def test_errors_of_the_network_become_model_errors() -> None:
    with pytest.raises(ModelError, match="hf:gpt2 failed") as error:
        causal("gpt2").start([[1] * 300])
    assert error.value.hint


@pytest.mark.parametrize("kind", KINDS)
def test_a_common_beginning_is_read_once(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Afterwards the rows can be extended, selected and scored like any others."""
    monkeypatch.setattr("mergewise.models.causal.network.SAVED", 1)
    model, apart = causal(kind), causal(kind, share_caches=False)
    beginning = model.encode(SPOKEN[1])[:12]
    rows = [
        beginning + model.encode(text) for text in (" It began.", " A", " with lime and rice", " with lime and beans")
    ]
    assert common_beginning(rows) == len(beginning)
    state, before = model.start(rows), model.tokens_run
    if kind != "mistral":  # caches of this model cannot be split
        assert before == len(beginning) + sum(len(row) - len(beginning) for row in rows)
    for _ in range(2):
        for row, found in zip(rows, state.log_probs, strict=True):
            np.testing.assert_allclose(found, next_log_probs(model, row), atol=1e-4)
        some = model.select(state, [2, 0])
        np.testing.assert_allclose(some.log_probs, state.log_probs[[2, 0]])
        alone = [model.select(state, [row]) for row in range(len(rows))]
        said = [model.encode(" in 1912")] * len(rows)
        expected = apart.score([apart.start([row]) for row in rows], said)
        for found, wanted in zip(model.score(alone, said), expected, strict=True):
            np.testing.assert_allclose(found, wanted, atol=1e-4)
        state = model.extend(state, [5] * len(rows))
        rows = [[*row, 5] for row in rows]


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_different_lengths_are_read_separately(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The state has the rows in their order, padded to the longest."""
    monkeypatch.setattr("mergewise.models.causal.network.PRICE", 0)
    model = causal(kind)
    words = list(range(5, 30))
    rows = [words[:3], words[:20], words[2:5], words[1:21], words[4:14]]
    ran: list[int] = []
    once = type(model)._start

    def count_runs(self: HFCausalModel, given: Sequence[Sequence[int]]) -> HFState:
        ran.append(len(given))
        return once(self, given)

    monkeypatch.setattr(type(model), "_start", count_runs)
    state = model.start(rows)
    assert ran[:3] == [2, 1, 2] and state.ids == [list(row) for row in rows]
    assert len(ran) == (3 if kind != "mistral" else 4)  # caches of this model cannot be joined, which is tried once
    model.start(rows)
    assert len(ran) == (6 if kind != "mistral" else 5)
    assert state.mask.tolist() == [[0] * (20 - len(row)) + [1] * len(row) for row in rows]
    for _ in range(2):
        for row, found in zip(rows, state.log_probs, strict=True):
            np.testing.assert_allclose(found, next_log_probs(model, row), atol=1e-4)
        state = model.extend(state, [5] * len(rows))
        rows = [[*row, 5] for row in rows]


def test_the_common_beginning_of_rows() -> None:
    assert common_beginning([[1, 2, 3], [1, 2, 4]]) == 2
    assert common_beginning([[1, 2], [1, 2, 4]]) == 1  # each row keeps a token
    assert common_beginning([[1, 2, 3], [2, 2, 3], [1, 2, 3]]) == 0
    assert common_beginning([[7]]) == 0
