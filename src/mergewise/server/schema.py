"""The tables of a server's state. Each migration script upgrades the file from one version to the next."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from mergewise.errors import UsageError

MIGRATIONS = (
    """
    CREATE TABLE tokens (
        id TEXT PRIMARY KEY, secret_sha256 TEXT NOT NULL, scopes TEXT NOT NULL, collections TEXT, title TEXT NOT NULL,
        filter TEXT, expires REAL, rate REAL, created REAL NOT NULL
    );
    CREATE TABLE sessions (
        cookie_sha256 TEXT PRIMARY KEY, token TEXT NOT NULL REFERENCES tokens(id) ON DELETE CASCADE, expires REAL NOT NULL
    );
    CREATE TABLE collections (
        name TEXT PRIMARY KEY, path TEXT NOT NULL, blobs TEXT NOT NULL, title TEXT NOT NULL, embedder TEXT,
        views TEXT NOT NULL, settings TEXT NOT NULL, defaults TEXT NOT NULL, created REAL NOT NULL,
        configured INTEGER NOT NULL
    );
    CREATE TABLE jobs (
        number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, collection TEXT NOT NULL,
        state TEXT NOT NULL, created REAL NOT NULL, request TEXT NOT NULL, progress TEXT NOT NULL, report TEXT, error TEXT,
        started REAL, finished REAL, attempt INTEGER NOT NULL DEFAULT 0, kills INTEGER NOT NULL DEFAULT 0,
        killed_at TEXT, token TEXT, urgent INTEGER NOT NULL,
        event INTEGER NOT NULL DEFAULT 0
    );
    CREATE INDEX jobs_by_state ON jobs (state, urgent DESC, number);
    CREATE TABLE events (
        job TEXT NOT NULL REFERENCES jobs(id) ON DELETE CASCADE, number INTEGER NOT NULL, data TEXT NOT NULL,
        is_progress INTEGER NOT NULL, time REAL NOT NULL, PRIMARY KEY (job, number)
    );
    CREATE TABLE uploads (
        job TEXT NOT NULL REFERENCES jobs(id) ON DELETE CASCADE, position INTEGER NOT NULL, id TEXT NOT NULL,
        blob TEXT NOT NULL, name TEXT NOT NULL, bytes INTEGER NOT NULL, title TEXT, metadata TEXT NOT NULL, media_type TEXT,
        is_document INTEGER NOT NULL, on_conflict TEXT NOT NULL, PRIMARY KEY (job, position)
    );
    CREATE INDEX uploads_by_document ON uploads (id);
    CREATE TABLE documents (
        collection TEXT NOT NULL, id TEXT NOT NULL, status TEXT NOT NULL, job TEXT, error TEXT, name TEXT, title TEXT,
        metadata TEXT NOT NULL, blob TEXT, bytes INTEGER, media_type TEXT, is_document INTEGER NOT NULL DEFAULT 0,
        indexed_at REAL, PRIMARY KEY (collection, id)
    );
    CREATE TABLE idempotency (
        token TEXT NOT NULL, key TEXT NOT NULL, fingerprint TEXT NOT NULL, job TEXT NOT NULL, created REAL NOT NULL,
        PRIMARY KEY (token, key)
    );
    """,
    "ALTER TABLE collections ADD COLUMN metadata TEXT NOT NULL DEFAULT '{}'",
    """
    CREATE TABLE responses (
        id TEXT PRIMARY KEY, token TEXT NOT NULL, owner TEXT NOT NULL, created REAL NOT NULL, body TEXT NOT NULL
    );
    CREATE INDEX responses_by_owner ON responses (owner, created)
    """,
    """
    CREATE TABLE conversations (
        id TEXT PRIMARY KEY, token TEXT NOT NULL, owner TEXT NOT NULL, collection TEXT NOT NULL, title TEXT NOT NULL,
        created REAL NOT NULL, changed REAL NOT NULL, share TEXT UNIQUE
    );
    CREATE INDEX conversations_by_owner ON conversations (owner, collection, changed);
    CREATE TABLE turns (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        conversation TEXT NOT NULL REFERENCES conversations(id) ON DELETE CASCADE, question TEXT NOT NULL,
        data TEXT NOT NULL, bytes INTEGER NOT NULL, asked REAL NOT NULL, good INTEGER, note TEXT
    );
    CREATE INDEX turns_by_conversation ON turns (conversation, number);
    """,
)

NETWORK_DISKS = frozenset(
    "afs beegfs ceph cifs fuse.ceph fuse.glusterfs fuse.rclone fuse.s3fs fuse.sshfs glusterfs lustre ncpfs nfs nfs4 smb3 "
    "smbfs".split()
)
_BUSY_SECONDS = 20.0


def connect(path: Path) -> sqlite3.Connection:
    """Open a connection that any thread may use, one at a time. Committed changes survive a power failure."""
    connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    connection.row_factory = sqlite3.Row
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA foreign_keys=ON")
    # overwrite what is deleted: conversations are private
    connection.execute("PRAGMA secure_delete=ON")
    connection.create_function("casefold", 1, str.casefold, deterministic=True)
    return connection


def migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Upgrade the tables to the current version. Raises UsageError if a newer mergewise created them."""
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        if version > len(MIGRATIONS):
            raise UsageError(
                f"{path} was written by a newer mergewise", "upgrade mergewise, or restore an older backup"
            )
        for script in MIGRATIONS[version:]:
            for statement in script.split(";"):
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version={len(MIGRATIONS)}")


def check_local_disk(folder: Path, mounts: Path = Path("/proc/self/mounts")) -> None:
    """Check that the folder is not on a network disk, where SQLite's locks fail. Raises UsageError if it is."""
    kind = _kind_of_disk(folder, mounts)
    if kind in NETWORK_DISKS:
        raise UsageError(
            f"{folder} is on a network disk ({kind}), which could lose the server's state", "choose a local disk"
        )


def _kind_of_disk(folder: Path, mounts: Path) -> str:
    real = os.path.realpath(folder)
    if real.startswith("\\\\"):
        return "cifs"
    try:
        lines = mounts.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    best, kind = "", ""
    for line in lines:
        parts = line.split(" ")
        place = parts[1].replace("\\040", " ") if len(parts) > 2 else ""
        # the last of several mounts at one place hides the others
        if place and len(place) >= len(best) and (real + "/").startswith(place.rstrip("/") + "/"):
            best, kind = place, parts[2]
    return kind
