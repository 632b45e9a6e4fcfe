"""The one process that writes: it takes jobs from the state, opens their collections' indexes, and does the work.

A job is settled in the state after its documents are in the index. Where the process dies between the two, the job is begun
again, and what the index has already is skipped: nothing is paid for twice. A document at which the process dies again and again
fails its job.

    stopping   batches under way are finished, or dropped after `STOP_SECONDS`: the job then waits for the next writer
    locks      `writer`: this process, as long as it lives; `changes`: held for each round of jobs, and by a backup
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

import mergewise as mw
from mergewise.errors import Cancelled, IndexBusy, MergewiseError, UsageError
from mergewise.jsonable import problem_json, report_json
from mergewise.models import release
from mergewise.readers import bursts
from mergewise.server.configuration import CollectionConfig, ServerConfig
from mergewise.server.evaluations import evaluate
from mergewise.server.records import CollectionRecord, Job, JobProgress, JobState, Upload
from mergewise.server.spool import blob_path, sweep_blobs, sweep_spool
from mergewise.server.state import State
from mergewise.store import state_file

if TYPE_CHECKING:
    from mergewise.engine import Index

log = logging.getLogger("mergewise.server")

KILLS = 3
"""Deaths of the writer at one document after which its job has failed."""
STOP_SECONDS = 8.5
"""For the batch under way, once the writer is to end."""
WAIT_SECONDS = 30.0
"""For a writer before, which ends with its parent."""
BEAT_SECONDS = 0.5
LOOK_AT_FOLDERS_SECONDS = 3.0
LOOK_SECONDS = 0.2
"""Between two looks for jobs."""
TELL_SECONDS = 0.5
"""Between two messages on how far a job is, and between two looks whether it is to be cancelled."""
SWEEP_SECONDS = 600.0
AGAIN_SECONDS = 60.0
"""After which an index that could not be made is tried again."""
_LOCK_SECONDS = 60.0
_OPTIMIZED = {"optimized": True}


class Writer:
    """Runs jobs, a round at a time, until `stopping` is set."""

    def __init__(self, config: ServerConfig, state: State) -> None:
        self.config, self.state = config, state
        self.stopping = Event()
        self.under_way: list[Job] = []
        self._indexes: dict[str, Index] = {}
        self._chats: dict[str, Any] = {}
        self._not_before: dict[str, float] = {}
        self._changes = FileLock(lock_file(config.data, "changes"))
        self._swept = time.monotonic()

    def run(self, look_seconds: float = LOOK_SECONDS) -> None:
        """Begin with what a writer before left. Returns once `stopping` is set and the round under way is over."""
        for job in self.state.put_back(KILLS):
            log.warning("%s was under way when the writer died: now %s", job.id, job.state)
        self.make_indexes()
        while not self.stopping.is_set():
            if not self.run_round():
                self.make_indexes()
                self._sweep_at_times()
                self.stopping.wait(look_seconds)

    def run_round(self) -> bool:
        """Run the jobs that are next. Whether there were any."""
        with self._changes:
            jobs = self.state.claim()
            self.under_way = jobs
            if jobs:
                self._run_together(jobs)
            self.under_way = []
        return bool(jobs)

    def close(self) -> None:
        for index in self._indexes.values():
            index.close()
        for chat in self._chats.values():
            release(chat)
        self._indexes, self._chats = {}, {}

    # -- jobs

    def _run_together(self, jobs: Sequence[Job]) -> None:
        """One job, or uploads into one collection. Where one of several is cancelled, the others are begun again."""
        watch = _Watch(self.state, jobs, self.stopping)
        try:
            index = self._index(jobs[0].collection) if jobs[0].kind != "drop" else None
            while True:
                if index is not None:
                    watch.wait_for_lock(FileLock(index.store.directory / ".lock"))
                try:
                    self._do(jobs, index, watch)
                    break
                except IndexBusy:
                    # a command line has begun to write meanwhile
                    continue
        except Cancelled:
            self._settle_cancelled(jobs)
        except Exception as error:
            # a model that is gone, a full disk, a damaged index, a defect: the next job may fare better
            foreseen = isinstance(error, MergewiseError)
            log.warning("%s failed: %s", jobs[0].id, error if foreseen else "a defect", exc_info=not foreseen)
            self._fail(jobs, error)

    def _do(self, jobs: Sequence[Job], index: Index | None, watch: _Watch) -> None:
        job = jobs[0]
        if index is None:
            self._drop(job)
        elif job.kind in ("add", "replace"):
            self._add(jobs, index, watch)
        elif job.kind == "remove":
            removed = _ids_to_remove(index, job.request)
            index.remove(removed)
            self.state.finish(job.id, "done", report={"removed": len(removed)}, removed=removed)
        else:
            report, failures = self._work(job, index, watch)
            self.state.finish(job.id, "done", report=report, documents=failures)

    def _work(
        self, job: Job, index: Index, watch: _Watch
    ) -> tuple[Mapping[str, Any], dict[str, Mapping[str, Any] | None]]:
        """The report of a job of one of the other kinds, and the documents that failed, with their errors."""
        if job.kind == "metadata":
            return {"updated": index.describe([job.request["id"]], job.request["metadata"])}, {}
        if job.kind == "sync":
            folders = _folders(self._own(job.collection), job.request)
            report = index.sync(*folders, progress=watch.report, cancel=watch.cancels, limits=mw.Limits())
            return report_json(report), {failure.source: _unreadable(failure.reason) for failure in report.failed}
        if job.kind == "add_view":
            view, settings = job.request["view"], job.request.get("settings")
            index.add_views({view: None if settings is None else _kept_settings(view, settings)}, watch.report)
            return {"views": list(index.manifest.views)}, {}
        if job.kind == "embed":
            return asdict(index.embed(progress=watch.report, cancel=watch.cancels)), {}
        if job.kind in ("check", "repair"):
            return {"problems": [problem_json(one) for one in index.check(repair=job.kind == "repair")]}, {}
        if job.kind == "evaluate":
            return evaluate(index, job.request, watch.report_or_end), {}
        if job.kind == "optimize":
            index.store.optimize()
            return _OPTIMIZED, {}
        raise UsageError(f"nobody does jobs of the kind {job.kind}", "ask for another")

    def _add(self, jobs: Sequence[Job], index: Index, watch: _Watch) -> None:
        uploads = {job.id: self.state.uploads(job.id) for job in jobs}
        record = self._record(jobs[0].collection)
        standing = _standing(index, [upload for own in uploads.values() for upload in own])
        taken: dict[str, Upload] = {}
        kept: dict[str, dict[str, str]] = {job.id: {} for job in jobs}
        for job_id, own in uploads.items():
            for upload in own:
                if upload.on_conflict != "replace" and (upload.id in standing or upload.id in taken):
                    kept[job_id][upload.id] = upload.on_conflict
                else:
                    taken[upload.id] = upload
        report = index.add(
            [_source(Path(record.blobs), upload) for upload in taken.values()],
            progress=watch.report,
            cancel=watch.cancels,
            limits=mw.Limits(),
        )
        for job in jobs:
            self._settle(job, uploads[job.id], kept[job.id], report, counts=len(jobs) == 1)

    def _settle(
        self, job: Job, uploads: Sequence[Upload], kept: Mapping[str, str], report: mw.AddReport, *, counts: bool
    ) -> None:
        """End one of the jobs that ran together. It has failed where none of its documents is in the index.

        `counts` are those of the whole report: they are told where the job ran alone.
        """
        errors = {failure.source: _unreadable(failure.reason) for failure in report.failed}
        settled = {upload.id: errors.get(upload.id) for upload in uploads if upload.id not in kept}
        refused = {upload.id: _standing_error(upload.id) for upload in uploads if kept.get(upload.id) == "fail"}
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
            **({name: getattr(report, name) for name in ("added", "replaced", "unchanged")} if counts else {}),
        }
        lost = bool(failed) and len(failed) == len(uploads)
        error = {**failed[0], "document": failed[0]["id"]} if lost else None
        state: JobState = "failed" if lost else "done"
        self.state.finish(job.id, state, report=summary, error=error, documents=settled, kept=kept)

    def _drop(self, job: Job) -> None:
        """The collection with all that it holds. An index that the configuration names stays: it is not the server's."""
        index = self._indexes.pop(job.collection, None)
        if index is not None:
            index.close()
        # each step may have been taken before a kill
        own = collection_directory(self.config.data, job.collection)
        gone = own.with_name(f".{own.name}.{job.id}")
        if own.exists():
            own.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)
        self.state.forget_collection(job.collection)
        self.state.finish(job.id, "done", report={"dropped": job.collection})

    def _settle_cancelled(self, jobs: Sequence[Job]) -> None:
        """Those that are to be cancelled end; what the index has of them by now is indexed. The others wait again."""
        for job in jobs:
            standing = self.state.job(job.id)
            if standing is None or standing.state != "cancelling":
                self.state.put_aside(job.id)
                continue
            uploads = self.state.uploads(job.id)
            finished = _finished(self._index(job.collection), Path(self._record(job.collection).blobs), uploads)
            report = {"documents": len(uploads), "finished": len(finished)} if uploads else None
            self.state.finish(job.id, "cancelled", report=report, documents=dict.fromkeys(finished))

    def _fail(self, jobs: Sequence[Job], error: Exception) -> None:
        """Several jobs that ran together are tried one by one before they fail: the fault may be one's alone."""
        if len(jobs) > 1:
            for job in jobs:
                if self.state.set_state(job.id, "running") != "cancelling":
                    self._run_together([job])
                else:
                    self._settle_cancelled([job])
            return
        name = jobs[0].collection
        record = self.state.collection(name)
        # the longest first: an index may stand in the server's data
        places = {} if record is None else {record.path: name, os.path.realpath(record.path): name}
        self.state.finish(jobs[0].id, "failed", error=error_json(error, places | {str(self.config.data): "the server"}))

    # -- indexes

    def make_indexes(self) -> None:
        """Make the indexes of collections that have none yet."""
        for record in self.state.collections():
            known = record.name in self._indexes or state_file(Path(record.path)).exists()
            if known or time.monotonic() < self._not_before.get(record.name, 0):
                continue
            try:
                self._index(record.name)
            except (MergewiseError, OSError) as error:
                self._not_before[record.name] = time.monotonic() + AGAIN_SECONDS
                log.warning("the index of %s cannot be made: %s", record.name, error)

    def _index(self, name: str) -> Index:
        """The index of a collection, open for writing; made where there is none."""
        if name not in self._indexes:
            record, own = self._record(name), self._own(name)
            place = Path(record.path)
            place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            is_new = not state_file(place).exists()
            chat = own.chat or self.config.default_chat
            self._indexes[name] = mw.open(
                place,
                views=record.views if is_new else (),
                settings={view: _settings(view, record, own) for view in record.views} if is_new else None,
                embedder=_embedder_spec(self.config, record.embedder, is_new=is_new),
                chat=self._chat(chat) if chat is not None else "extractive",
                lock_wait=_LOCK_SECONDS,
            )
        return self._indexes[name]

    def _chat(self, name: str) -> Any:
        if name not in self._chats:
            self._chats[name] = self.config.chats[name].chat()
        return self._chats[name]

    def _record(self, name: str) -> CollectionRecord:
        record = self.state.collection(name)
        if record is None:
            raise UsageError(f"there is no collection {name!r}", "it was removed meanwhile")
        return record

    def _own(self, name: str) -> CollectionConfig:
        return self.config.collections.get(name, CollectionConfig())

    def _sweep_at_times(self) -> None:
        if time.monotonic() - self._swept < SWEEP_SECONDS:
            return
        self._swept = time.monotonic()
        self.state.prune()
        sweep_spool(self.config.spool)
        for record in self.state.collections():
            sweep_blobs(Path(record.blobs), self.state.blobs_needed(record.name))


class _Watch:
    """Tells the state how far jobs are, and knows whether they are to go on."""

    def __init__(self, state: State, jobs: Sequence[Job], stopping: Event) -> None:
        self._state, self._jobs, self._stopping = state, jobs, stopping
        self._reported = self._looked = -TELL_SECONDS
        self._document: str | None = None
        self._cancelled = False

    def report(self, done: int, total: int, document: str) -> None:
        """A `Progress` of the engine. A document that is begun is told at once: at it the process may die."""
        now = time.monotonic()
        is_event = now - self._reported >= TELL_SECONDS
        if not is_event and (document or None) == self._document:
            return
        self._reported, self._document = now if is_event else self._reported, document or None
        for job in self._jobs:
            progress = JobProgress(done, total, document=self._document)
            self._cancelled |= self._state.set_progress(job.id, progress, is_event=is_event) == "cancelling"

    def report_or_end(self, done: int, total: int, document: str) -> None:
        """The same for work that asks nobody whether it is to go on. Raises Cancelled."""
        self.report(done, total, document)
        if self.cancels():
            raise Cancelled("the job was cancelled", "ask for it again")

    def cancels(self) -> bool:
        """Whether the engine is to end here: one of the jobs is to be cancelled, or the writer is to end."""
        now = time.monotonic()
        if not self._cancelled and now - self._looked >= TELL_SECONDS:
            self._looked = now
            standing = [self._state.job(job.id) for job in self._jobs]
            self._cancelled = any(job is not None and job.state == "cancelling" for job in standing)
        return self._cancelled or self._stopping.is_set()

    def wait_for_lock(self, lock: FileLock) -> None:
        """Wait until nobody else writes to the index, before any work is done. Raises Cancelled where the jobs are to end."""
        while _is_held(lock):
            self._give("waiting_lock")
            self._looked = -TELL_SECONDS
            if self.cancels():
                raise Cancelled("the job was cancelled", "ask for it again")
            self._stopping.wait(TELL_SECONDS)
        self._give("running")

    def _give(self, state: JobState) -> None:
        for job in self._jobs:
            self._state.set_state(job.id, state)


def _is_held(lock: FileLock) -> bool:
    try:
        with lock.acquire(timeout=0):
            return False
    except Timeout:
        return True


# -- documents


def _source(blobs: Path, upload: Upload) -> mw.File | mw.Document:
    path = blob_path(blobs, upload.blob)
    if not upload.is_document:
        return mw.File(path, id=upload.id, name=upload.name, title=upload.title, metadata=dict(upload.metadata))
    content = json.loads(path.read_bytes())
    units = tuple((start, end) for start, end in content.get("units") or ())
    title = upload.title if upload.title is not None else content.get("title") or ""
    metadata = {**(content.get("metadata") or {}), **upload.metadata}
    return mw.Document(upload.id, content["text"], title, metadata, units=units)


def _standing(index: Index, uploads: Sequence[Upload]) -> set[str]:
    """Those of the documents that must not be replaced which the index has."""
    careful = {upload.id for upload in uploads if upload.on_conflict != "replace"}
    found = index.find(*careful) if careful else {}
    return {doc_id for doc_id, ids in found.items() if doc_id in ids}


def _finished(index: Index, blobs: Path, uploads: Sequence[Upload]) -> list[str]:
    """Those of the uploads that the index has, as they came: a dry run of adding them again."""
    if not uploads:
        return []
    report = index.add([_source(blobs, upload) for upload in uploads], dry_run=True)
    waiting = {change.id for change in report.changes} | {failure.source for failure in report.failed}
    return [upload.id for upload in uploads if upload.id not in waiting]


def _ids_to_remove(index: Index, request: Mapping[str, Any]) -> list[str]:
    if "filter" in request:
        return index.find("*", where=request["filter"])["*"]
    if "prefix" in request:
        return [info.id for info in index.documents(request["prefix"])]
    return list(request["ids"])


def _folders(own: CollectionConfig, request: Mapping[str, Any]) -> list[Path]:
    """The folders that the configuration names, or those of them that the request names."""
    known = {str(folder): folder for folder in own.folders}
    wanted = request.get("folders") or list(known)
    if not known or not set(wanted) <= known.keys():
        raise UsageError("only folders that the configuration names are read", "write folders = [...] into serve.toml")
    return [known[name] for name in wanted]


# -- views and models


def _settings(view: str, record: CollectionRecord, own: CollectionConfig) -> Any:
    """The settings of a view of a new index: the collection's own, else those that go with a chat model where one is named."""
    kind = mw.VIEWS[view]
    chosen = kind.with_chat if own.chat is not None else {}
    return kind.load({**kind.dump(), **chosen, **record.settings.get(view, {})})


def _kept_settings(view: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    kind = mw.VIEWS[view]
    return kind.dump(kind.load({**kind.dump(), **settings}))


def _embedder_spec(config: ServerConfig, name: str | None, *, is_new: bool) -> str | None:
    """The spec of an embedder of the configuration, or of one that ships."""
    if name is None:
        return "minilm" if is_new else None
    return config.embedders[name].spec if name in config.embedders else name


# -- errors


def error_json(error: Exception, places: Mapping[str, str]) -> dict[str, Any]:
    """An error as clients are told of it. `places` are directories, and what is said instead of them."""
    from mergewise.server.problems import problem_of

    problem = problem_of(error)
    texts = {"detail": problem.message, "hint": problem.hint}
    for place, name in places.items():
        texts = {field: text.replace(place, name) for field, text in texts.items()}
    return {"code": problem.code, **texts, "document": None}


def _unreadable(reason: str) -> dict[str, Any]:
    return {"code": "unreadable", "detail": reason, "hint": "change the file, or leave it out"}


def _standing_error(doc_id: str) -> dict[str, Any]:
    return {"code": "conflict", "detail": f"there is a document {doc_id!r}", "hint": "on_conflict=replace replaces it"}


# -- the process


def lock_file(data: Path, name: str) -> Path:
    """A lock of a server's data: `supervisor`, `writer` or `changes`."""
    folder = data / "locks"
    # of the folders that are made, only the last one gets the mode
    data.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder.mkdir(exist_ok=True, mode=0o700)
    return folder / name


def run_writer(config: ServerConfig, parent: int) -> None:
    """The process: it ends by SIGTERM, or with the process `parent`. Raises what ends it too early."""
    state = State(config.database)
    with waiting_lock(lock_file(config.data, "writer"), WAIT_SECONDS):
        writer = Writer(config, state)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, lambda *_: writer.stopping.set())
        faults: list[BaseException] = []
        working = Thread(target=_keep_fault, args=(writer.run, faults), name="jobs", daemon=True)
        working.start()
        for name, own in config.collections.items() if config.watch else ():
            if own.folders:
                Thread(target=_follow, args=(config, state, name, writer.stopping), daemon=True).start()
        while working.is_alive() and not writer.stopping.is_set() and os.getppid() == parent:
            state.beat(os.getpid())
            working.join(BEAT_SECONDS)
        writer.stopping.set()
        working.join(STOP_SECONDS)
        if working.is_alive():
            log.warning("the batch under way is dropped")
            for job in writer.under_way:
                state.put_aside(job.id)
        state.beat(None)
        if faults:
            raise faults[0]
        if working.is_alive():
            # threads of native code would be waited for
            os._exit(0)
        writer.close()
        state.close()


def _keep_fault(function: Callable[[], None], faults: list[BaseException]) -> None:
    try:
        function()
    except BaseException as error:
        faults.append(error)


def _follow(config: ServerConfig, state: State, name: str, stop: Event) -> None:
    """Ask for a `sync` of a collection's folders now, and after every burst of changes in them."""
    record = state.collection(name)
    left_out = [config.data, *([Path(record.path)] if record is not None else [])]
    while not stop.is_set():
        try:
            for _ in bursts(config.collections[name].folders, left_out, stop, LOOK_AT_FOLDERS_SECONDS):
                waiting = state.jobs(collections=[name], states=["queued"], limit=1000)
                if not any(job.kind == "sync" for job in waiting):
                    state.enqueue("sync", name)
        except Exception as error:
            # a folder that is gone may come back
            log.warning("the folders of %s cannot be watched: %s", name, error)
            stop.wait(LOOK_AT_FOLDERS_SECONDS)


@contextmanager
def waiting_lock(path: Path, seconds: float) -> Iterator[None]:
    """Hold the lock. Raises IndexBusy where another process holds it for longer."""
    lock = FileLock(path)
    try:
        lock.acquire(timeout=seconds)
    except Timeout:
        raise IndexBusy(f"another process holds {path}", "end it first") from None
    try:
        yield
    finally:
        lock.release()


def collection_directory(data: Path, name: str) -> Path:
    """What the server keeps of a collection: its originals, and its index where that stands nowhere else."""
    return data / "collections" / name
