"""The causal reranker, with a scripted rule, and against the definition on a tiny random model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from tests.causal_models import TEXTS, network, saved, tokenizer

import mergewise
from mergewise.errors import ModelError, UsageError
from mergewise.models import load_chat, load_reranker
from mergewise.models.causal_chat import CausalChat
from mergewise.models.causal_reranker import _TASK, BATCH_TEXTS, CausalReranker
from mergewise.models.scripted_causal import ScriptedCausal
from mergewise.protocols import CountsCut, LogitReranker
from mergewise.types import Message

ALPHABET = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ .,:?\n0123456789"
QUESTION = "Where was Ada Brix born?"


def judge(text: str) -> Mapping[str, float]:
    """Answer yes to passages that contain "Harn"."""
    passage = text.rpartition("Passage: ")[2]
    return {"Y": 50.0, "y": 30.0} if "Harn" in passage else {"n": 20.0}


def scripted(window: int = 512, alphabet: str = ALPHABET) -> ScriptedCausal:
    return ScriptedCausal(alphabet, judge, window=window)


def test_the_logit_compares_yes_and_no_in_both_spellings() -> None:
    reranker = CausalReranker(scripted())
    logits = reranker.logits(QUESTION, ["She came from Harn.", "Rice."])
    np.testing.assert_allclose(logits, [np.log(80 / 2), np.log(2 / 21)], rtol=1e-5)
    np.testing.assert_allclose(reranker.score(QUESTION, ["Rice."]), [2 / 23], rtol=1e-5)
    assert isinstance(reranker, LogitReranker) and isinstance(reranker, CountsCut)


def test_texts_are_read_once_in_batches() -> None:
    model = scripted()
    reranker = CausalReranker(model)
    texts = [f"Text {n}{' of Harn' * (n % 3 == 0)}." for n in range(2 * BATCH_TEXTS + 1)]
    assert ((reranker.logits(QUESTION, texts) > 0) == [n % 3 == 0 for n in range(len(texts))]).all()
    assert [text.rpartition("Passage: ")[2] for text in model.started] == texts
    assert reranker.logits(QUESTION, []).shape == (0,)


def test_a_long_text_is_truncated() -> None:
    model = scripted(window=200)
    reranker = CausalReranker(model)
    late, early = "x" * 500 + " Harn", "Harn " + "x" * 500
    logits = reranker.logits(QUESTION, [late, early])
    assert logits[0] < 0 < logits[1]
    assert max(map(len, model.started)) < 200
    assert reranker.count_cut(QUESTION, [late, early, "Rice."]) == 2
    with pytest.raises(ModelError, match="question fills the window"):
        reranker.logits("x" * 300, ["Rice."])


def test_a_model_without_tokens_for_yes_and_no_is_refused() -> None:
    with pytest.raises(UsageError, match="no distinct tokens for yes and no"):
        CausalReranker(scripted(alphabet="abc "))


def test_the_reranker_takes_part_in_the_search(tmp_path: Path) -> None:
    texts = [
        "Ada Brix was a painter.",
        "Ada Brix wrote of boats.",
        "Her mother lived in Harn.",
        "Boats sail.",
        "Ada sang.",
    ]
    documents = [mergewise.Document(f"{n}.md", text, "Brix") for n, text in enumerate(texts)]
    with mergewise.open(tmp_path, embedder="none", reranker=CausalReranker(scripted())) as index:
        index.add(documents)
        context = index.context("Where was the mother of Ada Brix born?", strategy="weave", budget=60)
    added = {one.text: one.reranked for one in context.evidence or ()}
    assert max(added, key=lambda text: added[text] or 0) == texts[2]
    assert any(step.action == "rerank" and "5 sentences by scripted" in step.reason for step in context.trace)


# -- with transformers


@pytest.mark.parametrize("kind", ["gpt2", "llama", "mistral"])
def test_batches_with_a_common_beginning_match_single_prompts(kind: str) -> None:
    torch = pytest.importorskip("torch", reason="the extra `hf` is not installed")
    pytest.importorskip("transformers", reason="the extra `hf` is not installed")
    from mergewise.models.causal import HFCausalModel

    words = tokenizer()
    made = network(kind, words).eval()
    model = HFCausalModel(kind, model=made, tokenizer=words, device="cpu")
    reranker, texts = CausalReranker(model), TEXTS * 4
    expected = []
    for text in texts:
        asked = [Message("system", _TASK), Message("user", f"Question: Where?\n\nPassage: {text}")]
        with torch.inference_mode():
            shares = torch.softmax(made(torch.tensor([model.prompt(asked)])).logits[0, -1], -1)
        yes, no = (
            sum(float(shares[words(w)["input_ids"][0]]) for w in pair) for pair in (("yes", "Yes"), ("no", "No"))
        )
        expected.append(np.log(yes / no))
    np.testing.assert_allclose(reranker.logits("Where?", texts), expected, atol=1e-3)
    assert np.std(expected) > 0.01


def test_chat_and_reranker_of_one_path_share_the_model(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="the extra `hf` is not installed")
    pytest.importorskip("transformers", reason="the extra `hf` is not installed")
    spec = f"hf:{saved(tmp_path)}"
    chat, reranker = load_chat(spec), load_reranker(spec)
    assert isinstance(chat, CausalChat) and isinstance(reranker, CausalReranker)
    assert chat.causal is reranker.model and reranker.spec == spec
