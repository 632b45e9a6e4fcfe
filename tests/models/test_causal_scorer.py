"""The causal scorer against the definition, on tiny random models."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.causal_models import TEXTS, network, tokenizer

from mergewise.errors import UsageError
from mergewise.models import load_scorer

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from mergewise.models.causal import HFCausalModel  # noqa: E402
from mergewise.models.causal_scorer import BATCH_PAIRS, CausalScorer  # noqa: E402


def causal(kind: str, share_caches: bool = True) -> HFCausalModel:
    words = tokenizer()
    return HFCausalModel(kind, model=network(kind, words), tokenizer=words, device="cpu", share_caches=share_caches)


def scorer(kind: str, batch_pairs: int = BATCH_PAIRS, share_caches: bool = True) -> CausalScorer:
    return CausalScorer(causal(kind, share_caches), batch_pairs=batch_pairs)


def tokens_run(of: CausalScorer) -> int:
    return int(of.model.tokens_run)  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", ["gpt2", "llama", "qwen3", "mistral"])
@pytest.mark.parametrize("batch_pairs", [1, 4, 32])
def test_shared_caches_match_whole_pairs(kind: str, batch_pairs: int) -> None:
    shared, naive = scorer(kind, batch_pairs=batch_pairs), scorer(kind, share_caches=False)
    found, wanted = shared.nll(TEXTS, TEXTS), naive.nll(TEXTS, TEXTS)
    assert found.shape == (5, 5) and found.dtype == np.float32
    np.testing.assert_allclose(found, wanted, atol=1e-4)
    assert (wanted[3] == 0).all() and (wanted[[0, 1, 2, 4]] > 0).all()
    assert wanted.std() > 0.1
    if kind != "mistral":  # its cache is a sliding window, so pairs are run as a whole
        assert tokens_run(shared) < tokens_run(naive) / 1.5


def test_the_reference_form_matches_the_definition() -> None:
    """The definition is the equation of section 3.3, token by token: -1/l sum log P(x_t | anchor, x_<t)."""
    s = scorer("gpt2", share_caches=False)
    words, gpt2 = tokenizer(), network("gpt2", tokenizer()).eval()
    anchor = words(TEXTS[0] + "\n\n")["input_ids"]
    source = words(TEXTS[1])["input_ids"]
    total = 0.0
    with torch.inference_mode():
        for t, token in enumerate(source):
            logits = gpt2(torch.tensor([anchor + source[:t]])).logits[0, -1]
            total -= float(torch.log_softmax(logits, -1)[token])
    assert s.nll([TEXTS[1]], [TEXTS[0]])[0, 0] == pytest.approx(total / len(source), abs=1e-4)


def test_anchors_and_pairs_are_run_once() -> None:
    s = scorer("llama")
    first = s.nll(TEXTS[:1], TEXTS[1:3])
    before = tokens_run(s)
    again = s.nll(TEXTS[:1], TEXTS[1:3])
    assert tokens_run(s) == before and (first == again).all()
    s.nll([TEXTS[4]], TEXTS[1:3])
    assert tokens_run(s) - before == 2 * (len(tokenizer()(TEXTS[4])["input_ids"]) - 1)


def test_long_texts_are_truncated_to_half_of_the_window() -> None:
    s, naive = scorer("gpt2"), scorer("gpt2", share_caches=False)
    long = " ".join(TEXTS * 6)
    found = s.nll([long, "Rice."], [long, "Rice."])
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found, naive.nll([long, "Rice."], [long, "Rice."]), atol=1e-4)


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as error:
        load_scorer(f"hf:{tmp_path}")
    assert error.value.hint
