"""The processes that run jobs: they take jobs from the state, open the indexes of their collections, and run the jobs.

The writer runs all jobs that change an index. The evaluator runs the jobs that only read (`READ_ONLY`), so that a long evaluation
delays no upload. The writer runs jobs of `LANES` collections at the same time. If more collections wait, they take turns: a job
ends its turn after a batch, and continues at its next turn.

A job is recorded as done after its documents are in the index. If the process dies between the two, the job starts again and
skips documents that the index already has, so no work is done twice. A document at which the process dies repeatedly fails its
job.

    stopping   the running batch is finished, or dropped after `STOP_SECONDS`; the job then waits for the next writer
    full disk  the job waits until there is space again
    locks      `writer`, `evaluator`: held while the process lives; `changes`: held while the writer runs jobs, and by a backup;
               `backup`: held by a waiting backup, so that no further job begins
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any, TypeAlias

from filelock import FileLock, Timeout

import mergewise as mw
from mergewise.errors import Cancelled, IndexBusy, MergewiseError, UsageError
from mergewise.jsonable import problem_json, report_json
from mergewise.models import release
from mergewise.readers import bursts
from mergewise.server.configuration import CollectionConfig, ServerConfig, folder_roots
from mergewise.server.evaluations import evaluate
from mergewise.server.records import CHANGING, READ_ONLY, CollectionRecord, Job, JobKind, JobProgress, JobState, Upload
from mergewise.server.spool import DAY, drop_folder, is_disk_full, local_blob, sweep_blobs, sweep_spool
from mergewise.server.state import State
from mergewise.store import is_url, place_of, state_file
from mergewise.types import OutwardLink

if TYPE_CHECKING:
    from mergewise.engine import Index

log = logging.getLogger("mergewise.server")

KILLS = 3
"""Number of deaths of the writer at one document after which the job fails."""
STOP_SECONDS = 8.5
"""Seconds for the running batch at shutdown."""
WAIT_SECONDS = 30.0
"""Seconds to wait for the end of a previous writer, which ends with its parent."""
BEAT_SECONDS = 0.5
LOOK_AT_FOLDERS_SECONDS = 3.0
LOOK_SECONDS = 0.2
"""Seconds between two polls for jobs."""
TELL_SECONDS = 0.5
"""Seconds between two progress reports of a job, and between two checks for its cancellation."""
LOG_SECONDS = 10.0
"""Seconds between two lines of the log about the progress of a job."""
SWEEP_SECONDS = 600.0
LANES = 3
"""Number of collections whose jobs run at the same time. The last free lane takes only small jobs."""
TURN_SECONDS = 10.0
"""Seconds after which a job ends its turn, if another collection has waited as long."""
SWITCH_SECONDS = 0.0005
"""Python's switch interval. With the default of 5 ms, an upload beside a huge document took 8 s instead of 2.7 s."""
FULL_SECONDS = 10.0
"""Seconds between two attempts while the disk is full."""
AGAIN_SECONDS = 60.0
"""Seconds after which a failed creation of an index is retried."""
_LOCK_SECONDS = 60.0
_Outcome: TypeAlias = tuple[Mapping[str, Any], dict[str, Mapping[str, Any] | None]]
"""The report of a job, and the failed documents with their errors."""


class Writer:
    """The runner of jobs of some kinds, until `stopping` is set. Each of its lanes runs jobs of one collection at a time."""

    def __init__(
        self, config: ServerConfig, state: State, kinds: Sequence[JobKind] = CHANGING, lanes: int = LANES
    ) -> None:
        self.config, self.state, self.kinds, self.lanes = config, state, kinds, lanes
        self.is_evaluator = READ_ONLY.issuperset(kinds)
        self.stopping = Event()
        self.under_way: dict[str, list[Job]] = {}
        self._turns: dict[str, float] = {}
        self._indexes: dict[str, Index] = {}
        self._chats: dict[str, Any] = {}
        self._not_before: dict[str, float] = {}
        self._claiming, self._opening, self._tending = Lock(), Lock(), Lock()
        self._changes = FileLock(lock_file(config.data, "changes"), thread_local=False)
        self._backup = FileLock(lock_file(config.data, "backup"), thread_local=False)
        self._swept = time.monotonic()

    def run(self, look_seconds: float = LOOK_SECONDS) -> None:
        """Run jobs. Return after the rounds in which `stopping` is set."""
        self._tend()
        with ThreadPoolExecutor(self.lanes, "lane") as lanes:
            list(lanes.map(self._run_lane, [look_seconds] * self.lanes))

    def _run_lane(self, look_seconds: float) -> None:
        """Run jobs until `stopping` is set. An error ends the other lanes too."""
        try:
            while not self.stopping.is_set():
                if not self.run_round():
                    self._tend()
                    self.stopping.wait(look_seconds)
        finally:
            self.stopping.set()

    def run_round(self) -> bool:
        """Run the next group of jobs. Return False if no job was ready. If the disk is full, wait and try again."""
        claimed: list[Job] = []
        with self._unchanged_by_backups():
            try:
                while not self.stopping.is_set():
                    try:
                        claimed = claimed or self._claim()
                        if jobs := self._unfinished(claimed):
                            self._run_together(jobs)
                        break
                    except Exception as error:
                        if not is_disk_full(error):
                            raise
                        log.warning("disk full: jobs wait until there is space")
                        self.stopping.wait(FULL_SECONDS)
            finally:
                for name in {job.collection for job in claimed}:
                    self._turns[name] = time.monotonic()
                    if self.is_evaluator:
                        # evaluations are rare, and their models are large
                        self._close_index(name)
                    self._give_back(name)
        return bool(claimed)

    @contextmanager
    def _unchanged_by_backups(self) -> Iterator[None]:
        """Hold the lock of changes together with the other lanes. The evaluator changes nothing and needs no lock."""
        if self.is_evaluator:
            yield
            return
        with self._claiming:
            self._changes.acquire()
        try:
            yield
        finally:
            with self._claiming:
                self._changes.release()

    def _claim(self) -> list[Job]:
        with self._claiming:
            if _is_held(self._backup):
                return []
            only_small = len(self.under_way) >= max(1, self.lanes - 1)
            jobs = self.state.claim(
                kinds=self.kinds, busy=self.under_way.keys(), turns=self._turns, only_small=only_small
            )
            if jobs:
                self.under_way[jobs[0].collection] = jobs
            return jobs

    def _must_share(self) -> bool:
        """Check if a running job must end its turn: another collection or a backup waits."""
        with self._claiming:
            waiting = self.state.waiting_collections(self.kinds, TURN_SECONDS)
            return bool(waiting - self.under_way.keys()) or _is_held(self._backup)

    def _unfinished(self, jobs: Sequence[Job]) -> list[Job]:
        current = [self.state.job(job.id) for job in jobs]
        return [job for job in current if job is not None and not job.has_ended]

    def _tend(self) -> None:
        """Recover jobs of dead processes, create missing indexes and sweep, unless another lane does."""
        if self._tending.acquire(blocking=False):
            try:
                with self._claiming:
                    for job in self.state.recover_jobs(KILLS, self.kinds, self.under_way):
                        log.warning("%s was running when its process died, now %s", job.id, job.state)
                if not self.is_evaluator:
                    self.make_indexes()
                    self._sweep_at_times()
            finally:
                self._tending.release()

    def close(self) -> None:
        for name in [*self._indexes]:
            self._close_index(name)
        while self._chats:
            release(self._chats.popitem()[1])

    # -- jobs

    def _run_together(self, jobs: Sequence[Job]) -> None:
        """Run one job, or several uploads to one collection. If one of several is cancelled, the others start again."""
        watch = _Watch(self.state, jobs, self.stopping, self._must_share)
        try:
            index = self._index(jobs[0].collection) if jobs[0].kind != "drop" else None
            while True:
                if index is not None and not self.is_evaluator:
                    watch.wait_for_lock(index)
                try:
                    self._run_job(jobs, index, watch)
                    break
                except IndexBusy:
                    # a command took the lock in between, or another writer the bucket
                    watch.wait()
        except Cancelled:
            self._settle_cancelled(jobs)
        except Exception as error:
            # a missing model, a full disk, a damaged index or a bug: the next job may still succeed
            is_expected = isinstance(error, MergewiseError)
            log.warning("%s failed: %s", jobs[0].id, error if is_expected else "a bug", exc_info=not is_expected)
            self._fail(jobs, error)

    def _run_job(self, jobs: Sequence[Job], index: Index | None, watch: _Watch) -> None:
        job = jobs[0]
        if index is None:
            self._drop(job)
        elif job.kind in ("add", "replace"):
            self._add(jobs, index, watch)
        elif job.kind == "remove":
            removed = _find_ids_to_remove(index, job.request)
            index.remove(removed)
            summary = {"removed": len(removed), "snapshot": index.snapshot}
            self.state.finish(job.id, "done", report=summary, removed=removed)
        else:
            report, failures = self._run_other(job, index, watch)
            self.state.finish(job.id, "done", report=report, documents=failures)

    def _run_other(self, job: Job, index: Index, watch: _Watch) -> _Outcome:
        """Run a job of any other kind. Return its report, and the failed documents with their errors."""
        if job.kind == "metadata":
            return {"updated": index.describe([job.request["id"]], job.request["metadata"])}, {}
        if job.kind == "sync":
            return self._sync(job, index, watch)
        if job.kind == "add_view":
            view, settings = job.request["view"], job.request.get("settings")
            complete = None if settings is None else mw.VIEWS[view].dump(_settings(view, settings))
            index.add_views({view: complete}, watch.report)
            return {"views": list(index.manifest.views)}, {}
        if job.kind == "remove_view":
            index.remove_views([job.request["view"]])
            return {"views": list(index.manifest.views)}, {}
        if job.kind == "embed":
            watch.index = index
            return asdict(index.embed(progress=watch.report, cancel=watch.must_stop)), {}
        if job.kind in ("check", "repair"):
            return {"problems": [problem_json(one) for one in index.check(repair=job.kind == "repair")]}, {}
        if job.kind == "evaluate":
            return evaluate(index, job.request, watch.report_or_end), {}
        if job.kind == "optimize":
            index.store.optimize()
            return {"optimized": True}, {}
        raise UsageError(f"unknown kind of job: {job.kind}", "upgrade the server")

    def _sync(self, job: Job, index: Index, watch: _Watch) -> _Outcome:
        """Synchronise folders. Return the report, and the files that cannot be read with their errors."""
        own, watch.index = self.config.collection(job.collection), index
        folders = own.folders_of(job.request)
        report = index.sync(
            *folders, follow_links=own.follow_links, progress=watch.report, cancel=watch.must_stop, limits=mw.Limits()
        )
        failed: dict[str, Mapping[str, Any] | None] = {one.source: _unreadable(one.reason) for one in report.failed}
        if len(folders) == len(own.folders):
            # a failure of a file without an upload is of an earlier run
            failures = self.state.document_states(job.collection, statuses=["failed"])
            self.state.forget_documents(
                job.collection, [one.id for one in failures if one.blob is None and one.id not in failed]
            )
        log.info(
            "indexed the folders of %s: %d added, %d replaced, %d removed, %d moved, %d unchanged, %d failed",
            job.collection, report.added, report.replaced, report.removed, report.moved, report.unchanged, len(failed),
        )  # fmt: skip
        rows = report_json(report) | {"outward": [_outward(link, folders) for link in report.outward]}
        for change in rows["changes"]:
            # ids of older servers are paths
            change["was"] = "" if Path(change["was"]).is_absolute() else change["was"]
        return rows, failed

    def _add(self, jobs: Sequence[Job], index: Index, watch: _Watch) -> None:
        uploads = {job.id: self.state.uploads(job.id) for job in jobs}
        record = self._record(jobs[0].collection)
        existing = _existing_ids(index, [upload for own in uploads.values() for upload in own])
        taken: dict[str, Upload] = {}
        kept: dict[str, dict[str, str]] = {job.id: {} for job in jobs}
        for job_id, own in uploads.items():
            for upload in own:
                if _is_careful(upload) and (upload.id in existing or upload.id in taken):
                    kept[job_id][upload.id] = upload.on_conflict
                else:
                    taken[upload.id] = upload
        # a job that skips existing documents must not meet its own documents in a second turn
        watch.index = None if any(map(_is_careful, taken.values())) else index
        report = index.add(
            [_source(record, upload, self.config.cache) for upload in taken.values()],
            progress=watch.report,
            cancel=watch.must_stop,
            limits=mw.Limits(),
        )
        # the counts of the report are those of a job that ran alone
        counts = ("added", "replaced", "unchanged") if len(jobs) == 1 else ()
        more = {"snapshot": index.snapshot, **{name: getattr(report, name) for name in counts}}
        for job in jobs:
            self._settle(job, uploads[job.id], kept[job.id], report, more)

    def _settle(
        self, job: Job, uploads: Sequence[Upload], kept: Mapping[str, str], report: mw.AddReport, more: dict[str, Any]
    ) -> None:
        """End one of the jobs that ran together, with `more` in its summary. It fails if the index has none of its documents."""
        errors = {failure.source: _unreadable(failure.reason) for failure in report.failed}
        settled = {upload.id: errors.get(upload.id) for upload in uploads if upload.id not in kept}
        refused = {upload.id: _exists_error(upload.id) for upload in uploads if kept.get(upload.id) == "fail"}
        failed = [
            {"id": doc_id, **problem} for doc_id, problem in {**settled, **refused}.items() if problem is not None
        ]
        summary = {
            "documents": len(uploads),
            "indexed": sum(problem is None for problem in settled.values()),
            "failed": failed,
            "skipped": [upload.id for upload in uploads if kept.get(upload.id) == "skip"],
            "duplicates": [asdict(one) for one in report.duplicates if one.id in settled],
            "textless": [asdict(one) for one in report.textless if one.source in settled],
            **more,
        }
        has_failed = bool(failed) and len(failed) == len(uploads)
        error = {**failed[0], "document": failed[0]["id"]} if has_failed else None
        state: JobState = "failed" if has_failed else "done"
        self.state.finish(job.id, state, report=summary, error=error, documents=settled, kept=kept)

    def _drop(self, job: Job) -> None:
        """Delete a collection with all its files. An index outside of the server's data stays."""
        self._close_index(job.collection)
        # every step can be repeated: an earlier run may have died between them
        drop_folder(self.config.home_of(job.collection), job.id)
        self.state.forget_collection(job.collection)
        self.state.finish(job.id, "done", report={"dropped": job.collection})

    def _settle_cancelled(self, jobs: Sequence[Job]) -> None:
        """End the jobs to cancel, with their documents that the index already has. Queue the other jobs again."""
        for job in jobs:
            current = self.state.job(job.id)
            if current is None or current.state != "cancelling":
                self.state.requeue(job.id)
                continue
            report, finished, uploads = None, list[str](), self.state.uploads(job.id)
            if uploads:
                record = self._record(job.collection)
                sources = [_source(record, upload, self.config.cache) for upload in uploads]
                finished = _indexed_ids(self._index(job.collection), sources, uploads)
                report = {"documents": len(uploads), "finished": len(finished)}
            self.state.finish(job.id, "cancelled", report=report, documents=dict.fromkeys(finished))

    def _fail(self, jobs: Sequence[Job], error: Exception) -> None:
        """Fail a job. Run several jobs one by one first, since a single one of them may be the cause."""
        for job in self._unfinished(jobs):
            if self.state.set_state(job.id, "running") == "cancelling":
                self._settle_cancelled([job])
            elif len(jobs) > 1:
                self._run_together([job])
            else:
                self._finish_failed(job, error)

    def _finish_failed(self, job: Job, error: Exception) -> None:
        name = job.collection
        record = self.state.collection(name)
        # the collection's path first: it may be within the server's data
        places = {} if record is None else {record.path: name, os.path.realpath(record.path): name}
        for folder in map(os.path.normpath, self.config.collection(name).folders):
            places |= dict.fromkeys((folder, os.path.realpath(folder)), Path(folder).name)
        self.state.finish(job.id, "failed", error=error_json(error, places | {str(self.config.data): "the server"}))

    # -- indexes

    def make_indexes(self) -> None:
        """Create the missing indexes of collections."""
        for record in self.state.collections():
            known = record.name in self._indexes or record.name in self.config.read_only
            known = known or (not is_url(record.path) and state_file(Path(record.path)).exists())
            if known or time.monotonic() < self._not_before.get(record.name, 0):
                continue
            with self._claiming:
                if record.name in self.under_way or not self.state.hold(self.kinds, [record.name]):
                    # it may be removed just now
                    continue
                self.under_way[record.name] = []
            try:
                self._index(record.name)
            except Exception as error:
                # invalid settings, a missing model or a full disk: the jobs of other collections go on
                self._not_before[record.name] = time.monotonic() + AGAIN_SECONDS
                log.warning("cannot create the index of %s: %s", record.name, error)
            finally:
                self._give_back(record.name)

    def _give_back(self, name: str) -> None:
        """Let another lane or process run jobs of a collection."""
        self.state.release(self.kinds, [name])
        del self.under_way[name]

    def _index(self, name: str) -> Index:
        """Return the index of a collection, open for writing. The writer creates it if it is missing."""
        with self._opening:
            if name not in self._indexes:
                self._indexes[name] = self._open(name)
            return self._indexes[name]

    def _open(self, name: str) -> Index:
        record, own = self._record(name), self.config.collection(name)
        place = Path(record.path)
        if is_url(place):
            is_new = place_of(place, cache=self.config.cache).known() is None
        else:
            place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            is_new = not state_file(place).exists()
        chat = own.chat or self.config.default_chat
        return mw.open(
            place,
            views=record.views if is_new else (),
            settings={view: _new_settings(view, record, own) for view in record.views} if is_new else None,
            embedder=self.config.embedder_spec(record.embedder or ("minilm" if is_new else None)),
            chat=self._chat(chat) if chat is not None else "extractive",
            lock_wait=_LOCK_SECONDS,
            root=folder_roots(place, own.folders),
            cache=self.config.cache if is_url(place) else None,
            create=not self.is_evaluator and name not in self.config.read_only,
        )

    def _close_index(self, name: str) -> None:
        index = self._indexes.pop(name, None)
        if index is not None:
            index.close()

    def _chat(self, name: str) -> Any:
        if name not in self._chats:
            self._chats[name] = self.config.chats[name].chat()
        return self._chats[name]

    def _record(self, name: str) -> CollectionRecord:
        record = self.state.collection(name)
        if record is None:
            raise UsageError(f"unknown collection: {name!r}", "create the collection again: it was removed")
        return record

    def _sweep_at_times(self) -> None:
        if time.monotonic() - self._swept < SWEEP_SECONDS:
            return
        self._swept = time.monotonic()
        self.state.prune(self.config.limits)
        sweep_spool(self.config.spool)
        sweep_blobs(self.config.shared / "files", (), DAY)
        for record in self.state.collections():
            sweep_blobs(Path(record.blobs), self.state.blobs_needed(record.name))


class _Watch:
    """Progress reports of running jobs to the state, and checks for their cancellation or the end of their turn.

    Jobs with an `index` can end their turn. It ends with a batch, when the index has a new snapshot, so that no work is lost.
    """

    def __init__(self, state: State, jobs: Sequence[Job], stopping: Event, must_share: Callable[[], bool]) -> None:
        self._state, self._jobs, self._stopping, self._must_share = state, jobs, stopping, must_share
        self.index: Index | None = None
        self._snapshot: str | None = None
        self._shares = False
        self._reported, self._looked, self._began = -TELL_SECONDS, -TELL_SECONDS, time.monotonic()
        self._document: str | None = None
        self._cancelled = False
        self._logged = time.monotonic()

    def report(self, done: int, total: int, document: str) -> None:
        """Report progress (a `Progress` of the engine). A new document is recorded at once, because the process may die at it."""
        now = time.monotonic()
        if now - self._logged >= LOG_SECONDS:
            self._logged = now
            job, percent = self._jobs[0], 100 * done // max(1, total)
            log.info("%s of %s is at %d %% of %d characters", job.kind, job.collection, percent, total)
        is_event = now - self._reported >= TELL_SECONDS
        if not is_event and (document or None) == self._document:
            return
        self._reported, self._document = now if is_event else self._reported, document or None
        for job in self._jobs:
            progress = JobProgress(done, total, document=self._document)
            self._cancelled |= self._state.set_progress(job.id, progress, is_event=is_event) == "cancelling"

    def report_or_end(self, done: int, total: int, document: str) -> None:
        """Report progress of work that has no `cancel` callback. Raises Cancelled."""
        self.report(done, total, document)
        self._check_end()

    def _check_end(self) -> None:
        if self.must_stop():
            raise Cancelled("the job was cancelled", "start the job again")

    def must_stop(self) -> bool:
        """Check if the engine must stop: a job is being cancelled, the process shuts down, or the turn ends."""
        now = time.monotonic()
        if not self._cancelled and now - self._looked >= TELL_SECONDS:
            self._looked = now
            current = [self._state.job(job.id) for job in self._jobs]
            self._cancelled = any(job is not None and job.state == "cancelling" for job in current)
            self._shares = now - self._began >= TURN_SECONDS and self._must_share()
        return self._cancelled or self._stopping.is_set() or self._ends_turn()

    def _ends_turn(self) -> bool:
        current = self.index.snapshot if self.index is not None and self._shares else None
        before, self._snapshot = self._snapshot, current
        return None not in (before, current) and before != current

    def wait_for_lock(self, index: Index) -> None:
        """Wait until no other process writes to the index. Raises Cancelled if the jobs must end."""
        # the right to write to a bucket has no file
        while index.store.place.refresh is None and _is_held(FileLock(index.store.directory / ".lock")):
            self.wait()
        self._set_states("running")

    def wait(self) -> None:
        """Wait a moment for the right to write. Raises Cancelled if the jobs must end."""
        self._set_states("waiting_lock")
        self._looked = -TELL_SECONDS
        self._check_end()
        self._stopping.wait(TELL_SECONDS)

    def _set_states(self, state: JobState) -> None:
        for job in self._jobs:
            self._state.set_state(job.id, state)


def _is_held(lock: FileLock) -> bool:
    try:
        with lock.acquire(timeout=0):
            return False
    except Timeout:
        return True


# -- documents


def _source(record: CollectionRecord, upload: Upload, cache: Path) -> mw.File | mw.Document:
    path = local_blob(Path(record.blobs), upload.blob, cache)
    if not upload.is_document:
        return mw.File(path, id=upload.id, name=upload.name, title=upload.title, metadata=dict(upload.metadata))
    content = json.loads(path.read_bytes())
    units = tuple((start, end) for start, end in content.get("units") or ())
    title = upload.title if upload.title is not None else content.get("title") or ""
    metadata = {**(content.get("metadata") or {}), **upload.metadata}
    return mw.Document(upload.id, content["text"], title, metadata, units=units)


def _is_careful(upload: Upload) -> bool:
    return upload.on_conflict != "replace"


def _existing_ids(index: Index, uploads: Sequence[Upload]) -> set[str]:
    """Return the ids of uploads that must not replace a document and that the index already has."""
    careful = {upload.id for upload in uploads if _is_careful(upload)}
    found = index.find(*careful) if careful else {}
    return {doc_id for doc_id, ids in found.items() if doc_id in ids}


def _indexed_ids(index: Index, sources: Sequence[mw.File | mw.Document], uploads: Sequence[Upload]) -> list[str]:
    """Return the ids of uploads that the index has unchanged, by a dry run of adding them again."""
    report = index.add(sources, dry_run=True)
    waiting = {change.id for change in report.changes} | {failure.source for failure in report.failed}
    return [upload.id for upload in uploads if upload.id not in waiting]


def _find_ids_to_remove(index: Index, request: Mapping[str, Any]) -> list[str]:
    if "filter" in request:
        return index.find("*", where=request["filter"])["*"]
    if "prefix" in request:
        return [info.id for info in index.documents(request["prefix"])]
    return list(request["ids"])


def _outward(link: OutwardLink, folders: Sequence[Path]) -> dict[str, Any]:
    """Return a link out of a folder as clients see it, without paths of the server."""
    path = Path(link.link)
    inside = next((folder for folder in folders if path.is_relative_to(folder)), path.parent)
    return {"link": path.relative_to(inside).as_posix(), "followed": link.followed}


# -- views and models


def _new_settings(view: str, record: CollectionRecord, own: CollectionConfig) -> Any:
    """Return the settings of a view for a new index: defaults, changed by a chat model, then the collection's own settings."""
    chosen = mw.VIEWS[view].with_chat if own.chat is not None else {}
    return _settings(view, {**chosen, **record.settings.get(view, {})})


def _settings(view: str, given: Mapping[str, Any]) -> Any:
    """Return the settings of a view, with the default for each setting that is not given."""
    kind = mw.VIEWS[view]
    return kind.load({**kind.dump(), **given})


# -- errors


def error_json(error: Exception, places: Mapping[str, str]) -> dict[str, Any]:
    """Return an error as clients see it. `places` maps directories to the texts that replace them."""
    from mergewise.server.problems import problem_of

    problem = problem_of(error)
    texts = {"detail": problem.message, "hint": problem.hint}
    for place, name in places.items():
        texts = {field: text.replace(place, name) for field, text in texts.items()}
    return {"code": problem.code, **texts, "document": None}


def _unreadable(reason: str) -> dict[str, Any]:
    return {"code": "unreadable", "detail": reason, "hint": "change the file, or leave it out"}


def _exists_error(doc_id: str) -> dict[str, Any]:
    hint = "send on_conflict=replace to replace it"
    return {"code": "conflict", "detail": f"document {doc_id!r} already exists", "hint": hint}


# -- the process


def lock_file(data: Path, name: str) -> Path:
    """Return the path of a lock file: `supervisor`, `writer`, `evaluator`, `changes` or `backup`."""
    folder = data / "locks"
    # two steps, since mkdir applies the mode only to the last folder
    data.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder.mkdir(exist_ok=True, mode=0o700)
    return folder / name


def run_writer(config: ServerConfig, parent: int, name: str = "writer") -> None:
    """Run the writer or the evaluator until SIGTERM, or until the process `parent` ends. Raises the error that ends it early."""
    state = State.of(config)
    with waiting_lock(lock_file(config.data, name), WAIT_SECONDS):
        writer = Writer(config, state) if name == "writer" else Writer(config, state, tuple(READ_ONLY))
        sys.setswitchinterval(SWITCH_SECONDS)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, lambda *_: writer.stopping.set())
        running = ThreadPoolExecutor(1, "jobs").submit(writer.run)
        for collection, own in config.collections.items() if not writer.is_evaluator else ():
            if own.folders and config.watch:
                Thread(target=_follow, args=(config, state, collection, writer.stopping), daemon=True).start()
            elif own.folders:
                queue_first_sync(state, collection)
        while not running.done() and not writer.stopping.is_set() and os.getppid() == parent:
            with suppress(OSError):
                state.beat(os.getpid(), name)
            wait([running], BEAT_SECONDS)
        writer.stopping.set()
        wait([running], STOP_SECONDS)
        if not running.done():
            log.warning("dropping the running batch")
            for job in (job for jobs in [*writer.under_way.values()] for job in jobs):
                state.requeue(job.id)
        state.beat(None, name)
        if not running.done():
            # a normal exit would wait for threads in native code
            os._exit(0)
        running.result()
        writer.close()
        state.close()


def queue_first_sync(state: State, name: str) -> None:
    """Queue a `sync` of a collection's folders at the start, unless it waits already or just killed the writer."""
    last = next(iter(state.jobs(collections=[name], kinds=["sync"], limit=1)), None)
    if last is not None and (last.error or {}).get("code") == "writer_killed":
        log.warning("not indexing the folders of %s: the writer died at them. Start a job `sync` to try again", name)
    elif last is None or last.has_ended:
        log.info("indexing the folders of %s", name)
        state.enqueue("sync", name)


def _follow(config: ServerConfig, state: State, name: str, stop: Event) -> None:
    """Queue a `sync` of a collection's folders now, and after every burst of changes in them."""
    record = state.collection(name)
    left_out = [config.data, *([Path(record.path)] if record is not None else [])]
    while not stop.is_set():
        try:
            for _ in bursts(config.collections[name].folders, left_out, stop, LOOK_AT_FOLDERS_SECONDS):
                if not state.jobs(collections=[name], kinds=["sync"], states=["queued"], limit=1):
                    state.enqueue("sync", name)
        except Exception as error:
            # a missing folder may come back
            log.warning("cannot watch the folders of %s: %s", name, error)
            stop.wait(LOOK_AT_FOLDERS_SECONDS)


@contextmanager
def waiting_lock(path: Path, seconds: float) -> Iterator[None]:
    """Hold the lock. Raises IndexBusy if it is not free within the given seconds."""
    try:
        held = FileLock(path).acquire(timeout=seconds)
    except Timeout:
        raise IndexBusy(f"locked by another process: {path}", "end that process first") from None
    with held:
        yield
