"""Base models of a predictor, loaded as a sequence classifier with one label, and its tokenizer.

    cross-encoder:PATH   a Hugging Face folder: a cross-encoder with one label, or an encoder, which gets a new head
    minilm               the embedder that ships with the package, loaded from its ONNX file, with a new head

The weights of `minilm` are 7-bit integers times a scale, so the network starts equal to the shipped one, except for the rounding
of its activations. The file has a single vector for the token type, but BERT has two. Both start with the same vector.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mergewise.errors import MissingExtra, UsageError
from mergewise.models.causal.loading import quietly, torch_module
from mergewise.models.onnx import MINILM
from mergewise.protocols import FloatArray

HEADS = 12
EXTRA = "train"
_CROSS_ENCODER = "cross-encoder:"


class Base(NamedTuple):
    """A transformers network and its tokenizer."""

    spec: str
    network: Any
    tokenizer: Any


def check_packages() -> None:
    """Check that the packages for training are installed, before the labels are made.

    Raises:
        MissingExtra: if a package is missing.
    """
    for package in ("torch", "transformers", "onnx"):
        if find_spec(package) is None:
            raise MissingExtra(package, EXTRA)


def load_base(spec: str, seed: int) -> Base:
    """Load a base model. A new head is initialised by `seed`.

    Raises:
        UsageError: if the model cannot be trained.
        MissingExtra: if torch is not installed.
    """
    check_base(spec)
    torch_module().manual_seed(seed)
    return _minilm() if spec == "minilm" else _folder(spec, spec.removeprefix(_CROSS_ENCODER))


def check_base(spec: str) -> None:
    """Check the form of a spec.

    Raises:
        UsageError: if the form is unknown.
    """
    if spec != "minilm" and (not spec.startswith(_CROSS_ENCODER) or spec == _CROSS_ENCODER):
        raise UsageError(f"unknown base: {spec!r}", "use cross-encoder:PATH or minilm")


def _folder(spec: str, name: str) -> Base:
    import transformers

    hint = "pass the folder of a cross-encoder saved by transformers (config.json, model.safetensors, tokenizer.json)"
    try:
        config = transformers.AutoConfig.from_pretrained(name, trust_remote_code=False)
        if any("SequenceClassification" in kind for kind in config.architectures or ()) and config.num_labels != 1:
            raise UsageError(
                f"{name} has {config.num_labels} labels (expected 1)", "use a cross-encoder with one label"
            )
        config.num_labels = 1
        with quietly():
            network = transformers.AutoModelForSequenceClassification.from_pretrained(
                name, config=config, trust_remote_code=False
            )
        tokenizer = transformers.AutoTokenizer.from_pretrained(name, trust_remote_code=False)
    except (OSError, ValueError, KeyError) as error:
        raise UsageError(f"cannot load the base {name}: {str(error).splitlines()[0]}", hint) from None
    return Base(spec, network, tokenizer)


def _minilm() -> Base:
    import transformers

    weights = minilm_weights()
    positions, width = weights["embeddings.position_embeddings.weight"].shape
    config = transformers.BertConfig(
        vocab_size=weights["embeddings.word_embeddings.weight"].shape[0],
        hidden_size=width,
        num_hidden_layers=sum(name.endswith("intermediate.dense.weight") for name in weights),
        num_attention_heads=HEADS,
        intermediate_size=weights["encoder.layer.0.intermediate.dense.bias"].shape[0],
        max_position_embeddings=positions,
        num_labels=1,
    )
    network = transformers.BertForSequenceClassification(config)
    torch = torch_module()
    missing, unknown = network.bert.load_state_dict(
        {name: torch.tensor(w) for name, w in weights.items()}, strict=False
    )
    assert not unknown and all(name.startswith("pooler") for name in missing)
    marks = {"unk": "[UNK]", "sep": "[SEP]", "pad": "[PAD]", "cls": "[CLS]", "mask": "[MASK]"}
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(MINILM / "tokenizer.json"),
        model_max_length=positions,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
        **{f"{name}_token": mark for name, mark in marks.items()},
    )
    return Base("minilm", network, tokenizer)


def minilm_weights(path: Path = MINILM / "model.onnx") -> dict[str, FloatArray]:
    """Return the dequantised weights of the shipped embedder by their names in BERT.

    The order of the file's nodes is that of `scripts/bert_graph.py`: a matrix product per linear layer (query, key and value
    share one), and a normalisation after the embeddings and after each half of a layer.
    """
    try:
        import onnx
        from onnx import numpy_helper
    except ImportError as error:
        raise MissingExtra("onnx", EXTRA, error) from error
    graph = onnx.load(str(path)).graph
    values = {constant.name: numpy_helper.to_array(constant) for constant in graph.initializer}
    makers = {output: node for node in graph.node for output in node.output}
    products = []
    for node in graph.node:
        if node.op_type == "MatMulIntegerToFloat":
            # Weight (outputs, inputs) and bias. The divisor of the input is folded into the weight.
            kernel = values[node.input[1]].astype(np.float32) * values[node.input[3]]
            given = makers[makers[node.input[0]].input[0]]
            factors = values.get(given.input[1]) if given.op_type == "Mul" else None
            weight = kernel if factors is None else kernel * factors[:, None]
            products.append((weight.T, values[node.input[6]]))
    norms = [[values[name] for name in node.input[1:]] for node in graph.node if node.op_type == "LayerNormalization"]
    # the words, their scales, and the positions
    embedded = [node.input[0] for node in graph.node if node.op_type == "Gather"]
    embedded += [node.input[0] for node in graph.node if node.op_type == "Slice" and node.input[0] in values]
    words, scales, positions = map(values.__getitem__, embedded)
    named = {
        "embeddings.word_embeddings.weight": words.astype(np.float32) * scales,
        "embeddings.position_embeddings.weight": positions,
        "embeddings.token_type_embeddings.weight": np.zeros((2, positions.shape[1]), np.float32),
        **_dense("embeddings.LayerNorm", *norms[0]),
    }
    for layer in range(len(products) // 4):
        prefix = f"encoder.layer.{layer}"
        weight, bias = products[4 * layer]
        for part, name in enumerate(("query", "key", "value")):
            rows = slice(part * len(bias) // 3, (part + 1) * len(bias) // 3)
            named |= _dense(f"{prefix}.attention.self.{name}", weight[rows], bias[rows])
        for offset, name in enumerate(("attention.output.dense", "intermediate.dense", "output.dense"), 1):
            named |= _dense(f"{prefix}.{name}", *products[4 * layer + offset])
        named |= _dense(f"{prefix}.attention.output.LayerNorm", *norms[1 + 2 * layer])
        named |= _dense(f"{prefix}.output.LayerNorm", *norms[2 + 2 * layer])
    return {name: np.ascontiguousarray(value, np.float32) for name, value in named.items()}


def _dense(name: str, weight: FloatArray, bias: FloatArray) -> dict[str, FloatArray]:
    return {f"{name}.weight": weight, f"{name}.bias": bias}
