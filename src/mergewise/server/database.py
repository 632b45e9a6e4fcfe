"""The database of a server's state: a SQLite file for one machine, or Postgres for several replicas.

Both run the same statements, with `?` in place of values. Changes come one after the other in both: SQLite has one writer, and
in Postgres each change holds an advisory lock. A process holds the right to run the jobs of a collection by another advisory
lock, which ends with the process. SQLite needs no such right, since only one writer uses a file.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from threading import Lock
from typing import Any, Protocol

from mergewise.errors import MissingExtra, StoreError
from mergewise.redaction import remember_keys_of
from mergewise.server.schema import (
    MIGRATIONS,
    check_local_disk,
    check_version,
    connect,
    migrate,
    statements_for_postgres,
)


class Row(Protocol):
    """A row, read by the names of its columns."""

    def __getitem__(self, name: str, /) -> Any: ...
    def keys(self) -> Iterable[str]: ...


class Cursor(Protocol):
    """The result of a statement."""

    @property
    def rowcount(self) -> int: ...
    def fetchone(self) -> Any: ...
    def fetchall(self) -> Sequence[Row]: ...


class Rows(Protocol):
    """The tables within a change."""

    def execute(self, query: str, values: Any = (), /) -> Cursor: ...


class Database(Protocol):
    """The tables of a state. Methods are safe from any thread, and raise StoreError if the database fails."""

    def change(self, *, lasting: bool = True) -> AbstractContextManager[Rows]:
        """Open a transaction. Without `lasting`, its changes survive a crash of the process but not a power failure."""

    def rows(self, query: str, values: Sequence[object] = ()) -> Sequence[Row]:
        """Return the rows of a query."""

    def hold(self, right: str) -> bool:
        """Take a right that one process has, until `release` or its end. Return False if another process has it."""

    def release(self, right: str) -> None: ...

    def overwrite_deleted(self) -> None:
        """Remove copies of deleted rows, as far as the database can."""

    def check(self) -> None:
        """Raise StoreError if the database was replaced."""

    def close(self) -> None: ...


@contextmanager
def _store_errors(place: str, kind: type[Exception]) -> Iterator[None]:
    try:
        yield
    except (kind, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise StoreError(f"cannot use the server's state: {reason}", f"check {place}") from error


class SQLite:
    """A SQLite file with write-ahead logging, so that workers can read while the writer writes.

    Commits are synced to the disk (`synchronous=FULL`), so an accepted job survives a power failure.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        # two connections, so that reads never wait for another process's commit
        self._reading, self._changing = Lock(), Lock()
        with self._errors():
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
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

    def _errors(self) -> AbstractContextManager[None]:
        return _store_errors(str(self._path), sqlite3.Error)

    @contextmanager
    def change(self, *, lasting: bool = True) -> Iterator[Rows]:
        with self._changing, self._errors():
            self._changes.execute(f"PRAGMA synchronous={'FULL' if lasting else 'NORMAL'}")
            with self._changes:
                self._changes.execute("BEGIN IMMEDIATE")
                yield self._changes

    def rows(self, query: str, values: Sequence[object] = ()) -> Sequence[Row]:
        with self._reading, self._errors():
            return self._reads.execute(query, values).fetchall()

    def hold(self, right: str) -> bool:
        return True

    def release(self, right: str) -> None: ...

    def overwrite_deleted(self) -> None:
        # move the log into the file, so that no copy of a deleted row remains in the log
        self.rows("PRAGMA wal_checkpoint(TRUNCATE)")

    def check(self) -> None:
        with self._errors():
            if not os.path.samestat(self._file, self._path.stat()):
                raise StoreError("the server's state was replaced", "restart the server")

    def close(self) -> None:
        with self._reading, self._changing:
            self._reads.close()
            self._changes.close()


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
        self._url, self._driver = url, psycopg
        # values are sent within the statement, since Postgres cannot tell the types of all of ours
        self._options: Any = {"autocommit": True, "row_factory": dict_row, "cursor_factory": psycopg.ClientCursor}
        self._locks = {"reads": Lock(), "changes": Lock()}
        self._open: dict[str, Any] = {}
        self._held: set[str] = set()
        try:
            self._migrate()
        except BaseException:
            self.close()
            raise

    def _migrate(self) -> None:
        with self.change() as rows:
            rows.execute("CREATE TABLE IF NOT EXISTS version (number BIGINT NOT NULL)")
            version = rows.execute("SELECT coalesce(max(number), 0) AS number FROM version").fetchone()["number"]
            check_version(version, "the database")
            for statement in statements_for_postgres(version):
                rows.execute(statement)
            if version < len(MIGRATIONS):
                rows.execute("INSERT INTO version VALUES (?)", [len(MIGRATIONS)])

    def _errors(self) -> AbstractContextManager[None]:
        return _store_errors("the database", self._driver.Error)

    def _execute(self, name: str, query: str, values: Sequence[object] = ()) -> Cursor:
        """Run a statement by a connection. Try again if Postgres has closed the connection since its last use."""
        while True:
            is_new = name not in self._open
            if is_new:
                self._open[name] = self._driver.connect(self._url, connect_timeout=5, **self._options)
                # the session of a machine without power, and its rights, end after 25 seconds
                for option, value in (("idle", 10), ("interval", 5), ("count", 3)):
                    self._open[name].execute(f"SET tcp_keepalives_{option} = {value}")
            try:
                return _Statements(self._open[name].execute).execute(query, values)
            except self._driver.OperationalError:
                if is_new or not self._open[name].closed or (name == "changes" and self._held):
                    raise
                del self._open[name]

    @contextmanager
    def change(self, *, lasting: bool = True) -> Iterator[Rows]:
        with self._locks["changes"], self._errors():
            self._execute("changes", f"SET synchronous_commit = {'on' if lasting else 'off'}")
            with self._open["changes"].transaction():
                rows = _Statements(self._open["changes"].execute)
                rows.execute("SELECT pg_advisory_xact_lock(hashtext(current_schema()))")
                yield rows

    def rows(self, query: str, values: Sequence[object] = ()) -> Sequence[Row]:
        with self._locks["reads"], self._errors():
            return self._execute("reads", query, values).fetchall()

    def hold(self, right: str) -> bool:
        if self._lock("pg_try_advisory_lock", right):
            self._held.add(right)
        return right in self._held

    def release(self, right: str) -> None:
        self._lock("pg_advisory_unlock", right)
        self._held.discard(right)

    def _lock(self, function: str, right: str) -> bool:
        with self._locks["changes"], self._errors():
            query = f"SELECT {function}(hashtext(current_schema()), hashtext(?)) AS done"
            return bool(self._execute("changes", query, [right]).fetchone()["done"])

    def overwrite_deleted(self) -> None: ...

    def check(self) -> None: ...

    def close(self) -> None:
        for name, lock in self._locks.items():
            with lock:
                if name in self._open:
                    self._open.pop(name).close()


class _Statements:
    """Our statements in the form of Postgres."""

    def __init__(self, run: Callable[[str, list[object]], Cursor]) -> None:
        self._run = run

    def execute(self, query: str, values: Sequence[object] = ()) -> Cursor:
        return self._run(query.replace("?", "%s"), [_value_for_postgres(value) for value in values])


def _value_for_postgres(value: object) -> object:
    """Convert booleans to numbers as SQLite does, and replace the character 0, which Postgres does not store."""
    if isinstance(value, str):
        return value.replace("\0", "\ufffd").replace("\\u0000", "\\ufffd")
    return int(value) if isinstance(value, bool) else value
