"""A rerank endpoint over HTTP: `http:URL`, as Cohere, Jina, vLLM and text-embeddings-inference (TEI) serve one.

`http:https://host/v1/rerank#MODEL` names the model too, for endpoints that have several. The key, where one is wanted,
comes from RERANK_API_KEY. The request has the shape that Cohere, Jina and vLLM share. An endpoint that refuses it with
400 or 422 is asked again in TEI's shape, and from then on in the shape that it accepted. After a lost connection, 408, 429 or
5xx a request is tried again, after growing pauses or after those that the server asks for; one that asks for more than half a
minute is not waited for.

Some endpoints give shares of 1, others logits, and none says which. The first request of a reranker is one of our own, a text
that answers its question and texts that have nothing to do with it: logits of these do not all lie in [0, 1].
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mergewise.concurrency import run
from mergewise.errors import MissingExtra, ModelError, UsageError
from mergewise.models.clients import ANSWER_MB, PerLoop, in_time, quoted_message, retries_of, size_limits, timeout_of
from mergewise.models.scores import Scale, scale_of, unit_interval
from mergewise.ranges import Range, number, whole
from mergewise.redaction import remember_key, remember_keys_of

if TYPE_CHECKING:
    import httpx2

    from mergewise.protocols import FloatArray

log = logging.getLogger("mergewise")

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
_BATCH = Range(1, 100_000)
_AGAIN = {408, 429, 500, 502, 503, 504}


class HTTPReranker:
    """A `Reranker`. Safe to use from several threads.

    `timeout` is in seconds without a byte (default: MERGEWISE_TIMEOUT, else 60), `retries` how often a request is tried again
    (default: MERGEWISE_RETRIES, else 4).
    """

    def __init__(
        self,
        url: str,
        *,
        key: str | None = None,
        batch_texts: int = BATCH_TEXTS,
        retries: int | None = None,
        timeout: float | None = None,
        pause: float = _PAUSE,
        scale: Scale | None = None,
    ) -> None:
        self.spec = f"http:{url}"
        self._url, _, self._model = (f"http:{url}" if url.startswith("//") else url).partition("#")
        if not self._url.startswith(("http://", "https://")):
            raise UsageError(f"{url!r} is not an address", "write --reranker http:https://host/v1/rerank")
        self._batch_texts = whole("the number of texts in a request is", batch_texts, _BATCH)
        self._retries = retries_of(retries, RETRIES)
        self._pause = number("the pause is", pause, float, Range(0, _LONGEST_PAUSE))
        self._texts_shape = False  # TEI's
        self._scale = scale
        key = key or os.environ.get("RERANK_API_KEY")
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        remember_key(key or "")
        remember_keys_of(self._url)
        self._timeout = timeout_of(timeout, TIMEOUT)
        _package()
        self._clients: PerLoop[httpx2.AsyncClient] = PerLoop(self._client)

    def score(self, question: str, texts: Sequence[str]) -> FloatArray:
        if not texts:
            return unit_interval([], "shares")
        if self._scale is None:
            self._scale = scale_of(self._batch(*PROBE))
        scores: list[float] = []
        for first in range(0, len(texts), self._batch_texts):
            scores += self._batch(question, texts[first : first + self._batch_texts])
        return unit_interval(scores, self._scale)

    def close(self) -> None:
        run(self.aclose())

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        await self._clients.aclose()

    def _client(self) -> httpx2.AsyncClient:
        limits = size_limits(ANSWER_MB)
        headers = {**limits.pop("headers"), **self._headers}
        client: httpx2.AsyncClient = _package().AsyncClient(
            timeout=self._timeout, headers=headers, follow_redirects=False, **limits
        )
        return client

    def _batch(self, question: str, texts: Sequence[str]) -> list[float]:
        return run(in_time(self.spec, self._ask(question, texts)))

    async def _ask(self, question: str, texts: Sequence[str]) -> list[float]:
        answer = await self._post(self._body(question, texts))
        if answer.status_code in (400, 422) and not self._texts_shape:
            self._texts_shape = True
            retried = await self._post(self._body(question, texts))
            # it takes neither shape; the error for the first one is reported
            if retried.status_code >= 400:
                self._texts_shape = False
            else:
                answer = retried
        if answer.status_code >= 300:
            raise ModelError(
                f"{self.spec} answered {answer.status_code}: {quoted_message(answer.text)}", self._hint(answer)
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
                    raise ModelError(f"{self.spec} failed: {reason}", f"is {self._url} up?") from error
                log.info("the rerank endpoint was not reached (%s); asking again", type(error).__name__)
                await asyncio.sleep(min(self._pause * 2**attempt, _LONGEST_PAUSE))
                continue
            pause = self._wait(answer, attempt)
            if last or answer.status_code not in _AGAIN or pause > _LONGEST_PAUSE:
                return answer
            log.info("the rerank endpoint answered %d; asking again", answer.status_code)
            await asyncio.sleep(pause)
        raise AssertionError("the loop returns")

    def _wait(self, answer: httpx2.Response, attempt: int) -> float:
        """Seconds to wait: as many as the endpoint asks for, else growing ones."""
        try:
            asked = float(answer.headers.get("Retry-After", ""))
        except ValueError:  # absent, or a date
            asked = math.nan
        return min(self._pause * 2**attempt, _LONGEST_PAUSE) if math.isnan(asked) else max(asked, 0.0)

    def _scores(self, answer: httpx2.Response, count: int) -> list[float]:
        """One score a text, whichever of the shapes they came in."""
        try:
            body: Any = answer.json()
            rows = body["results"] if isinstance(body, dict) else body
            scores = {int(row["index"]): float(row.get("relevance_score", row.get("score"))) for row in rows}
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
            raise self._nonsense(f"no list of scores ({type(error).__name__})") from error
        if sorted(scores) != list(range(count)):
            raise self._nonsense(f"{len(scores)} scores for {count} texts")
        return [scores[i] for i in range(count)]

    def _nonsense(self, what: str) -> ModelError:
        return ModelError(f"{self.spec} answered with {what}", f"check that {self._url} is a rerank endpoint")

    def _hint(self, answer: httpx2.Response) -> str:
        if answer.status_code < 400:
            elsewhere = quoted_message(answer.headers.get("Location", "another address"))
            return f"it leads to {elsewhere}, which is not followed: name that one if it is the endpoint"
        if answer.status_code in (401, 403):
            return "check RERANK_API_KEY"
        if answer.status_code == 404:
            return "check the path: /rerank, /v1/rerank or /v2/rerank, and the model after '#'"
        if (pause := self._wait(answer, 0)) > _LONGEST_PAUSE:
            return f"the endpoint asks for a pause of {pause:.0f} seconds, which is not waited for"
        if answer.status_code == 429:
            return "the endpoint asks for a pause: wait, or raise the quota"
        return f"check that {self._url} is a rerank endpoint"


def _package() -> Any:
    try:
        import httpx2
    except ImportError as error:
        raise MissingExtra("httpx2", "rerank", error) from error
    return httpx2
