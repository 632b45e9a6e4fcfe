"""Routes that start, watch and cancel jobs of collections, and return the results of evaluations."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import asdict
from typing import Annotated, get_args

from fastapi import APIRouter, Header, Path, Query, Request, Response
from fastapi.responses import HTMLResponse

import mergewise as mw
from mergewise.extend import in_thread, report_json
from mergewise.server.evaluations import questions_of
from mergewise.server.jobs.kinds import settings_of
from mergewise.server.native.pages import Cursor, Limit, cursor_position, page
from mergewise.server.native.questions import event_bytes, failure_event
from mergewise.server.native.requests import JobForm, Name
from mergewise.server.native.responses import ESTIMATE, EVALUATION, JOB, STARTED, page_of
from mergewise.server.problems import invalid, unknown
from mergewise.server.records import Job, JobState, ViewKind
from mergewise.server.routing import READ, WRITE, InCollection, InService, ScopedRoute
from mergewise.server.scoped import Scoped, ScopedService, check_scope
from mergewise.server.streams import EventStream
from mergewise.types import JsonDict

# the page has its own policy with the hashes of its scripts
_PAGE_POLICY = (
    "sandbox allow-scripts; default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
)
router = APIRouter(prefix="/api/v1", tags=["jobs"], route_class=ScopedRoute)

JobId = Annotated[str, Path(max_length=100)]


@router.post("/collections/{c}/jobs", status_code=202, response_model=STARTED | ESTIMATE, **WRITE)
async def start_job(form: JobForm, collection: InCollection) -> JsonDict:
    """Start a job on the whole collection. `dry_run` only estimates its work."""
    request = form.request
    if form.kind in get_args(ViewKind):
        check_scope(collection.token, "admin")
        if request.get("view") not in [*mw.VIEWS]:
            raise invalid("/request/view", "unknown view", f"one of: {', '.join(mw.VIEWS)}")
    if (settings := request.get("settings")) is not None and form.kind == "add_view":
        if not isinstance(settings, dict):
            raise invalid("/request/settings", "invalid settings", "send names with values")
        settings_of(request["view"], settings)
    if form.kind == "evaluate":
        await in_thread(questions_of, request)
    if form.kind == "sync":
        collection.own.folders_of(request)
    if form.dry_run:
        return {"estimate": await in_thread(_estimate, collection, form)}
    job = await in_thread(collection.enqueue, form.kind, form.request)
    return {"job": job.as_dict()}


def _estimate(collection: Scoped, form: JobForm) -> JsonDict:
    own = collection.own
    if form.kind == "sync":
        folders, index = own.folders_of(form.request), collection.writable().index
        return report_json(index.sync(*folders, follow_links=own.follow_links, dry_run=True))
    if form.kind == "add_view":
        view, given, config = form.request["view"], form.request.get("settings"), collection.service.config
        settings = {} if given is None else {view: settings_of(view, given)}
        # the chat model of the writer
        name = own.chat or config.default_chat
        chat = "extractive" if name is None else config.chats[name].chat()
        return asdict(mw.estimate(collection.record.path, views=["leaf", view], settings=settings, chat=chat))
    if form.kind == "evaluate":
        return {"questions": len(questions_of(form.request).questions)}
    return {"documents": collection.info()["documents"]}


@router.get("/jobs", response_model=page_of(JOB), **READ)
def list_jobs(
    service: InService,
    collection: Annotated[str | None, Query(max_length=63)] = None,
    kind: Annotated[str | None, Query(max_length=40)] = None,
    state: Annotated[list[JobState] | None, Query()] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> JsonDict:
    """List the jobs that the token may see, of one collection or of all, newest first."""
    position = cursor_position(cursor)
    before = None if position is None else service.find_job(position)
    if position is not None and before is None:
        raise invalid("cursor", "invalid cursor", "start without a cursor")
    found = service.jobs(collection, kind=kind, states=state, before=before, limit=limit + 1)
    return page(found, limit, lambda job: job.id, Job.as_dict)


@router.get("/jobs/{id}", response_model=JOB, **READ)
def get_job(id: JobId, service: InService) -> JsonDict:
    """Return the current state of a job."""
    return service.job(id).as_dict()


@router.post("/jobs/{id}/cancel", response_model=JOB, **WRITE)
def cancel_job(id: JobId, service: InService) -> JsonDict:
    """Cancel a job of the token, or as an admin any job. Finished batches stay."""
    return service.cancel(id).as_dict()


@router.post("/jobs/{id}/retry", response_model=JOB, **WRITE)
def retry_job(id: JobId, service: InService) -> JsonDict:
    """Queue a failed or cancelled job of the token again, or as an admin any such job."""
    return service.retry(id).as_dict()


@router.get(
    "/jobs/{id}/events",
    **READ,
    responses={200: {"description": "An event `job` for each change", "content": {"text/event-stream": {}}}},
    response_class=Response,
)
async def watch_job(
    id: JobId, request: Request, service: InService, last_event_id: Annotated[int | None, Header(ge=0, le=2**62)] = None
) -> Response:
    """Stream an event `job` for each change of a job until it ends, starting after `Last-Event-ID`."""
    service.job(id)

    async def events() -> AsyncGenerator[bytes, None]:
        after = last_event_id or 0
        while True:
            # read the job before its events: if it has ended, all of its events exist by then
            job = service.job(id)
            for event in service.job_events(id, after):
                after = event.number
                yield event_bytes("job", event.job, event.number)
            if job.has_ended:
                return
            await asyncio.sleep(0.25)

    # do not wait for a first event, because the next one may take long
    return EventStream(events(), failure_event(request), service.ending)


@router.get("/collections/{c}/evaluations/{id}", response_model=EVALUATION, **READ)
def get_evaluation(c: Name, id: JobId, service: InService) -> JsonDict:
    """Return the rows of an evaluation, question by question, and its report. `id` is the id of its job."""
    job = _evaluation(service, c, id)
    found = dict(job.report or {})
    return {"id": id, "state": job.state, "rows": list(found.get("rows") or []), "report": found.get("report")}


@router.get("/collections/{c}/evaluations/{id}/page", **READ, response_class=HTMLResponse)
def get_evaluation_page(c: Name, id: JobId, service: InService) -> Response:
    """Return the report of an evaluation as an HTML page."""
    found = _evaluation(service, c, id).report or {}
    if not found.get("page"):
        raise unknown("page", "wait until the evaluation ends")
    headers = {"Content-Security-Policy": _PAGE_POLICY, "Content-Disposition": f'inline; filename="{id}.html"'}
    return Response(found["page"], media_type="text/html", headers=headers)


def _evaluation(service: ScopedService, c: str, id: str) -> Job:
    job = service.job(id)
    if job.kind != "evaluate" or job.collection != c:
        raise unknown("evaluation")
    return job
