"""Whether the server lives and is ready, and its metrics."""

from __future__ import annotations

import time
from typing import Any

from fastapi import APIRouter, Response

from mergewise.errors import MergewiseError
from mergewise.server.native.responses import HEALTH
from mergewise.server.problems import HTTPProblem
from mergewise.server.routing import ADMIN, OPEN, ScopedRoute, Server, Service

router = APIRouter(tags=["health"], route_class=ScopedRoute)

# Seconds for which a server that was ready is taken to be so still: anybody may ask.
_READY_SECONDS = 1.0


@router.get("/livez", response_model=HEALTH, openapi_extra=OPEN)
def live() -> dict[str, Any]:
    """The worker answers."""
    return {"status": "alive"}


@router.get("/readyz", response_model=HEALTH, openapi_extra=OPEN)
def ready(service: Server) -> dict[str, Any]:
    """The state can be written, the writer lives, and the indexes open."""
    if service.state.draining.is_set():
        raise _not_ready("the server is ending")
    if time.monotonic() - service.was_ready > _READY_SECONDS:
        _check(service)
        service.was_ready = time.monotonic()
    return {"status": "ready"}


def _check(service: Service) -> None:
    try:
        service.state.check_writable()
    except MergewiseError:
        raise _not_ready("the state cannot be written") from None
    if not service.state.writer_is_alive():
        raise _not_ready("the writer does not live")
    for collection in service.collections.all():
        try:
            if collection.is_made:
                assert collection.index.snapshot
        except MergewiseError:
            raise _not_ready("an index cannot be opened") from None


def _not_ready(why: str) -> HTTPProblem:
    return HTTPProblem(503, "not-ready", why, retry_after=1.0)


@router.get("/metrics", openapi_extra=ADMIN, response_class=Response)
def metrics(service: Server) -> Response:
    """The metrics of all workers, as Prometheus reads them."""
    return Response(service.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")
