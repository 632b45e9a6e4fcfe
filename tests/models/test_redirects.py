"""Redirects of endpoints: neither the key nor a text is sent to the other address."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from tests.models.http_endpoint import HTTPEndpoint

from mergewise.concurrency import run
from mergewise.errors import ModelError
from mergewise.models.openai import OpenAIEmbedder
from mergewise.models.openai_chat import OpenAIChat
from mergewise.models.openai_scorer import OpenAIScorer
from mergewise.models.rerank_http import HTTPReranker
from mergewise.types import Message


def chat(url: str) -> object:
    return run(OpenAIChat("m", base_url=url, retries=0).complete([Message("user", "secret text")]))


CALLS: dict[str, Callable[[str], object]] = {
    "chat": chat,
    "embedder": lambda url: OpenAIEmbedder("m", retries=0).embed_documents(["secret text"]),
    "scorer": lambda url: OpenAIScorer("m", retries=0).nll(["secret text"], ["another"]),
    "reranker": lambda url: HTTPReranker(f"{url}/rerank", retries=0).score("question", ["secret text"]),
}


@pytest.fixture
def elsewhere() -> Iterator[HTTPEndpoint]:
    with HTTPEndpoint(lambda request: (200, b"", {})) as server:
        yield server


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("name", CALLS)
def test_no_redirect_is_followed(
    name: str, status: int, elsewhere: HTTPEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    # another port is another origin, and so is another host name
    led = elsewhere.url.replace("127.0.0.1", "localhost") + "/taken"
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    monkeypatch.setenv("RERANK_API_KEY", "key")
    with HTTPEndpoint(lambda request: (status, b"", {"Location": led})) as named:
        monkeypatch.setenv("OPENAI_BASE_URL", named.url)
        with pytest.raises(ModelError, match="not followed") as error:
            CALLS[name](named.url)
    assert led in str(error.value)
    assert named.keys[0] == "Bearer key"
    assert elsewhere.requests == []
