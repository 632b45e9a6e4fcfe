"""Embedder `openai:MODEL`: an OpenAI-compatible embeddings endpoint, such as OpenAI, vLLM, TEI or Ollama."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mergewise.models.clients import Batches
from mergewise.models.endpoint import Endpoint
from mergewise.protocols import FloatArray

BATCH_TEXTS = 128


class OpenAIEmbedder:
    """An `Embedder` by an OpenAI-compatible endpoint.

    Args:
        model: name of the model at the endpoint.
        dimension: dimension that vectors must have. By default the first answer decides.
        batch_texts: maximum of texts per request. Default: MERGEWISE_BATCH_TEXTS, else 128. A batch that the endpoint refuses is
            halved.
        retries: number of retries of a failed request. Default: MERGEWISE_RETRIES, else 4.
        timeout: seconds without a byte before a request fails. Default: MERGEWISE_TIMEOUT, else 120.
        base_url: address of the endpoint. Default: OPENAI_BASE_URL, else OpenAI's.
        api_key: key to send. Default: OPENAI_API_KEY.

    Raises:
        UsageError: if a number is invalid, or the key for OpenAI is missing.
        MissingExtra: if the extra `openai` is not installed.
    """

    def __init__(
        self,
        model: str,
        *,
        dimension: int | None = None,
        batch_texts: int | None = None,
        retries: int | None = None,
        timeout: float | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
    ) -> None:
        self.spec = f"openai:{model}"
        self._model = model
        self._dimension = dimension
        self._batches = Batches(batch_texts, BATCH_TEXTS)
        self._endpoint = Endpoint(self.spec, "embeddings", retries, base_url=base_url, api_key=api_key, timeout=timeout)
        self.aclose = self._endpoint.aclose

    @property
    def dimension(self) -> int:
        """The dimension of the vectors. Without an answer so far, a request with one short text finds out."""
        return self._dimension or self.embed_documents(["dimension"]).shape[1]

    def embed_documents(self, texts: Sequence[str]) -> FloatArray:
        """Embed texts of documents.

        Args:
            texts: the texts.

        Returns:
            Unit vectors, shape (len(texts), dimension).

        Raises:
            ModelError: if a request fails, or the answer is invalid.
        """
        if not texts:
            return np.empty((0, self.dimension), dtype=np.float32)
        return np.concatenate([*self._batches.each(texts, self._embed)])

    def _embed(self, texts: Sequence[str]) -> FloatArray:
        # Endpoints reject empty texts, and some do not support base64, so floats are requested.
        body = {"model": self._model, "input": [text or " " for text in texts], "encoding_format": "float"}
        with self._endpoint.reading("list of embeddings"):
            answer = self._endpoint.ask("/embeddings", body)
            rows = sorted((int(item["index"]), list(item["embedding"])) for item in answer["data"])
        return self._unit_rows(rows, len(texts))

    def embed_queries(self, texts: Sequence[str]) -> FloatArray:
        """Embed questions in the same way as documents."""
        return self.embed_documents(texts)

    def _unit_rows(self, rows: Sequence[tuple[int, list[float]]], count: int) -> FloatArray:
        """Scale rows, sorted by index, to unit length. Raises ModelError for invalid rows."""
        if [index for index, _ in rows] != list(range(count)):
            raise self._endpoint.invalid_answer(f"{len(rows)} embeddings for {count} texts")
        try:
            vectors: FloatArray = np.array([vector for _, vector in rows], dtype=np.float32).reshape(count, -1)
        except (TypeError, ValueError, OverflowError) as error:
            raise self._endpoint.invalid_answer("embeddings of different lengths, or not of numbers") from error
        self._dimension = self._dimension or vectors.shape[1]
        if vectors.shape[1] != self._dimension:
            raise self._endpoint.invalid_answer(f"{vectors.shape[1]} dimensions (expected {self._dimension})")
        norms = np.linalg.norm(vectors, axis=1, keepdims=True).astype(np.float32)
        if not np.all(np.isfinite(norms) & (norms > 0)):
            raise self._endpoint.invalid_answer("an embedding of length 0, or not finite")
        unit: FloatArray = vectors / norms
        return unit
