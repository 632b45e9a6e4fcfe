"""Pagination of lists, with a limit and an opaque cursor of the next page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeVar

from fastapi import Query

from mergewise.server.collections import id_of, key_of
from mergewise.server.problems import HTTPProblem, invalid
from mergewise.types import JsonDict

Item = TypeVar("Item")

Limit = Annotated[int, Query(ge=1, le=200)]
Cursor = Annotated[str | None, Query(max_length=6000)]


def cursor_position(cursor: str | None) -> str | None:
    """Decode a cursor into the position before the page. Raises HTTPProblem 422 for an invalid cursor."""
    if cursor is None:
        return None
    try:
        return id_of(cursor)
    except HTTPProblem:
        raise invalid("cursor", "invalid cursor", "start without a cursor") from None


def page(items: Sequence[Item], limit: int, position: Callable[[Item], str], form: Callable[[Item], Any]) -> JsonDict:
    """Make {items, next} of the first `limit` items. More items than `limit` mean that a next page exists."""
    shown = items[:limit]
    following = key_of(position(shown[-1])) if len(items) > limit else None
    return {"items": [form(item) for item in shown], "next": following}


def page_behind(items: Sequence[Item], cursor: str | None, limit: int, position: Callable[[Item], str],
                form: Callable[[Item], Any]) -> JsonDict:  # fmt: skip
    """Make a page from a complete list of items, sorted by position."""
    after = cursor_position(cursor)
    return page([item for item in items if after is None or position(item) > after], limit, position, form)
