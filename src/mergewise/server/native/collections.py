"""Routes that list, create, change and drop collections."""

from __future__ import annotations

import time
from typing import Any

from fastapi import APIRouter

import mergewise as mw
from mergewise.defaults import SHIPPED_EMBEDDERS
from mergewise.server.configuration import DEFAULTS
from mergewise.server.native.pages import Cursor, Limit, page_behind
from mergewise.server.native.requests import AskForm, CollectionChangeForm, CollectionForm, Name, validated
from mergewise.server.native.responses import COLLECTION, STARTED, page_of
from mergewise.server.problems import HTTPProblem, invalid
from mergewise.server.records import CollectionRecord
from mergewise.server.routing import ADMIN, READ, Caller, ScopedRoute, Server

router = APIRouter(prefix="/api/v1/collections", tags=["collections"], route_class=ScopedRoute)


@router.get("", response_model=page_of(COLLECTION), openapi_extra=READ)
def list_collections(service: Server, token: Caller, limit: Limit = 50, cursor: Cursor = None) -> dict[str, Any]:
    """List the collections that the token may see, by name."""
    visible = service.collections.visible(token)
    return page_behind(visible, cursor, limit, lambda one: one.name, lambda one: one.info())


@router.post("", status_code=201, response_model=COLLECTION, openapi_extra=ADMIN)
def make_collection(form: CollectionForm, service: Server, token: Caller) -> dict[str, Any]:
    """Create an empty collection."""
    embedders = [*service.config.embedders, *sorted(SHIPPED_EMBEDDERS)]
    if form.embedder is not None and form.embedder not in embedders:
        raise invalid("/embedder", "unknown embedder", f"one of: {', '.join(embedders)}")
    views = tuple(form.views or ("leaf",))
    if lacking := [view for view in views if view not in mw.VIEWS]:
        raise invalid("/views", f"unknown view: {lacking[0][:80]!r}", f"some of: {', '.join(mw.VIEWS)}")
    home = service.config.data / "collections" / form.name
    record = CollectionRecord(
        form.name, str(home / "index"), str(home / "blobs"), form.title, form.embedder, views, form.settings,
        created=time.time(),
    )  # fmt: skip
    service.state.add_collection(record)
    return service.collections.get(form.name, token).info()


@router.get("/{c}", response_model=COLLECTION, openapi_extra=READ)
def get_collection(c: Name, service: Server, token: Caller) -> dict[str, Any]:
    """Describe the contents of a collection, and its strategies and defaults."""
    return service.collections.get(c, token).info()


@router.patch("/{c}", response_model=COLLECTION, openapi_extra=ADMIN)
def change_collection(c: Name, form: CollectionChangeForm, service: Server, token: Caller) -> dict[str, Any]:
    """Change the title, or the defaults of questions."""
    if form.defaults is not None:
        if unknown_names := sorted({*form.defaults} - DEFAULTS):
            raise invalid(f"/defaults/{unknown_names[0]}", "unknown default", f"some of: {', '.join(sorted(DEFAULTS))}")
        validated(AskForm, {"question": "?", **form.defaults}, ("defaults",))
    service.state.update_collection(c, title=form.title, defaults=form.defaults)
    return service.collections.get(c, token).info()


@router.delete("/{c}", status_code=202, response_model=STARTED, openapi_extra=ADMIN)
def drop_collection(c: Name, service: Server, token: Caller) -> dict[str, Any]:
    """Drop a collection with its documents. A collection of the configuration cannot be dropped."""
    if service.collections.get(c, token).record.configured:
        raise HTTPProblem(
            409, "conflict", f"collection {c} is in the configuration", "remove it from the configuration"
        )
    return {"job": service.state.enqueue("drop", c, token=token.id).as_dict()}
