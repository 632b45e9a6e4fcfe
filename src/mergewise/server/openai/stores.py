"""Routes for vector stores: the collections, with a search for passages.

A store that a client creates is a collection with a name made from the store's. Only admins create, change and delete stores.
"""

from __future__ import annotations

import re
from secrets import token_hex

from fastapi import APIRouter, Request

from mergewise.extend import in_thread
from mergewise.server.leaves import best_leaves
from mergewise.server.native.collections import drop_collection, make_collection
from mergewise.server.native.requests import CollectionForm
from mergewise.server.openai.completions import file_of
from mergewise.server.openai.files import attach
from mergewise.server.openai.pages import Limit, Order, list_page
from mergewise.server.openai.requests import AttachForm, StoreChangeForm, StoreForm, StoreSearchForm
from mergewise.server.problems import refusal
from mergewise.server.routing import ADMIN, READ, InCollection, InService, ScopedRoute
from mergewise.server.scoped import Scoped
from mergewise.server.streams import until_disconnect
from mergewise.types import JsonDict

router = APIRouter(route_class=ScopedRoute)

# leaves room for digits behind a name that is taken
_LONGEST_NAME = 50


@router.get("/vector_stores", **READ)
def list_stores(service: InService, limit: Limit = 20, after: str | None = None, order: Order = "desc") -> JsonDict:
    """List the collections that the token may read, newest first."""
    newest = sorted(service.collections(), key=lambda one: (-one.record.created, one.name))
    return list_page({one.name: one for one in newest}, store_form, limit, after, order)


@router.post("/vector_stores", **ADMIN)
def make_store(form: StoreForm, service: InService) -> JsonDict:
    """Create a collection named after the store, and start a job that indexes the files."""
    _check_expiry(form)
    for file_id in form.file_ids:
        service.check_whole("write")
        service.files.get(file_id)
    name = re.sub(r"[^a-z0-9]+", "-", (form.name or "").lower()).strip("-")[:_LONGEST_NAME].strip("-") or "store"
    if any(one.name == name for one in service.collections()):
        name = f"{name}-{token_hex(6)}"
    make_collection(CollectionForm(name=name, title=form.name or ""), service)
    collection = service.collection(name)
    collection.change(metadata=form.metadata)
    if form.file_ids:
        attach(collection, [AttachForm(file_id=one) for one in form.file_ids])
    return store_form(collection)


@router.post("/vector_stores/{c}", **ADMIN)
def change_store(form: StoreChangeForm, collection: InCollection) -> JsonDict:
    """Change the title or the metadata of a collection."""
    _check_expiry(form)
    collection.change(title=form.name, metadata=form.metadata)
    return store_form(collection.service.collection(collection.name))


def _check_expiry(form: StoreChangeForm) -> None:
    if form.expires_after is not None:
        raise refusal("unsupported expires_after: a vector store never expires", "expires_after")


@router.delete("/vector_stores/{c}", **ADMIN)
def delete_store(collection: InCollection) -> JsonDict:
    """Start a job that drops a collection with its documents. A collection of the configuration cannot be dropped."""
    drop_collection(collection)
    return {"id": collection.name, "object": "vector_store.deleted", "deleted": True}


@router.get("/vector_stores/{c}", **READ)
def get_store(collection: InCollection) -> JsonDict:
    return store_form(collection)


@router.post("/vector_stores/{c}/search", **READ)
async def search_store(form: StoreSearchForm, request: Request, collection: InCollection) -> JsonDict:
    """Search the best passages for one or more queries, without duplicates."""
    queries = [form.query] if isinstance(form.query, str) else form.query
    found: dict[tuple[str, int, int], JsonDict] = {}
    for query in queries:
        search = best_leaves(collection, query, form.max_num_results, form.filters)
        for passage in await until_disconnect(request, search):
            span = passage["spans"][0]
            place = (span["doc"], span["start"], span["end"])
            if place not in found or found[place]["score"] < passage["score"]:
                found[place] = passage
    least = form.ranking_options.score_threshold or 0.0
    best = [one for one in sorted(found.values(), key=lambda one: -one["score"]) if one["score"] >= least]
    best = best[: form.max_num_results]
    ids = {passage["doc"] for passage in best}
    documents = await in_thread(lambda: {doc_id: collection.document(doc_id) for doc_id in ids})
    results = [
        {
            **file_of(passage),
            "attributes": dict(documents[passage["doc"]].metadata),
            "content": [{"type": "text", "text": passage["text"]}],
            "mergewise": {name: passage[name] for name in "doc title headings page line url spans".split()},
        }
        for passage in best
    ]
    return {
        "object": "vector_store.search_results.page",
        "search_query": list(queries),
        "data": results,
        "has_more": False,
        "next_page": None,
    }


def store_form(collection: Scoped) -> JsonDict:
    info = collection.info()
    states = collection.unfinished()
    failed = sum(state.status == "failed" for state in states)
    waiting, done = len(states) - failed, info["documents"]
    counts = {"in_progress": waiting, "completed": done, "failed": failed, "cancelled": 0, "total": done + len(states)}
    return {
        "id": collection.name,
        "object": "vector_store",
        "created_at": int(collection.record.created),
        "name": info["title"] or collection.name,
        "usage_bytes": info["characters"],
        "file_counts": counts,
        "status": "in_progress" if waiting else "completed",
        "expires_after": None,
        "expires_at": None,
        "last_active_at": int(collection.changed_at),
        "metadata": info["metadata"],
    }
