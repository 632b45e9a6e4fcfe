"""A server's state in a database: tokens, sessions, collections, jobs with their events and uploads, documents."""

from __future__ import annotations

import shutil
import time
from functools import partial
from pathlib import Path
from threading import Event

from mergewise.errors import StoreError
from mergewise.server.configuration import ServeLimits, ServerConfig
from mergewise.server.conversations import OwnConversations
from mergewise.server.database import Database, Postgres, SQLite
from mergewise.server.records import ENDED
from mergewise.server.tables.collections import CollectionTable
from mergewise.server.tables.documents import DocumentTable
from mergewise.server.tables.jobs import KEY_SECONDS, JobTable
from mergewise.server.tables.responses import OwnResponses
from mergewise.server.tables.rows import marks
from mergewise.server.tables.tokens import TokenTable

KEPT_SECONDS = 7 * 86_400.0
"""Seconds for which the events and uploads of an ended job are kept, for streams and retries."""
DATABASE_FILE = "server.sqlite"
_FREE_BYTES = 16_000_000


class State:
    """The state in the file `path`, which is created or upgraded, or in the Postgres database of the URL `database`.

    `storage` is the bucket or folder that several servers share. Raises UsageError for a file on a network disk.
    """

    def __init__(self, path: Path, database: str | None = None, storage: Path | None = None) -> None:
        self.path = path
        # set while this process shuts down: /readyz answers 503, and new requests are refused
        self.draining = Event()
        self.database: Database = SQLite(path) if database is None else Postgres(database)
        self.tokens, self.documents = TokenTable(self.database), DocumentTable(self.database)
        self.jobs, self.collections = JobTable(self.database), CollectionTable(self.database, storage or path.parent)
        # of a token, and of a token with a collection
        self.responses = partial(OwnResponses, self.database)
        self.conversations = partial(OwnConversations, self.database)
        self.close = self.database.close

    @classmethod
    def of(cls, config: ServerConfig) -> State:
        return cls(config.data / DATABASE_FILE, config.database, config.storage)

    def __enter__(self) -> State:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def check_writable(self) -> None:
        """Check that the state is writable. Raises StoreError if not, such as for a full disk or a missing directory."""
        with self.database.change():
            self.database.check()
            if shutil.disk_usage(self.path.parent).free < _FREE_BYTES:
                raise StoreError("disk full: cannot write the server's state", "free some disk space")

    def prune(self, limits: ServeLimits) -> None:
        """Delete old idempotency keys, sessions and conversations, and the events and uploads of jobs that ended long ago."""
        now = time.time()
        ended = f"SELECT id FROM jobs WHERE state IN ({marks(ENDED)}) AND finished < ?"
        with self.database.change() as rows:
            rows.execute("DELETE FROM idempotency WHERE created < ?", [now - KEY_SECONDS])
            rows.execute("DELETE FROM sessions WHERE expires <= ?", [now])
            # all of them if none are kept
            oldest = now - limits.conversation_days * 86_400.0 if limits.conversations else float("inf")
            rows.execute("DELETE FROM conversations WHERE changed < ?", [oldest])
            for table in ("events", "uploads"):
                rows.execute(f"DELETE FROM {table} WHERE job IN ({ended})", [*ENDED, now - KEPT_SECONDS])
        self.database.overwrite_deleted()

    # -- signs of life

    def beat(self, pid: int | None, name: str = "writer") -> None:
        """Record that the writer or another process is alive, or that it has ended (None)."""
        file = self.path.with_name(f"{name}.beat")
        if pid is None:
            file.unlink(missing_ok=True)
        else:
            file.write_text(str(pid), encoding="ascii")

    def writer_is_alive(self, within: float = 15.0) -> bool:
        """Check if the writer's last sign of life is at most `within` seconds old."""
        try:
            # a sign of life from the future is older than a clock that was set back
            return abs(time.time() - self.path.with_name("writer.beat").stat().st_mtime) <= within
        except OSError:
            return False
