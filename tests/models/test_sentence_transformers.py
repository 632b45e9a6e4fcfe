from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

from mergewise.errors import ModelError
from mergewise.models import load_embedder


@pytest.fixture(scope="module")
def model_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny BERT with random weights and a prompt for queries."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch = pytest.importorskip("torch")
        transformers = pytest.importorskip("transformers")
        st = pytest.importorskip("sentence_transformers")
        from sentence_transformers import models

        torch.manual_seed(7)
        folder = tmp_path_factory.mktemp("model")
        words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "river", "question", ":", "city"]
        (folder / "vocab.txt").write_text("\n".join(words))
        config = transformers.BertConfig(
            vocab_size=len(words), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32
        )
        transformers.BertModel(config).save_pretrained(folder / "bert")
        transformers.BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder / "bert")
        bert = models.Transformer(str(folder / "bert"))
        model = st.SentenceTransformer(
            modules=[bert, models.Pooling(16)], prompts={"query": "question: "}, device="cpu"
        )
        model.save(str(folder / "tiny"))
    return folder / "tiny"


@pytest.mark.filterwarnings("ignore")
def test_a_model_by_its_path(model_path: Path) -> None:
    embedder = load_embedder(f"st:{model_path}")
    assert embedder is not None
    assert embedder.spec == f"st:{model_path}"
    assert embedder.dimension == 16
    documents = embedder.embed_documents(["a river", "a city", "question: a river"])
    np.testing.assert_allclose(np.linalg.norm(documents, axis=1), 1, atol=1e-5)
    assert documents.dtype == np.float32 and documents.shape == (3, 16)
    (query,) = embedder.embed_queries(["a river"])
    np.testing.assert_allclose(query, documents[2], atol=1e-5)
    assert not np.allclose(query, documents[0], atol=1e-3)
    assert embedder.embed_documents([]).shape == (0, 16)


@pytest.mark.filterwarnings("ignore")
def test_a_missing_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sentence_transformers")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ModelError, match="cannot load"):
        load_embedder(f"st:{tmp_path / 'nothing'}")
