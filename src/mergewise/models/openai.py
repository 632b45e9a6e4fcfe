"""An OpenAI-compatible embeddings endpoint: `openai:MODEL`. OpenAI itself, vLLM, text-embeddings-inference, Ollama ..."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mergewise.models.endpoint import UNREADABLE, Endpoint
from mergewise.protocols import FloatArray
from mergewise.ranges import Range, whole

BATCH_TEXTS = 128


class OpenAIEmbedder:
    """An `Embedder`. `dimension` is what the endpoint's vectors must have; without it, the first answer decides.

    `timeout` is in seconds without a byte (default: MERGEWISE_TIMEOUT, else 120), `retries` how often a request is tried again
    (default: MERGEWISE_RETRIES, else 4).
    """

    def __init__(
        self,
        model: str,
        *,
        dimension: int | None = None,
        batch_texts: int = BATCH_TEXTS,
        retries: int | None = None,
        timeout: float | None = None,
    ) -> None:
        self.spec = f"openai:{model}"
        self._model = model
        self._dimension = dimension
        self._batch_texts = whole("the number of texts in a request is", batch_texts, Range(1, 100_000))
        self._endpoint = Endpoint(self.spec, "embeddings", retries, timeout=timeout)
        self.aclose = self._endpoint.aclose

    @property
    def dimension(self) -> int:
        """Asks the endpoint with one short text if no answer has come yet."""
        return self._dimension or self.embed_documents(["dimension"]).shape[1]

    def embed_documents(self, texts: Sequence[str]) -> FloatArray:
        if not texts:
            return np.empty((0, self.dimension), dtype=np.float32)
        starts = range(0, len(texts), self._batch_texts)
        return np.concatenate([self._embed(texts[start : start + self._batch_texts]) for start in starts])

    def embed_queries(self, texts: Sequence[str]) -> FloatArray:
        return self.embed_documents(texts)

    def _embed(self, texts: Sequence[str]) -> FloatArray:
        import openai

        # The endpoint refuses an empty text. Floats rather than base64, which not every compatible server speaks.
        inputs = [text or " " for text in texts]
        try:
            answer = self._endpoint.ask(
                lambda client: client.embeddings.create(model=self._model, input=inputs, encoding_format="float")
            )
            rows = sorted((int(item.index), list(item.embedding)) for item in answer.data)
        except openai.OpenAIError as error:
            raise self._endpoint.failure(error) from error
        except UNREADABLE as error:
            raise self._endpoint.nonsense(f"no list of embeddings ({type(error).__name__})") from error
        return self._unit_rows(rows, len(texts))

    def _unit_rows(self, rows: Sequence[tuple[int, list[float]]], count: int) -> FloatArray:
        """The rows, which come sorted by their index, at unit length."""
        if [index for index, _ in rows] != list(range(count)):
            raise self._endpoint.nonsense(f"{len(rows)} embeddings for {count} texts")
        try:
            vectors: FloatArray = np.array([vector for _, vector in rows], dtype=np.float32).reshape(count, -1)
        except (TypeError, ValueError, OverflowError) as error:
            raise self._endpoint.nonsense("embeddings of different lengths, or of what are no numbers") from error
        self._dimension = self._dimension or vectors.shape[1]
        if vectors.shape[1] != self._dimension:
            raise self._endpoint.nonsense(f"{vectors.shape[1]} dimensions instead of {self._dimension}")
        norms = np.linalg.norm(vectors, axis=1, keepdims=True).astype(np.float32)
        if not np.all(np.isfinite(norms) & (norms > 0)):
            raise self._endpoint.nonsense("an embedding without direction")
        unit: FloatArray = vectors / norms
        return unit
