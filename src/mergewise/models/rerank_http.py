"""Reranker `http:URL`: a rerank endpoint of Cohere, Jina, vLLM or text-embeddings-inference (TEI).

- Model: `http:https://host/v1/rerank#MODEL` also names the model, for endpoints with several.
- Key: from RERANK_API_KEY, if the endpoint needs one.
- Shape: requests have the shape shared by Cohere, Jina and vLLM. If the endpoint rejects it with 400 or 422, the request is sent
  again in TEI's shape. The accepted shape is used from then on.
- Scale: some endpoints return scores in [0, 1], others logits, without saying which. So the first request is a probe with a text
  that answers its question and unrelated texts: logits of these do not all lie in [0, 1].
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from mergewise.errors import UsageError
from mergewise.models.clients import ANSWER_MB, Batches
from mergewise.models.endpoint import Endpoint
from mergewise.models.scores import Scale, scale_of, unit_interval
from mergewise.protocols import FloatArray

BATCH_TEXTS = 64
PROBE = (
    "Who wrote the novel Moby-Dick?",
    (
        "The novel Moby-Dick was written by Herman Melville and published in 1851.",
        "Knead the dough for ten minutes, and let it rest in a warm place.",
        "The committee approved the budget for the new bicycle lanes.",
        "Granite forms when magma cools slowly below the surface.",
    ),
)


class HTTPReranker:
    """A `Reranker` by a rerank endpoint. Thread-safe.

    Args:
        url: address of the endpoint, with `#MODEL` for endpoints with several models.
        key: the key to send. Default: RERANK_API_KEY.
        batch_texts: maximum of texts per request. Default: MERGEWISE_BATCH_TEXTS, else 64. A batch that the endpoint refuses is
            halved.
        retries: number of retries of a failed request. Default: MERGEWISE_RETRIES, else 4.
        timeout: seconds without a byte before a request fails. Default: MERGEWISE_TIMEOUT, else 120.
        scale: scale of the scores, "shares" or "logits". By default a probe finds out.

    Raises:
        UsageError: if the URL or a number is invalid.
        MissingExtra: if the extra `openai` is not installed.
    """

    def __init__(
        self,
        url: str,
        *,
        key: str | None = None,
        batch_texts: int | None = None,
        retries: int | None = None,
        timeout: float | None = None,
        scale: Scale | None = None,
    ) -> None:
        self.spec = f"http:{url}"
        self._url, _, self._model = (f"http:{url}" if url.startswith("//") else url).partition("#")
        if not self._url.startswith(("http://", "https://")):
            raise UsageError(f"invalid address of a reranker: {url!r}", "write --reranker http:https://host/v1/rerank")
        self._batches = Batches(batch_texts, BATCH_TEXTS)
        # TEI's shape
        self._texts_shape = False
        self._scale = scale
        # never the key for OpenAI
        key = key or os.environ.get("RERANK_API_KEY") or "none"
        self._endpoint = Endpoint(
            self.spec, "reranking", retries, base_url=self._url, api_key=key, timeout=timeout, megabytes=ANSWER_MB,
            named_by=("--reranker", "RERANK_API_KEY"),
        )  # fmt: skip
        self.aclose = self._endpoint.aclose

    def score(self, question: str, texts: Sequence[str]) -> FloatArray:
        """Score texts by how well they answer a question.

        Args:
            question: the question.
            texts: the texts.

        Returns:
            Scores in [0, 1], shape (len(texts),). Higher is better.

        Raises:
            ModelError: if a request fails, or the answer is invalid.
        """
        if not texts:
            return unit_interval([], "shares")
        if self._scale is None:
            self._scale = scale_of(self._batch(*PROBE))
        batches = self._batches.each(texts, lambda batch: self._batch(question, batch))
        return unit_interval([score for batch in batches for score in batch], self._scale)

    def _batch(self, question: str, texts: Sequence[str]) -> list[float]:
        """Return one score per text, from an answer of either shape."""
        sdk = self._endpoint.sdk
        with self._endpoint.reading("list of scores"):
            try:
                answer = self._endpoint.ask(self._url, self._body(question, texts))
            except (sdk.BadRequestError, sdk.UnprocessableEntityError) as error:
                if self._texts_shape:
                    raise
                self._texts_shape = True
                try:
                    answer = self._endpoint.ask(self._url, self._body(question, texts))
                except sdk.OpenAIError:
                    # the endpoint rejects both shapes, so report the error of the first
                    self._texts_shape = False
                    raise error from None
            rows = answer["results"] if isinstance(answer, dict) else answer
            scores = {int(row["index"]): float(row.get("relevance_score", row.get("score"))) for row in rows}
        if sorted(scores) != list(range(len(texts))):
            raise self._endpoint.invalid_answer(f"{len(scores)} scores for {len(texts)} texts")
        return [scores[i] for i in range(len(texts))]

    def _body(self, question: str, texts: Sequence[str]) -> dict[str, object]:
        if self._texts_shape:
            return {"query": question, "texts": list(texts), "truncate": True}
        named = {"model": self._model} if self._model else {}
        return {**named, "query": question, "documents": list(texts), "top_n": len(texts)}
