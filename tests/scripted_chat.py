"""Chat model behind a scripted server, which writes the rows of markers and triplets over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import mergewise
from tests.chat_server import ChatServer


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., tuple[ChatServer, Any]]]:
    """Function that starts a scripted server and returns it with a chat model that uses it."""
    openai_chat = pytest.importorskip("mergewise.models.openai_chat", exc_type=ImportError)
    pytest.importorskip("openai")
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    open_ones: list[Any] = []

    def start(script: Any, refuses: tuple[str, ...] = (), **options: Any) -> tuple[ChatServer, Any]:
        server = ChatServer(script, refuses=refuses).__enter__()
        chat = openai_chat.OpenAIChat("m", base_url=server.base_url, **{"retries": 2, "timeout": 30, **options})
        open_ones.append((server, chat))
        return server, chat

    yield start
    for server, chat in open_ones:
        mergewise.concurrency.run(chat.aclose())
        server.__exit__()
