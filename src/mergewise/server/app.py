"""The whole server as one ASGI application: security checks, native API, OpenAI-compatible API, MCP and the page."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Lifespan

import mergewise as mw
from mergewise.extend import in_thread
from mergewise.server import native, problems
from mergewise.server.admission import ConcurrencyLimiter
from mergewise.server.collections import Collections
from mergewise.server.configuration import ServerConfig
from mergewise.server.guard import BoundedHeadProtocol, SecurityMiddleware
from mergewise.server.mcp.http import mcp_endpoint
from mergewise.server.metrics import Metrics
from mergewise.server.openai import chat, files, responses, scoring, stores
from mergewise.server.questions import Questions
from mergewise.server.scoped import Service
from mergewise.server.state import State
from mergewise.server.streams import cancelled
from mergewise.server.web import page_files

STREAMS_SECONDS = 8.0
"""Seconds for which streams may go on once the server shuts down."""
KEEP_ALIVE_SECONDS = 75
"""Seconds for which an idle connection stays open: longer than proxies keep theirs, so that the proxy closes it first."""


def create_app(config: ServerConfig, state: State) -> ASGIApp:
    """Create the application of one worker. Its lifespan opens and closes indexes and models."""
    collections = Collections(config, state)
    state.jobs.read_only = config.read_only
    metrics = Metrics(state, lambda: {one.name: one.changed_at for one in collections.all() if one.is_made})

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        admission = ConcurrencyLimiter(config.limits, metrics)
        questions, ending = Questions(admission), asyncio.Event()
        service = app.state.service = Service(config, state, collections, questions, admission, metrics, ending)
        routes, running_mcp = mcp_endpoint(service)
        app.router.routes.extend(routes)
        async with AsyncExitStack() as stack:
            # Starlette does not run the lifespan of a mounted application
            await stack.enter_async_context(running_mcp)
            stack.callback(admission.close)
            stack.callback(collections.close)
            for task in (in_thread(_warm, collections), _end_streams(state, ending)):
                stack.push_async_callback(cancelled, asyncio.create_task(task))
            yield

    app = create_api(lifespan)
    for path, file in page_files().items():
        app.add_api_route(path, file.response, methods=["GET", "HEAD"], include_in_schema=False)
    inner: ASGIApp = app
    if config.allowed_origins:
        inner = CORSMiddleware(
            app,
            allow_origins=config.allowed_origins,
            allow_methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
            allow_headers=["Authorization", "Content-Type", "Idempotency-Key", "Last-Event-ID"],
            expose_headers=["X-Request-Id", "Retry-After"],
        )
    return SecurityMiddleware(inner, config, state, metrics, page_files())


def create_api(lifespan: Lifespan[FastAPI] | None = None) -> FastAPI:
    """Create the application with its routes. Without a lifespan, it only describes itself by OpenAPI."""
    app = FastAPI(
        title="mergewise",
        version=mw.__version__,
        lifespan=lifespan,
        openapi_url="/api/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    problems.install(app)
    for router in native.ROUTERS:
        app.include_router(router, responses=problems.documented_problems())
    of_openai = problems.documented_problems(openai=True)
    for room in (chat, responses, scoring, stores, files):
        app.include_router(room.router, prefix="/v1", responses=of_openai)
    app.include_router(scoring.rerank_router, prefix="/v2", responses=of_openai)
    return app


def uvicorn_options(config: ServerConfig) -> dict[str, Any]:
    """Return the options of `uvicorn.Config` for the limits of headers, shutdown and proxies."""
    limits = config.limits
    return {
        "http": type("HeadWithinLimits", (BoundedHeadProtocol,), {"head_seconds": limits.head_seconds}),
        "h11_max_incomplete_event_size": limits.header_bytes,
        "ws": "none",
        "lifespan": "on",
        "server_header": False,
        "access_log": False,
        "proxy_headers": bool(config.trusted_proxies),
        "forwarded_allow_ips": list(config.trusted_proxies),
        "timeout_keep_alive": KEEP_ALIVE_SECONDS,
        "timeout_graceful_shutdown": int(STREAMS_SECONDS) + 1,
    }


def _warm(collections: Collections) -> None:
    """Open the indexes and load the embedder, so that the first question does not have to wait."""
    for collection in collections.all():
        with suppress(mw.MergewiseError):
            if collection.is_made:
                collection.index.context("what is here?")


async def _end_streams(state: State, ending: asyncio.Event) -> None:
    """Set `ending` some seconds after the server begins to shut down, so that streams end."""
    while not state.draining.is_set():
        await asyncio.sleep(0.2)
    await asyncio.sleep(STREAMS_SECONDS)
    ending.set()
