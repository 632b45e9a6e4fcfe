"""The endpoint `/mcp`: the tools over HTTP, for the collections that the caller's token may read."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Any, cast

from mcp.server.mcpserver import Context
from mcp.server.transport_security import TransportSecuritySettings
from starlette.requests import Request
from starlette.routing import BaseRoute

from mergewise.concurrency import in_thread
from mergewise.errors import UsageError
from mergewise.server.collections import Collection, key_of
from mergewise.server.configuration import ServerConfig
from mergewise.server.leaves import best_leaves
from mergewise.server.mcp.library import Json
from mergewise.server.mcp.tools import mcp_server
from mergewise.server.native.documents import list_documents
from mergewise.server.problems import HTTPProblem, unknown
from mergewise.server.questions import CollectionQuery, QuestionEvent
from mergewise.server.records import Job, Token, Upload
from mergewise.server.routing import Service, token_of
from mergewise.server.spool import keep_bytes
from mergewise.types import Document

PATH = "/mcp"
MOST_BYTES = 262_144
# seconds that a tool waits for a job, and seconds between its checks
_WAIT_SECONDS, _POLL_SECONDS = 20.0, 0.1


class McpEndpoint:
    """The tools at `/mcp`. The application adds `routes` last, and runs its lifespan inside `running()`."""

    def __init__(self, service: Service) -> None:
        config = service.config

        def library_for(call: Context[Any, Any]) -> TokenLibrary:
            return TokenLibrary(service, token_of(cast(Request, call.request_context.request)))

        self._server = mcp_server(library_for, writes=config.allow_writes_by_mcp)
        # the guard checks Host and Origin first; without these settings the SDK would check them only on loopback
        self.routes: list[BaseRoute] = self._server.streamable_http_app(
            streamable_http_path=PATH,
            stateless_http=True,
            max_request_body_size=MOST_BYTES,
            transport_security=transport_security(config),
        ).routes

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with self._server.session_manager.run():
            yield


def transport_security(config: ServerConfig) -> TransportSecuritySettings:
    """Return the server's hosts and origins in the form that the SDK checks."""
    hosts = sorted({form for host in config.hosts for form in (host, f"[{host}]" if ":" in host else host)})
    with_ports = [form for host in hosts for form in (host, f"{host}:*")]
    origins = [f"{scheme}://{host}" for scheme in ("http", "https") for host in with_ports]
    named = [*config.allowed_origins, *([config.public_url.rstrip("/")] if config.public_url else [])]
    return TransportSecuritySettings(allowed_hosts=with_ports, allowed_origins=[*origins, *named])


@dataclass(frozen=True, slots=True)
class TokenLibrary:
    """The collections that a token may read, with the methods of `IndexLibrary`."""

    service: Service
    token: Token

    async def collections(self) -> Sequence[str]:
        return [collection.name for collection in self.service.collections.visible(self.token)]

    async def search(self, collection: str, query: str, most: int) -> Sequence[Json]:
        return await best_leaves(self.service.questions, self._collection(collection), self.token, query, most)

    async def context(self, query: CollectionQuery) -> Json:
        context: Json = (await self.service.questions.context(query, self.token))["context"]
        return context

    def events(self, query: CollectionQuery) -> AsyncGenerator[QuestionEvent, None]:
        return self.service.questions.events(query, self.token)

    async def documents(self, collection: str, after: str | None, limit: int) -> Sequence[Json]:
        cursor = None if after is None else key_of(after)
        rows = partial(
            list_documents, collection, self.service, self.token, status=["indexed"], limit=limit, cursor=cursor
        )
        return cast(Sequence[Json], (await in_thread(rows))["items"])

    async def document(self, collection: str, doc_id: str) -> Document:
        return await in_thread(partial(self._document, self._collection(collection), doc_id))

    def _document(self, collection: Collection, doc_id: str) -> Document:
        missing = unknown("document", "list_documents lists them")
        may_read = self.token.filter is None or doc_id in collection.ids_within(self.token.filter)
        if not collection.is_made or not may_read:
            raise missing
        try:
            return collection.index.document(doc_id)
        except UsageError:
            raise missing from None

    async def add(self, collection: str, document: Document) -> str:
        named = self._writable(collection)
        content = json.dumps({"id": document.id, "text": document.text, "title": document.title}).encode()
        blob = await in_thread(partial(keep_bytes, self.service.config.spool, named.blobs, content))
        upload = Upload(document.id, blob.sha256, document.id, blob.bytes, document.title, is_document=True)
        job = await self._done("add", collection, {"on_conflict": "replace"}, [upload])
        return "The text is indexed." if job.has_ended else f"The text is received, and is indexed soon (job {job.id})."

    async def remove(self, collection: str, doc_id: str) -> str:
        self._writable(collection)
        await self.document(collection, doc_id)
        job = await self._done("remove", collection, {"ids": [doc_id]})
        return "The document is removed." if job.has_ended else f"The document is removed soon (job {job.id})."

    def notice(self, collection: str) -> str:
        indexing = self._collection(collection).indexing()
        return f"{indexing['notice']}." if indexing else ""

    def url(self, collection: str, doc_id: str, start: int, end: int) -> str | None:
        address = self._collection(collection).url(doc_id, start, end)
        return self.service.config.url + address if address.startswith("/") else address

    def _collection(self, name: str) -> Collection:
        return self.service.collections.get(name, self.token)

    def _writable(self, name: str) -> Collection:
        """Return the collection if the token may change it. A token with a filter may not change any."""
        collection = self._collection(name)
        if not self.token.may("write", name) or self.token.filter is not None:
            raise HTTPProblem(403, "forbidden", "missing scope: write", "ask an admin for a token with this scope")
        return collection

    async def _done(
        self, kind: Any, collection: str, request: Mapping[str, Any], uploads: Sequence[Upload] = ()
    ) -> Job:
        """Enqueue a job and wait until it ends, up to `_WAIT_SECONDS`. Raises HTTPProblem if the job failed."""
        state = self.service.state
        enqueue = partial(state.enqueue, kind, collection, request, uploads=uploads, token=self.token.id)
        job = await in_thread(enqueue)
        last = monotonic() + _WAIT_SECONDS
        while not job.has_ended and monotonic() < last:
            await asyncio.sleep(_POLL_SECONDS)
            current: Job | None = await in_thread(partial(state.job, job.id))
            job = current or job
        if job.state in ("failed", "cancelled"):
            error = job.error or {}
            raise HTTPProblem(
                422, "failed", str(error.get("detail") or "the job was cancelled"), str(error.get("hint") or "")
            )
        return job
