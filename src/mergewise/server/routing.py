"""Shared parts of all routes: the service as the caller's token sees it, and the scope that a route requires."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Annotated, Any

from fastapi import Depends, Path, Request, Response
from fastapi.routing import APIRoute

from mergewise.server.configuration import COLLECTION_NAME
from mergewise.server.records import Token
from mergewise.server.scoped import Scoped, ScopedService, Service, check_scope
from mergewise.types import JsonDict


def token_of(request: Request) -> Token:
    """Return the token, which `SecurityMiddleware` has checked."""
    token: Token = request.scope["mergewise.token"]
    return token


async def whole_service(request: Request) -> Any:
    return request.app.state.service


async def scoped_service(request: Request) -> ScopedService:
    return ScopedService(request.app.state.service, token_of(request))


async def scoped_collection(
    request: Request, c: Annotated[str, Path(pattern=f"^{COLLECTION_NAME.pattern}$")]
) -> Scoped:
    """Return the collection of the path, which `ScopedRoute` has looked up."""
    collection: Scoped = request.scope["mergewise.collection"]
    return collection


def request_id_of(request: Request) -> str:
    return str(request.scope["mergewise.request_id"])


# dependencies of a route: `service: InService`, `collection: InCollection` for paths with `{c}`
InService = Annotated[ScopedService, Depends(scoped_service)]
InCollection = Annotated[Scoped, Depends(scoped_collection)]
# the service without a boundary: for sessions, tokens, health and metrics only
WholeService = Annotated[Service, Depends(whole_service)]

# The scope that a route requires, as `**READ`; a route without one requires admin. Paths with `{c}` are limited to
# the collections of the token.
READ: JsonDict = {"openapi_extra": {"x-scope": "read"}}
WRITE: JsonDict = {"openapi_extra": {"x-scope": "write"}}
FEEDBACK: JsonDict = {"openapi_extra": {"x-scope": "feedback"}}
ADMIN: JsonDict = {"openapi_extra": {"x-scope": "admin"}}
OPEN: JsonDict = {"openapi_extra": {"x-scope": "none"}}


class ScopedRoute(APIRoute):
    """A route that checks the token's scope and collections before the body is read: `APIRouter(route_class=ScopedRoute)`."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()
        scope = (self.openapi_extra or {}).get("x-scope", "admin")

        async def handle(request: Request) -> Response:
            service = await scoped_service(request)
            if scope != "none" and "c" in request.path_params:
                # a collection hidden from the token is a 404, a missing scope a 403
                request.scope["mergewise.collection"] = service.collection(request.path_params["c"])
                check_scope(service.token, scope)
            elif scope != "none":
                service.check_whole(scope)
            return await handler(request)

        return handle
