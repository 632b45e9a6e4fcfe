"""Fixtures: labels and a tiny base model."""

from __future__ import annotations

import pytest

from mergewise.cli.training import label_source
from mergewise.designs.aed.training.labels import LabelSettings, LabelStore, label
from mergewise.models.onnx import MINILM
from tests.designs.aed.training.towns import MANY, many_index, reader


@pytest.fixture(scope="session")
def many_labels(tmp_path_factory: pytest.TempPathFactory) -> LabelStore:
    """Labels by a reader that believes a passage about the founder of a town."""
    folder = tmp_path_factory.mktemp("labels")
    index, examples = many_index(folder / "index")
    store = LabelStore(folder / "labels")
    label(store, [label_source(index, examples)], reader(MANY), LabelSettings(passages=8, triplets=0))
    return store


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An untrained cross-encoder with one layer and the shipped vocabulary, saved by transformers."""
    import torch
    import transformers

    folder = tmp_path_factory.mktemp("base")
    torch.manual_seed(5)
    config = transformers.BertConfig(
        vocab_size=30522, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=64, num_labels=1,
    )  # fmt: skip
    transformers.BertForSequenceClassification(config).save_pretrained(folder)
    words = transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(MINILM / "tokenizer.json"), pad_token="[PAD]",
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )  # fmt: skip
    words.save_pretrained(folder)
    return f"cross-encoder:{folder}"
