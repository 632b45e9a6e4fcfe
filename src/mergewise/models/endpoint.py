"""What the adapters of OpenAI-compatible endpoints share: the address and the key, and what errors mean.

The address and the key come from OPENAI_BASE_URL and OPENAI_API_KEY, as everywhere with the `openai` package, which
also does the retries (connections, 408, 409, 429 and 5xx, with growing pauses or those that the server asks for).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from mergewise.errors import InputRefused, MissingExtra, ModelError, UsageError

if TYPE_CHECKING:
    from types import ModuleType

    import openai

RETRIES = 4
REDIRECTS = frozenset({301, 302, 303, 307, 308})
DIRECT = {"follow_redirects": False}
"""Where an endpoint leads elsewhere, it is not followed: texts and keys go to the address that was named, and nowhere else."""


def package() -> ModuleType:
    """The `openai` package, or the command that installs it."""
    try:
        import openai
    except ImportError as error:
        raise MissingExtra("openai", "openai") from error
    return openai


def key_for(base_url: str | None = None, api_key: str | None = None) -> str:
    """The key to send. A private endpoint often wants none, but the SDK insists on one."""
    key = api_key or os.environ.get("OPENAI_API_KEY")
    if not key and not (base_url or os.environ.get("OPENAI_BASE_URL")):
        raise UsageError(
            "no key for the OpenAI API", "set OPENAI_API_KEY, or OPENAI_BASE_URL for an endpoint of your own"
        )
    return key or "none"


def failure(spec: str, base_url: object, serves: str, error: openai.OpenAIError) -> ModelError:
    """The SDK's error as ours, with what to do next. `serves` is what the endpoint should offer."""
    import openai

    kind = ModelError
    hint = f"is {base_url} up? OPENAI_BASE_URL names the endpoint"
    if isinstance(error, openai.APITimeoutError):
        hint = f"{base_url} did not answer in time: give it more, or ask for less"
    elif getattr(error, "status_code", None) in REDIRECTS and isinstance(error, openai.APIStatusError):
        elsewhere = error.response.headers.get("location", "another address")
        hint = f"{base_url} leads to {elsewhere}, which is not followed: set OPENAI_BASE_URL if that is the endpoint"
    elif isinstance(error, openai.AuthenticationError | openai.PermissionDeniedError):
        hint = "check OPENAI_API_KEY"
    elif isinstance(error, openai.NotFoundError):
        hint = f"check the model's name and that {base_url} serves {serves}"
    elif isinstance(error, openai.RateLimitError):
        hint = "the endpoint asks for a pause: wait, or raise the quota"
    elif isinstance(error, openai.BadRequestError | openai.UnprocessableEntityError):
        kind, hint = InputRefused, "the endpoint refuses this input; a text may be longer than the model takes"
    return kind(f"{spec} failed: {error}", hint)


def nonsense(spec: str, base_url: object, serves: str, what: str) -> ModelError:
    return ModelError(f"{spec} answered with {what}", f"check that {base_url} serves {serves}")
