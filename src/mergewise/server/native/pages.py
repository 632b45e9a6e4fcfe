"""Lists in pages: a limit, and an opaque cursor that says where the next page begins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeVar

from fastapi import Query

from mergewise.server.collections import id_of, key_of
from mergewise.server.problems import HTTPProblem, invalid

Item = TypeVar("Item")

Limit = Annotated[int, Query(ge=1, le=200)]
Cursor = Annotated[str | None, Query(max_length=6000)]


def cursor_position(cursor: str | None) -> str | None:
    """Where the page begins. Raises HTTPProblem 422 for a cursor that this server did not give."""
    if cursor is None:
        return None
    try:
        return id_of(cursor)
    except HTTPProblem:
        raise invalid("cursor", "this cursor is none that a list gave", "begin without one") from None


def page(
    items: Sequence[Item], limit: int, position: Callable[[Item], str], form: Callable[[Item], Any]
) -> dict[str, Any]:
    """{items, next} of up to `limit` items, where more than these were found if there is a next page."""
    shown = items[:limit]
    following = key_of(position(shown[-1])) if len(items) > limit else None
    return {"items": [form(item) for item in shown], "next": following}


def page_behind(items: Sequence[Item], cursor: str | None, limit: int, position: Callable[[Item], str],
                form: Callable[[Item], Any]) -> dict[str, Any]:  # fmt: skip
    """A page of items that are all at hand, in the order of their positions."""
    after = cursor_position(cursor)
    return page([item for item in items if after is None or position(item) > after], limit, position, form)
