"""An OpenAI-compatible embeddings endpoint: `openai:MODEL`. OpenAI itself, vLLM, text-embeddings-inference, Ollama ...

The address and the key come from OPENAI_BASE_URL and OPENAI_API_KEY, as everywhere with the `openai` package, which also does the
retries (connections, 408, 409, 429 and 5xx, with growing pauses or those that the server asks for).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from mergewise.errors import MissingExtra, ModelError, UsageError

if TYPE_CHECKING:
    from openai import OpenAI

    from mergewise.protocols import FloatArray

BATCH_TEXTS = 128
RETRIES = 4


class OpenAIEmbedder:
    """An `Embedder`. `dimension` is what the endpoint's vectors must have; without it, the first answer decides."""

    def __init__(
        self, model: str, *, dimension: int | None = None, batch_texts: int = BATCH_TEXTS, retries: int = RETRIES
    ) -> None:
        self.spec = f"openai:{model}"
        self._model = model
        self._dimension = dimension
        self._batch_texts = batch_texts
        self._client = connect(retries)

    @property
    def dimension(self) -> int:
        """Asks the endpoint with one short text if no answer has come yet."""
        return self._dimension or self.embed_documents(["dimension"]).shape[1]

    def embed_documents(self, texts: Sequence[str]) -> FloatArray:
        import numpy as np

        if not texts:
            return np.empty((0, self.dimension), dtype=np.float32)
        starts = range(0, len(texts), self._batch_texts)
        return np.concatenate([self._embed(texts[start : start + self._batch_texts]) for start in starts])

    def embed_queries(self, texts: Sequence[str]) -> FloatArray:
        return self.embed_documents(texts)

    def _embed(self, texts: Sequence[str]) -> FloatArray:
        # The endpoint refuses an empty text. Floats rather than base64, which not every compatible server speaks.
        inputs = [text or " " for text in texts]
        try:
            answer = self._client.embeddings.create(model=self._model, input=inputs, encoding_format="float")
            rows = [(item.index, item.embedding) for item in answer.data]
        except self._openai.OpenAIError as error:
            raise self._translated(error) from error
        except (AttributeError, TypeError, ValueError) as error:
            raise self._nonsense(f"no list of embeddings ({type(error).__name__})") from error
        return self._checked(rows, len(texts))

    def _checked(self, rows: Sequence[tuple[int, Sequence[float]]], count: int) -> FloatArray:
        """The rows by their index, at unit length."""
        import numpy as np

        if sorted(index for index, _ in rows) != list(range(count)):
            raise self._nonsense(f"{len(rows)} embeddings for {count} texts")
        try:
            vectors = np.array([vector for _, vector in sorted(rows)], dtype=np.float32).reshape(count, -1)
        except (TypeError, ValueError) as error:
            raise self._nonsense("embeddings of different lengths") from error
        self._dimension = self._dimension or vectors.shape[1]
        if vectors.shape[1] != self._dimension:
            raise self._nonsense(f"{vectors.shape[1]} dimensions instead of {self._dimension}")
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not np.all(np.isfinite(norms) & (norms > 0)):
            raise self._nonsense("an embedding without direction")
        return vectors / norms

    def _nonsense(self, what: str) -> ModelError:
        return ModelError(f"{self.spec} answered with {what}", f"check that {self._client.base_url} serves embeddings")
