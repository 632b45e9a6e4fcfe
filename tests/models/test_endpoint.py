from __future__ import annotations

import pytest

pytest.importorskip("openai")

from mergewise.errors import UsageError
from mergewise.models.endpoint import Endpoint


def test_only_the_public_endpoint_needs_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(UsageError, match="OPENAI_API_KEY"):
        Endpoint("openai:m", "chat completions")
    Endpoint("openai:m", "chat completions", base_url="http://host/v1")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://host/v1")
    Endpoint("openai:m", "chat completions")


def test_the_default_address_is_the_public_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    endpoint = Endpoint("openai:m", "chat completions", api_key="k")
    assert endpoint.base_url == "https://api.openai.com/v1"
    monkeypatch.setenv("OPENAI_BASE_URL", "http://own/v1")
    assert Endpoint("openai:m", "chat completions", api_key="k").base_url == "http://own/v1"
