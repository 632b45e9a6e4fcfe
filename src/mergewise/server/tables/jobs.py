"""Jobs with their events and uploads: the queue, and the transitions between the states of a job."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from secrets import token_hex
from types import MappingProxyType
from typing import Any

from mergewise.extend import choice
from mergewise.server.database import Database, Row, StateTables
from mergewise.server.records import (
    CHANGING,
    ENDED,
    INDEXING,
    KINDS,
    READ_ONLY,
    Job,
    JobEvent,
    JobKind,
    JobProgress,
    JobState,
    Upload,
)
from mergewise.server.tables.documents import forget, queue_document, settle, withdraw
from mergewise.server.tables.rows import (
    Conflict,
    column,
    columns,
    insert,
    marks,
    record_of,
    records_of,
    selection,
    update,
)
from mergewise.types import Json

KEY_SECONDS = 86_400.0
"""Seconds for which an idempotency key returns the same job."""
MOST_TOGETHER = 500
"""Largest number of documents in a group of uploads."""
SMALL_BYTES = 200_000
"""Largest size of a small group of uploads: seconds of work."""
LONGEST_WAIT = 5.0
"""Seconds after which a group of uploads starts even if more uploads keep coming."""
ALONE_AFTER = 2
"""Deaths of the writer at one document after which its jobs run one by one, and no other job beside them."""
UNDER_WAY: tuple[JobState, ...] = ("waiting_lock", "running", "cancelling")
WAITS_FOR_WRITER: tuple[JobState, ...] = ("queued", *UNDER_WAY)
_OF_JOB = "SELECT * FROM uploads WHERE job = ? ORDER BY position"


@dataclass
class JobTable:
    """The jobs in a database. Jobs that change an index are refused for the collections in `read_only`."""

    database: Database
    read_only: frozenset[str] = frozenset()

    # -- for the workers

    def check_changeable(self, collection: str) -> None:
        """Check that the server may change the index of a collection. Raises Conflict."""
        if collection in self.read_only:
            raise Conflict(f"collection {collection} is read-only here", "change its index where it is written")

    def enqueue(
        self,
        kind: JobKind,
        collection: str,
        request: Json | None = None,
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
        with self.database.change() as rows:
            if idempotency is not None:
                rows.execute("DELETE FROM idempotency WHERE created < ?", [now - KEY_SECONDS])
                query, key = "SELECT * FROM idempotency WHERE token = ? AND key = ?", [token or "", idempotency[0]]
                if (known := rows.execute(query, key).fetchone()) is not None:
                    if known["fingerprint"] != idempotency[1]:
                        detail = "Idempotency-Key already used for another request"
                        raise Conflict(detail, "use a new key for a new request")
                    return record_of(Job, _row(rows, known["job"]))
            # Waiting uploads are withdrawn at once, so the job may overtake earlier ones. A filter cannot be urgent: it must see
            # the documents of earlier jobs.
            is_urgent = kind == "drop" or (kind == "remove" and "filter" not in asked)
            job = Job(f"job_{token_hex(8)}", kind, collection, "queued", now, asked, token=token)
            insert(rows, "jobs", {**columns(job), "urgent": is_urgent})
            row = _row(rows, job.id)
            if kind == "drop":
                others = [("id != ?", job.id)]
                running = selection("SELECT * FROM jobs", more=others, collection=[collection], state=WAITS_FOR_WRITER)
                for other in rows.execute(*running).fetchall():
                    _cancel(rows, other)
            elif is_urgent:
                _withdraw_uploads(rows, collection, asked)
            for position, upload in enumerate(uploads):
                insert(rows, "uploads", {"job": job.id, "position": position, **columns(upload)})
                queue_document(rows, row, upload)
            if idempotency is not None:
                rows.execute("INSERT INTO idempotency VALUES (?, ?, ?, ?, ?)", [token or "", *idempotency, job.id, now])
            _add_event(rows, job.id)
            return record_of(Job, row)

    def get(self, id: str) -> Job | None:
        rows = self.database.rows("SELECT * FROM jobs WHERE id = ?", [id])
        return record_of(Job, rows[0]) if rows else None

    def find(
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
        query, values = selection(
            "SELECT * FROM jobs",
            " ORDER BY number DESC LIMIT ?",
            more=[("number < ?", before)] if before is not None else [],
            collection=collections,
            state=states,
            kind=kinds,
            token=None if token is None else [token],
        )
        return records_of(Job, self.database.rows(query, [*values, limit]))

    def last_sync(self, collection: str) -> Job | None:
        """Return the newest `sync` job of a collection."""
        return next(iter(self.find(collections=[collection], kinds=["sync"], limit=1)), None)

    def counts(self) -> dict[JobState, int]:
        """Return the number of jobs in each state."""
        rows = self.database.rows("SELECT state, count(*) AS n FROM jobs GROUP BY state")
        return {row["state"]: row["n"] for row in rows}

    def indexing_progress(self, collection: str) -> JobProgress | None:
        """Return the progress of the jobs that index documents of the collection, or None without such a job.

        A `sync` job counts once it knows what to do: most find no change.
        """
        query = selection("SELECT * FROM jobs", collection=[collection], kind=INDEXING, state=WAITS_FOR_WRITER)
        jobs = records_of(Job, self.database.rows(*query))
        parts = [job.progress for job in jobs if job.kind != "sync" or job.progress.total]
        document = next((part.document for part in parts if part.document), None)
        done, total = sum(part.done for part in parts), sum(part.total for part in parts)
        return JobProgress(done, total, document=document) if parts else None

    def events(self, id: str, after: int = 0) -> list[JobEvent]:
        """Return the events of a job after this number. A stream polls until an event has a state of `ENDED`."""
        rows = self.database.rows("SELECT * FROM events WHERE job = ? AND number > ? ORDER BY number", [id, after])
        return [JobEvent(row["number"], json.loads(row["data"])) for row in rows]

    def cancel(self, id: str) -> Job | None:
        """Cancel a job and return it, or None if it does not exist.

        A queued job is cancelled at once, a running job becomes `cancelling`, and an ended job stays as it is.
        """
        with self.database.change() as rows:
            row = _row(rows, id)
            if row is None:
                return None
            _cancel(rows, row)
            return record_of(Job, _row(rows, id))

    def retry(self, id: str) -> Job | None:
        """Queue a job again for its unfinished documents. Raises Conflict if it neither failed nor was cancelled."""
        with self.database.change() as rows:
            row = _row(rows, id)
            if row is None:
                return None
            waiting = rows.execute(_OF_JOB, [id]).fetchall()
            if row["state"] not in ENDED or (row["state"] == "done" and not waiting):
                raise Conflict(f"cannot retry a job in state {row['state']}", "retry only failed or cancelled jobs")
            if row["kind"] in ("add", "replace") and not waiting:
                raise Conflict("the uploads of the job have expired", "upload the documents again")
            cleared = dict.fromkeys(("report", "error", "finished", "killed_at"))
            _change(rows, id, "queued", {**cleared, "kills": 0})
            for upload in waiting:
                queue_document(rows, row, record_of(Upload, upload))
            return record_of(Job, _row(rows, id))

    def uploads(self, id: str) -> list[Upload]:
        """Return the documents of an `add` or `replace` job that are not indexed yet, in order."""
        return records_of(Upload, self.database.rows(_OF_JOB, [id]))

    # -- for the writer

    def claim(
        self,
        coalesce: float = 0.5,
        kinds: Collection[JobKind] = KINDS,
        busy: Collection[str] = (),
        turns: Mapping[str, float] = MappingProxyType({}),
        only_small: bool = False,
    ) -> list[Job]:
        """Return the jobs to run next as one group, now in state `running`. Empty if no job of these kinds is ready.

        Removals go first. Collections take turns: `busy` ones have a running job and must wait, and `turns` has the time of each
        collection's last turn.
        With `only_small`, large jobs must wait too. This process holds the right to the collection until `release`.
        Uploads to one collection run together once the newest is `coalesce` seconds old.
        """
        waiting = self.hold(kinds, self.waiting_collections(kinds) - {*busy})
        if not waiting:
            return []
        with self.database.change() as rows:
            # within the transaction, so that only a clock set back makes a job younger than now
            now = time.time()
            order = " ORDER BY urgent DESC, number"
            query = selection("SELECT * FROM jobs", order, state=["queued"], kind=kinds, collection=waiting)
            queue = rows.execute(*query).fetchall()
            groups, alone = [], []
            for group in _groups_to_run(rows, queue):
                first, created = group[0], [row["created"] for row in group]
                # more uploads may come; a job from the future is ripe: the clock was set back
                is_young = now - coalesce < max(created) <= now and min(created) > now - LONGEST_WAIT
                # a job that reads waits for earlier jobs that change the collection
                earlier, names = [("number < ?", first["number"])], [first["collection"]]
                query = selection(
                    "SELECT 1 FROM jobs", more=earlier, collection=names, state=WAITS_FOR_WRITER, kind=CHANGING
                )
                waits = first["kind"] in READ_ONLY and rows.execute(*query).fetchone() is not None
                if waits or (is_young and _may_be_joined(first)):
                    continue
                if first["kills"] >= ALONE_AFTER:
                    alone.append(group)
                elif not only_small or _is_small(rows, group):
                    groups.append(group)
            if alone:
                # a job at which its process died repeatedly runs before the others, and beside no other job
                taken = [] if busy else alone[0]
            else:
                taken = min(
                    groups,
                    key=lambda group: (not group[0]["urgent"], turns.get(group[0]["collection"], 0.0)),
                    default=[],
                )
            for row in taken:
                rows.execute(
                    "UPDATE documents SET status = 'indexing' WHERE job = ? AND status = 'queued'", [row["id"]]
                )
                begun = {"attempt": row["attempt"] + 1, "started": row["started"] or now, "progress": JobProgress()}
                _change(rows, row["id"], "running", begun)
            jobs = [record_of(Job, _row(rows, row["id"])) for row in taken]
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
        query = selection("SELECT DISTINCT collection FROM jobs", more=[old], state=["queued"], kind=kinds)
        return {row["collection"] for row in self.database.rows(*query)}

    def set_state(self, id: str, state: JobState) -> JobState:
        """Set the state of a job, unless it has ended or is `cancelling`. Return its state."""
        with self.database.change() as rows:
            current: JobState = _row(rows, id)["state"]
            if current in ENDED or current in (state, "cancelling"):
                return current
            _change(rows, id, state)
            return state

    def set_progress(self, id: str, progress: JobProgress, *, is_event: bool = True) -> JobState:
        """Record the progress of a job, with an event for listeners if `is_event`. Return its state, maybe `cancelling`."""
        with self.database.change(lasting=False) as rows:
            update(rows, "jobs", {"id": id}, {"progress": progress})
            if is_event:
                # only the last progress event is kept
                rows.execute("DELETE FROM events WHERE job = ? AND is_progress = 1", [id])
                _add_event(rows, id, is_progress=True)
            state: JobState = _row(rows, id)["state"]
            return state

    def requeue(self, id: str) -> None:
        """Queue a job again, to be restarted by this writer or by the next."""
        with self.database.change() as rows:
            _queue_again(rows, _row(rows, id))

    def finish(
        self,
        id: str,
        state: JobState,
        *,
        report: Json | None = None,
        error: Json | None = None,
        documents: Mapping[str, Json | None] | None = None,
        removed: Iterable[str] = (),
        kept: Iterable[str] = (),
    ) -> None:
        """End a job. `documents` maps each finished document to None if it is indexed, or to its error.

        `removed` documents are gone from the index, `kept` documents are as before the job.
        """
        now = time.time()
        with self.database.change() as rows:
            row = _row(rows, id)
            for doc_id, problem in (documents or {}).items():
                settle(rows, row, doc_id, problem, now)
            for doc_id in kept:
                withdraw(rows, "job = ? AND id = ? AND status = 'indexing'", [id, doc_id])
            for doc_id in removed:
                forget(rows, row["collection"], doc_id)
            _end(rows, id, state, report, error)

    def recover(self, kills: int, kinds: Collection[JobKind] = KINDS, busy: Collection[str] = ()) -> list[Job]:
        """Queue the jobs of dead processes again, and fail a job at which one died `kills` times in a row. Return the jobs.

        This process runs jobs of the `busy` collections. Another process is dead if it lost the right to its collection.
        """
        query = selection("SELECT * FROM jobs", " ORDER BY number", state=UNDER_WAY, kind=kinds)
        names = self.hold(kinds, {row["collection"] for row in self.database.rows(*query)} - {*busy})
        if not names:
            return []
        with self.database.change() as rows:
            under_way = [row for row in rows.execute(*query).fetchall() if row["collection"] in names]
            for row in under_way:
                document = json.loads(row["progress"])["document"]
                deaths = row["kills"] + 1 if row["killed_at"] == json.dumps(document) else 1
                update(rows, "jobs", {"id": row["id"]}, {"kills": deaths, "killed_at": json.dumps(document)})
                if deaths >= kills and row["state"] != "cancelling":
                    at = "at this job" if document is None else f"at the document {document}"
                    error = {
                        "code": "writer_killed",
                        "detail": f"the process that runs jobs died {deaths} times {at}",
                        "hint": "see the log for the reason; leave the document out, or give the server more memory",
                        "document": document,
                    }
                    _end(rows, row["id"], "failed", error=error)
                else:
                    _queue_again(rows, row)
            jobs = [record_of(Job, _row(rows, row["id"])) for row in under_way]
        self.release(kinds, names)
        return jobs


def _right(kinds: Collection[JobKind], name: str) -> str:
    return f"{'read' if READ_ONLY.issuperset(kinds) else 'write'} {name}"


# -- steps of a change


def _row(rows: StateTables, id: str) -> Any:
    return rows.execute("SELECT * FROM jobs WHERE id = ?", [id]).fetchone()


def _add_event(rows: StateTables, id: str, *, is_progress: bool = False) -> None:
    rows.execute("UPDATE jobs SET event = event + 1 WHERE id = ?", [id])
    row = _row(rows, id)
    data = json.dumps(record_of(Job, row).as_dict())
    rows.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?)", [id, row["event"], data, is_progress, time.time()])


def _change(rows: StateTables, id: str, state: JobState, values: Json | None = None) -> None:
    """Set the state and other values of a job, and write an event."""
    update(rows, "jobs", {"id": id}, {"state": state, **(values or {})})
    _add_event(rows, id)


def _end(rows: StateTables, id: str, state: JobState, report: Json | None = None, error: Json | None = None) -> None:
    """End a job, and its unfinished documents."""
    waits = "job = ? AND status IN ('queued', 'indexing')"
    if state == "failed":
        rows.execute(f"UPDATE documents SET status = 'failed', error = ? WHERE {waits}", [column(error), id])
    else:
        withdraw(rows, waits, [id])
    _change(rows, id, state, {"finished": time.time(), "report": report, "error": error})


def _queue_again(rows: StateTables, row: Row) -> None:
    if row["state"] == "cancelling":
        _end(rows, row["id"], "cancelled")
        return
    rows.execute("UPDATE documents SET status = 'queued' WHERE job = ? AND status = 'indexing'", [row["id"]])
    _change(rows, row["id"], "queued")


def _cancel(rows: StateTables, row: Row) -> None:
    """Cancel a queued job at once. A running job becomes `cancelling`, and an ended job stays as it is."""
    if row["state"] == "queued":
        _end(rows, row["id"], "cancelled")
    elif row["state"] in UNDER_WAY:
        _change(rows, row["id"], "cancelling")


def _withdraw_uploads(rows: StateTables, collection: str, asked: Json) -> None:
    """Withdraw the uploads of removed documents from earlier jobs and from their retries."""
    jobs = "SELECT id FROM jobs WHERE collection = ?"
    for doc_id in asked.get("ids", ()):
        rows.execute(f"DELETE FROM uploads WHERE id = ? AND job IN ({jobs})", [doc_id, collection])
        withdraw(rows, "collection = ? AND id = ?", [collection, doc_id])
    if "prefix" in asked:
        prefix = [len(asked["prefix"]), asked["prefix"]]
        rows.execute(f"DELETE FROM uploads WHERE substr(id, 1, ?) = ? AND job IN ({jobs})", [*prefix, collection])
        withdraw(rows, "substr(id, 1, ?) = ? AND collection = ?", [*prefix, collection])


# -- the queue


def _groups_to_run(rows: StateTables, queue: Sequence[Row]) -> Iterator[list[Row]]:
    """Yield the next group of jobs for each collection: a single job, or consecutive uploads."""
    begun: set[str] = set()
    for row in queue:
        if row["collection"] in begun:
            continue
        begun.add(row["collection"])
        own = [other for other in queue if other["collection"] == row["collection"]]
        # uploads go before the folders, whose first run may take hours
        upload = next((other for other in own if other["kind"] != "sync"), row)
        row = upload if _may_be_joined(upload) else row
        group, total = [row], 0
        for other in own if _may_be_joined(row) else ():
            if other["number"] <= row["number"]:
                continue
            total += len(rows.execute("SELECT id FROM uploads WHERE job = ?", [other["id"]]).fetchall())
            if not _may_be_joined(other) or total > MOST_TOGETHER:
                break
            group.append(other)
        yield group


def _may_be_joined(row: Row) -> bool:
    """Check for uploads at which the writer did not die repeatedly. After deaths, uploads run alone to find the culprit."""
    return row["kind"] in ("add", "replace") and row["kills"] < ALONE_AFTER


def _is_small(rows: StateTables, group: Sequence[Row]) -> bool:
    if group[0]["kind"] not in ("add", "replace"):
        return group[0]["kind"] in ("check", "drop", "metadata", "remove")
    total = f"SELECT coalesce(sum(bytes), 0) AS bytes FROM uploads WHERE job IN ({marks(group)})"
    return bool(rows.execute(total, [row["id"] for row in group]).fetchone()["bytes"] <= SMALL_BYTES)
