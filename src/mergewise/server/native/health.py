"""Routes for liveness, readiness and metrics."""

from __future__ import annotations

import time

from fastapi import APIRouter, Response

from mergewise.errors import MergewiseError
from mergewise.server.native.responses import HEALTH
from mergewise.server.problems import HTTPProblem
from mergewise.server.routing import ADMIN, OPEN, ScopedRoute, WholeService
from mergewise.types import JsonDict

router = APIRouter(tags=["health"], route_class=ScopedRoute)


@router.get("/livez", response_model=HEALTH, **OPEN)
def live() -> JsonDict:
    """Report that the worker answers."""
    return {"status": "alive"}


@router.get("/readyz", response_model=HEALTH, **OPEN)
def ready(service: WholeService) -> JsonDict:
    """Check that the state is writable, the writer is alive, and the indexes open."""
    if service.state.draining.is_set():
        raise _not_ready("server is shutting down")
    # a positive check is reused for a second, because anybody may request it
    if time.monotonic() - service.was_ready <= 1.0:
        return {"status": "ready"}
    try:
        service.state.check_writable()
    except MergewiseError:
        raise _not_ready("state not writable") from None
    if service.config.role == "all" and not service.state.writer_is_alive():
        raise _not_ready("writer not running")
    for collection in service.collections.all():
        try:
            if collection.is_made or collection.is_in_bucket:
                assert collection.index.snapshot
        except MergewiseError:
            raise _not_ready("cannot open an index") from None
    service.was_ready = time.monotonic()
    return {"status": "ready"}


def _not_ready(why: str) -> HTTPProblem:
    return HTTPProblem(503, "not-ready", why, retry_after=1.0)


@router.get("/metrics", **ADMIN, response_class=Response)
def metrics(service: WholeService) -> Response:
    """Return the metrics of all workers, in Prometheus format."""
    return Response(service.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")
