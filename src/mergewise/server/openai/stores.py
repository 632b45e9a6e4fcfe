"""Routes for vector stores: the collections, with a search for passages."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from fastapi import APIRouter, Query, Request

from mergewise.concurrency import in_thread
from mergewise.server.collections import key_of
from mergewise.server.leaves import best_leaves
from mergewise.server.openai.requests import StoreSearchForm
from mergewise.server.routing import READ, InCollection, InService, ScopedRoute
from mergewise.server.scoped import Scoped
from mergewise.server.streams import until_disconnect

router = APIRouter(route_class=ScopedRoute)


@router.get("/vector_stores", openapi_extra=READ)
async def list_stores(
    service: InService, limit: int = Query(20, ge=1, le=100), after: str | None = None
) -> dict[str, Any]:
    """List the collections that the token may read, by name."""
    visible = [one for one in service.collections() if after is None or one.name > after]
    shown = await in_thread(lambda: [store_form(one) for one in visible[:limit]])
    return list_form(shown, has_more=len(visible) > limit)


@router.get("/vector_stores/{c}", openapi_extra=READ)
async def get_store(collection: InCollection) -> dict[str, Any]:
    return await in_thread(partial(store_form, collection))


@router.post("/vector_stores/{c}/search", openapi_extra=READ)
async def search_store(
    form: StoreSearchForm, request: Request, service: InService, collection: InCollection
) -> dict[str, Any]:
    """Search the best passages for one or more queries, without duplicates."""
    queries = [form.query] if isinstance(form.query, str) else form.query
    found: dict[tuple[str, int, int], dict[str, Any]] = {}
    for query in queries:
        search = best_leaves(service, collection, query, form.max_num_results, form.filters)
        for passage in await until_disconnect(request, search):
            span = passage["spans"][0]
            place = (span["doc"], span["start"], span["end"])
            if place not in found or found[place]["score"] < passage["score"]:
                found[place] = passage
    least = form.ranking_options.score_threshold or 0.0
    best = [one for one in sorted(found.values(), key=lambda one: -one["score"]) if one["score"] >= least]
    shown = await in_thread(partial(_results, collection, best[: form.max_num_results]))
    return {
        "object": "vector_store.search_results.page",
        "search_query": list(queries),
        "data": shown,
        "has_more": False,
        "next_page": None,
    }


def _results(collection: Scoped, passages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    attributes = {
        doc_id: dict(collection.document(doc_id).metadata)
        for doc_id in dict.fromkeys(passage["doc"] for passage in passages)
    }
    return [
        {
            "file_id": key_of(passage["doc"]),
            "filename": passage["title"] or passage["doc"],
            "score": passage["score"],
            "attributes": attributes[passage["doc"]],
            "content": [{"type": "text", "text": passage["text"]}],
            "mergewise": {name: passage[name] for name in ("doc", "title", "headings", "page", "line", "url", "spans")},
        }
        for passage in passages
    ]


def store_form(collection: Scoped) -> dict[str, Any]:
    info = collection.info()
    counts = {"in_progress": 0, "completed": info["documents"], "failed": 0, "cancelled": 0, "total": info["documents"]}
    return {
        "id": collection.name,
        "object": "vector_store",
        "created_at": int(collection.record.created),
        "name": info["title"] or collection.name,
        "usage_bytes": info["characters"],
        "file_counts": counts,
        "status": "completed",
        "expires_after": None,
        "expires_at": None,
        "last_active_at": int(collection.changed_at),
        "metadata": {},
    }


def list_form(rows: Sequence[dict[str, Any]], *, has_more: bool) -> dict[str, Any]:
    """Make a page of a list."""
    ends = {"first_id": rows[0]["id"], "last_id": rows[-1]["id"]} if rows else {"first_id": None, "last_id": None}
    return {"object": "list", "data": list(rows), **ends, "has_more": has_more}
