"""Export of a trained predictor to a folder for `cross-encoder:PATH`: for transformers, and as ONNX for onnxruntime.

The export succeeds only if both forms give the same utilities.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mergewise.designs.aed.training.bases import Base
from mergewise.designs.aed.training.scoring import utilities
from mergewise.errors import ModelError
from mergewise.models.causal.loading import quietly
from mergewise.models.cross_encoder import ONNXCrossEncoder

ONNX = "model.onnx"
OPSET = 17
APART = 1e-3  # maximum difference between the utilities of the two forms


def export(base: Base, folder: Path, tokens: int, question: str, texts: Sequence[str]) -> float:
    """Write the folder, and compare both forms.

    Returns:
        The largest difference between their utilities for these texts.

    Raises:
        ModelError: if the difference exceeds `APART`.
    """
    import torch

    folder.mkdir(parents=True, exist_ok=True)
    base.network.to("cpu").eval()
    base.tokenizer.model_max_length = tokens
    with quietly():
        base.network.save_pretrained(folder)
    base.tokenizer.save_pretrained(folder)
    part = folder / f".{ONNX}.{os.getpid()}"
    _write(base, part, question, texts[0])
    part.replace(folder / ONNX)
    with torch.inference_mode():
        expected = utilities(base, question, texts, tokens).numpy()
    apart = float(np.abs(ONNXCrossEncoder(folder, folder / ONNX).logits(question, texts) - expected).max())
    if not apart <= APART:
        raise ModelError(
            f"exported model in {folder} differs by {apart} (expected at most {APART})", "use another base"
        )
    return apart


def _write(base: Base, path: Path, question: str, text: str) -> None:
    import torch

    encoded = base.tokenizer([question] * 2, [text] * 2, return_tensors="pt", truncation=True, max_length=16)
    names = [name for name in base.tokenizer.model_input_names if name in encoded]
    # ignore warnings of the tracer, since `export` compares the results
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            _logits_alone(base.network, names).eval(),
            tuple(encoded[name] for name in names),
            str(path),
            input_names=names,
            output_names=["logits"],
            dynamic_axes={name: {0: "batch", 1: "sequence"} for name in names} | {"logits": {0: "batch"}},
            opset_version=OPSET,
            dynamo=False,
        )


def _logits_alone(network: Any, names: Sequence[str]) -> Any:
    """Wrap the network for the exporter: positional inputs, and only logits as output."""
    import torch

    class Logits(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.network = network

        def forward(self, *given: Any) -> Any:
            return self.network(**dict(zip(names, given, strict=True))).logits

    return Logits()
