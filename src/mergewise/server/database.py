"""The database of a server's state: a SQLite file for one machine, or Postgres for several replicas.

Both run the same statements, with `?` in place of values. Changes come one after the other in both: SQLite has one writer, and
in Postgres each change holds an advisory lock. A process holds the right to run the jobs of a collection by another advisory
lock, which ends with the process. SQLite needs no such right, since only one writer uses a file.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, Protocol, TypeAlias

from mergewise.errors import MissingExtra, StoreError
from mergewise.extend import remember_keys_of
from mergewise.server.schema import (
    MIGRATIONS,
    check_local_disk,
    check_version,
    connect,
    migrate,
    statements_for_postgres,
)
from mergewise.server.spool import private_folder

Row = Mapping[str, Any]


class StateUnavailable(StoreError):
    """A database that fails or is away."""

    retryable = True


class StateTables(Protocol):
    """The tables within a change. A statement returns a cursor of the driver, with rows by the names of their columns."""

    def execute(self, query: str, values: Any = (), /) -> Any: ...


@contextmanager
def _store_errors(place: str, kind: type[Exception]) -> Iterator[None]:
    try:
        yield
    except (kind, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise StateUnavailable(f"cannot use the server's state: {reason}", f"check {place}") from error


Database: TypeAlias = "SQLite | Postgres"
"""The tables of a state. Methods are safe from any thread, and raise StoreError if the database fails."""


class SQLite:
    """A SQLite file with write-ahead logging, so that workers can read while the writer writes.

    Commits are synced to the disk (`synchronous=FULL`), so an accepted job survives a power failure.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._errors = path, partial(_store_errors, str(path), sqlite3.Error)
        # two connections, so that reads never wait for another process's commit
        self._reading, self._changing = Lock(), Lock()
        with self._errors():
            private_folder(path.parent)
            check_local_disk(path.parent)
            # other users must not read tokens and the requests of jobs
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
            self._changes = connect(path)
            try:
                migrate(self._changes, path)
                self._reads = connect(path)
            except BaseException:
                self._changes.close()
                raise
            self._file = path.stat()

    @contextmanager
    def change(self, *, lasting: bool = True) -> Iterator[StateTables]:
        """Open a transaction. Without `lasting`, its changes survive a crash of the process but not a power failure."""
        with self._changing, self._errors():
            self._changes.execute(f"PRAGMA synchronous={'FULL' if lasting else 'NORMAL'}")
            with self._changes:
                self._changes.execute("BEGIN IMMEDIATE")
                yield self._changes

    def rows(self, query: str, values: Sequence[object] = ()) -> Sequence[Row]:
        with self._reading, self._errors():
            return list(self._reads.execute(query, values))

    def hold(self, right: str) -> bool:
        """Take a right that one process has, until `release` or its end. Return False if another process has it."""
        return True

    def release(self, right: str) -> None: ...

    def overwrite_deleted(self, *, rewrite: bool = False) -> None:
        """Move the log into the file, so that no copy of a deleted row remains in the log."""
        self.rows("PRAGMA wal_checkpoint(TRUNCATE)")

    def check(self) -> None:
        """Raise StoreError if the file was replaced."""
        with self._errors():
            if not os.path.samestat(self._file, self._path.stat()):
                raise StoreError("the server's state was replaced", "restart the server")

    def close(self) -> None:
        with self._reading, self._changing:
            self._reads.close()
            self._changes.close()


# the session of a machine without power, and its rights, end after 25 seconds
_OF_SESSION = "SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3"


class Postgres:
    """A database of a Postgres server, `postgresql://USER@HOST/NAME`. Changes are made by the session that holds the rights.

    A closed connection is opened again, but never one that held rights: a process that lost them can change nothing more.
    """

    def __init__(self, url: str) -> None:
        try:
            import psycopg
            from psycopg.rows import dict_row
        except ImportError as error:
            raise MissingExtra("Postgres", "postgres", error) from None
        remember_keys_of(url)
        self._url, self._driver, self._errors = url, psycopg, partial(_store_errors, "the database", psycopg.Error)
        # values are sent within the statement, since Postgres cannot tell the types of all of ours
        self._options: Any = {"autocommit": True, "row_factory": dict_row, "cursor_factory": psycopg.ClientCursor}
        self._locks = {name: Lock() for name in ("reads", "changes", "vacuum")}
        self._open: dict[str, Any] = {}
        self._held: set[str] = set()
        with closing(self), self.change() as rows:
            rows.execute("CREATE TABLE IF NOT EXISTS version (number BIGINT NOT NULL)")
            version = rows.execute("SELECT coalesce(max(number), 0) AS number FROM version").fetchone()["number"]
            check_version(version, "the database")
            for statement in statements_for_postgres(version):
                rows.execute(statement)
            rows.execute("INSERT INTO version SELECT ? WHERE ? < ?", [len(MIGRATIONS), version, len(MIGRATIONS)])

    def _execute(self, name: str, query: str, values: Sequence[object] = ()) -> Any:
        """Run a statement by a connection. Try again if Postgres has closed the connection since its last use."""
        if is_new := name not in self._open:
            self._open[name] = self._driver.connect(self._url, connect_timeout=5, **self._options)
            self._open[name].execute(_OF_SESSION)
        try:
            return _Statements(self._open[name]).execute(query, values)
        except self._driver.OperationalError:
            if is_new or not self._open[name].closed or (name == "changes" and self._held):
                raise
            del self._open[name]
            return self._execute(name, query, values)

    @contextmanager
    def change(self, *, lasting: bool = True) -> Iterator[StateTables]:
        with self._locks["changes"], self._errors():
            self._execute("changes", f"SET synchronous_commit = {'on' if lasting else 'off'}")
            with self._open["changes"].transaction():
                rows = _Statements(self._open["changes"])
                rows.execute("SELECT pg_advisory_xact_lock(hashtext(current_schema()))")
                yield rows

    def rows(self, query: str, values: Sequence[object] = ()) -> Sequence[Row]:
        with self._locks["reads"], self._errors():
            return list(self._execute("reads", query, values))

    def hold(self, right: str) -> bool:
        self._held |= {right} if self._lock("pg_try_advisory_lock", right) else set()
        return right in self._held

    def release(self, right: str) -> None:
        self._lock("pg_advisory_unlock", right)
        self._held.discard(right)

    def _lock(self, function: str, right: str) -> bool:
        with self._locks["changes"], self._errors():
            query = f"SELECT {function}(hashtext(current_schema()), hashtext(?)) AS done"
            return bool(self._execute("changes", query, [right]).fetchone()["done"])

    def overwrite_deleted(self, *, rewrite: bool = False) -> None:
        """Free the space of deleted questions. With `rewrite`, their tables become new files, and others wait meanwhile."""
        with self._locks["vacuum"], self._errors():
            self._execute("vacuum", f"VACUUM {'(FULL) ' if rewrite else ''}conversations, turns, responses")

    def check(self) -> None: ...

    def close(self) -> None:
        while self._open:
            self._open.popitem()[1].close()


class _Statements(NamedTuple):
    """Our statements in the form of Postgres."""

    connection: Any

    def execute(self, query: str, values: Any = (), /) -> Any:
        sent = []
        for value in values:
            # booleans are numbers, as in SQLite, and Postgres does not store the character 0
            if isinstance(value, str):
                value = value.replace("\0", "\ufffd").replace("\\u0000", "\\ufffd")
            sent.append(int(value) if isinstance(value, bool) else value)
        return self.connection.execute(query.replace("?", "%s"), sent)
