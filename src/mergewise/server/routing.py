"""What the routes of every surface share: the service behind them, who calls, and the scope that a route asks for."""

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
    """What routes work with: `request.app.state.service`."""

    config: ServerConfig
    state: State
    collections: Collections
    questions: Questions
    admission: ConcurrencyLimiter
    metrics: Metrics
    # set when streams are to end, since the server does
    ending: asyncio.Event
    # when the server was found ready last, by the monotonic clock
    was_ready: float = -inf


def service_of(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


def token_of(request: Request) -> Token:
    """The token that the guard has checked."""
    token: Token = request.scope["mergewise.token"]
    return token


def request_id_of(request: Request) -> str:
    return str(request.scope["mergewise.request_id"])


# what a route asks for: `service: Server, token: Caller`
Server = Annotated[Service, Depends(service_of)]
Caller = Annotated[Token, Depends(token_of)]

# The scope that a route asks for, as `openapi_extra=READ`; a route without one is for admins. Paths with `{c}` are held to the
# collections of the token.
READ: dict[str, Any] = {"x-scope": "read"}
WRITE: dict[str, Any] = {"x-scope": "write"}
ADMIN: dict[str, Any] = {"x-scope": "admin"}
OPEN: dict[str, Any] = {"x-scope": "none"}


class ScopedRoute(APIRoute):
    """A route that looks at the token's scope and collections before the body is read: `APIRouter(route_class=ScopedRoute)`."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()
        scope = (self.openapi_extra or ADMIN).get("x-scope", "admin")

        async def handle(request: Request) -> Response:
            if scope != "none":
                check_scope(request, scope)
            return await handler(request)

        return handle


def check_scope(request: Request, scope: Scope) -> None:
    """Raises HTTPProblem 403 where the token lacks the scope, and 404 for a collection that it may not know of."""
    token, name = token_of(request), request.path_params.get("c")
    if name is not None:
        service_of(request).collections.get(name, token)
    # what concerns all collections is for those who may have all of them
    is_partial = scope == "admin" and name is None and (token.collections is not None or token.filter is not None)
    if not token.may(scope) or is_partial:
        raise HTTPProblem(403, "forbidden", f"this needs a token with the scope {scope}", "ask an admin for one")
