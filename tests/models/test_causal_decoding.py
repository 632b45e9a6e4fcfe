"""Decoding with streams on tiny random models, against a reference in float64 without a cache, and by rules."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.causal_models import TEXTS, network, tokenizer

from mergewise.models.decoding import StreamPrompts, decode
from mergewise.protocols import Blend, NextTokens

torch = pytest.importorskip("torch", reason="the extra `hf` is not installed")
pytest.importorskip("transformers", reason="the extra `hf` is not installed")

from mergewise.models.causal import HFCausalModel  # noqa: E402
from mergewise.models.causal.network import HFState  # noqa: E402

WORDS = tokenizer()
MODELS = {
    kind: HFCausalModel(kind, model=network(kind, WORDS).double(), tokenizer=WORDS, device="cpu")
    for kind in ("llama", "qwen3", "gpt2")
}
VOCABULARY = len(WORDS)


def single_row_log_probs(model: HFCausalModel, ids: Sequence[int]) -> np.ndarray:
    """Compute log-probabilities of the next token by a run over the whole row, in float64."""
    with torch.inference_mode():
        return model.network(torch.tensor([list(ids)])).logits[0, -1].double().log_softmax(-1).numpy()


def reference(
    model: HFCausalModel, streams: StreamPrompts, steps: int, mixture: bool
) -> tuple[list[int], list[np.ndarray]]:
    """Decode by the literal form of Eq. 14 or the mixture."""
    said: list[int] = []
    steps_taken = []
    for _ in range(steps):
        rows = [single_row_log_probs(model, [*prompt, *said]) for prompt in streams.prompts]
        if mixture:
            scores = np.log(sum(w * np.exp(row) for w, row in zip(streams.weights, rows, strict=True)))
        else:
            scores = sum(w * row for w, row in zip(streams.weights, rows, strict=True))
        token = int(np.argmax(scores))
        if token in model.ends:
            break
        said.append(token)
        steps_taken.append(np.array([row[token] for row in rows]))
    return said, steps_taken


def prompts_of(numbers: Sequence[Sequence[int]]) -> tuple[Sequence[int], ...]:
    return tuple([n % VOCABULARY for n in row] for row in numbers)


def shares(raw: Sequence[float]) -> tuple[float, ...]:
    whole = np.exp(raw) / np.exp(raw).sum()
    return tuple(float(share) for share in whole)


ROW = st.lists(st.integers(0, 10_000), min_size=1, max_size=20)
STREAMS = st.integers(1, 4).flatmap(
    lambda n: st.tuples(st.lists(ROW, min_size=n, max_size=n), st.lists(st.floats(-2, 2), min_size=n, max_size=n))
)


@pytest.mark.parametrize("mixture", [False, True], ids=["product", "mixture"])
@settings(max_examples=12, deadline=None)
@given(kind=st.sampled_from(sorted(MODELS)), asked=st.lists(STREAMS, min_size=1, max_size=3))
def test_batches_match_the_reference(
    mixture: bool, kind: str, asked: list[tuple[list[list[int]], list[float]]]
) -> None:
    model = MODELS[kind]
    questions = [StreamPrompts(prompts_of(rows), shares(raw)) for rows, raw in asked]
    found = decode(model, questions, max_tokens=5, mixture=mixture)
    for streams, decoded in zip(questions, found, strict=True):
        said, log_probs = reference(model, streams, 5, mixture)
        assert decoded.tokens == said
        np.testing.assert_allclose(
            np.array(decoded.log_probs, float), np.array(log_probs).reshape(len(said), -1), atol=1e-8
        )
        assert decoded.text == model.decode(said) == "".join(decoded.pieces)
        assert decoded.input_tokens == sum(map(len, streams.prompts))


@pytest.mark.parametrize("kind", sorted(MODELS))
def test_a_single_weighted_stream_is_ordinary_greedy_decoding(kind: str) -> None:
    model = MODELS[kind]
    prompts = tuple(model.encode(text) for text in TEXTS if text)[:3]
    ids = torch.tensor([prompts[0]])
    with torch.inference_mode():
        ordinary = model.network.generate(
            ids, max_new_tokens=12, do_sample=False, pad_token_id=0, attention_mask=torch.ones_like(ids)
        )[0, len(prompts[0]) :].tolist()
    before = model.tokens_run
    (found,) = decode(model, [StreamPrompts(prompts, (1.0, 0.0, 0.0))], max_tokens=12)
    assert found.tokens == ordinary
    assert model.tokens_run - before == len(prompts[0]) + 11  # streams of weight 0 are not run
    assert all(row[1:] == [None, None] and row[0] is not None for row in found.log_probs)
    assert set(found.carried) == {0} and not found.complete
    assert found.agreement == pytest.approx([1.0] * 12)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_padding_gives_no_nan_in_half_precision(dtype: object, attention: str) -> None:
    """In a batch of rows of 1 and 60 tokens, 59 columns of padding attend to nothing."""
    made = network("llama", WORDS)
    made.set_attn_implementation(attention)
    model = HFCausalModel("half", model=made.to(dtype), tokenizer=WORDS, device="cpu")
    state = model.start([[5], list(range(60))])
    for token in (7, 8, 9):
        assert state.log_probs.dtype == np.float32 and np.isfinite(state.log_probs).all()
        np.testing.assert_allclose(np.exp(state.log_probs).sum(1), 1, atol=1e-4)
        state = model.extend(state, [token, token])
    lonely = model.start([[5]])
    for token in (7, 8, 9):
        lonely = model.extend(lonely, [token])
    np.testing.assert_allclose(state.log_probs[0], lonely.log_probs[0], atol=0.15)


def test_padding_is_zero_in_the_cache() -> None:
    state = MODELS["llama"].start([[5], [1, 2, 3, 4]])
    for layer in state.cache.layers:
        assert not layer.keys[0, :, :3].any() and not layer.values[0, :, :3].any()
        assert layer.keys[0, :, 3].any() and layer.keys[1].any()


def test_positions_count_from_the_first_token_of_a_row() -> None:
    """gpt2 adds a vector for each position, so a row shifted by its padding would give other results."""
    model = MODELS["gpt2"]
    padded = model.start([[7, 8], list(range(40))]).log_probs[0]
    np.testing.assert_allclose(padded, single_row_log_probs(model, [7, 8]), atol=1e-9)
    moved = model.network(input_ids=torch.tensor([[7, 8]]), position_ids=torch.tensor([[38, 39]])).logits[0, -1]
    assert np.abs(moved.detach().log_softmax(-1).numpy() - padded).max() > 1e-3


def test_a_cache_grows_by_one_column_per_token_and_drops_finished_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    model = HFCausalModel("qwen3", model=network("qwen3", WORDS), tokenizer=WORDS, device="cpu")
    seen: list[tuple[int, int]] = []
    extend = model.extend

    def noted(state: HFState, tokens: Sequence[int]) -> HFState:
        after = extend(state, tokens)
        seen.append(tuple(after.cache.layers[0].keys.shape[::2]))
        return after

    monkeypatch.setattr(model, "extend", noted)
    short, long = StreamPrompts(([1, 2], [3] * 9), (0.5, 0.5)), StreamPrompts(([4] * 5,), (1.0,))
    (first,) = decode(model, [short], max_tokens=3)
    assert seen == [(2, 10), (2, 11)]
    # the second question continues after the end of the first
    monkeypatch.setattr(HFCausalModel, "ends", frozenset({first.tokens[1]}))
    seen.clear()
    both = decode(model, [short, long], max_tokens=4)
    assert both[0].tokens == first.tokens[:1] and both[0].complete
    if len(both[1].tokens) == 4:
        assert seen == [(3, 10), (1, 7), (1, 8)]  # padding that only the first question needed is removed


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
@pytest.mark.parametrize("kind", sorted(MODELS))
def test_a_gpu_gives_the_same_result_as_a_cpu(kind: str) -> None:
    there = HFCausalModel(kind, model=network(kind, WORDS).double(), tokenizer=WORDS, device="cuda")
    questions = [StreamPrompts(([1, 2, 3], [4] * 9), (0.6, 0.4)), StreamPrompts(([5] * 20,), (1.0,))]
    for mixture in (False, True):
        found, wanted = (decode(model, questions, max_tokens=8, mixture=mixture) for model in (there, MODELS[kind]))
        assert [one.tokens for one in found] == [one.tokens for one in wanted]


def test_a_partial_character_is_held_back(monkeypatch: pytest.MonkeyPatch) -> None:
    model = MODELS["llama"]
    halves = model.encode("\u00e9")
    assert len(halves) == 2  # two bytes, two tokens
    said = iter([halves[0], halves[1], 0])
    chosen = HFCausalModel("rule", model=model.network, tokenizer=WORDS, device="cpu")
    real = chosen.choose

    def told(state: HFState, blend: Blend) -> NextTokens:
        choice = real(state, blend)
        choice.tokens[0] = next(said)
        return choice

    monkeypatch.setattr(chosen, "choose", told)
    shown: list[str] = []
    (found,) = decode(chosen, [StreamPrompts(([1],), (1.0,))], max_tokens=2, show=lambda _, piece: shown.append(piece))
    assert shown == ["\u00e9"] and found.pieces == ["", "\u00e9"] and found.text == "\u00e9"


def test_arrays_and_tensors_choose_the_same_tokens() -> None:
    from mergewise.models import blending
    from mergewise.models.blending import choose_on_device as choose
    from mergewise.protocols import Blend

    logits = np.random.default_rng(3).normal(size=(6, 50)) * 3
    log_probs = torch.tensor(logits).log_softmax(-1).numpy()
    rows, weights = [[0, 1, 2], [3], [4, 5]], [[0.2, 0.3, 0.5], [1.0], [0.9, 0.1]]
    for blend in (Blend(rows, weights), Blend(rows, weights, mixture=True)):
        one, other = blending.choose(log_probs, blend), choose(torch.tensor(logits), blend)
        assert one.tokens == other.tokens
        for mine, others in zip(one.log_probs, other.log_probs, strict=True):
            assert mine == pytest.approx(others)
        assert one.agreement == pytest.approx(other.agreement)
        assert [len(row) for row in one.log_probs] == [3, 1, 2]
