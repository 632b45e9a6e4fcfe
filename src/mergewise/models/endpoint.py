"""What the adapters of OpenAI-compatible endpoints share: the address and the key, and what errors mean.

The address and the key come from OPENAI_BASE_URL and OPENAI_API_KEY, as everywhere with the `openai` package, which
also does the retries (connections, 408, 409, 429 and 5xx, with growing pauses or those that the server asks for).
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from mergewise.concurrency import run
from mergewise.errors import InputRefused, MissingExtra, ModelError, UsageError
from mergewise.models.clients import (
    EMBEDDINGS_MB,
    PerLoop,
    in_time,
    quoted_message,
    retries_of,
    size_limits,
    timeout_of,
)
from mergewise.redaction import remember_key, remember_keys_of

if TYPE_CHECKING:
    from types import ModuleType

    import openai

Response = TypeVar("Response")

UNREADABLE = (AttributeError, KeyError, IndexError, TypeError, ValueError, OverflowError, RecursionError)
"""What comes of reading an answer that is not of the shape that was asked for, or no JSON, or nested without end."""

RETRIES = 4
# seconds without a byte from the endpoint
TIMEOUT = 120.0
CONNECT = 10.0  # seconds
# seconds that an endpoint may ask for; the SDK waits for no longer ones
LONGEST_PAUSE = 120
REDIRECTS = frozenset({301, 302, 303, 307, 308})
DIRECT = {"follow_redirects": False}
"""Where an endpoint leads elsewhere, it is not followed: texts and keys go to the address that was named, and nowhere else."""


def package() -> ModuleType:
    """The `openai` package, or the command that installs it."""
    try:
        import openai
    except ImportError as error:
        raise MissingExtra("openai", "openai", error) from error
    return openai


def key_for(base_url: str | None = None, api_key: str | None = None) -> str:
    """The key to send. A private endpoint often wants none, but the SDK insists on one."""
    key = api_key or os.environ.get("OPENAI_API_KEY")
    if not key and not (base_url or os.environ.get("OPENAI_BASE_URL")):
        raise UsageError(
            "no key for the OpenAI API", "set OPENAI_API_KEY, or OPENAI_BASE_URL for an endpoint of your own"
        )
    return key or "none"


class Endpoint:
    """An endpoint by the `openai` package: each answer within a time and a size. `serves` is what it should offer.

    `timeout` is in seconds without a byte; it and `retries` are those of the environment where they are not given.
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
    ) -> None:
        self.sdk = package()
        self.spec, self.serves, self._megabytes = spec, serves, megabytes or EMBEDDINGS_MB
        seconds, self.retries = timeout_of(timeout, TIMEOUT), retries_of(retries, RETRIES)
        self.base_url = str(base_url or os.environ.get("OPENAI_BASE_URL") or "https://api.openai.com/v1")
        key = key_for(base_url, api_key)
        remember_key(key)
        remember_keys_of(self.base_url)
        self._options = {
            "base_url": self.base_url,
            "api_key": key,
            "timeout": self.sdk.Timeout(seconds, connect=min(seconds, CONNECT)),
            "max_retries": self.retries,
        }
        self._clients: PerLoop[openai.AsyncOpenAI] = PerLoop(self._client)

    def client(self) -> openai.AsyncOpenAI:
        """That of the running event loop."""
        return self._clients.here()

    def ask(self, call: Callable[[openai.AsyncOpenAI], Awaitable[Response]]) -> Response:
        """The answer of one call. Raises ModelError where it takes too long or grows too large, and what the SDK raises."""

        async def answer() -> Response:
            return await call(self.client())

        return run(in_time(self.spec, answer()))

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        await self._clients.aclose()

    def failure(self, error: Any) -> ModelError:
        return failure(self.spec, self.base_url, self.serves, error)

    def nonsense(self, what: str) -> ModelError:
        return ModelError(f"{self.spec} answered with {what}", f"check that {self.base_url} serves {self.serves}")

    def _client(self) -> openai.AsyncOpenAI:
        web = self.sdk.DefaultAsyncHttpxClient(**DIRECT, **size_limits(self._megabytes))
        client: openai.AsyncOpenAI = self.sdk.AsyncOpenAI(**self._options, http_client=web)
        return client


def failure(spec: str, base_url: object, serves: str, error: openai.OpenAIError) -> ModelError:
    """The SDK's error as ours, with what to do next. `serves` is what the endpoint should offer."""
    import openai

    # older versions of the SDK take it for a lost connection
    if isinstance(error.__cause__, ModelError):
        return error.__cause__
    kind = ModelError
    hint = f"is {base_url} up? OPENAI_BASE_URL names the endpoint"
    if isinstance(error, openai.APITimeoutError):
        hint = f"{base_url} did not answer in time: give it more, or ask for less"
    elif getattr(error, "status_code", None) in REDIRECTS and isinstance(error, openai.APIStatusError):
        elsewhere = quoted_message(error.response.headers.get("location", "another address"))
        hint = f"{base_url} leads to {elsewhere}, which is not followed: set OPENAI_BASE_URL if that is the endpoint"
    elif isinstance(error, openai.AuthenticationError | openai.PermissionDeniedError):
        hint = "check OPENAI_API_KEY"
    elif isinstance(error, openai.NotFoundError):
        hint = f"check the model's name and that {base_url} serves {serves}"
    elif pause := _pause(error):
        hint = f"the endpoint asks for a pause of {pause} seconds, which is not waited for"
    elif isinstance(error, openai.RateLimitError):
        hint = "the endpoint asks for a pause: wait, or raise the quota"
    elif isinstance(error, openai.BadRequestError | openai.UnprocessableEntityError):
        kind, hint = InputRefused, "the endpoint refuses this input; a text may be longer than the model takes"
    return kind(f"{spec} failed: {quoted_message(str(error))}", hint)


def _pause(error: openai.OpenAIError) -> int:
    """The seconds that an endpoint asks for, where these are more than a client would wait; otherwise 0."""
    asked = str(error.response.headers.get("retry-after", "")) if hasattr(error, "response") else ""
    return int(asked) if asked.isdecimal() and len(asked) < 12 and int(asked) > LONGEST_PAUSE else 0
