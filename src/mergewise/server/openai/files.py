"""Files and their places in vector stores: attaching a file makes a job, and its status is that of the job.

A client sends a file (POST /files), attaches it, and asks for it until its status is no more `in_progress`. The id of the document
is the name of the file, so that a file that is sent again takes the place of itself. What was not attached here is known by its key.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncIterator, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, File, Form, Query, UploadFile
from fastapi.responses import FileResponse

from mergewise.concurrency import in_thread
from mergewise.server.collections import Collection, id_of, key_of
from mergewise.server.openai.conversations import refused
from mergewise.server.openai.forms import AttachForm, BatchForm
from mergewise.server.openai.shelf import Attachment, ReceivedFile, Shelf
from mergewise.server.openai.stores import list_form
from mergewise.server.problems import unknown
from mergewise.server.records import DocumentState, Job, Token
from mergewise.server.routing import READ, WRITE, Caller, ScopedRoute, Server, Service
from mergewise.server.spool import receive
from mergewise.text.printable import on_one_line

router = APIRouter(route_class=ScopedRoute)

_CHUNK = 1 << 20
_LONGEST_NAME = 255
_STATUS = {"queued": "in_progress", "indexing": "in_progress", "indexed": "completed", "failed": "failed"}
_ENDED = {"done": "completed", "failed": "failed", "cancelled": "cancelled"}
_UNSUPPORTED = frozenset({"media-type", "unsupported"})


def _shelf(service: Service) -> Shelf:
    return Shelf(service.config.data / "files")


# -- files


@router.post("/files", openapi_extra=WRITE)
async def send_file(
    service: Server, token: Caller, file: Annotated[UploadFile, File()], purpose: Annotated[str, Form()] = "assistants"
) -> dict[str, Any]:
    """Keep a file, to be attached to a vector store within a day."""
    shelf = _shelf(service)
    await in_thread(shelf.sweep)
    blob = await receive(service.config.spool, shelf.folder, _chunks(file), service.config.limits.body_bytes)
    kept = ReceivedFile(
        "file-" + secrets.token_hex(16),
        label(file.filename),
        blob.bytes,
        blob.sha256,
        purpose[:64],
        time.time(),
        token.id,
    )
    await in_thread(partial(shelf.keep, kept))
    return kept.as_dict()


async def _chunks(file: UploadFile) -> AsyncIterator[bytes]:
    while chunk := await file.read(_CHUNK):
        yield chunk


def label(name: str | None) -> str:
    """The last part of a file's name, as the id of a document. It is no path."""
    last = on_one_line((name or "").replace("\\", "/").rstrip("/").rpartition("/")[2]).strip(" .")
    return last[-_LONGEST_NAME:] or "file"


@router.get("/files", openapi_extra=READ)
async def list_files(
    service: Server, token: Caller, limit: Annotated[int, Query(ge=1, le=10_000)] = 1000, after: str | None = None
) -> dict[str, Any]:
    """The files that the token sent, the newest first."""
    files = [one.as_dict() for one in await in_thread(partial(_shelf(service).files, token))]
    begin = next((at for at, one in enumerate(files, 1) if one["id"] == after), 0)
    return list_form(files[begin : begin + limit], has_more=len(files) > begin + limit)


@router.get("/files/{id}", openapi_extra=READ)
async def get_file(id: str, service: Server, token: Caller) -> dict[str, Any]:
    return _shelf(service).get(id, token).as_dict()


@router.get("/files/{id}/content", openapi_extra=READ, response_class=FileResponse)
async def get_file_content(id: str, service: Server, token: Caller) -> FileResponse:
    """The bytes of a file, for a day."""
    shelf = _shelf(service)
    file = shelf.get(id, token)
    headers = {"X-Content-Type-Options": "nosniff", "Content-Security-Policy": "sandbox"}
    return FileResponse(
        shelf.bytes_of(file), media_type="application/octet-stream", filename=file.name, headers=headers
    )


@router.delete("/files/{id}", openapi_extra=WRITE)
async def delete_file(id: str, service: Server, token: Caller) -> dict[str, Any]:
    """Forget a file. Documents that it became stay."""
    shelf = _shelf(service)
    await in_thread(partial(shelf.drop, shelf.get(id, token)))
    return {"id": id, "object": "file", "deleted": True}


# -- files of a vector store


@router.post("/vector_stores/{c}/files", openapi_extra=WRITE)
async def attach_file(c: str, form: AttachForm, service: Server, token: Caller) -> dict[str, Any]:
    """Index a file. Its status tells when it is done."""
    collection = service.collections.get(c, token)
    await in_thread(partial(_attach, service, collection, token, [form]))
    return await in_thread(partial(_file_form, service, collection, token, form.file_id))


def _attach(service: Service, collection: Collection, token: Token, forms: Sequence[AttachForm]) -> Job:
    """The job that indexes the files."""
    shelf = _shelf(service)
    files = [shelf.get(form.file_id, token) for form in forms]
    if len({file.name for file in files}) < len(files):
        raise refused("two files of one name would take each other's place", "file_ids")
    blobs = Path(collection.record.blobs)
    uploads = [shelf.upload(file, blobs, form.attributes or {}) for file, form in zip(files, forms, strict=True)]
    request = {"on_conflict": "replace"}
    job = service.state.enqueue("add", collection.name, request, uploads=uploads, token=token.id)
    for file in files:
        shelf.note(Attachment(file.id, file.name, job.id, job.created), collection.name)
    return job


@router.get("/vector_stores/{c}/files", openapi_extra=READ)
async def list_store_files(
    c: str,
    service: Server,
    token: Caller,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    after: str | None = None,
    filter: Literal["in_progress", "completed", "failed", "cancelled"] | None = None,
) -> dict[str, Any]:
    """The documents of a collection by their ids, those that wait or failed among them."""
    collection = service.collections.get(c, token)
    last = None if after is None else id_of(after)
    rows = await in_thread(partial(_rows, service, collection, token, last, limit + 1, filter))
    return list_form(rows[:limit], has_more=len(rows) > limit)


def _rows(
    service: Service, collection: Collection, token: Token, after: str | None, most: int, status: str | None
) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    while len(rows) < most:
        ids = _page(service, collection, after, most)
        shown = (_document_form(service, collection, token, doc_id) for doc_id in ids)
        rows += [row for row in shown if row is not None and status in (None, row["status"])]
        if len(ids) < most:
            break
        after = ids[-1]
    return rows[:most]


def _page(service: Service, collection: Collection, after: str | None, limit: int) -> list[str]:
    """The next ids, of documents that the index has and of those that are still to come."""
    states = service.state.document_states(collection.name, after=after, limit=limit)
    indexed = collection.index.documents(after=after, limit=limit) if collection.is_made else []
    return sorted({*(one.id for one in states), *(one.id for one in indexed)})[:limit]


@router.get("/vector_stores/{c}/files/{id}", openapi_extra=READ)
async def get_store_file(c: str, id: str, service: Server, token: Caller) -> dict[str, Any]:
    return await in_thread(partial(_file_form, service, service.collections.get(c, token), token, id))


@router.get("/vector_stores/{c}/files/{id}/content", openapi_extra=READ)
async def get_store_file_content(c: str, id: str, service: Server, token: Caller) -> dict[str, Any]:
    """The text of a document, as it was read from the file."""
    collection = service.collections.get(c, token)
    doc_id, _ = _document_of(service, collection, id)
    if await in_thread(partial(_document_form, service, collection, token, doc_id)) is None or not collection.is_made:
        raise unknown("file")
    document = await in_thread(partial(collection.index.document, doc_id))
    data = [{"type": "text", "text": document.text}]
    return {"object": "vector_store.file_content.page", "data": data, "has_more": False, "next_page": None}


@router.delete("/vector_stores/{c}/files/{id}", openapi_extra=WRITE)
async def remove_store_file(c: str, id: str, service: Server, token: Caller) -> dict[str, Any]:
    """Remove a document from the collection, soon."""
    collection = service.collections.get(c, token)
    await in_thread(partial(_remove, service, collection, token, id))
    return {"id": id, "object": "vector_store.file.deleted", "deleted": True}


def _remove(service: Service, collection: Collection, token: Token, id: str) -> None:
    doc_id, attachment = _document_of(service, collection, id)
    if _document_form(service, collection, token, doc_id) is None:
        raise unknown("file")
    service.state.enqueue("remove", collection.name, {"ids": [doc_id]}, token=token.id)
    if attachment is not None:
        _shelf(service).detach(attachment, collection.name)


def _document_of(service: Service, collection: Collection, id: str) -> tuple[str, Attachment | None]:
    """The document that an id means: that of a file that was attached, or a key."""
    attachment = _shelf(service).attachment(id, collection.name)
    return (id_of(id), None) if attachment is None else (attachment.document, attachment)


def _file_form(service: Service, collection: Collection, token: Token, id: str) -> dict[str, Any]:
    doc_id, attachment = _document_of(service, collection, id)
    form = _document_form(service, collection, token, doc_id, attachment)
    if form is None:
        raise unknown("file")
    return form | {"id": id}


def _document_form(
    service: Service, collection: Collection, token: Token, doc_id: str, attachment: Attachment | None = None
) -> dict[str, Any] | None:
    """A document as a file of a vector store; None where there is none, or the token's condition hides it."""
    states = service.state.document_states(collection.name, ids=[doc_id])
    state = states[0] if states else None
    job = None if attachment is None else service.state.job(attachment.job)
    info = _info_of(collection, doc_id)
    if token.filter is not None and (info is None or doc_id not in collection.ids_within(token.filter)):
        return None
    if state is None and info is None and job is None:
        return None
    created = state.indexed_at if state and state.indexed_at else job.created if job else collection.record.created
    return {
        "id": key_of(doc_id),
        "object": "vector_store.file",
        "created_at": int(created),
        "vector_store_id": collection.name,
        "status": _status(state, job),
        "usage_bytes": state.bytes if state and state.bytes else info.characters if info else 0,
        "last_error": _last_error(state, job),
        "attributes": dict(info.metadata if info else state.metadata if state else {}),
        "chunking_strategy": {"type": "other"},
    }


def _info_of(collection: Collection, doc_id: str) -> Any:
    """The document's row in the index."""
    if not collection.is_made:
        return None
    page = collection.index.documents(prefix=doc_id, limit=1)
    return page[0] if page and page[0].id == doc_id else None


def _status(state: DocumentState | None, job: Job | None) -> str:
    if job is not None and not job.has_ended:
        return "in_progress"
    if state is not None:
        return _STATUS[state.status]
    return "completed" if job is None else _ENDED[job.state]


def _last_error(state: DocumentState | None, job: Job | None) -> dict[str, str] | None:
    error = (state.error if state else None) or (job.error if job and job.has_ended else None)
    if not error:
        return None
    code = "unsupported_file" if error.get("code") in _UNSUPPORTED else "invalid_file"
    return {
        "code": code,
        "message": " ".join(filter(None, (str(error.get(part) or "") for part in ("detail", "hint")))),
    }


# -- several files at once


@router.post("/vector_stores/{c}/file_batches", openapi_extra=WRITE)
async def attach_files(c: str, form: BatchForm, service: Server, token: Caller) -> dict[str, Any]:
    """Index several files as one job."""
    if not form.attached():
        raise refused("no files are named", "file_ids")
    collection = service.collections.get(c, token)
    job = await in_thread(partial(_attach, service, collection, token, form.attached()))
    return await in_thread(partial(_batch_form, service, collection, token, job.id))


@router.get("/vector_stores/{c}/file_batches/{id}", openapi_extra=READ)
async def get_batch(c: str, id: str, service: Server, token: Caller) -> dict[str, Any]:
    return await in_thread(partial(_batch_form, service, service.collections.get(c, token), token, id))


@router.post("/vector_stores/{c}/file_batches/{id}/cancel", openapi_extra=WRITE)
async def cancel_batch(c: str, id: str, service: Server, token: Caller) -> dict[str, Any]:
    collection = service.collections.get(c, token)
    await in_thread(partial(_batch_form, service, collection, token, id))
    await in_thread(partial(service.state.cancel, id))
    return await in_thread(partial(_batch_form, service, collection, token, id))


def _batch_form(service: Service, collection: Collection, token: Token, id: str) -> dict[str, Any]:
    job = service.state.job(id)
    if job is None or job.collection != collection.name or job.kind not in ("add", "replace"):
        raise unknown("batch")
    ids = [upload.id for upload in service.state.uploads(id)]
    states = {state.id: state for state in service.state.document_states(collection.name, ids=ids)}
    counts = dict.fromkeys(("in_progress", "completed", "failed", "cancelled"), 0)
    for doc_id in ids:
        counts[_status(states.get(doc_id), job)] += 1
    return {
        "id": id,
        "object": "vector_store.files_batch",
        "created_at": int(job.created),
        "vector_store_id": collection.name,
        "status": _ENDED.get(job.state, "in_progress"),
        "file_counts": {**counts, "total": len(ids)},
    }
