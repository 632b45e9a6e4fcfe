"""Routes that list, read, add, describe and remove documents of a collection."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable
from collections.abc import Collection as Names
from dataclasses import asdict
from email.message import Message
from functools import partial
from pathlib import Path as FilePath
from typing import Annotated

from fastapi import APIRouter, Header, Path, Query, Request
from starlette.datastructures import UploadFile
from starlette.responses import FileResponse, Response

from mergewise.agents.results import outline_of
from mergewise.errors import ReadError
from mergewise.extend import in_thread, page_picture
from mergewise.server.answers import document_form
from mergewise.server.collections import id_of
from mergewise.server.native.pages import Cursor, Limit, cursor_position, page
from mergewise.server.native.requests import DocumentsForm, MetadataForm, RemoveForm, UploadOptions, validated
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
from mergewise.server.records import DocumentState, DocumentStatus, Job, OnConflict, Upload
from mergewise.server.routing import READ, WRITE, InCollection, ScopedRoute
from mergewise.server.scoped import DocumentEntry, Scoped
from mergewise.server.spool import keep_bytes, receive
from mergewise.types import Json, JsonDict

router = APIRouter(prefix="/api/v1/collections/{c}", tags=["documents"], route_class=ScopedRoute)

Offset = Annotated[int, Query(ge=0, le=10**12)]
Key = Annotated[str, Path(max_length=6000, description="The document's id as base64url without padding")]
IdempotencyKey = Annotated[str | None, Header(alias="Idempotency-Key", max_length=200)]
_SHOWN = 200
# FastAPI makes no schema component of a body that it does not parse itself
_DOCUMENTS = DocumentsForm.model_json_schema()
_DOCUMENTS["properties"]["documents"]["items"] = _DOCUMENTS.pop("$defs")["DocumentForm"]
_BYTES = {"type": "string", "format": "binary"}
_FILES = {
    "type": "object",
    "required": ["files"],
    "additionalProperties": False,
    "properties": {
        "files": {"type": "array", "minItems": 1, "items": _BYTES},
        "options": {"type": "string", "contentMediaType": "application/json"},
    },
}


def _takes(schemas: Json) -> JsonDict:
    """Return the scope of a route that writes, with the schema of its body for each media type."""
    content = {kind: {"schema": schema} for kind, schema in schemas.items()}
    return {"x-scope": "write", "requestBody": {"required": True, "content": content}}


_UPLOAD = _takes({"application/json": _DOCUMENTS, "multipart/form-data": _FILES})


@router.get("/documents", response_model=page_of(DOCUMENT), **READ)
def list_documents(
    collection: InCollection,
    prefix: Annotated[str, Query(max_length=1000)] = "",
    status: Annotated[list[DocumentStatus] | None, Query()] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> JsonDict:
    """List the documents by id, including waiting, indexing and failed ones."""
    after = cursor_position(cursor)
    found = collection.documents(prefix, statuses=status, after=after, limit=limit + 1)
    waiting = collection.waiting([entry.id for entry in found if entry.info])
    return page(found, limit, lambda entry: entry.id, lambda entry: document_row(entry, waiting))


def document_row(entry: DocumentEntry, waiting: Names[str] = ()) -> JsonDict:
    """Return a document as clients see it. The state of one that nobody uploaded is empty."""
    info, state = entry.info, entry.state or DocumentState("", entry.id, "indexed")
    title = (info.title if info else None) or state.title or state.name or entry.id
    return {
        **asdict(state),
        **document_form(entry.id, title),
        "metadata": dict(info.metadata if info else state.metadata),
        "characters": info.characters if info else None,
        "leaves": info.leaves if info else None,
        "waits_for_vectors": entry.id in waiting,
        "has_original": bool(state.blob and not state.is_document),
    }


@router.get("/documents/{key}", response_model=OUTLINED_DOCUMENT, **READ)
def get_document(key: Key, collection: InCollection) -> JsonDict:
    """Return a document with its outline and pages, as far as they are known."""
    entry = collection.entry(id_of(key))
    document = None if entry.info is None else collection.document(entry.id)
    return {
        **document_row(entry, collection.waiting([entry.id])),
        "outline": list(outline_of(document)),
        "pages": list((document.pages if document else None) or ()),
        "language": entry.info.language if entry.info else "",
    }


@router.get("/documents/{key}/text", response_model=DOCUMENT_PART, **READ)
def get_text(
    key: Key, collection: InCollection, start: Offset = 0, end: Annotated[int | None, Query(ge=0, le=10**12)] = None
) -> JsonDict:
    """Return the text of a document from `start` to `end`, in code points, at most 200,000."""
    entry = collection.entry(id_of(key))
    if entry.info is None:
        raise HTTPProblem(409, "not-indexed", "document not indexed yet", "check its job")
    text = collection.document(entry.id).text
    start = min(start, len(text))
    end = max(start, min(len(text) if end is None else end, start + 200_000, len(text)))
    return {"key": key, "start": start, "end": end, "characters": len(text), "text": text[start:end]}


@router.get("/documents/{key}/original", **READ, response_class=FileResponse)
def get_original(key: Key, collection: InCollection) -> FileResponse:
    """Download the original bytes. A browser saves them and does not show them."""
    entry = collection.entry(id_of(key))
    name = ((entry.state and entry.state.name) or entry.id).rpartition("/")[2] or "document"
    return download(_path_of_original(collection, entry), name)


def download(path: FilePath, name: str) -> FileResponse:
    """Return untrusted bytes that a browser saves and does not show."""
    headers = {"Content-Security-Policy": "sandbox; default-src 'none'"}
    return FileResponse(path, headers=headers, media_type="application/octet-stream", filename=name)


def _path_of_original(collection: Scoped, entry: DocumentEntry) -> FilePath:
    state = entry.state
    if state is None or state.blob is None or state.is_document:
        raise unknown("original", "originals exist only for uploaded files")
    path = collection.blob(state.blob)
    if not path.is_file():
        raise unknown("original", "its bytes were deleted")
    return path


def _content(collection: Scoped, entry: DocumentEntry) -> bytes:
    """Return the bytes of an uploaded file, or of a file in a folder that is as it was indexed. Raises HTTPProblem 404."""
    content = collection.folder_file(entry.id)
    return _path_of_original(collection, entry).read_bytes() if content is None else content


@router.get(
    "/documents/{key}/pages/{number}", **READ, response_class=Response, responses={200: {"content": {"image/png": {}}}}
)
def get_page(
    key: Key,
    number: Annotated[int, Path(ge=1, le=100_000)],
    collection: InCollection,
    start: Offset = 0,
    end: Offset = 0,
) -> Response:
    """Draw a page of a PDF as PNG, with the text from `start` to `end` marked, in code points of the document."""
    entry = collection.entry(id_of(key))
    document = None if entry.info is None else collection.document(entry.id)
    page = next((one for one in (document and document.pages) or () if one.number == number), None)
    if document is None or page is None:
        raise unknown("page")
    try:
        words = document.text[max(start, page.start) : min(end, page.end)]
        picture = page_picture(partial(_content, collection, entry), number, words)
    except ReadError as error:
        raise unknown("picture of the page", error.hint) from error
    return Response(picture, media_type="image/png")


@router.post("/documents", status_code=202, response_model=ACCEPTED, openapi_extra=_UPLOAD)
async def add_documents(request: Request, collection: InCollection, idempotency_key: IdempotencyKey = None) -> JsonDict:
    """Add files as `multipart/form-data` (`files`, and `options` as JSON) or texts as JSON. A job indexes them."""
    kind, blobs = _media_type(request.headers.get("content-type")), collection.writable().blobs
    config = collection.service.config
    if kind == "application/json":
        sent = validated(DocumentsForm, await request.body())
        on_conflict: OnConflict = sent.on_conflict
        store = partial(text_upload, config.spool, blobs, on_conflict=on_conflict)
        texts = [one.model_dump(exclude_none=True) for one in sent.documents]
        uploads = await in_thread(lambda: list(map(store, texts)))
    elif kind == "multipart/form-data":
        limits = config.limits
        async with request.form(max_files=limits.files, max_fields=10, max_part_size=limits.part_bytes) as form:
            if unknown_parts := sorted({*form} - {"files", "options"}):
                raise invalid(f"/{unknown_parts[0]}", "unknown part", "send the parts `files` and `options`")
            files = [part for part in form.getlist("files") if isinstance(part, UploadFile)]
            if not files or len(files) != len(form.getlist("files")):
                raise invalid("/files", "missing file or file name", "send parts `files` with file names")
            part = form.get("options", "{}")
            content = part.encode() if isinstance(part, str) else await part.read()
            options = validated(UploadOptions, content, ("options",))
            names = [_label(file.filename or "") for file in files]
            doc_ids = options.ids or [None] * len(files)
            metadata = options.metadata if isinstance(options.metadata, list) else [options.metadata] * len(files)
            for field, values in (("ids", doc_ids), ("metadata", metadata)):
                if len(values) != len(files):
                    counts = f"{len(values)} entries for {len(files)} files"
                    raise invalid(f"/options/{field}", counts, "give one per file, in their order")
            uploads, on_conflict = [], options.on_conflict
            for file, name, doc_id, own in zip(files, names, doc_ids, metadata, strict=True):
                blob = await receive(config.spool, blobs, chunks_of(file))
                kept = (doc_id or name, blob.sha256, name, blob.bytes, None, own)
                uploads.append(Upload(*kept, _media_type(file.content_type), False, on_conflict))
    else:
        raise HTTPProblem(
            415, "unsupported-media-type", "unsupported media type", "send multipart/form-data or application/json"
        )
    ids = [upload.id for upload in uploads]
    if len(set(ids)) < len(ids):
        twice = next(id for id in ids if ids.count(id) > 1)
        raise invalid("/documents", f"duplicate id: {twice[:200]!r}", "give each document its own id")
    job = await in_thread(collection.enqueue, "add", {"on_conflict": on_conflict}, uploads, idempotency_key)
    return _accepted(job, uploads)


def text_upload(spool: FilePath, blobs: FilePath, document: Json, on_conflict: OnConflict = "replace") -> Upload:
    """Store a document of {id, text, title, metadata, units}. Return its upload."""
    body = json.dumps(document, ensure_ascii=False).encode("utf-8", "surrogatepass")
    blob, id, metadata = keep_bytes(spool, blobs, body), document["id"], document.get("metadata", {})
    return Upload(id, blob.sha256, id, blob.bytes, document.get("title"), metadata, "text/plain", True, on_conflict)


async def chunks_of(file: UploadFile) -> AsyncIterator[bytes]:
    while chunk := await file.read(1 << 20):
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


def _accepted(job: Job, uploads: Iterable[Upload]) -> JsonDict:
    documents = [document_form(upload.id, upload.title or upload.name) for upload in uploads]
    return {"job": job.as_dict(), "documents": documents}


@router.put("/documents/{key}", status_code=202, response_model=ACCEPTED, openapi_extra=_takes({"*/*": _BYTES}))
async def put_document(
    key: Key,
    request: Request,
    collection: InCollection,
    content_disposition: Annotated[str | None, Header(max_length=2000)] = None,
    idempotency_key: IdempotencyKey = None,
) -> JsonDict:
    """Add the body as the document of this id. The name in `Content-Disposition`, else the id, determines the format."""
    doc_id, header = id_of(key), Message()
    if not 0 < len(doc_id) <= 1000:
        raise invalid("key", "invalid id (expected 1 to 1,000 characters)")
    header["content-disposition"] = content_disposition or ""
    name = _label(header.get_filename() or doc_id)
    blob = await receive(collection.service.config.spool, collection.writable().blobs, request.stream())
    kind = _media_type(request.headers.get("content-type"))
    upload = Upload(doc_id, blob.sha256, name, blob.bytes, media_type=kind)
    job = await in_thread(collection.enqueue, "replace", {}, [upload], idempotency_key)
    return _accepted(job, [upload])


@router.patch("/documents/{key}", status_code=202, response_model=STARTED, **WRITE)
def describe_document(key: Key, form: MetadataForm, collection: InCollection) -> JsonDict:
    """Change the given metadata of a document. Other metadata stay."""
    entry = collection.entry(id_of(key))
    job = collection.enqueue("metadata", {"id": entry.id, "metadata": form.metadata})
    return {"job": job.as_dict()}


@router.delete("/documents/{key}", status_code=202, response_model=STARTED, **WRITE)
def remove_document(key: Key, collection: InCollection) -> JsonDict:
    """Remove a document in any state."""
    entry = collection.entry(id_of(key))
    return {"job": collection.enqueue("remove", {"ids": [entry.id]}).as_dict()}


@router.post("/documents:remove", status_code=202, response_model=REMOVAL, **WRITE)
def remove_documents(form: RemoveForm, collection: InCollection) -> JsonDict:
    """Remove documents by ids, by a prefix of their ids, or by a filter. `dry_run` only lists them."""
    named = {"ids": form.ids, "prefix": form.prefix, "filter": form.filter}
    request = {name: value for name, value in named.items() if value is not None}
    if len(request) != 1:
        raise invalid("", "expected exactly one of ids, prefix and filter")
    if form.filter is not None:
        ids = sorted(collection.ids_within(form.filter))
    else:
        ids = collection.named_ids(form.ids, form.prefix or "")
    job = None if form.dry_run else collection.enqueue("remove", request).as_dict()
    documents = [document_form(id, id) for id in ids[:_SHOWN]]
    return {"job": job, "count": len(ids), "documents": documents}
