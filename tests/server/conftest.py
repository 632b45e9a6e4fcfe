"""A live server for tests: uvicorn in a thread on loopback, small collections, and a scripted chat model."""

from __future__ import annotations

import atexit
import json
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest

import mergewise as mw
from mergewise.models.scripted import Script
from mergewise.server.admission import ConcurrencyLimiter
from mergewise.server.configuration import ModelConfig, ServeLimits, ServerConfig
from mergewise.server.records import CollectionRecord, Scope
from mergewise.server.state import State
from tests.chat_server import ChatServer
from tests.postgres import PostgresServer, postgres_server
from tests.support import patience

SHIPS = """# The Aurora

The Aurora is a wooden ship with three masts. It was built in Lyme in 1871.

## Voyages

The Aurora sailed to Iceland in 1873 under Captain Hale. It carried salt and timber.

# The Borealis

The Borealis is an iron steamer. It was built in Hull in 1889 and sank in 1902 near Skye.
"""
BIRDS = """# Terns

The arctic tern flies from Greenland to the Antarctic each year. It lives for about thirty years.

# Owls

The barn owl hunts at night. It hears a mouse under snow.
"""
ANSWER = "The Aurora was built in Lyme in 1871 [1]."


@dataclass
class LiveServer:
    """A running server, with its state and its tokens."""

    config: ServerConfig
    state: State
    base: str
    tokens: dict[str, str]
    thread: threading.Thread
    uvicorn: Any
    chat: ChatServer
    clients: list[httpx.Client] = field(default_factory=list)

    def client(self, token: str | None = "read", **headers: str) -> httpx.Client:
        """Return a client that sends this token, or no token for None."""
        sent = {} if token is None else {"Authorization": f"Bearer {self.tokens.get(token, token)}"}
        client = httpx.Client(base_url=self.base, headers={**sent, **headers}, timeout=patience(30), verify=False)
        self.clients.append(client)
        return client

    def old_token(self, *scopes: str, filter: Mapping[str, Any]) -> str:
        """Store a token with a filter and these scopes, as before scopes were checked. Return its secret."""
        token, secret = self.state.tokens.add(["read"], filter=filter, rate=10_000)
        with self.state.database.change() as rows:
            rows.execute("UPDATE tokens SET scopes = ? WHERE id = ?", [json.dumps(scopes), token.id])
        return secret

    @property
    def service(self) -> Any:
        """The `Service` of the routes."""
        return self._objects.service

    @property
    def questions(self) -> Any:
        """The `Questions` of the routes."""
        return self._objects.service.questions

    @property
    def _objects(self) -> Any:
        app = self.uvicorn.config.app
        while not hasattr(app, "state"):
            app = getattr(app, "_app", None) or app.app
        return app.state

    @property
    def address(self) -> tuple[str, int]:
        host, _, port = self.base.removeprefix("http://").partition(":")
        return host, int(port)


def busy(admission: ConcurrencyLimiter) -> tuple[int, int]:
    """Return the number of questions that wait for a slot, and of those waiting for a model."""
    return len(admission._queue), admission._streams


def record_of(config: ServerConfig, name: str, **fields: Any) -> CollectionRecord:
    home = config.data / "collections" / name
    return CollectionRecord(name, str(home / "index"), str(home / "blobs"), created=1.0, **fields)


def make_collection(config: ServerConfig, state: State, name: str, texts: dict[str, str], **fields: Any) -> None:
    """Create a collection with an index of the texts."""
    record = record_of(config, name, **fields)
    state.collections.add(record)
    shutil.copytree(indexed(tuple(texts.items())), record.path)


@cache
def indexed(texts: tuple[tuple[str, str], ...]) -> Path:
    """Return an index of these texts, built once."""
    directory = Path(tempfile.mkdtemp(prefix="mergewise-served-")) / "index"
    atexit.register(shutil.rmtree, directory.parent, ignore_errors=True)
    with mw.open(directory) as index:
        index.add([mw.Document(id, text, id, metadata={"kind": id.partition(".")[0]}) for id, text in texts])
    return directory


@contextmanager
def live_server(
    directory: Path,
    script: Script = (ANSWER,),
    *,
    with_chat: bool = True,
    limits: dict[str, Any] | None = None,
    **settings: Any,
) -> Iterator[LiveServer]:
    """Run a server with the collections `ships` and `birds`, without a writer: queued jobs stay queued."""
    import uvicorn

    from mergewise.server.app import create_app, uvicorn_options

    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    with ChatServer(script) as chat:
        chats = {"scripted": ModelConfig("openai:scripted", base_url=chat.base_url, key_env="SCRIPTED_KEY")}
        config = ServerConfig(directory, port=port, chats=chats if with_chat else {})
        config = replace(config, limits=ServeLimits(**(limits or {})), **settings)
        state = State.of(config)
        make_collection(config, state, "ships", {"ships/fleet.md": SHIPS})
        make_collection(config, state, "birds", {"birds.md": BIRDS})
        scopes: tuple[Scope, ...] = ("read", "write", "admin")
        tokens: dict[str, str] = {
            scope: state.tokens.add(scopes[: i + 1], title=scope, rate=10_000)[1] for i, scope in enumerate(scopes)
        }
        tokens["feedback"] = state.tokens.add(["feedback"], rate=10_000)[1]
        tokens["ships"] = state.tokens.add(["read", "write"], collections=["ships"], rate=10_000)[1]
        app = create_app(config, state)
        options = uvicorn_options(config)
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, **options))
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.005)
        live = LiveServer(config, state, f"http://127.0.0.1:{port}", tokens, thread, server, chat)
        try:
            yield live
        finally:
            for client in live.clients:
                client.close()
            server.should_exit = True
            thread.join(20)
            state.close()
            assert not thread.is_alive()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A Postgres server for the tests of this process."""
    with postgres_server() as server:
        yield server


@pytest.fixture(scope="session")
def scripted_key() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SCRIPTED_KEY", "sk-scripted-key")
        yield


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory, scripted_key: None) -> Iterator[LiveServer]:
    """The shared server of most tests. Tests must not change its documents."""
    with live_server(tmp_path_factory.mktemp("server"), search_and_fetch_by_mcp=True) as live:
        yield live


@pytest.fixture
def start_server(tmp_path: Path, scripted_key: None) -> Iterator[Callable[..., LiveServer]]:
    """A function that starts a separate server with the given settings."""
    with ExitStack() as stack:
        yield lambda **settings: stack.enter_context(live_server(tmp_path / str(time.monotonic_ns()), **settings))
