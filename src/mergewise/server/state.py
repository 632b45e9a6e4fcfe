"""A server's state in a database: tokens, sessions, collections, jobs with their events and uploads, documents.

Every method is one transaction of a few milliseconds, and is safe from any thread and any process.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from hmac import compare_digest
from pathlib import Path
from secrets import token_hex, token_urlsafe
from threading import Event
from types import MappingProxyType
from typing import Any, cast

from mergewise.errors import StoreError, UsageError
from mergewise.ranges import choice
from mergewise.server.configuration import ServeLimits, ServerConfig
from mergewise.server.conversations import OwnConversations, oldest_kept
from mergewise.server.database import Database, Postgres, Row, SQLite
from mergewise.server.records import (
    ENDED,
    INDEXING,
    KINDS,
    READ_ONLY,
    SCOPES,
    CollectionRecord,
    DocumentState,
    DocumentStatus,
    Job,
    JobEvent,
    JobKind,
    JobProgress,
    JobState,
    Scope,
    Token,
    Upload,
)
from mergewise.server.transactions import (
    ALL,
    KEY_SECONDS,
    UNDER_WAY,
    add_event,
    cancel_all,
    cancel_job,
    change_job,
    columns,
    conditions,
    death_error,
    digest,
    end_job,
    forget_document,
    insert,
    job_row,
    known_request,
    marks,
    next_group,
    queue_again,
    queue_document,
    record_of,
    settle,
    token_unless_expired,
    update,
    withdraw,
    withdraw_uploads,
)
from mergewise.server.transactions import Conflict as Conflict
from mergewise.store import check_filter, is_url

_TOKEN = re.compile(r"mw_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")
KEPT_SECONDS = 7 * 86_400.0
"""Seconds for which the events and uploads of an ended job are kept, for streams and retries."""
RESPONSE_SECONDS, MOST_RESPONSES = 30 * 86_400.0, 200
"""Seconds for which responses are kept, and their number per token."""
DATABASE_FILE = "server.sqlite"
_FREE_BYTES = 16_000_000


class State:
    """The state in the file `path`, which is created or upgraded, or in the Postgres database of the URL `database`.

    `storage` is the bucket or folder that several servers share. Raises UsageError for a file on a network disk.
    """

    def __init__(self, path: Path, database: str | None = None, storage: Path | None = None) -> None:
        self.path, self._storage = path, storage or path.parent
        # set while this process shuts down: /readyz answers 503, and new requests are refused
        self.draining = Event()
        # collections whose index this server must not change
        self.read_only: frozenset[str] = frozenset()
        self._beat = path.with_name("writer.beat")
        self.database: Database = SQLite(path) if database is None else Postgres(database)
        self._change, self._rows = self.database.change, self.database.rows

    @classmethod
    def of(cls, config: ServerConfig) -> State:
        return cls(config.data / DATABASE_FILE, config.database, config.storage)

    def __enter__(self) -> State:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the database."""
        self.database.close()

    def check_writable(self) -> None:
        """Check that the state is writable. Raises StoreError if not, such as for a full disk or a missing directory."""
        with self._change():
            self.database.check()
            if shutil.disk_usage(self.path.parent).free < _FREE_BYTES:
                raise StoreError("disk full: cannot write the server's state", "free some disk space")

    # -- tokens and sessions

    def add_token(
        self,
        scopes: Iterable[Scope],
        *,
        collections: Iterable[str] | None = None,
        title: str = "",
        filter: Mapping[str, Any] | None = None,
        expires: float | None = None,
        rate: float | None = None,
    ) -> tuple[Token, str]:
        """Create a token. Return it with its secret form `mw_ID_SECRET`, which cannot be read again later.

        Raises:
            UsageError: for unknown scopes or an invalid filter, and for a filter with other scopes than "read".
        """
        own = frozenset(cast(Scope, choice("scope", scope, SCOPES)) for scope in scopes)
        if filter is not None:
            check_filter(filter)
            if own - {"read"}:
                raise UsageError("a token with a filter only reads", 'give it the scope "read" alone, or no filter')
        if not own:
            raise UsageError("missing scope of the token", f"one of: {', '.join(SCOPES)}")
        among = None if collections is None else frozenset(collections)
        token = Token(token_hex(6), own, among, title, filter, expires, rate, time.time())
        secret = token_urlsafe(32)
        with self._change() as rows:
            insert(rows, "tokens", {**columns(token), "secret_sha256": digest(secret)})
        return token, f"mw_{token.id}_{secret}"

    def tokens(self) -> list[Token]:
        return [record_of(Token, row) for row in self._rows("SELECT * FROM tokens ORDER BY created, id")]

    def remove_token(self, id: str) -> bool:
        """Remove a token with its sessions and conversations. Return True if the token existed."""
        with self._change() as rows:
            # users of a front end have the ids TOKEN-USER
            for table in ("conversations", "responses"):
                rows.execute(f"DELETE FROM {table} WHERE token = ? OR instr(token, ?) = 1", [id, f"{id}-"])
            found = bool(rows.execute("DELETE FROM tokens WHERE id = ?", [id]).rowcount)
        self.database.overwrite_deleted(rewrite=found)
        return found

    def keep_response(self, id: str, token: Token, body: Mapping[str, Any]) -> None:
        """Keep a response of the OpenAI-compatible API. Drop expired ones, and the oldest of the token if it has too many."""
        now, owner = time.time(), token.owner
        with self._change(lasting=False) as rows:
            insert(rows, "responses", {"id": id, "token": token.id, "owner": owner, "created": now, "body": dict(body)})
            rows.execute("DELETE FROM responses WHERE created < ?", [now - RESPONSE_SECONDS])
            oldest = f"SELECT id FROM responses WHERE owner = ? ORDER BY created DESC LIMIT {ALL} OFFSET ?"
            rows.execute(f"DELETE FROM responses WHERE id IN ({oldest})", [owner, MOST_RESPONSES])

    def response(self, id: str, token: Token) -> dict[str, Any] | None:
        """Return what `keep_response` kept, or None if it is expired or if a token with other rights made it."""
        since = time.time() - RESPONSE_SECONDS
        query = "SELECT body FROM responses WHERE id = ? AND owner = ? AND created > ?"
        rows = self._rows(query, [id, token.owner, since])
        return json.loads(rows[0]["body"]) if rows else None

    def drop_response(self, id: str, token: Token) -> bool:
        """Delete a response. Return True if it existed."""
        with self._change() as rows:
            query = "DELETE FROM responses WHERE id = ? AND owner = ?"
            return bool(rows.execute(query, [id, token.owner]).rowcount)

    def authenticate(self, presented: str) -> Token | None:
        """Return the token of `mw_ID_SECRET`, or None if it is unknown or expired. Compares in constant time."""
        match = _TOKEN.fullmatch(presented)
        if match is None:
            return None
        rows = self._rows("SELECT * FROM tokens WHERE id = ?", [match[1]])
        is_right = compare_digest(rows[0]["secret_sha256"] if rows else "", digest(match[2]))
        return token_unless_expired(rows[0]) if rows and is_right else None

    def open_session(self, token: Token, seconds: float) -> tuple[str, str]:
        """Return an opaque cookie value and its secret, which are valid only together.

        They expire after the given seconds, with the token, or by `close_session`.
        """
        cookie, secret, now = token_urlsafe(32), token_urlsafe(32), time.time()
        with self._change() as rows:
            rows.execute("DELETE FROM sessions WHERE expires <= ?", [now])
            rows.execute(
                "INSERT INTO sessions VALUES (?, ?, ?)", [digest(f"{cookie}.{secret}"), token.id, now + seconds]
            )
        return cookie, secret

    def session_token(self, cookie: str, secret: str) -> Token | None:
        """Return the token of an open session, or None."""
        # safe from timing attacks: the lookup is by the sha256 of 64 random bytes
        rows = self._rows(
            "SELECT tokens.* FROM sessions JOIN tokens ON tokens.id = token "
            "WHERE cookie_sha256 = ? AND sessions.expires > ?",
            [digest(f"{cookie}.{secret}"), time.time()],
        )
        return token_unless_expired(rows[0]) if rows else None

    def close_session(self, cookie: str, secret: str) -> None:
        with self._change() as rows:
            rows.execute("DELETE FROM sessions WHERE cookie_sha256 = ?", [digest(f"{cookie}.{secret}")])

    # -- collections

    def collections(self) -> list[CollectionRecord]:
        """Return all collections, ordered by name."""
        return [self._with_full_paths(row) for row in self._rows("SELECT * FROM collections ORDER BY name")]

    def collection(self, name: str) -> CollectionRecord | None:
        rows = self._rows("SELECT * FROM collections WHERE name = ?", [name])
        return self._with_full_paths(rows[0]) if rows else None

    def _with_full_paths(self, row: Row) -> CollectionRecord:
        """Return the record with full paths. Paths within the server's data are stored relative to it, so data can be moved."""
        record = record_of(CollectionRecord, row)
        path, blobs = (one if is_url(one) else str(self._storage / one) for one in (record.path, record.blobs))
        return replace(record, path=path, blobs=blobs)

    def add_collection(self, collection: CollectionRecord) -> CollectionRecord:
        """Add a collection. Raises Conflict if the name is taken.

        A configured collection replaces its older record. A title and defaults that the configuration leaves out stay.
        The writer creates the index soon after. Until then `path` has no manifest, and the collection is empty.
        """
        with self._change() as rows:
            row = rows.execute("SELECT * FROM collections WHERE name = ?", [collection.name]).fetchone()
            if row is not None and not collection.configured:
                raise Conflict(f"collection {collection.name!r} already exists", "choose another name")
            known = replace(collection, created=time.time()) if row is None else record_of(CollectionRecord, row)
            title, defaults = collection.title or known.title, collection.defaults or known.defaults
            collection = replace(
                collection, title=title, defaults=defaults, created=known.created, metadata=known.metadata
            )
            path, blobs = (_relative_within(self._storage, place) for place in (collection.path, collection.blobs))
            insert(rows, "collections", columns(replace(collection, path=path, blobs=blobs)), "name")
        return collection

    def update_collection(
        self,
        name: str,
        *,
        title: str | None = None,
        defaults: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> CollectionRecord | None:
        """Change the title, the defaults or the metadata. Return the new record, or None if the collection does not exist."""
        wanted = {"title": title, "defaults": defaults, "metadata": metadata}
        changes = {column: value for column, value in wanted.items() if value is not None}
        with self._change() as rows:
            update(rows, "collections", {"name": name}, {"name": name, **changes})
        return self.collection(name)

    def forget_collection(self, name: str) -> None:
        """Delete the records of a collection, of its documents and of questions to it. Its jobs remain."""
        with self._change() as rows:
            rows.execute("DELETE FROM conversations WHERE collection = ?", [name])
            rows.execute("DELETE FROM collections WHERE name = ?", [name])
            rows.execute("DELETE FROM documents WHERE collection = ?", [name])
        self.database.overwrite_deleted(rewrite=True)

    # -- jobs, for the workers

    def check_changeable(self, collection: str) -> None:
        """Check that the server may change the index of a collection. Raises Conflict."""
        if collection in self.read_only:
            raise Conflict(f"collection {collection} is read-only here", "change its index where it is written")

    def enqueue(
        self,
        kind: JobKind,
        collection: str,
        request: Mapping[str, Any] | None = None,
        *,
        uploads: Sequence[Upload] = (),
        token: str | None = None,
        idempotency: tuple[str, str] | None = None,
    ) -> Job:
        """Create a job, which is on the disk when this returns, and queue the documents of `uploads`.

        `idempotency` is the client's key and a fingerprint of its request. Within 24 hours the same token and key return the same
        job, or raise Conflict for another fingerprint. A `remove` job also withdraws waiting uploads of its documents.
        """
        choice("job kind", kind, KINDS)
        if kind not in READ_ONLY:
            self.check_changeable(collection)
        asked = dict(request or {})
        now = time.time()
        with self._change() as rows:
            if idempotency is not None:
                known = known_request(rows, token or "", *idempotency, now)
                if known is not None:
                    return record_of(Job, known)
            # Waiting uploads are withdrawn at once, so the job may overtake earlier ones. A filter cannot be urgent: it must see
            # the documents of earlier jobs.
            is_urgent = kind == "drop" or (kind == "remove" and "filter" not in asked)
            job = Job(f"job_{token_hex(8)}", kind, collection, "queued", now, asked, token=token)
            insert(rows, "jobs", {**columns(job), "urgent": is_urgent})
            if kind == "drop":
                cancel_all(rows, collection, but=job.id)
            elif is_urgent:
                withdraw_uploads(rows, collection, asked)
            for position, upload in enumerate(uploads):
                insert(rows, "uploads", {"job": job.id, "position": position, **columns(upload)})
                queue_document(rows, job, upload)
            if idempotency is not None:
                rows.execute("INSERT INTO idempotency VALUES (?, ?, ?, ?, ?)", [token or "", *idempotency, job.id, now])
            add_event(rows, job.id)
            return record_of(Job, job_row(rows, job.id))

    def job(self, id: str) -> Job | None:
        rows = self._rows("SELECT * FROM jobs WHERE id = ?", [id])
        return record_of(Job, rows[0]) if rows else None

    def jobs(
        self,
        *,
        collections: Collection[str] | None = None,
        states: Collection[JobState] | None = None,
        kinds: Collection[str] | None = None,
        token: str | None = None,
        before: int | None = None,
        limit: int = 50,
    ) -> list[Job]:
        """Return jobs, newest first. `before` is the number of the last job of the previous page."""
        where, values = conditions(
            ("collection", collections),
            ("state", states),
            ("kind", kinds),
            ("token", None if token is None else [token]),
            more=[("number < ?", before)] if before is not None else [],
        )
        return [
            record_of(Job, row)
            for row in self._rows(f"SELECT * FROM jobs{where} ORDER BY number DESC LIMIT ?", [*values, limit])
        ]

    def job_counts(self) -> dict[JobState, int]:
        """Return the number of jobs in each state."""
        return {row["state"]: row["n"] for row in self._rows("SELECT state, count(*) AS n FROM jobs GROUP BY state")}

    def indexing_progress(self, collection: str) -> JobProgress | None:
        """Return the progress of the jobs that index documents of the collection, or None without such a job.

        A `sync` job counts once it knows what to do: most find no change.
        """
        where, values = conditions(("collection", [collection]), ("kind", INDEXING), ("state", ["queued", *UNDER_WAY]))
        jobs = [record_of(Job, row) for row in self._rows(f"SELECT * FROM jobs{where}", values)]
        parts = [job.progress for job in jobs if job.kind != "sync" or job.progress.total]
        return JobProgress(sum(part.done for part in parts), sum(part.total for part in parts)) if parts else None

    def events(self, id: str, after: int = 0) -> list[JobEvent]:
        """Return the events of a job after this number. A stream polls until an event has a state of `ENDED`."""
        rows = self._rows("SELECT * FROM events WHERE job = ? AND number > ? ORDER BY number", [id, after])
        return [JobEvent(row["number"], json.loads(row["data"])) for row in rows]

    def cancel(self, id: str) -> Job | None:
        """Cancel a job and return it, or None if it does not exist.

        A queued job is cancelled at once, a running job becomes `cancelling`, and an ended job stays as it is.
        """
        with self._change() as rows:
            row = job_row(rows, id)
            if row is None:
                return None
            cancel_job(rows, row)
            return record_of(Job, job_row(rows, id))

    def retry(self, id: str) -> Job | None:
        """Queue a job again for its unfinished documents. Raises Conflict if it neither failed nor was cancelled."""
        with self._change() as rows:
            row = job_row(rows, id)
            if row is None:
                return None
            waiting = rows.execute("SELECT * FROM uploads WHERE job = ? ORDER BY position", [id]).fetchall()
            if row["state"] not in ENDED or (row["state"] == "done" and not waiting):
                raise Conflict(f"cannot retry a job in state {row['state']}", "retry only failed or cancelled jobs")
            if row["kind"] in ("add", "replace") and not waiting:
                raise Conflict("the uploads of the job have expired", "upload the documents again")
            cleared = dict.fromkeys(("report", "error", "finished", "killed_at"))
            change_job(rows, id, "queued", {**cleared, "kills": 0})
            for upload in waiting:
                queue_document(rows, record_of(Job, row), record_of(Upload, upload))
            return record_of(Job, job_row(rows, id))

    def uploads(self, id: str) -> list[Upload]:
        """Return the documents of an `add` or `replace` job that are not indexed yet, in order."""
        rows = self._rows("SELECT * FROM uploads WHERE job = ? ORDER BY position", [id])
        return [record_of(Upload, row) for row in rows]

    # -- documents

    def document_states(
        self,
        collection: str,
        *,
        ids: Collection[str] | None = None,
        prefix: str = "",
        statuses: Collection[DocumentStatus] | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> list[DocumentState]:
        """Return the states of uploaded documents, ordered by id. Documents from folders, or from an older index, have none."""
        where, values = conditions(
            ("collection", [collection]),
            ("id", ids),
            ("status", statuses),
            more=[("id > ?", after)] * (after is not None)
            + [("substr(id, 1, ?) = ?", len(prefix), prefix)] * bool(prefix),
        )
        query = f"SELECT * FROM documents{where} ORDER BY id LIMIT ?"
        return [record_of(DocumentState, row) for row in self._rows(query, [*values, ALL if limit is None else limit])]

    # -- conversations

    def conversations(self, token: Token, collection: str) -> OwnConversations:
        """Return the conversations of a token with a collection."""
        return OwnConversations(self.database, token, collection)

    # -- the writer's side

    def beat(self, pid: int | None, name: str = "writer") -> None:
        """Record that the writer or another process is alive, or that it has ended (None)."""
        file = self._beat.with_stem(name)
        if pid is None:
            file.unlink(missing_ok=True)
        else:
            file.write_text(str(pid), encoding="ascii")

    def writer_is_alive(self, within: float = 15.0) -> bool:
        """Check if the writer's last sign of life is at most `within` seconds old."""
        try:
            # a sign of life from the future is older than a clock that was set back
            return abs(time.time() - self._beat.stat().st_mtime) <= within
        except OSError:
            return False

    def claim(
        self,
        coalesce: float = 0.5,
        kinds: Collection[JobKind] = KINDS,
        busy: Collection[str] = (),
        turns: Mapping[str, float] = MappingProxyType({}),
        only_small: bool = False,
    ) -> list[Job]:
        """Return the jobs to run next as one group, now in state `running`. Empty if no job of these kinds is ready.

        Removals go first. Collections take turns: `busy` ones must wait, and `turns` has the time of each collection's last turn.
        With `only_small`, large jobs must wait too. This process holds the right to the collection until `release`.
        Uploads to one collection run together once the newest is `coalesce` seconds old.
        """
        waiting = self.hold(kinds, self.waiting_collections(kinds) - {*busy})
        if not waiting:
            return []
        with self._change() as rows:
            # within the transaction, so that only a clock set back makes a job younger than now
            now = time.time()
            where, values = conditions(("state", ["queued"]), ("kind", kinds), ("collection", waiting))
            queue = rows.execute(f"SELECT * FROM jobs{where} ORDER BY urgent DESC, number", values).fetchall()
            taken = next_group(rows, queue, now - coalesce, now, busy, turns, only_small)
            for row in taken:
                rows.execute(
                    "UPDATE documents SET status = 'indexing' WHERE job = ? AND status = 'queued'", [row["id"]]
                )
                begun = {"attempt": row["attempt"] + 1, "started": row["started"] or now, "progress": JobProgress()}
                change_job(rows, row["id"], "running", begun)
            jobs = [record_of(Job, job_row(rows, row["id"])) for row in taken]
        self.release(kinds, {*waiting} - {job.collection for job in jobs})
        return jobs

    def hold(self, kinds: Collection[JobKind], names: Iterable[str]) -> list[str]:
        """Take the rights to run jobs of these kinds on collections. Return the collections that no other process holds.

        A right lasts until `release` or the end of the process.
        """
        return [name for name in names if self.database.hold(_right(kinds, name))]

    def release(self, kinds: Collection[JobKind], names: Iterable[str]) -> None:
        """Give the rights to these collections back."""
        for name in names:
            self.database.release(_right(kinds, name))

    def waiting_collections(self, kinds: Collection[JobKind], seconds: float = 0.0) -> set[str]:
        """Return the collections with queued jobs of these kinds and of this age. A job from the future is old enough."""
        now = time.time()
        old = ("NOT (created > ? AND created <= ?)", now - seconds, now)
        where, values = conditions(("state", ["queued"]), ("kind", kinds), more=[old])
        return {row["collection"] for row in self._rows(f"SELECT DISTINCT collection FROM jobs{where}", values)}

    def set_state(self, id: str, state: JobState) -> JobState:
        """Set the state of a job, unless it has ended or is `cancelling`. Return its state."""
        with self._change() as rows:
            current: JobState = job_row(rows, id)["state"]
            if current in ENDED or current in (state, "cancelling"):
                return current
            change_job(rows, id, state)
            return state

    def set_progress(self, id: str, progress: JobProgress, *, is_event: bool = True) -> JobState:
        """Record the progress of a job, with an event for listeners if `is_event`. Return its state, maybe `cancelling`."""
        with self._change(lasting=False) as rows:
            update(rows, "jobs", {"id": id}, {"progress": progress})
            if is_event:
                add_event(rows, id, is_progress=True)
            state: JobState = job_row(rows, id)["state"]
            return state

    def requeue(self, id: str) -> None:
        """Queue a job again, to be restarted by this writer or by the next."""
        with self._change() as rows:
            queue_again(rows, job_row(rows, id))

    def finish(
        self,
        id: str,
        state: JobState,
        *,
        report: Mapping[str, Any] | None = None,
        error: Mapping[str, Any] | None = None,
        documents: Mapping[str, Mapping[str, Any] | None] | None = None,
        removed: Iterable[str] = (),
        kept: Iterable[str] = (),
    ) -> None:
        """End a job. `documents` maps each finished document to None if it is indexed, or to its error.

        `removed` documents are gone from the index, `kept` documents are as before the job.
        """
        now = time.time()
        with self._change() as rows:
            row = job_row(rows, id)
            for doc_id, problem in (documents or {}).items():
                settle(rows, row, doc_id, problem, now)
            for doc_id in kept:
                withdraw(rows, "job = ? AND id = ? AND status = 'indexing'", [id, doc_id])
            for doc_id in removed:
                forget_document(rows, row["collection"], doc_id)
            end_job(rows, id, state, report, error)

    def forget_documents(self, collection: str, ids: Iterable[str]) -> None:
        """Delete the records of these documents."""
        with self._change() as rows:
            for doc_id in ids:
                forget_document(rows, collection, doc_id)

    def recover_jobs(self, kills: int, kinds: Collection[JobKind] = KINDS, busy: Collection[str] = ()) -> list[Job]:
        """Queue the jobs of dead processes again, and fail a job at which one died `kills` times in a row. Return the jobs.

        This process runs jobs of the `busy` collections. Another process is dead if it lost the right to its collection.
        """
        where, values = conditions(("state", UNDER_WAY), ("kind", kinds))
        query = f"SELECT * FROM jobs{where} ORDER BY number"
        names = self.hold(kinds, {row["collection"] for row in self._rows(query, values)} - {*busy})
        if not names:
            return []
        with self._change() as rows:
            under_way = [row for row in rows.execute(query, values).fetchall() if row["collection"] in names]
            for row in under_way:
                document = json.loads(row["progress"])["document"]
                deaths = row["kills"] + 1 if row["killed_at"] == json.dumps(document) else 1
                update(rows, "jobs", {"id": row["id"]}, {"kills": deaths, "killed_at": json.dumps(document)})
                if deaths >= kills and row["state"] != "cancelling":
                    end_job(rows, row["id"], "failed", error=death_error(deaths, document))
                else:
                    queue_again(rows, row)
            jobs = [record_of(Job, job_row(rows, row["id"])) for row in under_way]
        self.release(kinds, names)
        return jobs

    def blobs_needed(self, collection: str) -> set[str]:
        """Return the blobs of documents, and of uploads that may still be indexed."""
        rows = self._rows(
            "SELECT blob FROM documents WHERE collection = ? AND blob IS NOT NULL UNION "
            "SELECT blob FROM uploads JOIN jobs ON jobs.id = job WHERE jobs.collection = ?",
            [collection, collection],
        )
        return {row["blob"] for row in rows}

    def prune(self, limits: ServeLimits) -> None:
        """Delete old idempotency keys, sessions and conversations, and the events and uploads of jobs that ended long ago."""
        now = time.time()
        ended = f"SELECT id FROM jobs WHERE state IN ({marks(ENDED)}) AND finished < ?"
        with self._change() as rows:
            rows.execute("DELETE FROM idempotency WHERE created < ?", [now - KEY_SECONDS])
            rows.execute("DELETE FROM sessions WHERE expires <= ?", [now])
            rows.execute("DELETE FROM conversations WHERE changed < ?", [oldest_kept(limits)])
            for table in ("events", "uploads"):
                rows.execute(f"DELETE FROM {table} WHERE job IN ({ended})", [*ENDED, now - KEPT_SECONDS])
        self.database.overwrite_deleted()


def _right(kinds: Collection[JobKind], name: str) -> str:
    return f"{'read' if READ_ONLY.issuperset(kinds) else 'write'} {name}"


def _relative_within(folder: Path, place: str) -> str:
    if is_url(place):
        return place
    return os.path.relpath(place, folder) if Path(place).is_relative_to(folder) else str(Path(place).absolute())
