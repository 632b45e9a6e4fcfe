"""Routes that list, create, change and drop collections."""

from __future__ import annotations

from fastapi import APIRouter

import mergewise as mw
from mergewise.extend import SHIPPED_EMBEDDERS
from mergewise.server.configuration import DEFAULTS
from mergewise.server.native.pages import Cursor, Limit, page_behind
from mergewise.server.native.requests import AskForm, CollectionChangeForm, CollectionForm, validated
from mergewise.server.native.responses import COLLECTION, STARTED, page_of
from mergewise.server.problems import HTTPProblem, invalid
from mergewise.server.records import CollectionRecord
from mergewise.server.routing import ADMIN, READ, InCollection, InService, ScopedRoute
from mergewise.types import JsonDict

router = APIRouter(prefix="/api/v1/collections", tags=["collections"], route_class=ScopedRoute)


@router.get("", response_model=page_of(COLLECTION), **READ)
def list_collections(service: InService, limit: Limit = 50, cursor: Cursor = None) -> JsonDict:
    """List the collections that the token may see, by name."""
    return page_behind(service.collections(), cursor, limit, lambda one: one.name, lambda one: one.info())


@router.post("", status_code=201, response_model=COLLECTION, **ADMIN)
def make_collection(form: CollectionForm, service: InService) -> JsonDict:
    """Create an empty collection."""
    embedders = [*service.config.embedders, *sorted(SHIPPED_EMBEDDERS)]
    if form.embedder is not None and form.embedder not in embedders:
        raise invalid("/embedder", "unknown embedder", f"one of: {', '.join(embedders)}")
    views = tuple(form.views or ("leaf",))
    if lacking := [view for view in views if view not in mw.VIEWS]:
        raise invalid("/views", f"unknown view: {lacking[0][:80]!r}", f"some of: {', '.join(mw.VIEWS)}")
    home = service.config.home_of(form.name)
    path, blobs = str(home / "index"), str(home / "blobs")
    record = CollectionRecord(form.name, path, blobs, form.title, form.embedder, views, form.settings)
    return service.add_collection(record).info()


@router.get("/{c}", response_model=COLLECTION, **READ)
def get_collection(collection: InCollection) -> JsonDict:
    """Describe the contents of a collection, and its strategies and defaults."""
    return collection.info()


@router.patch("/{c}", response_model=COLLECTION, **ADMIN)
def change_collection(form: CollectionChangeForm, collection: InCollection) -> JsonDict:
    """Change the title, or the defaults of questions."""
    if form.defaults is not None:
        if unknown_names := sorted({*form.defaults} - DEFAULTS):
            raise invalid(f"/defaults/{unknown_names[0]}", "unknown default", f"some of: {', '.join(sorted(DEFAULTS))}")
        validated(AskForm, {"question": "?", **form.defaults}, ("defaults",))
    return collection.change(title=form.title, defaults=form.defaults)


@router.delete("/{c}", status_code=202, response_model=STARTED, **ADMIN)
def drop_collection(collection: InCollection) -> JsonDict:
    """Drop a collection with its documents. A collection of the configuration cannot be dropped."""
    if collection.record.configured:
        detail = f"collection {collection.name} is in the configuration"
        raise HTTPProblem(409, "conflict", detail, "remove it from the configuration")
    return {"job": collection.enqueue("drop").as_dict()}
