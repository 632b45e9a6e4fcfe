"""Chat models around others: one whose answers are kept on disk, and one that streams for a model that cannot.

Kept answers are paid for once. The key is a hash of everything that changes the answer: the model's identity (name, endpoint,
temperature, seed ...), all messages, the limit of tokens and the schema. Only the hash and the answer are written. SQLite from
the standard library does the work: a kill loses at most the answer that was being written, and any number of processes may share
a directory. (`diskcache`, the usual package, stores pickles, which run code when they are read.) Whoever may write to the
directory answers for the model: an answer from the disk is judged as one from an endpoint, and no link is followed.
"""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from stat import S_ISREG
from typing import Generic, TypeVar, cast

from mergewise.errors import UsageError
from mergewise.files import find_untrusted_entry
from mergewise.protocols import ChatModel, CompletingModel
from mergewise.types import Message, Reply, Usage

Inner = TypeVar("Inner", bound=CompletingModel)

FILE = "replies.sqlite3"
# seconds for another process that is writing
_WAIT = 30.0
_COLUMNS = "replies (key BLOB PRIMARY KEY, text TEXT NOT NULL, complete INTEGER NOT NULL)"
# of an answer, as of one that an endpoint sends
_LONGEST_BYTES = 64_000_000


class _ChatAround(Generic[Inner]):
    """What does not change where one chat model stands around another."""

    def __init__(self, chat: Inner) -> None:
        self.chat = chat
        self.spec, self.identity, self.window = chat.spec, chat.identity, chat.window


class CachedChat(_ChatAround[ChatModel]):
    """A `ChatModel` that asks `chat` only what `chat` has not answered yet. An answer from the disk has a usage of zero.

    Failures and empty answers are not kept. The directory grows with every new answer; deleting it forgets them all.
    """

    def __init__(self, chat: ChatModel, directory: str | os.PathLike[str]) -> None:
        super().__init__(chat)
        self.directory = Path(directory)
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            strange = find_untrusted_entry(self.directory)
        except OSError as error:
            raise UsageError(
                f"{self.directory} cannot hold a cache: {error.strerror}", "name another directory"
            ) from None
        if strange is not None:
            raise UsageError(f"{strange} is no regular file, which no cache holds", "name another directory")
        with self._database() as database:
            database.execute(f"CREATE TABLE IF NOT EXISTS {_COLUMNS}")

    async def complete(
        self, messages: Sequence[Message], *, max_tokens: int = 1024, schema: Mapping[str, object] | None = None
    ) -> Reply:
        key = self._key(messages, max_tokens, schema)
        reply = await asyncio.to_thread(self._find, key)
        if reply is None:
            reply = await self.chat.complete(messages, max_tokens=max_tokens, schema=schema)
            await asyncio.to_thread(self._keep, key, reply)
        return reply

    async def stream(self, messages: Sequence[Message], *, max_tokens: int = 1024) -> AsyncIterator[str | Reply]:
        """A kept answer comes in one piece."""
        key = self._key(messages, max_tokens, None)
        kept = await asyncio.to_thread(self._find, key)
        if kept is not None:
            yield kept.text
            yield kept
            return
        async for piece in self.chat.stream(messages, max_tokens=max_tokens):
            if isinstance(piece, Reply):
                await asyncio.to_thread(self._keep, key, piece)
            yield piece

    def has(
        self, messages: Sequence[Message], *, max_tokens: int = 1024, schema: Mapping[str, object] | None = None
    ) -> bool:
        """Whether the answer is on the disk."""
        return self._find(self._key(messages, max_tokens, schema)) is not None

    def _key(self, messages: Sequence[Message], max_tokens: int, schema: Mapping[str, object] | None) -> bytes:
        asked = [self.identity, [[m.role, m.text] for m in messages], max_tokens, schema]
        return blake2b(json.dumps(asked, sort_keys=True).encode(), digest_size=16).digest()

    def _find(self, key: bytes) -> Reply | None:
        with self._database() as database:
            row = database.execute("SELECT text, complete FROM replies WHERE key = ?", (key,)).fetchone()
        # others may have written it: what is no answer is asked for again
        if row is None or not isinstance(row[0], str) or not row[0].strip() or row[1] not in (0, 1):
            return None
        return Reply(row[0], Usage(), bool(row[1]))

    def _keep(self, key: bytes, reply: Reply) -> None:
        if not reply.text.strip():
            return
        with self._database() as database:
            database.execute("INSERT OR REPLACE INTO replies VALUES (?, ?, ?)", (key, reply.text, reply.complete))

    @contextmanager
    def _database(self) -> Iterator[sqlite3.Connection]:
        """Opened for each use, which takes a fraction of a millisecond and is safe across threads and forks.

        Each statement commits by itself. The journal is SQLite's default, a rollback journal: processes that turn on the
        write-ahead log of a new file at the same moment find the file locked.
        """
        self._check_plain_files()
        try:
            with closing(sqlite3.connect(self.directory / FILE, timeout=_WAIT, isolation_level=None)) as database:
                database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_BYTES)
                _check_own_table(database)
                yield database
        except sqlite3.Error as error:
            raise UsageError(
                f"{self.directory} does not work as a cache of model calls: {error}", "delete it, or name another one"
            ) from error

    def _check_plain_files(self) -> None:
        """A link, a pipe or a device in the place of the file or its journal leads elsewhere."""
        for path in (self.directory / FILE, self.directory / f"{FILE}-journal"):
            with suppress(FileNotFoundError):
                # looked at once: another process may end its journal at any moment
                if not S_ISREG(path.lstat().st_mode):
                    raise UsageError(f"{path} is no plain file", "delete it, or name another cache")


def _check_own_table(database: sqlite3.Connection) -> None:
    """A view or a trigger in a file of others would run what they wrote. Raises sqlite3.DatabaseError."""
    schema = database.execute("SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL").fetchall()
    if schema not in ([], [("replies", f"CREATE TABLE {_COLUMNS}")]):
        raise sqlite3.DatabaseError("it holds other tables")


class Unstreamed(_ChatAround[CompletingModel]):
    """A `ChatModel` whose stream is the whole answer in one piece."""

    def __init__(self, chat: CompletingModel) -> None:
        super().__init__(chat)
        self.complete = chat.complete

    async def stream(self, messages: Sequence[Message], *, max_tokens: int = 1024) -> AsyncIterator[str | Reply]:
        reply = await self.complete(messages, max_tokens=max_tokens)
        yield reply.text
        yield reply


def streaming(chat: CompletingModel) -> ChatModel:
    """The model itself where it can stream."""
    return cast(ChatModel, chat) if hasattr(chat, "stream") else Unstreamed(chat)


def with_kept_answers(chat: ChatModel | None, directory: str | os.PathLike[str] | None) -> ChatModel | None:
    """The model with its answers kept in a directory, where there is one."""
    return chat if chat is None or directory is None else CachedChat(chat, directory)
