"""The common part of adapters of OpenAI-compatible endpoints and of rerankers: address, key, and translation of errors.

Address and key come from OPENAI_BASE_URL and OPENAI_API_KEY, as usual for the `openai` package. The package also does the retries
(after lost connections, 408, 409, 429 and 5xx, with growing pauses or the pause that the server asks for).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from mergewise.concurrency import run
from mergewise.errors import InputRefused, MissingExtra, ModelError, UsageError
from mergewise.models.clients import EMBEDDINGS_MB, REFUSED, PerLoop, in_time, quoted_message, setting, size_limits
from mergewise.ranges import RETRYING, SECONDS
from mergewise.redaction import remember_key, remember_keys_of
from mergewise.tracing import carrier, span
from mergewise.types import Json

if TYPE_CHECKING:
    import openai

UNREADABLE = (AttributeError, KeyError, IndexError, TypeError, ValueError, OverflowError, RecursionError)
"""Errors while reading an answer of an unexpected shape, of invalid JSON, or of excessive nesting."""

RETRIES = 4
# seconds without a byte from the endpoint
TIMEOUT = 120.0
# seconds for connecting
CONNECT = 10.0
# longest pause in seconds that the SDK waits if the endpoint asks for it
LONGEST_PAUSE = 120
REDIRECTS = frozenset({301, 302, 303, 307, 308})
# words of refusals, with hints; the last one fits all
_REFUSALS = {
    r"content.?(?:filter|management|policy)|responsibleai|moderation": (
        "ask in other words: the endpoint's content filter refuses the question or its sources"
    ),
    r"extra_forbidden|un(?:supported|recognized|known|expected)\b|not (?:permitted|supported)": (
        "leave out the option that the endpoint rejects"
    ),
    "": "shorten the input if it exceeds the model's window: the endpoint rejects it",
}
DIRECT = {"follow_redirects": False}
"""Redirects are not followed, so that texts and keys are sent to the named address only."""


class Endpoint:
    """An endpoint of the `openai` package, with limits on the time and size of answers.

    `serves` names the expected service in error messages, and `named_by` the settings with the address and the key. `timeout` is
    in seconds without a byte. `timeout` and `retries` default to the environment's.
    """

    def __init__(
        self,
        spec: str,
        serves: str,
        retries: int | None = None,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout: float | None = None,
        megabytes: int | None = None,
        named_by: tuple[str, str] = ("OPENAI_BASE_URL", "OPENAI_API_KEY"),
    ) -> None:
        try:
            import openai
        except ImportError as error:
            raise MissingExtra("openai", "openai", error) from error
        self.sdk = openai
        self.spec, self.serves = spec, serves
        seconds = setting("timeout", timeout, TIMEOUT, SECONDS)
        self.retries = setting("retries", retries, RETRIES, RETRYING)
        self.named_by = named_by
        self.base_url = str(base_url or os.environ.get("OPENAI_BASE_URL") or "https://api.openai.com/v1")
        key = api_key or os.environ.get("OPENAI_API_KEY")
        if not key and not (base_url or os.environ.get("OPENAI_BASE_URL")):
            raise UsageError(
                "missing key for the OpenAI API", "set OPENAI_API_KEY, or OPENAI_BASE_URL for an endpoint of your own"
            )
        # private endpoints often need no key, but the SDK requires one
        key = key or "none"
        remember_key(key)
        remember_keys_of(self.base_url)

        def client() -> openai.AsyncOpenAI:
            made: openai.AsyncOpenAI = self.sdk.AsyncOpenAI(
                base_url=self.base_url,
                api_key=key,
                timeout=self.sdk.Timeout(seconds, connect=min(seconds, CONNECT)),
                max_retries=self.retries,
                http_client=self.sdk.DefaultAsyncHttpxClient(**DIRECT, **size_limits(megabytes or EMBEDDINGS_MB)),
            )
            return made

        self._clients: PerLoop[openai.AsyncOpenAI] = PerLoop(client)

    def ask(self, path: str, body: Json) -> Any:
        """Return the JSON value of an answer. Raises ModelError if it is too slow or too large, and the errors of the SDK."""
        with span(f"{self.serves} {self.spec}", {"gen_ai.operation.name": self.serves}, is_client=True):
            return run(in_time(self.spec, self.post(path, body)))

    async def post(self, path: str, body: Json, *, stream: bool = False) -> Any:
        """Return the JSON value of an answer, or an asynchronous stream of values. Raises the errors of the SDK.

        The SDK's own records are not used: they take 75 microseconds for each choice, and an endpoint may send any number.
        """
        kind = self.sdk.AsyncStream[object] if stream else None
        return await self._clients.here().post(
            path, cast_to=object, body=dict(body), options={"headers": carrier()}, stream=stream, stream_cls=kind
        )

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        await self._clients.aclose()

    @contextmanager
    def reading(self, what: str) -> Iterator[None]:
        """Translate errors of a request, and of reading its answer, which should be `what`."""
        try:
            yield
        except self.sdk.OpenAIError as error:
            raise self.failure(error) from error
        except UNREADABLE as error:
            raise self.invalid_answer(f"no {what} ({type(error).__name__})") from error

    def failure(self, error: Any) -> ModelError:
        """Translate an error of the SDK into ours, with a hint."""
        sdk, (address, key) = self.sdk, self.named_by
        # older versions of the SDK wrap our error as a lost connection
        if isinstance(error.__cause__, ModelError):
            return error.__cause__
        asked = str(error.response.headers.get("retry-after", "")) if hasattr(error, "response") else ""
        pause = int(asked) if asked.isdecimal() and len(asked) < 12 else 0
        kind = ModelError
        hint = f"check that {self.base_url} is running; {address} names the endpoint"
        if isinstance(error, sdk.APITimeoutError):
            hint = f"increase MERGEWISE_TIMEOUT, or ask for a shorter answer: {self.base_url} did not answer in time"
        elif getattr(error, "status_code", None) in REDIRECTS and isinstance(error, sdk.APIStatusError):
            elsewhere = quoted_message(error.response.headers.get("location", "another address"))
            hint = f"redirects are not followed: set {address} to {elsewhere} if that is the endpoint"
        elif isinstance(error, sdk.AuthenticationError | sdk.PermissionDeniedError):
            hint = f"check {key}"
        elif isinstance(error, sdk.NotFoundError):
            hint = f"check the model's name and that {self.base_url} serves {self.serves}"
        elif pause > LONGEST_PAUSE:
            hint = f"retry after {pause} seconds, as the endpoint asks"
        elif isinstance(error, sdk.RateLimitError):
            hint = "wait, or raise the quota: the endpoint asks for a pause"
        elif getattr(error, "status_code", None) in REFUSED:
            kind, said = InputRefused, message_of(error)
            hint = next(hint for pattern, hint in _REFUSALS.items() if re.search(pattern, said, re.IGNORECASE))
        message = str(error) if "- " in str(error) else message_of(error)
        return kind(f"{self.spec} failed: {quoted_message(message)}", hint)

    def invalid_answer(self, what: str) -> ModelError:
        return ModelError(
            f"invalid answer from {self.spec}: {what}", f"check that {self.base_url} serves {self.serves}"
        )


def message_of(error: openai.OpenAIError) -> str:
    """Return the message of an error with its body, which may name what is wrong in another place."""
    return f"{error} - {getattr(error, 'body', None) or ''}".removesuffix(" - ")
