"""An endpoint that leads to another address: neither the key nor a text goes there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from mergewise.concurrency import run
from mergewise.errors import ModelError
from mergewise.models.openai import OpenAIEmbedder
from mergewise.models.openai_chat import OpenAIChat
from mergewise.models.openai_scorer import OpenAIScorer
from mergewise.models.rerank_http import HTTPReranker
from mergewise.types import Message


class Server:
    """Answers every request with a redirect, or with nothing useful; it keeps what it was sent."""

    def __init__(self, status: int = 200, location: str = "") -> None:
        self.sent: list[tuple[str, str, bytes]] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                server.sent.append((self.path, self.headers.get("Authorization", ""), body))
                self.send_response(status)
                if location:
                    self.send_header("Location", location)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def do_GET(self) -> None:
                self.do_POST()

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}"
        Thread(target=self._http.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()


def chat(url: str) -> object:
    return run(OpenAIChat("m", base_url=url, retries=0).complete([Message("user", "secret text")]))


CALLS: dict[str, Callable[[str], object]] = {
    "chat": chat,
    "embedder": lambda url: OpenAIEmbedder("m", retries=0).embed_documents(["secret text"]),
    "scorer": lambda url: OpenAIScorer("m", retries=0).nll(["secret text"], ["another"]),
    "reranker": lambda url: HTTPReranker(f"{url}/rerank", retries=0).score("question", ["secret text"]),
}


@pytest.fixture
def elsewhere() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("name", CALLS)
def test_no_redirect_is_followed(name: str, status: int, elsewhere: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    # another port is another origin; the name of the host differs too
    led = elsewhere.url.replace("127.0.0.1", "localhost") + "/taken"
    named = Server(status, led)
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    monkeypatch.setenv("RERANK_API_KEY", "key")
    monkeypatch.setenv("OPENAI_BASE_URL", named.url)
    try:
        with pytest.raises(ModelError, match="not followed") as error:
            CALLS[name](named.url)
    finally:
        named.close()
    assert led in str(error.value)
    assert named.sent and named.sent[0][1] == "Bearer key"
    assert elsewhere.sent == []
