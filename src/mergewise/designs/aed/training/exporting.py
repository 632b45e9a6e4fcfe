"""A trained predictor as a folder that `cross-encoder:PATH` takes: for transformers, and as ONNX for onnxruntime.

Both forms must give the same utilities before the folder is said to be done.
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
APART = 1e-3  # by which the utilities of the two forms may differ


def export(base: Base, folder: Path, tokens: int, question: str, texts: Sequence[str]) -> float:
    """Write the folder, and by how much the two forms differ at most for these texts. ModelError where it is too much."""
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
    found = ONNXCrossEncoder(folder, folder / ONNX).logits(question, texts)
    apart = float(np.abs(found - expected).max())
    if not apart <= APART:
        raise ModelError(f"the exported model in {folder} differs by {apart}", "use another base")
    return apart


def _write(base: Base, path: Path, question: str, text: str) -> None:
    import torch

    encoded = base.tokenizer([question] * 2, [text] * 2, return_tensors="pt", truncation=True, max_length=16)
    names = [name for name in base.tokenizer.model_input_names if name in encoded]
    with warnings.catch_warnings():  # what the exporter traces is checked behind it
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
    """The network, which takes its inputs by place and gives logits alone, as an exporter wants it."""
    import torch

    class Logits(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.network = network

        def forward(self, *given: Any) -> Any:
            return self.network(**dict(zip(names, given, strict=True))).logits

    return Logits()
