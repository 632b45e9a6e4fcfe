"""What the transactions of a server's state are made of: rows as records, and the steps that several of them take."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

from mergewise.errors import MergewiseError, StoreError
from mergewise.server.records import (
    CollectionRecord,
    DocumentState,
    DocumentStatus,
    Job,
    JobProgress,
    JobState,
    Token,
    Upload,
)

Record = TypeVar("Record", CollectionRecord, DocumentState, Token, Upload)

KEY_SECONDS = 86_400.0
"""How long an idempotency key gives the same job."""
MOST_TOGETHER = 500
"""Documents of uploads that are taken together."""
LONGEST_WAIT = 5.0
"""Seconds after which uploads that do not cease are taken as they are."""
ALONE_AFTER = 2
"""Deaths of the writer at one document after which the jobs that were under way are run one by one."""
_OF_UPLOADS = ("name", "title", "metadata", "blob", "bytes", "media_type", "is_document")
UNDER_WAY = ("waiting_lock", "running", "cancelling")
WAITS_FOR_WRITER = ("queued", *UNDER_WAY)


class Conflict(MergewiseError):
    """What is asked contradicts what stands: a collection of that name, another request under the same key, a job that ended."""


@contextmanager
def store_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise StoreError(f"the server's state cannot be used: {error}", f"look at {path}") from error
    except OSError as error:
        raise StoreError(f"the server's state cannot be used: {error.strerror}", f"look at {path}") from error


def digest(secret: str) -> str:
    return sha256(secret.encode()).hexdigest()


def marks(values: Collection[object]) -> str:
    return ", ".join("?" * len(values))


def columns(record: Any) -> dict[str, Any]:
    """The fields of a record as SQLite takes them: collections as JSON; `number` is SQLite's own."""
    values = {f.name: getattr(record, f.name) for f in fields(record) if f.name != "number"}
    return {name: _column(value) for name, value in values.items()}


def _column(value: Any) -> Any:
    if isinstance(value, JobProgress):
        return json.dumps(asdict(value))
    if isinstance(value, Mapping):
        return json.dumps(dict(value))
    return json.dumps(sorted(value)) if isinstance(value, frozenset | tuple) else value


def insert(rows: sqlite3.Connection, table: str, values: Mapping[str, Any], or_else: str = "ABORT") -> None:
    names = ", ".join(values)
    rows.execute(f"INSERT OR {or_else} INTO {table} ({names}) VALUES ({marks(values)})", list(values.values()))


_JSON = {"scopes", "collections", "filter", "views", "settings", "defaults", "metadata", "error", "report", "request"}


def _values(row: sqlite3.Row, names: Iterable[str]) -> dict[str, Any]:
    return {name: json.loads(row[name]) if name in _JSON and row[name] is not None else row[name] for name in names}


def record_of(kind: type[Record], row: sqlite3.Row) -> Record:
    values = _values(row, [f.name for f in fields(kind)])
    # annotations are texts here
    switches = {f.name: bool(values[f.name]) for f in fields(kind) if f.type == "bool"}
    return kind(**{**values, **switches, **({"views": tuple(values["views"])} if "views" in values else {})})


def token_of(row: sqlite3.Row) -> Token:
    token = record_of(Token, row)
    among = None if token.collections is None else frozenset(token.collections)
    return replace(token, scopes=frozenset(token.scopes), collections=among)


def token_unless_expired(row: sqlite3.Row) -> Token | None:
    return token_of(row) if row["expires"] is None or row["expires"] > time.time() else None


def job_of(row: sqlite3.Row) -> Job:
    values = _values(row, [f.name for f in fields(Job) if f.name != "progress"])
    return Job(**values, progress=JobProgress(**json.loads(row["progress"])))


def job_row(rows: sqlite3.Connection, id: str) -> Any:
    return rows.execute("SELECT * FROM jobs WHERE id = ?", [id]).fetchone()


def conditions(
    *among: tuple[str, Collection[object] | None], more: Sequence[tuple[object, ...]] = ()
) -> tuple[str, list[object]]:
    """A WHERE clause with its values: columns that are one of several values, where these are given, and further conditions."""
    given = [(f"{name} IN ({marks(values)})", *values) for name, values in among if values is not None]
    parts = [*given, *more]
    where = " AND ".join(str(part[0]) for part in parts)
    return f" WHERE {where}" if where else "", [value for part in parts for value in part[1:]]


# -- steps of transactions


def known_request(rows: sqlite3.Connection, token: str, key: str, fingerprint: str, now: float) -> Any:
    rows.execute("DELETE FROM idempotency WHERE created < ?", [now - KEY_SECONDS])
    known = rows.execute("SELECT * FROM idempotency WHERE token = ? AND key = ?", [token, key]).fetchone()
    if known is None:
        return None
    if known["fingerprint"] != fingerprint:
        raise Conflict("this Idempotency-Key came with another request", "use a new key for a new request")
    return job_row(rows, known["job"])


def add_event(rows: sqlite3.Connection, id: str, *, is_progress: bool = False) -> None:
    """Write the event. Of how far a job was, the last one is kept."""
    if is_progress:
        rows.execute("DELETE FROM events WHERE job = ? AND is_progress", [id])
    last = rows.execute("SELECT event FROM jobs WHERE id = ?", [id]).fetchone()[0]
    rows.execute("UPDATE jobs SET event = ? WHERE id = ?", [last + 1, id])
    data = json.dumps(job_of(job_row(rows, id)).as_dict())
    rows.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?)", [id, last + 1, data, is_progress, time.time()])


def give_state(rows: sqlite3.Connection, id: str, state: JobState) -> None:
    rows.execute("UPDATE jobs SET state = ? WHERE id = ?", [state, id])
    add_event(rows, id)


def end_job(
    rows: sqlite3.Connection,
    id: str,
    state: JobState,
    report: Mapping[str, Any] | None = None,
    error: Mapping[str, Any] | None = None,
) -> None:
    """End a job, with the documents that it did not come to."""
    texts = [None if one is None else json.dumps(dict(one)) for one in (report, error)]
    rows.execute("UPDATE jobs SET finished = ?, report = ?, error = ? WHERE id = ?", [time.time(), *texts, id])
    waits = "job = ? AND status IN ('queued', 'indexing')"
    if state == "failed":
        rows.execute(f"UPDATE documents SET status = 'failed', error = ? WHERE {waits}", [texts[1], id])
    else:
        withdraw(rows, waits, [id])
    give_state(rows, id, state)


def withdraw(rows: sqlite3.Connection, where: str, values: Sequence[object]) -> None:
    """Documents that are not to be indexed after all: those that the index has stay as they are there."""
    rows.execute(f"DELETE FROM documents WHERE {where} AND indexed_at IS NULL", values)
    rows.execute(f"UPDATE documents SET status = 'indexed' WHERE {where}", values)


def queue_again(rows: sqlite3.Connection, row: sqlite3.Row) -> None:
    if row["state"] == "cancelling":
        end_job(rows, row["id"], "cancelled")
        return
    rows.execute("UPDATE documents SET status = 'queued' WHERE job = ? AND status = 'indexing'", [row["id"]])
    give_state(rows, row["id"], "queued")


def queue_document(rows: sqlite3.Connection, job: Job, upload: Upload) -> None:
    """The document waits for the job. What tells of its bytes are those that are indexed, as long as there are any."""
    known = rows.execute(
        "SELECT indexed_at FROM documents WHERE collection = ? AND id = ?", [job.collection, upload.id]
    ).fetchone()
    if known is not None and known["indexed_at"] is not None:
        rows.execute(
            "UPDATE documents SET status = 'queued', job = ?, error = NULL WHERE collection = ? AND id = ?",
            [job.id, job.collection, upload.id],
        )
    else:
        put_document(rows, _document(job, upload, "queued"))


def _document(job: Job, upload: Upload, status: DocumentStatus, indexed_at: float | None = None) -> DocumentState:
    told = {name: getattr(upload, name) for name in _OF_UPLOADS}
    return DocumentState(job.collection, upload.id, status, job.id, indexed_at=indexed_at, **told)


def put_document(rows: sqlite3.Connection, document: DocumentState) -> None:
    insert(rows, "documents", columns(document), "REPLACE")


def settle(
    rows: sqlite3.Connection, row: sqlite3.Row, doc_id: str, problem: Mapping[str, Any] | None, now: float
) -> None:
    """A document of a job is indexed, or has failed. One that was taken back meanwhile is no longer the job's."""
    upload = rows.execute("SELECT * FROM uploads WHERE job = ? AND id = ?", [row["id"], doc_id]).fetchone()
    if upload is None:
        if problem is not None:
            # a file of a folder
            put_document(rows, DocumentState(row["collection"], doc_id, "failed", row["id"], problem))
        return
    standing = rows.execute(
        "SELECT * FROM documents WHERE collection = ? AND id = ?", [row["collection"], doc_id]
    ).fetchone()
    is_newest = standing is None or standing["job"] == row["id"]
    if problem is not None:
        if is_newest:
            rows.execute(
                "UPDATE documents SET status = 'failed', error = ? WHERE collection = ? AND id = ?",
                [json.dumps(dict(problem)), row["collection"], doc_id],
            )
        return
    indexed = _document(job_of(row), record_of(Upload, upload), "indexed", now)
    if not is_newest:
        # a later upload waits already
        indexed = replace(indexed, status=standing["status"], job=standing["job"])
    put_document(rows, indexed)
    rows.execute("DELETE FROM uploads WHERE job = ? AND id = ?", [row["id"], doc_id])


def forget_document(rows: sqlite3.Connection, collection: str, doc_id: str) -> None:
    """It is not in the index any more; one that was uploaded again since still waits."""
    rows.execute(
        "DELETE FROM documents WHERE collection = ? AND id = ? AND status NOT IN ('queued', 'indexing')",
        [collection, doc_id],
    )
    rows.execute("UPDATE documents SET indexed_at = NULL WHERE collection = ? AND id = ?", [collection, doc_id])


def take_back(rows: sqlite3.Connection, collection: str, asked: Mapping[str, Any]) -> None:
    """What is to be removed is not indexed by jobs that came before, nor when they are tried again."""
    jobs = "SELECT id FROM jobs WHERE collection = ?"
    for doc_id in asked.get("ids", ()):
        rows.execute(f"DELETE FROM uploads WHERE id = ? AND job IN ({jobs})", [doc_id, collection])
        withdraw(rows, "collection = ? AND id = ?", [collection, doc_id])
    if "prefix" in asked:
        prefix = [len(asked["prefix"]), asked["prefix"]]
        rows.execute(f"DELETE FROM uploads WHERE substr(id, 1, ?) = ? AND job IN ({jobs})", [*prefix, collection])
        withdraw(rows, "substr(id, 1, ?) = ? AND collection = ?", [*prefix, collection])


def cancel_all(rows: sqlite3.Connection, collection: str, but: str) -> None:
    waiting = rows.execute(
        f"SELECT * FROM jobs WHERE collection = ? AND id != ? AND state IN ({marks(WAITS_FOR_WRITER)})",
        [collection, but, *WAITS_FOR_WRITER],
    ).fetchall()
    for row in waiting:
        if row["state"] == "queued":
            end_job(rows, row["id"], "cancelled")
        else:
            give_state(rows, row["id"], "cancelling")


def groups_to_run(rows: sqlite3.Connection, queue: Sequence[sqlite3.Row]) -> Iterator[list[sqlite3.Row]]:
    """The jobs that may be run next, for each collection: one, or uploads that follow one another."""
    begun: set[str] = set()
    for row in queue:
        if row["collection"] in begun:
            continue
        begun.add(row["collection"])
        group, documents = [row], 0
        for other in queue if _may_be_joined(row) else ():
            if other["collection"] != row["collection"] or other["number"] <= row["number"]:
                continue
            documents += rows.execute("SELECT count(*) FROM uploads WHERE job = ?", [other["id"]]).fetchone()[0]
            if not _may_be_joined(other) or documents > MOST_TOGETHER:
                break
            group.append(other)
        yield group


def _may_be_joined(row: sqlite3.Row) -> bool:
    """Uploads, unless the writer died at them twice: which one it was is then found out one by one."""
    return row["kind"] in ("add", "replace") and row["kills"] < ALONE_AFTER


def is_ripe(group: Sequence[sqlite3.Row], quiet: float, now: float) -> bool:
    return (
        not _may_be_joined(group[0])
        or max(row["created"] for row in group) <= quiet
        or min(row["created"] for row in group) <= now - LONGEST_WAIT
    )


def death_error(deaths: int, document: str | None) -> dict[str, Any]:
    at = "at this job" if document is None else f"at the document {document}"
    return {
        "code": "writer_killed",
        "detail": f"the process that indexes died {deaths} times {at}",
        "hint": "the log says why; leave the document out, or give the server more memory",
        "document": document,
    }
