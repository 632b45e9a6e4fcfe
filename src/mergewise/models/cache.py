"""Wrappers of chat models: a cache of answers on disk, and a stream for models without one.

- Key: a hash of everything that changes the answer: the model's identity (name, endpoint, temperature, seed ...), all messages,
  the limit of tokens and the schema. Only the hash and the answer are written.
- Storage: SQLite from the standard library. A kill loses at most the answer being written, and processes can share a directory.
  (`diskcache`, the usual package, stores pickles, which run code when they are read.)
- Trust: anyone who can write to the directory can change answers. So a cached answer is checked like one from an endpoint, and
  links are not followed.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from stat import S_ISREG
from typing import Generic, TypeVar, cast
from weakref import WeakValueDictionary

from mergewise.errors import UsageError
from mergewise.files import find_untrusted_entry
from mergewise.protocols import ChatModel, CompletingModel, Schema
from mergewise.types import AnyPath, Message, Reply, Usage

Inner = TypeVar("Inner", bound=CompletingModel)

FILE = "replies.sqlite3"
# seconds to wait for another process that is writing
_WAIT = 30.0
# the last columns are what the first call cost: tokens read and written, and whether they are estimates
_TABLE = (
    "replies (key BLOB PRIMARY KEY, text TEXT NOT NULL, complete INTEGER NOT NULL, "
    "input_tokens INTEGER, output_tokens INTEGER, estimated INTEGER)"
)
# maximum of bytes of an answer, as for answers from endpoints
_LONGEST_BYTES = 64_000_000


def call_key(identity: object, messages: Sequence[Message], max_tokens: int, schema: Schema | None) -> bytes:
    """Return the hash of everything that changes a model's answer."""
    asked = [identity, [[m.role, m.text] for m in messages], max_tokens, schema]
    return blake2b(json.dumps(asked, sort_keys=True).encode(), digest_size=16).digest()


class _ChatWrapper(Generic[Inner]):
    """The common part of wrappers of chat models."""

    def __init__(self, chat: Inner) -> None:
        self.chat = chat
        self.spec, self.identity, self.window = chat.spec, chat.identity, chat.window


class CachedChat(_ChatWrapper[ChatModel]):
    """A `ChatModel` that caches the answers of `chat` on disk.

    A cached answer has the usage of the first call, counted as cached. Equal calls at the same time are made once. Failures and
    empty answers are not cached. The directory grows with every new answer. Delete it to clear the cache.
    """

    def __init__(self, chat: ChatModel, directory: AnyPath) -> None:
        super().__init__(chat)
        self.directory = Path(directory)
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            strange = find_untrusted_entry(self.directory)
        except OSError as error:
            raise UsageError(
                f"cannot use {self.directory} as a cache: {error.strerror}", "name another directory"
            ) from None
        if strange is not None:
            raise UsageError(f"invalid file in a cache: {strange} (expected a regular file)", "name another directory")
        self._under_way: WeakValueDictionary[tuple[object, bytes], asyncio.Lock] = WeakValueDictionary()
        with self._database() as database:
            database.execute(f"CREATE TABLE IF NOT EXISTS {_TABLE}")

    async def complete(
        self, messages: Sequence[Message], *, max_tokens: int = 1024, schema: Schema | None = None
    ) -> Reply:
        key = call_key(self.identity, messages, max_tokens, schema)
        async with self._under_way.setdefault((asyncio.get_running_loop(), key), asyncio.Lock()):
            reply = await asyncio.to_thread(self._find, key)
            if reply is None:
                reply = await self.chat.complete(messages, max_tokens=max_tokens, schema=schema)
                await asyncio.to_thread(self._keep, key, reply)
            return reply

    async def stream(self, messages: Sequence[Message], *, max_tokens: int = 1024) -> AsyncIterator[str | Reply]:
        """Stream an answer. A cached answer is a single piece."""
        key = call_key(self.identity, messages, max_tokens, None)
        cached = await asyncio.to_thread(self._find, key)
        if cached is not None:
            yield cached.text
            yield cached
            return
        async for piece in self.chat.stream(messages, max_tokens=max_tokens):
            if isinstance(piece, Reply):
                await asyncio.to_thread(self._keep, key, piece)
            yield piece

    def has(self, messages: Sequence[Message], *, max_tokens: int = 1024, schema: Schema | None = None) -> bool:
        """Check whether the answer is cached."""
        return self._find(call_key(self.identity, messages, max_tokens, schema)) is not None

    def _find(self, key: bytes) -> Reply | None:
        with self._database() as database:
            row = database.execute("SELECT * FROM replies WHERE key = ?", (key,)).fetchone()
        if row is None:
            return None
        _, text, complete, read, written, estimated = row
        # other programs may have written the row, so an invalid answer counts as missing
        is_text = isinstance(text, str) and bool(text.strip()) and complete in (0, 1)
        if not is_text or not all(isinstance(count, int) and count >= 0 for count in (read, written)):
            return None
        usage = Usage(1, read, written, bool(estimated), 0, 1, read, written)
        return Reply(text, usage, bool(complete))

    def _keep(self, key: bytes, reply: Reply) -> None:
        if not reply.text.strip():
            return
        with self._database() as database:
            used = reply.usage
            values = (key, reply.text, reply.complete, used.input_tokens, used.output_tokens, used.estimated)
            database.execute("INSERT OR REPLACE INTO replies VALUES (?, ?, ?, ?, ?, ?)", values)

    @contextmanager
    def _database(self) -> Iterator[sqlite3.Connection]:
        """Open the database for one use, which takes a fraction of a millisecond and is safe across threads and forks.

        Each statement commits. The journal is SQLite's default rollback journal, because processes that enable the write-ahead
        log of a new file at the same time find the file locked.
        """
        # the file and its journal may not be a link, a pipe or a device
        for path in (self.directory / FILE, self.directory / f"{FILE}-journal"):
            with suppress(FileNotFoundError):
                # a single call, because another process may delete its journal at any moment
                if not S_ISREG(path.lstat().st_mode):
                    raise UsageError(
                        f"invalid cache file: {path} (expected a regular file)", "delete it, or name another cache"
                    )
        try:
            with closing(sqlite3.connect(self.directory / FILE, timeout=_WAIT, isolation_level=None)) as database:
                database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_BYTES)
                # the file may hold only our table, because views and triggers run code
                schema = database.execute("SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL").fetchall()
                if schema not in ([], [("replies", f"CREATE TABLE {_TABLE}")]):
                    raise sqlite3.DatabaseError("unexpected tables")
                yield database
        except sqlite3.Error as error:
            raise UsageError(
                f"invalid cache of model calls in {self.directory}: {error}", "delete it, or name another one"
            ) from error


class Unstreamed(_ChatWrapper[CompletingModel]):
    """A `ChatModel` that streams the whole answer as a single piece."""

    def __init__(self, chat: CompletingModel) -> None:
        super().__init__(chat)
        self.complete = chat.complete

    async def stream(self, messages: Sequence[Message], *, max_tokens: int = 1024) -> AsyncIterator[str | Reply]:
        reply = await self.complete(messages, max_tokens=max_tokens)
        yield reply.text
        yield reply


def streaming(chat: CompletingModel) -> ChatModel:
    """Return the model if it can stream, else a wrapper that can."""
    return cast(ChatModel, chat) if hasattr(chat, "stream") else Unstreamed(chat)


def with_kept_answers(chat: ChatModel | None, directory: AnyPath | None) -> ChatModel | None:
    """Return the model with a cache in the directory. Without a model or a directory, return the model unchanged."""
    return chat if chat is None or directory is None else CachedChat(chat, directory)
