"""An OpenAI-compatible embeddings endpoint: `openai:MODEL`. OpenAI itself, vLLM, text-embeddings-inference, Ollama ...

The address and the key come from OPENAI_BASE_URL and OPENAI_API_KEY, as everywhere with the `openai` package, which
also does the retries (connections, 408, 409, 429 and 5xx, with growing pauses or those that the server asks for).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mergewise.errors import MissingExtra, ModelError, UsageError

if TYPE_CHECKING:
    import openai
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
        import openai

        # The endpoint refuses an empty text. Floats rather than base64, which not every compatible server speaks.
        inputs = [text or " " for text in texts]
        try:
            answer = self._client.embeddings.create(model=self._model, input=inputs, encoding_format="float")
            rows = sorted((int(item.index), list(item.embedding)) for item in answer.data)
        except openai.OpenAIError as error:
            raise self._failure(error) from error
        except (AttributeError, TypeError, ValueError) as error:
            raise self._nonsense(f"no list of embeddings ({type(error).__name__})") from error
        return self._checked(rows, len(texts))

    def _checked(self, rows: Sequence[tuple[int, list[float]]], count: int) -> FloatArray:
        """The rows, which come sorted by their index, at unit length."""
        import numpy as np

        if [index for index, _ in rows] != list(range(count)):
            raise self._nonsense(f"{len(rows)} embeddings for {count} texts")
        try:
            vectors: FloatArray = np.array([vector for _, vector in rows], dtype=np.float32).reshape(count, -1)
        except (TypeError, ValueError) as error:
            raise self._nonsense("embeddings of different lengths") from error
        self._dimension = self._dimension or vectors.shape[1]
        if vectors.shape[1] != self._dimension:
            raise self._nonsense(f"{vectors.shape[1]} dimensions instead of {self._dimension}")
        norms = np.linalg.norm(vectors, axis=1, keepdims=True).astype(np.float32)
        if not np.all(np.isfinite(norms) & (norms > 0)):
            raise self._nonsense("an embedding without direction")
        unit: FloatArray = vectors / norms
        return unit

    def _nonsense(self, what: str) -> ModelError:
        return ModelError(f"{self.spec} answered with {what}", f"check that {self._client.base_url} serves embeddings")

    def _failure(self, error: openai.OpenAIError) -> ModelError:
        import openai

        hint = f"is {self._client.base_url} up? OPENAI_BASE_URL names the endpoint"
        if isinstance(error, openai.AuthenticationError | openai.PermissionDeniedError):
            hint = "check OPENAI_API_KEY"
        elif isinstance(error, openai.NotFoundError):
            hint = f"check the model's name and that {self._client.base_url} serves embeddings"
        elif isinstance(error, openai.RateLimitError):
            hint = "the endpoint asks for a pause: wait, or raise the quota"
        elif isinstance(error, openai.BadRequestError):
            hint = "the endpoint refuses this input; a text may be longer than the model takes"
        return ModelError(f"{self.spec} failed: {error}", hint)


def connect(retries: int) -> OpenAI:
    try:
        from openai import OpenAI
    except ImportError as error:
        raise MissingExtra("openai", "openai") from error
    key = os.environ.get("OPENAI_API_KEY")
    if not key and not os.environ.get("OPENAI_BASE_URL"):
        raise UsageError(
            "no key for the OpenAI API", "set OPENAI_API_KEY, or OPENAI_BASE_URL for an endpoint of your own"
        )
    # An endpoint of one's own often wants no key, but the SDK does.
    return OpenAI(api_key=key or "none", max_retries=retries)
