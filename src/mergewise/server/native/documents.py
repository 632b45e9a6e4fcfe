"""Routes that list, read, add, describe and remove documents of a collection."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import asdict
from email.message import Message
from functools import partial
from hashlib import sha256
from pathlib import Path as FilePath
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Path, Query, Request
from starlette.datastructures import UploadFile
from starlette.responses import FileResponse, Response

from mergewise.concurrency import in_thread
from mergewise.errors import ReadError
from mergewise.readers import page_picture
from mergewise.server.answers import document_form
from mergewise.server.collections import Collection, id_of
from mergewise.server.native.pages import Cursor, Limit, cursor_position, page
from mergewise.server.native.requests import (
    DocumentForm,
    DocumentsForm,
    MetadataForm,
    Name,
    RemoveForm,
    UploadOptions,
    validated,
)
from mergewise.server.native.responses import (
    ACCEPTED,
    DOCUMENT,
    DOCUMENT_PART,
    OUTLINED_DOCUMENT,
    REMOVAL,
    STARTED,
    page_of,
)
from mergewise.server.problems import HTTPProblem, invalid, unknown
from mergewise.server.records import DocumentState, DocumentStatus, Job, OnConflict, Token, Upload
from mergewise.server.routing import READ, WRITE, Caller, ScopedRoute, Server, Service
from mergewise.server.spool import blob_path, keep_bytes, receive
from mergewise.text.sections import markdown_headings
from mergewise.types import Document, DocumentInfo, Heading

router = APIRouter(prefix="/api/v1/collections/{c}", tags=["documents"], route_class=ScopedRoute)

Key = Annotated[str, Path(max_length=6000, description="The document's id as base64url without padding")]
IdempotencyKey = Annotated[str | None, Header(alias="Idempotency-Key", max_length=200)]
_LONGEST_TEXT = 200_000
_SHOWN = 200
_CHUNK = 1 << 20
# FastAPI makes no schema component of a body that it does not parse itself
_DOCUMENT = DocumentForm.model_json_schema()
_DOCUMENTS = DocumentsForm.model_json_schema()
_INLINE = {
    **{name: value for name, value in _DOCUMENTS.items() if name != "$defs"},
    "properties": {
        **_DOCUMENTS["properties"],
        "documents": {**_DOCUMENTS["properties"]["documents"], "items": _DOCUMENT},
    },
}
_UPLOAD_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {"schema": _INLINE},
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["files"],
                    "additionalProperties": False,
                    "properties": {
                        "files": {"type": "array", "minItems": 1, "items": {"type": "string", "format": "binary"}},
                        "options": {"type": "string", "contentMediaType": "application/json"},
                    },
                }
            },
        },
    }
}


@router.get("/documents", response_model=page_of(DOCUMENT), openapi_extra=READ)
def list_documents(
    c: Name,
    service: Server,
    token: Caller,
    prefix: Annotated[str, Query(max_length=1000)] = "",
    status: Annotated[list[DocumentStatus] | None, Query()] = None,
    sort: Literal["id"] = "id",
    limit: Limit = 50,
    cursor: Cursor = None,
) -> dict[str, Any]:
    """List the documents by id, including waiting, indexing and failed ones."""
    collection = service.collections.get(c, token)
    after, found = cursor_position(cursor), list[dict[str, Any]]()
    allowed = None if token.filter is None else collection.ids_within(token.filter)
    # most documents are indexed: look up the others separately
    rows_behind = _merged if status is None or "indexed" in status else partial(_others, statuses=status)
    while len(found) <= limit:
        rows, after = rows_behind(service, collection, prefix, after, limit + 1)
        found += [
            row
            for row in rows
            if (status is None or row["status"] in status) and (allowed is None or row["id"] in allowed)
        ]
        if after is None:
            break
    return page(found, limit, lambda row: row["id"], dict)


def _merged(
    service: Service, collection: Collection, prefix: str, after: str | None, limit: int
) -> tuple[list[dict[str, Any]], str | None]:
    """Return the next documents of the index and the state, by id, and the id to continue after (None at the end)."""
    infos = collection.index.documents(prefix, after=after, limit=limit) if collection.is_made else []
    states = service.state.document_states(collection.name, prefix=prefix, after=after, limit=limit)
    ends = [rows[-1].id for rows in (infos, states) if len(rows) == limit]
    last = min(ends) if ends else None
    indexed = {info.id: info for info in infos if last is None or info.id <= last}
    known = {state.id: state for state in states if last is None or state.id <= last}
    # a document that was indexed and is not in the index has been removed
    ids = sorted({*indexed, *(id for id, state in known.items() if state.status != "indexed")})
    return [_row(id, indexed.get(id), known.get(id)) for id in ids], last


def _others(
    service: Service,
    collection: Collection,
    prefix: str,
    after: str | None,
    limit: int,
    statuses: Sequence[DocumentStatus],
) -> tuple[list[dict[str, Any]], str | None]:
    """Return the next documents that wait, are being indexed or failed."""
    states = service.state.document_states(collection.name, prefix=prefix, statuses=statuses, after=after, limit=limit)
    rows = [_row(state.id, _indexed(collection, state.id), state) for state in states]
    return rows, states[-1].id if len(states) == limit else None


def _indexed(collection: Collection, doc_id: str) -> DocumentInfo | None:
    """Return the index's entry of a document, if any."""
    found = collection.index.documents(doc_id, limit=1) if collection.is_made else []
    return found[0] if found and found[0].id == doc_id else None


def _row(doc_id: str, info: DocumentInfo | None, state: DocumentState | None) -> dict[str, Any]:
    """Return a document as clients see it. The state of one that nobody uploaded is empty."""
    state = state or DocumentState("", doc_id, "indexed")
    title = (info.title if info else None) or state.title or state.name or doc_id
    return {
        **asdict(state),
        **document_form(doc_id, title),
        "metadata": dict(info.metadata if info else state.metadata),
        "characters": info.characters if info else None,
        "leaves": info.leaves if info else None,
        "has_original": bool(state.blob and not state.is_document),
    }


@router.get("/documents/{key}", response_model=OUTLINED_DOCUMENT, openapi_extra=READ)
def get_document(c: Name, key: Key, service: Server, token: Caller) -> dict[str, Any]:
    """Return a document with its outline and pages, as far as they are known."""
    collection, doc_id, info, state = _known(service, token, c, key)
    document = None if info is None else collection.index.document(doc_id)
    return {
        **_row(doc_id, info, state),
        "outline": list(_outline(document)),
        "pages": list((document.pages if document else None) or ()),
        "language": info.language if info else "",
    }


def _outline(document: Document | None) -> Sequence[Heading]:
    """Return the given headings, else those found in the text by indexing."""
    if document is None:
        return ()
    outline = markdown_headings(document.text) if document.outline is None else document.outline
    return [heading for heading in outline if heading.title]


def _known(
    service: Service, token: Token, c: str, key: str
) -> tuple[Collection, str, DocumentInfo | None, DocumentState | None]:
    """Look up a document: its collection, its id, and its entries in the index and in the state.

    Raises HTTPProblem 404 if neither has an entry, or if the token may not see it.
    """
    collection, doc_id = service.collections.get(c, token), id_of(key)
    if token.filter is not None and doc_id not in collection.ids_within(token.filter):
        raise unknown("document")
    info = _indexed(collection, doc_id)
    state = next(iter(service.state.document_states(collection.name, ids=[doc_id])), None)
    if info is None and (state is None or state.status == "indexed"):
        raise unknown("document")
    return collection, doc_id, info, state


@router.get("/documents/{key}/text", response_model=DOCUMENT_PART, openapi_extra=READ)
def get_text(
    c: Name,
    key: Key,
    service: Server,
    token: Caller,
    start: Annotated[int, Query(ge=0, le=10**12)] = 0,
    end: Annotated[int | None, Query(ge=0, le=10**12)] = None,
) -> dict[str, Any]:
    """Return the text of a document from `start` to `end`, in code points, at most 200,000."""
    collection, doc_id, info, _ = _known(service, token, c, key)
    if info is None:
        raise HTTPProblem(409, "not-indexed", "document not indexed yet", "check its job")
    text = collection.index.document(doc_id).text
    start = min(start, len(text))
    end = max(start, min(len(text) if end is None else end, start + _LONGEST_TEXT, len(text)))
    return {"key": key, "start": start, "end": end, "characters": len(text), "text": text[start:end]}


@router.get("/documents/{key}/original", openapi_extra=READ, response_class=FileResponse)
def get_original(c: Name, key: Key, service: Server, token: Caller) -> FileResponse:
    """Download the original bytes. A browser saves them and does not show them."""
    collection, doc_id, _, state = _known(service, token, c, key)
    path = _path_of_original(collection, state)
    headers = {"Content-Security-Policy": "sandbox; default-src 'none'"}
    name = ((state and state.name) or doc_id).rpartition("/")[2] or "document"
    return FileResponse(path, headers=headers, media_type="application/octet-stream", filename=name)


def _path_of_original(collection: Collection, state: DocumentState | None) -> FilePath:
    if state is None or state.blob is None or state.is_document:
        raise unknown("original", "originals exist only for uploaded files")
    path = blob_path(collection.blobs, state.blob)
    if not path.is_file():
        raise unknown("original", "its bytes were deleted")
    return path


@router.get(
    "/documents/{key}/pages/{number}",
    openapi_extra=READ,
    response_class=Response,
    responses={200: {"content": {"image/png": {}}}},
)
def get_page(
    c: Name,
    key: Key,
    number: Annotated[int, Path(ge=1, le=100_000)],
    service: Server,
    token: Caller,
    start: Annotated[int, Query(ge=0, le=10**12)] = 0,
    end: Annotated[int, Query(ge=0, le=10**12)] = 0,
) -> Response:
    """Draw a page of an uploaded PDF as PNG, with the text from `start` to `end` marked, in code points of the document."""
    collection, doc_id, info, state = _known(service, token, c, key)
    path = _path_of_original(collection, state)
    document = None if info is None else collection.index.document(doc_id)
    page = next((one for one in (document and document.pages) or () if one.number == number), None)
    if document is None or page is None:
        raise unknown("page")
    try:
        picture = page_picture(path, number, document.text[max(start, page.start) : min(end, page.end)])
    except ReadError as error:
        raise unknown("picture of the page", error.hint) from error
    return Response(picture, media_type="image/png")


@router.post("/documents", status_code=202, response_model=ACCEPTED, openapi_extra={**WRITE, **_UPLOAD_BODY})
async def add_documents(
    c: Name, request: Request, service: Server, token: Caller, idempotency_key: IdempotencyKey = None
) -> dict[str, Any]:
    """Add files as `multipart/form-data` (`files`, and `options` as JSON) or texts as JSON. A job indexes them."""
    collection = service.collections.get(c, token)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/json":
        sent = validated(DocumentsForm, await request.body())
        on_conflict: OnConflict = sent.on_conflict
        uploads = await in_thread(partial(_texts, service, collection, sent))
    elif kind == "multipart/form-data":
        uploads, on_conflict = await _files(service, collection, request)
    else:
        raise HTTPProblem(
            415, "unsupported-media-type", "unsupported media type", "send multipart/form-data or application/json"
        )
    _check_distinct(uploads)
    job = await in_thread(
        partial(_enqueue, service, token, "add", c, {"on_conflict": on_conflict}, uploads, idempotency_key)
    )
    return _accepted(job, uploads)


def _texts(service: Service, collection: Collection, form: DocumentsForm) -> list[Upload]:
    uploads = []
    for document in form.documents:
        content = document.model_dump(include={"id", "text", "title", "metadata", "units"}, exclude_none=True)
        body = json.dumps(content, ensure_ascii=False).encode("utf-8", "surrogatepass")
        blob = keep_bytes(service.config.spool, collection.blobs, body)
        id, title, metadata = document.id, document.title, document.metadata
        upload = Upload(id, blob.sha256, id, blob.bytes, title, metadata, "text/plain", True, form.on_conflict)
        uploads.append(upload)
    return uploads


async def _files(service: Service, collection: Collection, request: Request) -> tuple[list[Upload], OnConflict]:
    limits = service.config.limits
    async with request.form(max_files=limits.files, max_fields=10, max_part_size=limits.part_bytes) as form:
        if unknown_parts := sorted({*form} - {"files", "options"}):
            raise invalid(f"/{unknown_parts[0]}", "unknown part", "send the parts `files` and `options`")
        files = [part for part in form.getlist("files") if isinstance(part, UploadFile)]
        if not files or len(files) != len(form.getlist("files")):
            raise invalid("/files", "missing file or file name", "send parts `files` with file names")
        sent = form.get("options", "{}")
        options = validated(UploadOptions, sent.encode() if isinstance(sent, str) else await sent.read(), ("options",))
        names = [_label(file.filename or "") for file in files]
        ids = options.ids or [None] * len(files)
        metadata = options.metadata if isinstance(options.metadata, list) else [options.metadata] * len(files)
        for field, given in (("ids", ids), ("metadata", metadata)):
            if len(given) != len(files):
                counts = f"{len(given)} entries for {len(files)} files"
                raise invalid(f"/options/{field}", counts, "give one per file, in their order")
        uploads = []
        for file, name, doc_id, own in zip(files, names, ids, metadata, strict=True):
            blob = await receive(service.config.spool, collection.blobs, chunks_of(file))
            kind = _media_type(file.content_type)
            uploads.append(
                Upload(doc_id or name, blob.sha256, name, blob.bytes, None, own, kind, False, options.on_conflict)
            )
        return uploads, options.on_conflict


async def chunks_of(file: UploadFile) -> AsyncIterator[bytes]:
    while chunk := await file.read(_CHUNK):
        yield chunk


def _label(name: str) -> str:
    """Make a label of a file's name or relative path, never a usable path. Raises HTTPProblem 422 for an invalid name."""
    parts = [part for part in name.replace("\\", "/").split("/") if part not in ("", ".", "..")]
    label = "/".join(parts)
    if not label or len(label) > 1000 or any(ord(character) < 32 or character == "\x7f" for character in label):
        raise invalid("/files", "invalid file name", "send a printable name of up to 1,000 characters")
    return label


def _media_type(header: str | None) -> str | None:
    kind = (header or "").partition(";")[0].strip().lower()
    return kind if 0 < len(kind) <= 100 and kind.isascii() and kind.isprintable() else None


def _check_distinct(uploads: Sequence[Upload]) -> None:
    ids = [upload.id for upload in uploads]
    if len(set(ids)) < len(ids):
        twice = next(id for id in ids if ids.count(id) > 1)
        raise invalid("/documents", f"duplicate id: {twice[:200]!r}", "give each document its own id")


def _enqueue(
    service: Service,
    token: Token,
    kind: Any,
    collection: str,
    request: dict[str, Any],
    uploads: Sequence[Upload] = (),
    idempotency_key: str | None = None,
) -> Job:
    """Enqueue a job. A repeated request with the same idempotency key gets the existing job."""
    same = json.dumps([kind, collection, request, [asdict(upload) for upload in uploads]], sort_keys=True)
    key = None if idempotency_key is None else (f"{token.id}:{idempotency_key}", sha256(same.encode()).hexdigest())
    return service.state.enqueue(kind, collection, request, uploads=uploads, token=token.id, idempotency=key)


def _accepted(job: Job, uploads: Iterable[Upload]) -> dict[str, Any]:
    documents = [document_form(upload.id, upload.title or upload.name) for upload in uploads]
    return {"job": job.as_dict(), "documents": documents}


@router.put(
    "/documents/{key}",
    status_code=202,
    response_model=ACCEPTED,
    openapi_extra={
        **WRITE,
        "requestBody": {"required": True, "content": {"*/*": {"schema": {"type": "string", "format": "binary"}}}},
    },
)
async def put_document(
    c: Name,
    key: Key,
    request: Request,
    service: Server,
    token: Caller,
    content_disposition: Annotated[str | None, Header(max_length=2000)] = None,
    idempotency_key: IdempotencyKey = None,
) -> dict[str, Any]:
    """Add the body as the document of this id. The name in `Content-Disposition`, else the id, determines the format."""
    collection = service.collections.get(c, token)
    doc_id = _valid_id(key)
    name = _label(_file_name(content_disposition) or doc_id)
    blob = await receive(service.config.spool, collection.blobs, request.stream())
    kind = _media_type(request.headers.get("content-type"))
    upload = Upload(doc_id, blob.sha256, name, blob.bytes, media_type=kind)
    job = await in_thread(partial(_enqueue, service, token, "replace", c, {}, [upload], idempotency_key))
    return _accepted(job, [upload])


def _valid_id(key: str) -> str:
    doc_id = id_of(key)
    if not 0 < len(doc_id) <= 1000:
        raise invalid("key", "invalid id (expected 1 to 1,000 characters)")
    return doc_id


def _file_name(disposition: str | None) -> str:
    message = Message()
    message["content-disposition"] = disposition or ""
    return message.get_filename() or ""


@router.patch("/documents/{key}", status_code=202, response_model=STARTED, openapi_extra=WRITE)
def describe_document(c: Name, key: Key, form: MetadataForm, service: Server, token: Caller) -> dict[str, Any]:
    """Change the given metadata of a document. Other metadata stay."""
    _, doc_id, _, _ = _known(service, token, c, key)
    job = _enqueue(service, token, "metadata", c, {"id": doc_id, "metadata": form.metadata})
    return {"job": job.as_dict()}


@router.delete("/documents/{key}", status_code=202, response_model=STARTED, openapi_extra=WRITE)
def remove_document(c: Name, key: Key, service: Server, token: Caller) -> dict[str, Any]:
    """Remove a document in any state."""
    _, doc_id, _, _ = _known(service, token, c, key)
    return {"job": _enqueue(service, token, "remove", c, {"ids": [doc_id]}).as_dict()}


@router.post("/documents:remove", status_code=202, response_model=REMOVAL, openapi_extra=WRITE)
def remove_documents(c: Name, form: RemoveForm, service: Server, token: Caller) -> dict[str, Any]:
    """Remove documents by ids, by a prefix of their ids, or by a filter. `dry_run` only lists them."""
    collection = service.collections.get(c, token)
    named = {"ids": form.ids, "prefix": form.prefix, "filter": form.filter}
    request = {name: value for name, value in named.items() if value is not None}
    if len(request) != 1:
        raise invalid("", "expected exactly one of ids, prefix and filter")
    ids = _named_ids(service, collection, form)
    if token.filter is not None:
        allowed = collection.ids_within(token.filter)
        ids = [id for id in ids if id in allowed]
        request = {"ids": ids}
    job = None if form.dry_run else _enqueue(service, token, "remove", c, request).as_dict()
    documents = [document_form(id, id) for id in ids[:_SHOWN]]
    return {"job": job, "count": len(ids), "documents": documents}


def _named_ids(service: Service, collection: Collection, form: RemoveForm) -> list[str]:
    """Resolve a removal to ids of indexed and waiting documents."""
    waiting = [state.id for state in service.state.document_states(collection.name) if state.status != "indexed"]
    if form.filter is not None:
        return sorted(collection.ids_within(form.filter))
    indexed = [info.id for info in collection.index.documents(form.prefix or "")] if collection.is_made else []
    ids = {*indexed, *waiting}
    if form.ids is not None:
        return sorted(ids.intersection(form.ids))
    return sorted(id for id in ids if id.startswith(form.prefix or ""))
