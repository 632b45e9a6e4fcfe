"""Pages of lists in OpenAI's form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

from fastapi import Query

Item = TypeVar("Item")
Limit: TypeAlias = Annotated[int, Query(ge=1, le=100)]
Order: TypeAlias = Literal["asc", "desc"]


def list_page(
    newest: Sequence[Item],
    limit: int,
    after: str | None,
    order: Order,
    id_of: Callable[[Item], str],
    form: Callable[[Item], dict[str, Any]],
) -> dict[str, Any]:
    """Make the page behind the item `after` of a list that begins with the newest.

    After an unknown item, the list begins again: clients delete what they list, and then ask for the next page.
    """
    items = newest if order == "desc" else newest[::-1]
    begin = next((at for at, item in enumerate(items, 1) if id_of(item) == after), 0)
    return list_form([form(item) for item in items[begin : begin + limit]], has_more=len(items) > begin + limit)


def list_form(rows: Sequence[dict[str, Any]], *, has_more: bool) -> dict[str, Any]:
    """Make a page of a list."""
    ends = {"first_id": rows[0]["id"], "last_id": rows[-1]["id"]} if rows else {"first_id": None, "last_id": None}
    return {"object": "list", "data": list(rows), **ends, "has_more": has_more}
