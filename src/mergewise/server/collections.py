"""The collections of a worker: indexes that are open for questions, by name, and who may know of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mergewise.server.configuration import ServerConfig
from mergewise.server.records import CollectionRecord, Token
from mergewise.server.state import State

if TYPE_CHECKING:
    from mergewise.engine import Index


def key_of(doc_id: str) -> str:
    """The id of a document as it stands in paths: base64url without padding."""


def id_of(key: str) -> str:
    """The id behind a key. Raises HTTPProblem 404 for what is none."""


@dataclass
class Collection:
    """A collection and its index, which is opened when it is first needed and then stays open."""

    record: CollectionRecord

    @property
    def name(self) -> str:
        return self.record.name

    @property
    def index(self) -> Index:
        """The index, open for questions. Raises what `mergewise.open` raises."""

    def asked_by(self, chat: str | None) -> Index:
        """The index with the chat model that the configuration calls so. Raises HTTPProblem 422 for an unknown name."""

    def url(self, doc_id: str, start: int | None = None, end: int | None = None) -> str:
        """Where people see the document, or this span of it: its own `url` in the metadata, else the page of this server."""


class Collections:
    """The collections that this worker serves. Those that another process makes or drops are noticed at once."""

    def __init__(self, config: ServerConfig, state: State) -> None: ...

    def visible(self, token: Token) -> list[Collection]:
        """Those that the token may read, by name."""

    def get(self, name: str, token: Token) -> Collection:
        """The collection. Raises HTTPProblem 404 where there is none, or the token may not know of it."""

    def close(self) -> None: ...

    def info(self, collection: Collection) -> dict[str, Any]:
        """{name, title, documents, leaves, characters, embedder, views, strategies, defaults, snapshot}."""
