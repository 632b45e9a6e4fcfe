from __future__ import annotations

import pytest

openai = pytest.importorskip("openai")

from mergewise.errors import UsageError  # noqa: E402
from mergewise.models.endpoint import Endpoint, failure, key_for  # noqa: E402


def raised(kind: str) -> Exception:
    """The SDK's error without a response, which nothing here looks at."""
    error = getattr(openai, kind)
    return error.__new__(error, "no")


@pytest.mark.parametrize(
    ("kind", "hint"),
    [
        ("AuthenticationError", "OPENAI_API_KEY"),
        ("PermissionDeniedError", "OPENAI_API_KEY"),
        ("NotFoundError", "serves embeddings"),
        ("RateLimitError", "pause"),
        ("BadRequestError", "refuses this input"),
        ("InternalServerError", "is http://host/v1 up?"),
    ],
)
def test_each_error_has_the_hint_that_helps(kind: str, hint: str) -> None:
    assert hint in failure("openai:m", "http://host/v1", "embeddings", raised(kind)).hint


def test_a_timeout_is_not_taken_for_an_endpoint_that_is_down() -> None:
    told = failure("openai:m", "http://host/v1", "embeddings", raised("APITimeoutError"))
    assert "in time" in told.hint and told.message.startswith("openai:m failed")


def test_a_key_is_wanted_for_the_public_endpoint_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(UsageError, match="OPENAI_API_KEY"):
        key_for()
    assert key_for("http://host/v1") == "none"
    assert key_for(api_key="given") == "given"
    monkeypatch.setenv("OPENAI_BASE_URL", "http://host/v1")
    assert key_for() == "none"
    monkeypatch.setenv("OPENAI_API_KEY", "set")
    assert key_for("http://host/v1") == "set"


def test_without_an_address_it_is_the_public_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    endpoint = Endpoint("openai:m", "chat completions", api_key="k")
    assert endpoint.base_url == "https://api.openai.com/v1"
    monkeypatch.setenv("OPENAI_BASE_URL", "http://own/v1")
    assert Endpoint("openai:m", "chat completions", api_key="k").base_url == "http://own/v1"
