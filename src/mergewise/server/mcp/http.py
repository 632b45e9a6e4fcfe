"""The endpoint `/mcp`: the tools over HTTP, for the collections that the caller's token may read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from time import monotonic
from typing import Any, cast

from mcp.server.mcpserver import Context
from mcp.server.transport_security import TransportSecuritySettings
from starlette.requests import Request
from starlette.routing import BaseRoute

from mergewise.agents.memory import Memory
from mergewise.extend import in_thread, token_counter
from mergewise.server.collection_query import CollectionQuery, QuestionEvent
from mergewise.server.leaves import best_leaves
from mergewise.server.mcp.tools import Caller, mcp_server
from mergewise.server.native.documents import text_upload
from mergewise.server.problems import HTTPProblem
from mergewise.server.records import Job, JobKind, Upload
from mergewise.server.routing import token_of
from mergewise.server.scoped import Scoped, ScopedService, Service, check_scope
from mergewise.types import Document, DocumentInfo, Json, frozen

PATH = "/mcp"
SESSION = "shown_"
"""Beginning of the id under which a token keeps what a session was shown."""


def mcp_endpoint(service: Service) -> tuple[list[BaseRoute], AbstractAsyncContextManager[None]]:
    """Return the routes of the tools at `/mcp`, and the context in which they work."""

    def caller_of(call: Context[Any, Any]) -> Caller:
        token = token_of(cast(Request, call.request_context.request))
        check_scope(token, "read")
        scoped = ScopedService(service, token)

        def load(session: str) -> Memory:
            kept = scoped.responses.get(SESSION + session) if session else None
            return Memory(kept and kept["parts"])

        def keep(session: str, memory: Memory) -> None:
            if session:
                scoped.responses.drop(SESSION + session)
                scoped.responses.keep(SESSION + session, {"response": {}, "sources": {}, "parts": memory.parts})

        return Caller({one.name: ServedLibrary(one) for one in scoped.collections()}, load, keep)

    config = service.config
    first = next(iter(config.chats.values()), None)
    server = mcp_server(
        caller_of,
        token_counter("", "" if first is None else first.spec),
        writes=config.allow_writes_by_mcp,
        openai=config.search_and_fetch_by_mcp,
    )
    # `SecurityMiddleware` has checked Host and Origin
    application = server.streamable_http_app(
        streamable_http_path=PATH,
        stateless_http=True,
        max_request_body_size=262_144,
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    routes = application.routes
    if (issuer := config.issuer) is not None:
        from mcp.server.auth.routes import create_protected_resource_routes
        from pydantic import AnyHttpUrl

        place, scopes = AnyHttpUrl(config.url + PATH), [one.value for one in issuer.grants if one.claim == "scope"]
        routes += create_protected_resource_routes(place, [AnyHttpUrl(issuer.url)], scopes, "mergewise")
    return routes, server.session_manager.run()


@frozen
class ServedLibrary:
    """A collection as a token sees it, with the methods of `IndexLibrary`."""

    collection: Scoped

    async def documents(self, where: str | None) -> Sequence[DocumentInfo]:
        def found() -> list[DocumentInfo]:
            ids = None if where is None else self.collection.ids_within(where)
            entries = self.collection.documents(statuses=["indexed"], limit=10**9)
            return [one.info for one in entries if one.info is not None and (ids is None or one.id in ids)]

        return await in_thread(found)

    async def texts(self, doc_ids: Sequence[str]) -> Mapping[str, Document]:
        find = self.collection.find_document
        return await in_thread(lambda: {one: text for one in dict.fromkeys(doc_ids) if (text := find(one)) is not None})

    async def passages(self, question: str, options: Json) -> Sequence[Json]:
        budget = min(options["budget"], self.collection.questions.limits.budget)
        query = CollectionQuery(question, {**options, "budget": budget})
        passages: Sequence[Json] = (await self.collection.questions.context(query, self.collection))["context"][
            "passages"
        ]
        return passages

    async def search(self, query: str, most: int, where: str | None) -> Sequence[Json]:
        return await best_leaves(self.collection, query, most, where)

    def events(self, query: CollectionQuery) -> AsyncGenerator[QuestionEvent, None]:
        return self.collection.questions.events(query, self.collection)

    async def add(self, document: Document) -> str:
        blobs = self.collection.writable().blobs
        content = {"id": document.id, "text": document.text, "title": document.title}
        upload = await in_thread(text_upload, self.collection.service.config.spool, blobs, content)
        job = await self._wait_until_ended("add", {"on_conflict": "replace"}, [upload])
        return "The text is indexed." if job.has_ended else f"The text is received, and is indexed soon (job {job.id})."

    async def remove(self, doc_id: str) -> str:
        self.collection.writable()
        await in_thread(self.collection.document, doc_id, "look for it with find")
        job = await self._wait_until_ended("remove", {"ids": [doc_id]})
        return "The document is removed." if job.has_ended else f"The document is removed soon (job {job.id})."

    def notice(self) -> str:
        indexing = self.collection.indexing()
        return f"{indexing['notice']}." if indexing else ""

    def url(self, doc_id: str, start: int, end: int) -> str | None:
        address = self.collection.url(doc_id, start, end)
        return self.collection.service.config.url + address if address.startswith("/") else address

    async def _wait_until_ended(self, kind: JobKind, request: Json, uploads: Sequence[Upload] = ()) -> Job:
        """Enqueue a job and wait until it ends, up to 20 seconds. Raises HTTPProblem if the job failed."""
        job = await in_thread(self.collection.enqueue, kind, request, uploads)
        last = monotonic() + 20.0
        while not job.has_ended and monotonic() < last:
            await asyncio.sleep(0.1)
            job = await in_thread(self.collection.service.job, job.id)
        if job.state in ("failed", "cancelled"):
            error = job.error or {}
            raise HTTPProblem(
                422, "failed", str(error.get("detail") or "the job was cancelled"), str(error.get("hint") or "")
            )
        return job
