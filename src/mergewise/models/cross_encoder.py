"""Reranker `cross-encoder:PATH_OR_NAME`: a model that reads question and text together and scores how well they fit.

A folder with an ONNX file (`model.onnx`, also in `onnx/`) and its `tokenizer.json` is run by onnxruntime, which comes with the
package. Other folders and names on the hub are run by sentence-transformers. Scores are always the logistic function of the
model's logits, regardless of the model's own activation function.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mergewise.errors import ModelError, first_line
from mergewise.models.scores import ScoredByLogits
from mergewise.models.sentence_transformers import load
from mergewise.protocols import DoubleArray, FloatArray, Reranker

BATCH_PAIRS = 32
MAX_TOKENS = 512
_FILES = ("model.onnx", "onnx/model.onnx", "model_quantized.onnx", "onnx/model_quantized.onnx")


def load_cross_encoder(name: str) -> Reranker:
    folder = Path(name)
    for file in _FILES:
        if (folder / file).is_file() and (folder / "tokenizer.json").is_file():
            return ONNXCrossEncoder(folder, folder / file)
    return SentenceTransformersCrossEncoder(name)


class ONNXCrossEncoder(ScoredByLogits):
    """A `Reranker` by an ONNX sequence classifier with one label, or with two if the second means "relevant"."""

    def __init__(self, folder: Path, file: Path) -> None:
        import onnxruntime
        from tokenizers import Tokenizer

        self.spec = f"cross-encoder:{folder}"
        try:
            self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
            self._session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
        # both libraries raise bare exceptions
        except Exception as error:
            raise ModelError(f"cannot load {file}: {first_line(error)}", "export the model to ONNX again") from error
        self._inputs = {given.name for given in self._session.get_inputs()}
        # The maximum of tokens of a pair: the limit in the tokenizer's settings, if any, but at most 512.
        try:
            length = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))["model_max_length"]
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            length = MAX_TOKENS
        longest = int(min(MAX_TOKENS, length)) if isinstance(length, int | float) and length >= 1 else MAX_TOKENS
        self._tokenizer.enable_truncation(longest, strategy="longest_first")
        self._tokenizer.enable_padding()

    def logits(self, question: str, texts: Sequence[str]) -> FloatArray:
        parts = [self._logits(question, texts[i : i + BATCH_PAIRS]) for i in range(0, len(texts), BATCH_PAIRS)]
        return np.concatenate(parts or [np.empty(0)]).astype(np.float32)

    def count_cut(self, question: str, texts: Sequence[str]) -> int:
        return sum(bool(one.overflowing) for one in self._tokenizer.encode_batch([(question, text) for text in texts]))

    def _logits(self, question: str, texts: Sequence[str]) -> DoubleArray:
        encoded = self._tokenizer.encode_batch([(question, text) for text in texts])
        columns = {
            "input_ids": [e.ids for e in encoded],
            "attention_mask": [e.attention_mask for e in encoded],
            "token_type_ids": [e.type_ids for e in encoded],
        }
        feed = {name: np.array(rows, np.int64) for name, rows in columns.items() if name in self._inputs}
        try:
            answer = np.asarray(self._session.run(None, feed)[0], np.float64).reshape(len(texts), -1)
        # onnxruntime raises bare exceptions
        except Exception as error:
            reason = str(error)[:200]
            raise ModelError(f"{self.spec} failed: {reason}", "check that it is a sequence classifier") from error
        if answer.shape[1] > 2:
            raise ModelError(
                f"{answer.shape[1]} scores per pair from {self.spec} (expected 1 or 2)", "use a cross-encoder"
            )
        # for two labels, the softmax of the second is the logistic function of the difference
        return np.asarray(answer[:, 0] if answer.shape[1] == 1 else answer[:, 1] - answer[:, 0])


class SentenceTransformersCrossEncoder(ScoredByLogits):
    """A `Reranker` by sentence-transformers. The model is loaded at once, so that a wrong name fails early."""

    def __init__(self, name: str) -> None:
        self.spec = f"cross-encoder:{name}"
        self._model = load(name, "CrossEncoder", max_length=MAX_TOKENS)

    def logits(self, question: str, texts: Sequence[str]) -> FloatArray:
        if not texts:
            return np.empty(0, np.float32)
        pairs = [(question, text) for text in texts]
        options = {"activation_fn": _identity, "batch_size": BATCH_PAIRS, "show_progress_bar": False}
        logits = np.asarray(self._model.predict(pairs, **options), np.float64)
        if logits.ndim == 2 and logits.shape[1] == 2:
            logits = logits[:, 1] - logits[:, 0]
        if logits.shape != (len(texts),):
            raise ModelError(f"several scores per pair from {self.spec} (expected 1 or 2)", "use a cross-encoder")
        return logits.astype(np.float32)

    def count_cut(self, question: str, texts: Sequence[str]) -> int:
        encoded = (
            self._model.tokenizer([question] * len(texts), list(texts), verbose=False)["input_ids"] if texts else []
        )
        return sum(len(ids) > MAX_TOKENS for ids in encoded)


def _identity(logits: Any) -> Any:
    return logits
