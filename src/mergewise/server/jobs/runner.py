"""The runner of jobs: it takes jobs from the state, opens the indexes of their collections, and runs the jobs.

The writer runs all jobs that change an index. The evaluator runs the jobs that only read (`READ_ONLY`), so that a long evaluation
delays no upload. The writer runs jobs of `LANES` collections at the same time. If more collections wait, they take turns: a job
ends its turn after a batch, and continues at its next turn.

A job is recorded as done after its documents are in the index. If the process dies between the two, the job starts again and
skips documents that the index already has, so no work is done twice. A document at which the process dies repeatedly fails its
job.

    stopping   the running batch is finished, or dropped after some seconds; the job then waits for the next writer
    full disk  the job waits until there is space again
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from math import inf
from pathlib import Path
from threading import Event, Lock
from typing import TYPE_CHECKING, Any

from filelock import FileLock

import mergewise as mw
from mergewise.errors import Cancelled, IndexBusy, MergewiseError, UsageError
from mergewise.extend import is_url, place_of, release, span, state_file
from mergewise.server.configuration import ServerConfig, folder_roots
from mergewise.server.jobs.kinds import JobWork, settings_of, sources
from mergewise.server.jobs.watch import Watch
from mergewise.server.locks import is_held, lock_file
from mergewise.server.logs import log
from mergewise.server.models import ModelConfig
from mergewise.server.records import CHANGING, READ_ONLY, UPLOADS, CollectionRecord, Job, JobKind
from mergewise.server.spool import DAY, drop_folder, is_disk_full, private_folder, sweep_blobs, sweep_spool
from mergewise.server.state import State

if TYPE_CHECKING:
    from mergewise import Index


KILLS = 3
"""Number of deaths of the writer at one document after which the job fails."""
LOOK_SECONDS = 0.2
"""Seconds between two polls for jobs."""
SWEEP_SECONDS = 600.0
LANES = 3
"""Number of collections whose jobs run at the same time. The last free lane takes only small jobs."""
FULL_SECONDS = 10.0
"""Seconds between two attempts while the disk is full."""
AGAIN_SECONDS = 60.0
"""Seconds after which a failed creation of an index is retried."""
_LOCK_SECONDS = 60.0


class JobRunner:
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
        self._chats: dict[ModelConfig, Any] = {}
        self._models: dict[str, Any] = {}
        self._not_before: dict[str, float] = {}
        self._claiming, self._opening, self._tending = Lock(), Lock(), Lock()
        self._changes = FileLock(lock_file(config.data, "changes"), thread_local=False)
        self._backup = FileLock(lock_file(config.data, "backup"), thread_local=False)
        self._swept = time.monotonic()
        # when a job last took memory: a change loads models and leaves gaps in the heaps
        self.grew = inf

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
            if is_held(self._backup):
                return []
            only_small = len(self.under_way) >= max(1, self.lanes - 1)
            jobs = self.state.jobs.claim(
                kinds=self.kinds, busy=self.under_way.keys(), turns=self._turns, only_small=only_small
            )
            if jobs:
                self.under_way[jobs[0].collection] = jobs
            return jobs

    def _must_share(self, job: Job, seconds: float) -> bool:
        """Check if a running job must end its turn.

        Another collection has waited for so long, a backup waits, or an upload waits for the folders of its collection.
        """
        own = [job.collection]
        if job.kind == "sync" and self.state.jobs.find(collections=own, kinds=UPLOADS, states=["queued"], limit=1):
            return True
        with self._claiming:
            waiting = self.state.jobs.waiting_collections(self.kinds, seconds)
            return bool(waiting - self.under_way.keys()) or is_held(self._backup)

    def _unfinished(self, jobs: Sequence[Job]) -> list[Job]:
        current = [self.state.jobs.get(job.id) for job in jobs]
        return [job for job in current if job is not None and not job.has_ended]

    def _give_back(self, name: str) -> None:
        """Let another lane or process run jobs of a collection."""
        self.state.jobs.release(self.kinds, [name])
        del self.under_way[name]

    def close(self) -> None:
        for name in [*self._indexes]:
            self._close_index(name)
        while self._chats:
            release(self._chats.popitem()[1])

    # -- jobs

    @span("mergewise.job")
    def _run_together(self, jobs: Sequence[Job]) -> None:
        """Run one job, or several uploads to one collection. If one of several is cancelled, the others start again."""
        name, watch = (
            jobs[0].collection,
            Watch(self.state.jobs, jobs, self.stopping, partial(self._must_share, jobs[0])),
        )
        try:
            if jobs[0].kind == "drop":
                # every step can be repeated: an earlier run may have died between them
                self._close_index(name)
                drop_folder(self.config.home_of(name), jobs[0].id)
                self.state.collections.forget(name)
                self.state.jobs.finish(jobs[0].id, "done", report={"dropped": name})
                return
            index, own = self._index(name), self.config.collection(name)
            before = index.snapshot
            while True:
                if not self.is_evaluator:
                    watch.wait_for_lock(index)
                try:
                    JobWork(self.state, index, watch, self._record(name), own, self.config.cache).run(jobs)
                    if self.is_evaluator or index.snapshot != before:
                        self.grew = time.monotonic()
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

    def _settle_cancelled(self, jobs: Sequence[Job]) -> None:
        """End the jobs to cancel, with their documents that the index already has. Queue the other jobs again."""
        for job in jobs:
            current = self.state.jobs.get(job.id)
            if current is None or current.state != "cancelling":
                self.state.jobs.requeue(job.id)
                continue
            report, finished, uploads = None, list[str](), self.state.jobs.uploads(job.id)
            if uploads:
                # a dry run of adding the documents again tells which the index has
                given = sources(self._record(job.collection), uploads, self.config.cache)
                again = self._index(job.collection).add(given, dry_run=True)
                waiting = {change.id for change in again.changes} | {failure.source for failure in again.failed}
                finished = [upload.id for upload in uploads if upload.id not in waiting]
                report = {"documents": len(uploads), "finished": len(finished)}
            self.state.jobs.finish(job.id, "cancelled", report=report, documents=dict.fromkeys(finished))

    def _fail(self, jobs: Sequence[Job], error: Exception) -> None:
        """Fail a job. Run several jobs one by one first, since a single one of them may be the cause."""
        from mergewise.server.problems import problem_of

        for job in self._unfinished(jobs):
            if self.state.jobs.set_state(job.id, "running") == "cancelling":
                self._settle_cancelled([job])
            elif len(jobs) > 1:
                self._run_together([job])
            else:
                # clients see names instead of directories; the collection's path may be within the server's data
                name, record = job.collection, self.state.collections.get(job.collection)
                places = {} if record is None else {record.path: name, os.path.realpath(record.path): name}
                for folder in map(os.path.normpath, self.config.collection(name).folders):
                    places |= dict.fromkeys((folder, os.path.realpath(folder)), Path(folder).name)
                problem = problem_of(error)
                texts = {"detail": problem.message, "hint": problem.hint}
                for place, shown in (places | {str(self.config.data): "the server"}).items():
                    texts = {field: text.replace(place, shown) for field, text in texts.items()}
                described = {"code": problem.code, **texts, "document": None}
                self.state.jobs.finish(job.id, "failed", error=described)

    # -- indexes

    def _tend(self) -> None:
        """Recover jobs of dead processes, create missing indexes and sweep, unless another lane does."""
        if self._tending.acquire(blocking=False):
            try:
                with self._claiming:
                    for job in self.state.jobs.recover(KILLS, self.kinds, self.under_way):
                        log.warning("%s was running when its process died, now %s", job.id, job.state)
                if not self.is_evaluator:
                    self.make_indexes()
                    if time.monotonic() - self._swept >= SWEEP_SECONDS:
                        self._swept = time.monotonic()
                        self.state.prune(self.config.limits)
                        sweep_spool(self.config.spool)
                        sweep_blobs(self.config.shared / "files", (), DAY)
                        for record in self.state.collections.all():
                            sweep_blobs(Path(record.blobs), self.state.documents.blobs_needed(record.name))
            finally:
                self._tending.release()

    def make_indexes(self) -> None:
        """Create the missing indexes of collections."""
        for record in self.state.collections.all():
            known = record.name in self._indexes or record.name in self.config.read_only
            known = known or (not is_url(record.path) and state_file(Path(record.path)).exists())
            if known or time.monotonic() < self._not_before.get(record.name, 0):
                continue
            with self._claiming:
                if record.name in self.under_way or not self.state.jobs.hold(self.kinds, [record.name]):
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

    def _index(self, name: str) -> Index:
        """Return the index of a collection, open for writing. The writer creates it if it is missing."""
        with self._opening:
            own, record = self.config.collection(name), self._record(name)
            chat, embedder = own.chat or self.config.default_chat, record.embedder or ""
            models = self.config.chats.get(chat or ""), self.config.embedders.get(embedder)
            if self._models.get(name) != models:
                # an admin has changed a model
                self._close_index(name)
            if name not in self._indexes:
                self._indexes[name], self._models[name] = self._open(name), models
            return self._indexes[name]

    def _open(self, name: str) -> Index:
        record, own = self._record(name), self.config.collection(name)
        place = Path(record.path)
        if is_url(place):
            is_new = place_of(place, cache=self.config.cache).known() is None
        else:
            private_folder(place.parent)
            is_new = not state_file(place).exists()
        settings: dict[str, Any] = {}
        for view in record.views if is_new else ():
            # a chat model changes the defaults, and the collection's own settings come last
            chosen = mw.VIEWS[view].with_chat if own.chat is not None else {}
            settings[view] = settings_of(view, {**chosen, **record.settings.get(view, {})})
        chat = own.chat or self.config.default_chat
        model = None if chat is None else self.config.chats[chat]
        if model is not None and model not in self._chats:
            self._chats[model] = model.chat()
        return mw.open(
            place,
            views=record.views if is_new else (),
            settings=settings if is_new else None,
            embedder=self.config.embedder(record.embedder or ("minilm" if is_new else None)),
            chat="extractive" if model is None else self._chats[model],
            lock_wait=_LOCK_SECONDS,
            root=folder_roots(place, own.folders),
            cache=self.config.cache if is_url(place) else None,
            create=not self.is_evaluator and name not in self.config.read_only,
        )

    def _close_index(self, name: str) -> None:
        index = self._indexes.pop(name, None)
        if index is not None:
            index.close()

    def _record(self, name: str) -> CollectionRecord:
        record = self.state.collections.get(name)
        if record is None:
            raise UsageError(f"unknown collection: {name!r}", "create the collection again: it was removed")
        return record
