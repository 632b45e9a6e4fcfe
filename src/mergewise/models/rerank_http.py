"""Reranker `http:URL`: a rerank endpoint of Cohere, Jina, vLLM or text-embeddings-inference (TEI).

- Model: `http:https://host/v1/rerank#MODEL` also names the model, for endpoints with several.
- Key: from RERANK_API_KEY, if the endpoint needs one.
- Shape: requests have the shape shared by Cohere, Jina and vLLM. If the endpoint rejects it with 400 or 422, the request is sent
  again in TEI's shape. The accepted shape is used from then on.
- Retries: after a lost connection, 408, 429 or 5xx, with growing pauses or the pause that the server asks for. A pause longer
  than half a minute is an error.
- Scale: some endpoints return scores in [0, 1], others logits, without saying which. So the first request is a probe with a text
  that answers its question and unrelated texts: logits of these do not all lie in [0, 1].
"""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mergewise.concurrency import run
from mergewise.errors import InputRefused, MissingExtra, ModelError, UsageError
from mergewise.log import log
from mergewise.models.clients import ANSWER_MB, REFUSED, Batches, PerLoop, in_time, quoted_message, setting, size_limits
from mergewise.models.scores import Scale, scale_of, unit_interval
from mergewise.ranges import RETRYING, SECONDS, Range, number
from mergewise.redaction import remember_key, remember_keys_of

if TYPE_CHECKING:
    import httpx2

    from mergewise.protocols import FloatArray

BATCH_TEXTS = 64
RETRIES = 4
TIMEOUT = 60.0
_PAUSE, _LONGEST_PAUSE = 0.25, 30.0
PROBE = (
    "Who wrote the novel Moby-Dick?",
    (
        "The novel Moby-Dick was written by Herman Melville and published in 1851.",
        "Knead the dough for ten minutes, and let it rest in a warm place.",
        "The committee approved the budget for the new bicycle lanes.",
        "Granite forms when magma cools slowly below the surface.",
    ),
)
_AGAIN = {408, 429, 500, 502, 503, 504}


class HTTPReranker:
    """A `Reranker` by a rerank endpoint. Thread-safe.

    Args:
        url: address of the endpoint, with `#MODEL` for endpoints with several models.
        key: the key to send. Default: RERANK_API_KEY.
        batch_texts: maximum of texts per request. Default: MERGEWISE_BATCH_TEXTS, else 64. A batch that the endpoint refuses is
            halved.
        retries: number of retries of a failed request. Default: MERGEWISE_RETRIES, else 4.
        timeout: seconds without a byte before a request fails. Default: MERGEWISE_TIMEOUT, else 60.
        pause: seconds before the first retry. Each further pause is twice as long.
        scale: scale of the scores, "shares" or "logits". By default a probe finds out.

    Raises:
        UsageError: if the URL or a number is invalid.
        MissingExtra: if the extra `rerank` is not installed.
    """

    def __init__(
        self,
        url: str,
        *,
        key: str | None = None,
        batch_texts: int | None = None,
        retries: int | None = None,
        timeout: float | None = None,
        pause: float = _PAUSE,
        scale: Scale | None = None,
    ) -> None:
        self.spec = f"http:{url}"
        self._url, _, self._model = (f"http:{url}" if url.startswith("//") else url).partition("#")
        if not self._url.startswith(("http://", "https://")):
            raise UsageError(f"invalid address of a reranker: {url!r}", "write --reranker http:https://host/v1/rerank")
        self._batches = Batches(batch_texts, BATCH_TEXTS)
        self._retries = setting("retries", retries, RETRIES, RETRYING)
        self._pause = number("pause", pause, float, Range(0, _LONGEST_PAUSE))
        # TEI's shape
        self._texts_shape = False
        self._scale = scale
        key = key or os.environ.get("RERANK_API_KEY")
        remember_key(key or "")
        remember_keys_of(self._url)
        seconds, package = setting("timeout", timeout, TIMEOUT, SECONDS), _package()

        def client() -> httpx2.AsyncClient:
            limits = size_limits(ANSWER_MB)
            headers = {**limits.pop("headers"), **({"Authorization": f"Bearer {key}"} if key else {})}
            made: httpx2.AsyncClient = package.AsyncClient(
                timeout=seconds, headers=headers, follow_redirects=False, **limits
            )
            return made

        self._clients: PerLoop[httpx2.AsyncClient] = PerLoop(client)

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

    def close(self) -> None:
        """Close the connections."""
        run(self.aclose())

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        await self._clients.aclose()

    def _batch(self, question: str, texts: Sequence[str]) -> list[float]:
        return run(in_time(self.spec, self._ask(question, texts)))

    async def _ask(self, question: str, texts: Sequence[str]) -> list[float]:
        answer = await self._post(self._body(question, texts))
        if answer.status_code in (400, 422) and not self._texts_shape:
            self._texts_shape = True
            retried = await self._post(self._body(question, texts))
            # the endpoint rejects both shapes, so report the error of the first
            if retried.status_code >= 400:
                self._texts_shape = False
            else:
                answer = retried
        if answer.status_code >= 300:
            kind = InputRefused if answer.status_code in REFUSED else ModelError
            raise kind(
                f"status {answer.status_code} from {self.spec}: {quoted_message(answer.text)}", self._hint(answer)
            )
        return self._scores(answer, len(texts))

    def _body(self, question: str, texts: Sequence[str]) -> dict[str, object]:
        if self._texts_shape:
            return {"query": question, "texts": list(texts), "truncate": True}
        named = {"model": self._model} if self._model else {}
        return {**named, "query": question, "documents": list(texts), "top_n": len(texts)}

    async def _post(self, body: Mapping[str, object]) -> httpx2.Response:
        import httpx2

        for attempt in range(self._retries + 1):
            last = attempt == self._retries
            try:
                answer: httpx2.Response = await self._clients.here().post(self._url, json=body)
            except httpx2.RequestError as error:
                if last:
                    reason = quoted_message(str(error)) or type(error).__name__
                    raise ModelError(f"{self.spec} failed: {reason}", f"check that {self._url} is running") from error
                log.info("rerank endpoint not reached (%s), retrying", type(error).__name__)
                await asyncio.sleep(min(self._pause * 2**attempt, _LONGEST_PAUSE))
                continue
            pause = self._wait(answer, attempt)
            if last or answer.status_code not in _AGAIN or pause > _LONGEST_PAUSE:
                return answer
            log.info("rerank endpoint returned status %d, retrying", answer.status_code)
            await asyncio.sleep(pause)
        raise AssertionError("the loop returns")

    def _wait(self, answer: httpx2.Response, attempt: int) -> float:
        """Return the seconds to wait: the endpoint's Retry-After, else a pause that doubles with each attempt."""
        try:
            asked = float(answer.headers.get("Retry-After", ""))
        # the header is missing, or holds a date
        except ValueError:
            asked = math.nan
        return min(self._pause * 2**attempt, _LONGEST_PAUSE) if math.isnan(asked) else max(asked, 0.0)

    def _scores(self, answer: httpx2.Response, count: int) -> list[float]:
        """Read one score per text, from an answer of either shape."""
        try:
            body: Any = answer.json()
            rows = body["results"] if isinstance(body, dict) else body
            scores = {int(row["index"]): float(row.get("relevance_score", row.get("score"))) for row in rows}
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
            raise self._invalid_answer(f"no list of scores ({type(error).__name__})") from error
        if sorted(scores) != list(range(count)):
            raise self._invalid_answer(f"{len(scores)} scores for {count} texts")
        return [scores[i] for i in range(count)]

    def _invalid_answer(self, what: str) -> ModelError:
        return ModelError(f"invalid answer from {self.spec}: {what}", f"check that {self._url} is a rerank endpoint")

    def _hint(self, answer: httpx2.Response) -> str:
        if answer.status_code < 400:
            elsewhere = quoted_message(answer.headers.get("Location", "another address"))
            return f"redirects are not followed: use {elsewhere} if that is the endpoint"
        if answer.status_code in (401, 403):
            return "check RERANK_API_KEY"
        if answer.status_code == 404:
            return "check the path: /rerank, /v1/rerank or /v2/rerank, and the model after '#'"
        if (pause := self._wait(answer, 0)) > _LONGEST_PAUSE:
            return f"retry after {pause:.0f} seconds, as the endpoint asks"
        if answer.status_code == 429:
            return "wait, or raise the quota: the endpoint asks for a pause"
        return f"check that {self._url} is a rerank endpoint"


def _package() -> Any:
    try:
        import httpx2
    except ImportError as error:
        raise MissingExtra("httpx2", "rerank", error) from error
    return httpx2
