"""The endpoint `/mcp`: the tools over HTTP, for the collections that the caller's token may read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Any, cast

from mcp.server.mcpserver import Context
from mcp.server.transport_security import TransportSecuritySettings
from starlette.requests import Request
from starlette.routing import BaseRoute

from mergewise.concurrency import in_thread
from mergewise.server.leaves import best_leaves
from mergewise.server.mcp.tools import mcp_server
from mergewise.server.native.documents import document_row, text_upload
from mergewise.server.problems import HTTPProblem
from mergewise.server.questions import CollectionQuery, QuestionEvent
from mergewise.server.records import Job, Json, Upload
from mergewise.server.routing import token_of
from mergewise.server.scoped import ScopedService, Service, check_scope
from mergewise.types import Document

PATH = "/mcp"
MOST_BYTES = 262_144
# seconds that a tool waits for a job, and seconds between its checks
_WAIT_SECONDS, _POLL_SECONDS = 20.0, 0.1


def mcp_endpoint(service: Service) -> tuple[list[BaseRoute], AbstractAsyncContextManager[None]]:
    """Return the routes of the tools at `/mcp`, and the context in which they work."""

    def library_for(call: Context[Any, Any]) -> TokenLibrary:
        token = token_of(cast(Request, call.request_context.request))
        check_scope(token, "read")
        return TokenLibrary(ScopedService(service, token))

    server = mcp_server(library_for, writes=service.config.allow_writes_by_mcp)
    # `SecurityMiddleware` has checked Host and Origin
    application = server.streamable_http_app(
        streamable_http_path=PATH,
        stateless_http=True,
        max_request_body_size=MOST_BYTES,
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    return application.routes, server.session_manager.run()


@dataclass(frozen=True, slots=True)
class TokenLibrary:
    """The collections that a token may read, with the methods of `IndexLibrary`."""

    service: ScopedService

    async def collections(self) -> Sequence[str]:
        return [collection.name for collection in self.service.collections()]

    async def search(self, collection: str, query: str, most: int) -> Sequence[Json]:
        return await best_leaves(self.service, self.service.collection(collection), query, most)

    async def context(self, query: CollectionQuery) -> Json:
        context: Json = (await self.service.context(query))["context"]
        return context

    def events(self, query: CollectionQuery) -> AsyncGenerator[QuestionEvent, None]:
        return self.service.events(query)

    async def documents(self, collection: str, after: str | None, limit: int) -> Sequence[Json]:
        found = partial(self.service.collection(collection).documents, statuses=["indexed"], after=after, limit=limit)
        return [document_row(entry) for entry in await in_thread(found)]

    async def document(self, collection: str, doc_id: str) -> Document:
        find = self.service.collection(collection).document
        return await in_thread(partial(find, doc_id, "list_documents lists them"))

    async def add(self, collection: str, document: Document) -> str:
        blobs = self.service.collection(collection).writable().blobs
        content = {"id": document.id, "text": document.text, "title": document.title}
        upload = await in_thread(partial(text_upload, self.service.config.spool, blobs, content))
        job = await self._wait_until_ended("add", collection, {"on_conflict": "replace"}, [upload])
        return "The text is indexed." if job.has_ended else f"The text is received, and is indexed soon (job {job.id})."

    async def remove(self, collection: str, doc_id: str) -> str:
        self.service.collection(collection).writable()
        await self.document(collection, doc_id)
        job = await self._wait_until_ended("remove", collection, {"ids": [doc_id]})
        return "The document is removed." if job.has_ended else f"The document is removed soon (job {job.id})."

    def notice(self, collection: str) -> str:
        indexing = self.service.collection(collection).indexing()
        return f"{indexing['notice']}." if indexing else ""

    def url(self, collection: str, doc_id: str, start: int, end: int) -> str | None:
        address = self.service.collection(collection).url(doc_id, start, end)
        return self.service.config.url + address if address.startswith("/") else address

    async def _wait_until_ended(self, kind: Any, collection: str, request: Json, uploads: Sequence[Upload] = ()) -> Job:
        """Enqueue a job and wait until it ends, up to `_WAIT_SECONDS`. Raises HTTPProblem if the job failed."""
        job = await in_thread(partial(self.service.collection(collection).enqueue, kind, request, uploads))
        last = monotonic() + _WAIT_SECONDS
        while not job.has_ended and monotonic() < last:
            await asyncio.sleep(_POLL_SECONDS)
            job = await in_thread(partial(self.service.job, job.id))
        if job.state in ("failed", "cancelled"):
            error = job.error or {}
            raise HTTPProblem(
                422, "failed", str(error.get("detail") or "the job was cancelled"), str(error.get("hint") or "")
            )
        return job
