"""What the jobs of each kind do to an index. They end their jobs in the state."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import mergewise as mw
from mergewise.errors import UsageError
from mergewise.extend import problem_json, report_json
from mergewise.server.configuration import CollectionConfig
from mergewise.server.evaluations import evaluate
from mergewise.server.jobs.watch import Watch
from mergewise.server.logs import log
from mergewise.server.records import CollectionRecord, Job, JobState, Upload
from mergewise.server.spool import local_blob
from mergewise.server.state import State
from mergewise.types import Json, JsonDict, frozen


@frozen
class JobWork:
    """The work of jobs on an index: a single job, or several uploads to one collection."""

    state: State
    index: mw.Index
    watch: Watch
    record: CollectionRecord
    own: CollectionConfig
    cache: Path

    def run(self, jobs: Sequence[Job]) -> None:
        """Run the jobs and record their end."""
        job, index, watch = jobs[0], self.index, self.watch
        request, removed = job.request, list[str]()
        match job.kind:
            case "add" | "replace":
                self._add(jobs)
                return
            case "sync":
                self._sync(job)
                return
            case "remove":
                if "filter" in request:
                    removed = index.find("*", where=request["filter"])["*"]
                elif "prefix" in request:
                    removed = [info.id for info in index.documents(request["prefix"])]
                else:
                    removed = list(request["ids"])
                index.remove(removed)
                report: Json = {"removed": len(removed), "snapshot": index.snapshot}
            case "metadata":
                report = {"updated": index.describe([request["id"]], request["metadata"])}
            case "add_view":
                view, settings = request["view"], request.get("settings")
                complete = None if settings is None else mw.VIEWS[view].dump(settings_of(view, settings))
                index.add_views({view: complete}, watch.report)
                report = {"views": list(index.manifest.views)}
            case "remove_view":
                index.remove_views([request["view"]])
                report = {"views": list(index.manifest.views)}
            case "embed":
                watch.index = index
                report = asdict(index.embed(progress=watch.report, cancel=watch.must_stop))
            case "check" | "repair":
                report = {"problems": [problem_json(one) for one in index.check(repair=job.kind == "repair")]}
            case "evaluate":
                report = evaluate(index, request, watch.report_or_end)
            case "optimize":
                index.store.optimize()
                report = {"optimized": True}
            case _:
                raise UsageError(f"unknown kind of job: {job.kind}", "upgrade the server")
        self.state.jobs.finish(job.id, "done", report=report, removed=removed)

    def _sync(self, job: Job) -> None:
        """Synchronise folders. Files that cannot be read are documents that failed."""
        own, watch, name = self.own, self.watch, job.collection
        folders, watch.index = own.folders_of(job.request), self.index
        report = self.index.sync(
            *folders, follow_links=own.follow_links, progress=watch.report, cancel=watch.must_stop, limits=mw.Limits()
        )
        failed = {one.source: _unreadable(one.reason) for one in report.failed}
        if len(folders) == len(own.synced):
            # a failure of a file without an upload is of an earlier run
            failures = self.state.documents.find(name, statuses=["failed"])
            self.state.documents.forget(name, [one.id for one in failures if one.blob is None and one.id not in failed])
        log.info(
            "indexed the folders of %s: %d added, %d replaced, %d removed, %d moved, %d unchanged, %d failed",
            name, report.added, report.replaced, report.removed, report.moved, report.unchanged, len(failed),
        )  # fmt: skip
        outward = []
        for link in report.outward:
            # clients see no paths of the server
            path = Path(link.link)
            inside = next((folder for folder in folders if path.is_relative_to(folder)), path.parent)
            outward.append({"link": path.relative_to(inside).as_posix(), "followed": link.followed})
        rows = report_json(report) | {"outward": outward}
        for change in rows["changes"]:
            # ids of older servers are paths
            change["was"] = "" if Path(change["was"]).is_absolute() else change["was"]
        self.state.jobs.finish(job.id, "done", report=rows, documents=failed)

    # -- uploads

    def _add(self, jobs: Sequence[Job]) -> None:
        index, watch = self.index, self.watch
        uploads = {job.id: self.state.jobs.uploads(job.id) for job in jobs}
        # uploads that must not replace a document, and those that the index already has
        careful = {upload.id for own in uploads.values() for upload in own if upload.on_conflict != "replace"}
        found = index.find(*careful) if careful else {}
        existing = {doc_id for doc_id, ids in found.items() if doc_id in ids}
        taken: dict[str, Upload] = {}
        kept: dict[str, dict[str, str]] = {job.id: {} for job in jobs}
        for job_id, own in uploads.items():
            for upload in own:
                if upload.on_conflict != "replace" and (upload.id in existing or upload.id in taken):
                    kept[job_id][upload.id] = upload.on_conflict
                else:
                    taken[upload.id] = upload
        # a job that skips existing documents must not meet its own documents in a second turn
        is_careful = any(upload.on_conflict != "replace" for upload in taken.values())
        watch.index = None if is_careful else index
        report = index.add(
            sources(self.record, taken.values(), self.cache),
            progress=watch.report,
            cancel=watch.must_stop,
            limits=mw.Limits(),
        )
        # the counts of the report are those of a job that ran alone
        counts = ("added", "replaced", "unchanged") if len(jobs) == 1 else ()
        more = {"snapshot": index.snapshot, **{name: getattr(report, name) for name in counts}}
        errors = {failure.source: _unreadable(failure.reason) for failure in report.failed}
        for job in jobs:
            # a job fails if the index has none of its documents
            unchanged, documents = kept[job.id], len(uploads[job.id])
            settled = {upload.id: errors.get(upload.id) for upload in uploads[job.id] if upload.id not in unchanged}
            refused = {
                doc_id: {
                    "code": "conflict",
                    "detail": f"document {doc_id!r} already exists",
                    "hint": "send on_conflict=replace to replace it",
                }
                for doc_id, on_conflict in unchanged.items()
                if on_conflict == "fail"
            }
            failed = [{"id": doc_id, **one} for doc_id, one in {**settled, **refused}.items() if one is not None]
            summary = {
                "documents": documents,
                "indexed": sum(problem is None for problem in settled.values()),
                "failed": failed,
                "skipped": [doc_id for doc_id, on_conflict in unchanged.items() if on_conflict == "skip"],
                "duplicates": [asdict(one) for one in report.duplicates if one.id in settled],
                "textless": [asdict(one) for one in report.textless if one.source in settled],
                **more,
            }
            has_failed = bool(failed) and len(failed) == documents
            error = {**failed[0], "document": failed[0]["id"]} if has_failed else None
            state: JobState = "failed" if has_failed else "done"
            self.state.jobs.finish(job.id, state, report=summary, error=error, documents=settled, kept=unchanged)


def sources(record: CollectionRecord, uploads: Iterable[Upload], cache: Path) -> list[mw.File | mw.Document]:
    """Return uploads as `Index.add` takes them."""
    found: list[mw.File | mw.Document] = []
    for upload in uploads:
        path = local_blob(Path(record.blobs), upload.blob, cache)
        if not upload.is_document:
            named = mw.File(path, id=upload.id, name=upload.name, title=upload.title, metadata=dict(upload.metadata))
            found.append(named)
            continue
        content = json.loads(path.read_bytes())
        units = tuple((start, end) for start, end in content.get("units") or ())
        title = upload.title if upload.title is not None else content.get("title") or ""
        metadata = {**(content.get("metadata") or {}), **upload.metadata}
        found.append(mw.Document(upload.id, content["text"], title, metadata, units=units))
    return found


def settings_of(view: str, given: Json) -> Any:
    """Return the settings of a view, with the default for each setting that is not given."""
    kind = mw.VIEWS[view]
    return kind.load({**kind.dump(), **given})


def _unreadable(reason: str) -> JsonDict:
    return {"code": "unreadable", "detail": reason, "hint": "change the file, or leave it out"}
