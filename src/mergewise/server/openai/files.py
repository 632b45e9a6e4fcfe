"""Routes for files and for the files of vector stores.

A client sends a file (POST /files), attaches it to a store, which starts a job, and polls until its status, which is the job's,
is not `in_progress`. The id of the document is the name of the file, so that a file that is sent again replaces the old one. A
document that was not attached here has its key as its id.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, File, Form, Query, UploadFile
from fastapi.responses import FileResponse

from mergewise.extend import in_thread, on_one_line
from mergewise.server.collections import id_of
from mergewise.server.file_store import Attachment, ReceivedFile
from mergewise.server.native.documents import chunks_of, document_row, download, list_documents
from mergewise.server.openai.pages import Limit, Order, list_form, list_page
from mergewise.server.openai.requests import AttachForm, AttributesForm, BatchForm
from mergewise.server.problems import HTTPProblem, existing, refusal, unknown
from mergewise.server.records import Job
from mergewise.server.routing import READ, WRITE, InCollection, InService, ScopedRoute
from mergewise.server.scoped import Scoped
from mergewise.server.spool import receive
from mergewise.types import Json, JsonDict

router = APIRouter(route_class=ScopedRoute)

Row = Json
"""A document as `list_documents` returns it."""
FileStatus = Literal["in_progress", "completed", "failed", "cancelled"]
Purpose = Literal["assistants", "user_data", "vision", "evals"]
"""The purposes of OpenAI's files that need no service of their own, as batches and fine-tuning do."""

_STATUS = {"queued": "in_progress", "indexing": "in_progress", "indexed": "completed", "failed": "failed"}
_ENDED = {"done": "completed", "failed": "failed", "cancelled": "cancelled"}
_UNSUPPORTED = frozenset({"media-type", "unsupported"})


# -- files


@router.post("/files", **WRITE)
async def send_file(
    service: InService, file: Annotated[UploadFile, File()], purpose: Annotated[Purpose, Form()] = "assistants"
) -> JsonDict:
    """Receive a file. It must be attached to a vector store within a day."""
    store = service.files
    blob = await receive(service.config.spool, store.folder, chunks_of(file))
    id, sender = f"file-{secrets.token_hex(16)}", service.token.id
    # the id of a document, which is never a path
    name = on_one_line((file.filename or "").replace("\\", "/").rstrip("/").rpartition("/")[2]).strip(" .")
    kept = ReceivedFile(id, name[-255:] or "file", blob.bytes, blob.sha256, purpose, time.time(), sender)
    await in_thread(store.keep, kept)
    return kept.as_dict()


@router.get("/files", **READ)
def list_files(
    service: InService,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 1000,
    after: str | None = None,
    order: Order = "desc",
    purpose: str | None = None,
) -> JsonDict:
    """List the files that the token sent, newest first."""
    files = {one.id: one for one in service.files.all() if purpose in (None, one.purpose)}
    return list_page(files, ReceivedFile.as_dict, limit, after, order)


@router.get("/files/{id}", **READ)
def get_file(id: str, service: InService) -> JsonDict:
    return service.files.get(id).as_dict()


@router.get("/files/{id}/content", **READ, response_class=FileResponse)
def get_file_content(id: str, service: InService) -> FileResponse:
    """Return the bytes of a file, which are kept for a day."""
    file = service.files.get(id)
    return download(service.files.bytes_of(file), file.name)


@router.delete("/files/{id}", **WRITE)
def delete_file(id: str, service: InService) -> JsonDict:
    """Delete a file. Its documents stay."""
    service.files.drop(service.files.get(id))
    return {"id": id, "object": "file", "deleted": True}


# -- files of a vector store


@router.post("/vector_stores/{c}/files", **WRITE)
def attach_file(form: AttachForm, collection: InCollection) -> JsonDict:
    """Attach a file, and start a job that indexes it."""
    job = attach(collection, [form])
    return _file_form(collection.name, None, job) | {"id": form.file_id, "attributes": form.attributes or {}}


def attach(collection: Scoped, forms: Sequence[AttachForm]) -> Job:
    """Start the job that indexes the files."""
    store = collection.service.files
    files = [store.get(form.file_id) for form in forms]
    if len({file.name for file in files}) < len(files):
        raise refusal("duplicate file names: one file would replace the other", "file_ids")
    blobs = collection.writable().blobs
    uploads = [store.upload(file, blobs, form.attributes or {}) for file, form in zip(files, forms, strict=True)]
    # a job drops its finished uploads, but clients may ask about the batch later
    request = {"on_conflict": "replace", "documents": [upload.id for upload in uploads]}
    job = collection.enqueue("add", request, uploads)
    for file in files:
        store.note(Attachment(file.id, file.name, job.id, job.created), collection.name)
    return job


@router.get("/vector_stores/{c}/files", **READ)
def list_store_files(
    collection: InCollection, limit: Limit = 20, after: str | None = None, filter: FileStatus | None = None
) -> JsonDict:
    """List the documents of a collection by id, including waiting and failed ones."""
    statuses: list[Any] = [status for status, shown in _STATUS.items() if filter in (None, shown)]
    listed = list_documents(collection, status=statuses, limit=limit, cursor=after)
    return list_form([_file_form(collection.name, row) for row in listed["items"]], has_more=listed["next"] is not None)


@router.get("/vector_stores/{c}/files/{id}", **READ)
def get_store_file(id: str, collection: InCollection) -> JsonDict:
    """Return a document, by the id of its file or by its key."""
    attachment = collection.attachment(id)
    row = _row(collection, id)
    job = None if attachment is None else collection.service.find_job(attachment.job)
    if row is None and job is None:
        raise unknown("file")
    return _file_form(collection.name, row, job) | {"id": id}


@router.post("/vector_stores/{c}/files/{id}", **WRITE)
def change_store_file(id: str, form: AttributesForm, collection: InCollection) -> JsonDict:
    """Start a job that changes the metadata of a document."""
    row = existing(_row(collection, id), "file")
    job = collection.enqueue("metadata", {"id": row["id"], "metadata": form.attributes})
    changed = {"id": id, "attributes": {**row["metadata"], **form.attributes}}
    return _file_form(collection.name, row, job) | changed


@router.get("/vector_stores/{c}/files/{id}/content", **READ)
def get_store_file_content(id: str, collection: InCollection) -> JsonDict:
    """Return the text of a document, as read from the file."""
    row = existing(_row(collection, id), "file")
    if row["characters"] is None:
        raise HTTPProblem(409, "not-indexed", "document not indexed yet", "check its status")
    text = collection.document(row["id"]).text
    page = {"object": "vector_store.file_content.page", "has_more": False, "next_page": None}
    return {**page, "data": [{"type": "text", "text": text}]}


@router.delete("/vector_stores/{c}/files/{id}", **WRITE)
def remove_store_file(id: str, collection: InCollection) -> JsonDict:
    """Start a job that removes a document from the collection."""
    row = existing(_row(collection, id), "file")
    collection.enqueue("remove", {"ids": [row["id"]]})
    collection.service.files.detach(id, collection.name)
    return {"id": id, "object": "vector_store.file.deleted", "deleted": True}


def _row(collection: Scoped, id: str) -> Row | None:
    """Look up a document that the token may see, by the id of an attached file or by the document's key."""
    attachment = collection.attachment(id)
    entry = collection.find(id_of(id) if attachment is None else attachment.document)
    return None if entry is None else document_row(entry)


def _file_form(c: str, row: Row | None, job: Job | None = None) -> JsonDict:
    """Convert a document to a file of a vector store. While its job runs, the document may not exist yet."""
    is_waiting = job is not None and not job.has_ended
    status = "in_progress" if is_waiting else _STATUS[row["status"]] if row else _ENDED[job.state] if job else "failed"
    error = None if is_waiting else row["error"] if row else job.error if job else None
    created = job.created if job else (row["indexed_at"] if row else None) or 0
    shown_error = None
    if error:
        code = "unsupported_file" if error.get("code") in _UNSUPPORTED else "invalid_file"
        message = " ".join(str(error[part]) for part in ("detail", "hint") if error.get(part))
        shown_error = {"code": code, "message": message}
    return {
        "id": row["key"] if row else "",
        "object": "vector_store.file",
        "created_at": int(created),
        "vector_store_id": c,
        "status": status,
        "usage_bytes": (row["bytes"] or row["characters"] if row else None) or 0,
        "last_error": shown_error,
        "attributes": dict(row["metadata"]) if row else {},
        "chunking_strategy": {"type": "other"},
    }


# -- several files at once


@router.post("/vector_stores/{c}/file_batches", **WRITE)
def attach_files(form: BatchForm, collection: InCollection) -> JsonDict:
    """Attach several files, and start one job that indexes them."""
    forms = form.files
    if forms is None:
        forms = [AttachForm(file_id=file_id, attributes=form.attributes) for file_id in form.file_ids or ()]
    if not forms:
        raise refusal("missing files", "file_ids")
    return _batch_form(collection, attach(collection, forms))


@router.get("/vector_stores/{c}/file_batches/{id}", **READ)
def get_batch(id: str, collection: InCollection) -> JsonDict:
    job = collection.service.find_job(id)
    if job is None or job.collection != collection.name or "documents" not in job.request:
        raise unknown("batch")
    return _batch_form(collection, job)


def _batch_form(collection: Scoped, job: Job) -> JsonDict:
    ids = job.request["documents"]
    states = collection.states_of(ids)
    counts = dict.fromkeys((*_ENDED.values(), "in_progress"), 0)
    for doc_id in ids:
        state = states.get(doc_id)
        counts["in_progress" if not job.has_ended else _STATUS[state.status] if state else _ENDED[job.state]] += 1
    return {
        "id": job.id,
        "object": "vector_store.files_batch",
        "created_at": int(job.created),
        "vector_store_id": job.collection,
        "status": _ENDED.get(job.state, "in_progress"),
        "file_counts": {**counts, "total": len(ids)},
    }
