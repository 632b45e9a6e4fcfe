"""Shared parts of all routes: the service behind them, the token of the caller, and the scope that a route requires."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from math import inf
from typing import Annotated, Any

from fastapi import Depends, Request, Response
from fastapi.routing import APIRoute

from mergewise.server.admission import ConcurrencyLimiter
from mergewise.server.collections import Collections
from mergewise.server.configuration import ServerConfig
from mergewise.server.metrics import Metrics
from mergewise.server.problems import HTTPProblem
from mergewise.server.questions import Questions
from mergewise.server.records import Scope, Token
from mergewise.server.state import State


@dataclass
class Service:
    """The objects that routes use: `request.app.state.service`."""

    config: ServerConfig
    state: State
    collections: Collections
    questions: Questions
    admission: ConcurrencyLimiter
    metrics: Metrics
    # set when streams must end, because the server shuts down
    ending: asyncio.Event
    # time of the last successful readiness check, by the monotonic clock
    was_ready: float = -inf


def service_of(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


def token_of(request: Request) -> Token:
    """Return the token, which `SecurityMiddleware` has checked."""
    token: Token = request.scope["mergewise.token"]
    return token


def request_id_of(request: Request) -> str:
    return str(request.scope["mergewise.request_id"])


# dependencies of a route: `service: Server, token: Caller`
Server = Annotated[Service, Depends(service_of)]
Caller = Annotated[Token, Depends(token_of)]

# The scope that a route requires, as `openapi_extra=READ`; a route without one requires admin. Paths with `{c}` are limited to
# the collections of the token.
READ: dict[str, Any] = {"x-scope": "read"}
WRITE: dict[str, Any] = {"x-scope": "write"}
ADMIN: dict[str, Any] = {"x-scope": "admin"}
OPEN: dict[str, Any] = {"x-scope": "none"}


class ScopedRoute(APIRoute):
    """A route that checks the token's scope and collections before the body is read: `APIRouter(route_class=ScopedRoute)`."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()
        scope = (self.openapi_extra or ADMIN).get("x-scope", "admin")

        async def handle(request: Request) -> Response:
            if scope != "none":
                check_scope(request, scope)
            return await handler(request)

        return handle


def check_scope(request: Request, scope: Scope) -> None:
    """Check the token. Raises HTTPProblem 403 if the scope is missing, and 404 for a collection hidden from the token."""
    token, name = token_of(request), request.path_params.get("c")
    if name is not None:
        service_of(request).collections.get(name, token)
    # admin routes without a collection affect all collections, so a restricted token may not use them
    is_partial = scope == "admin" and name is None and (token.collections is not None or token.filter is not None)
    if not token.may(scope) or is_partial:
        raise HTTPProblem(403, "forbidden", f"missing scope: {scope}", "ask an admin for a token with this scope")
