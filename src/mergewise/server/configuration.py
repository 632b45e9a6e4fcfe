"""What a server is told: `serve.toml`, the environment `MERGEWISE_SERVE_*`, and flags, each before the one that it follows.

    [server]
    host = "127.0.0.1"                      # MERGEWISE_SERVE_HOST, --host
    port = 8077
    workers = 2
    public_url = "https://docs.example.org"
    allowed_hosts = ["docs.example.org"]

    [chats.local]
    spec = "openai:qwen3"
    base_url = "http://127.0.0.1:8000/v1"
    key_env = "LOCAL_KEY"                   # the key itself stands in the environment, or in the file of key_file

    [collections.manual]
    folders = ["/srv/manual"]

A key that nobody knows is an error that names it. Relative paths count from the folder of the file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from mergewise.protocols import ChatModel
from mergewise.ranges import Range

NAME = "serve.toml"
PORT = 8077
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
COLLECTION_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
_ENVIRONMENT = "MERGEWISE_SERVE_"
_LONGEST = 200_000
_MB = 1_000_000
_COUNT, _SECONDS, _BYTES = Range(1, 1_000_000), Range(0, 86_400, above=True), Range(1, 10**12)


@dataclass(frozen=True, slots=True)
class ServeLimits:
    """The bounds of requests: bytes, counts, seconds. Rates and the model streams are those of one worker."""

    body_bytes: Annotated[int, _BYTES, "of a whole upload"] = 100 * _MB
    json_bytes: Annotated[int, _BYTES, "of a body that is JSON"] = 2 * _MB
    files: Annotated[int, _COUNT, "in one upload"] = 200
    part_bytes: Annotated[int, _BYTES, "of a part of an upload that is no file"] = 64_000
    header_bytes: Annotated[int, Range(1024, 1_000_000), "of all headers"] = 32_000
    head_seconds: Annotated[float, _SECONDS, "until the headers have come"] = 10.0
    body_seconds: Annotated[float, _SECONDS, "until the body has come"] = 300.0
    idle_seconds: Annotated[float, _SECONDS, "without a byte of the body"] = 30.0
    queue_seconds: Annotated[float, _SECONDS, "that a queue of questions may stand for"] = 0.8
    queue_least: Annotated[int, _COUNT, "questions that may wait in any case"] = 2
    queue_most: Annotated[int, _COUNT, "questions that may wait at most"] = 32
    streams: Annotated[int, _COUNT, "answers under way that wait for a model"] = 64
    context_seconds: Annotated[float, _SECONDS, "to assemble a context"] = 10.0
    first_token_seconds: Annotated[float, _SECONDS, "until a model begins"] = 120.0
    answer_seconds: Annotated[float, _SECONDS, "for a whole answer"] = 600.0
    k: Annotated[int, _COUNT, "of a strategy at most"] = 500
    candidates: Annotated[int, _COUNT, "of a search at most"] = 2000
    rate: Annotated[float, Range(0, 1e6, above=True), "requests of one token in a second, over all workers"] = 20.0
    cached_vectors: Annotated[int, Range(0, 10**7), "of questions"] = 4096
    cached_contexts: Annotated[int, Range(0, 10**6), "in number"] = 256
    cached_bytes: Annotated[int, Range(0, 10**12), "of contexts"] = 64 * _MB


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """A model that clients name by its place in the configuration: a chat model, an embedder or a reranker.

    The key comes from the variable `key_env` of the environment, or the first line of the file `key_file`.
    """

    spec: str
    base_url: str | None = None
    window: int | None = None
    key_env: str | None = None
    key_file: Path | None = None

    def key(self) -> str | None:
        """The key, which is masked from now on; None where none is named. Raises UsageError where it is not there."""
        raise NotImplementedError

    def chat(self) -> str | ChatModel:
        """The chat model, as `mergewise.open` takes it. Raises UsageError, and MissingExtra."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class CollectionConfig:
    """A collection of the configuration. `path` is the directory of its index (default: in the server's data).

    `folders` are kept in step by `sync` jobs. `strategies` are those that clients may name (none: all). `defaults` are fields of
    a question that stand where the client says nothing. `chat` names the chat model that writes rows for its views.
    """

    path: Path | None = None
    title: str = ""
    folders: tuple[Path, ...] = ()
    strategies: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict)
    embedder: str | None = None
    views: tuple[str, ...] = ()
    chat: str | None = None


@dataclass(frozen=True, slots=True)
class ProfileConfig:
    """What a client of the OpenAI surface names as its model: a collection, and how it is asked.

    `footer` appends the sources as text: never, always, or ("auto") for clients that read no annotations.
    """

    collection: str
    chat: str | None = None
    strategy: str | None = None
    budget: int | str | None = None
    mode: str | None = None
    rounds: int | None = None
    filter: Mapping[str, Any] | None = None
    title: str = ""
    footer: str = "never"
    open_webui: bool = False


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """All that a server is told. `data` is the directory of its state; `docs` are folders of the collection that `--docs` makes.

    `default_chat` is the name of the chat model that answers where a client names none: the first one; None without any.
    """

    data: Path
    host: str = "127.0.0.1"
    port: Annotated[int, Range(0, 65_535), "0 takes a free one"] = PORT
    workers: Annotated[int, Range(1, 64), "processes that answer"] = 1
    public_url: str | None = None
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    trusted_proxies: tuple[str, ...] = ()
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    needs_token: bool = True
    allow_writes_by_mcp: bool = False
    watch: bool = False
    chats: Mapping[str, ModelConfig] = field(default_factory=dict)
    embedders: Mapping[str, ModelConfig] = field(default_factory=dict)
    rerankers: Mapping[str, ModelConfig] = field(default_factory=dict)
    collections: Mapping[str, CollectionConfig] = field(default_factory=dict)
    profiles: Mapping[str, ProfileConfig] = field(default_factory=dict)
    limits: ServeLimits = ServeLimits()

    @property
    def database(self) -> Path:
        return self.data / "server.sqlite"

    @property
    def spool(self) -> Path:
        return self.data / "spool"

    @property
    def url(self) -> str:
        """Where people reach the server: `public_url`, else the host and the port."""
        raise NotImplementedError

    @property
    def hosts(self) -> frozenset[str]:
        """The values of the header Host that are answered, in small letters, without ports."""
        raise NotImplementedError

    @property
    def default_chat(self) -> str | None:
        return next(iter(self.chats), None)


def load_config(
    data: Path,
    file: Path | None = None,
    environment: Mapping[str, str] | None = None,
    flags: Mapping[str, Any] | None = None,
) -> ServerConfig:
    """The configuration of the server whose state is in `data`.

    `file` is read instead of `data/serve.toml`, and must be there then. `flags` are fields of `ServerConfig` that win over all;
    None stands for one that was not given. Raises UsageError, which names the key.
    """
    raise NotImplementedError
