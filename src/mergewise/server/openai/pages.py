"""Pages of lists in OpenAI's form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Literal

from fastapi import Query

from mergewise.server.native.pages import Item
from mergewise.types import JsonDict

Limit = Annotated[int, Query(ge=1, le=100)]
Order = Literal["asc", "desc"]


def list_page(
    newest: dict[str, Item], form: Callable[[Item], JsonDict], limit: int, after: str | None, order: Order
) -> JsonDict:
    """Make the page behind the id `after` of a list. `newest` has the items by their ids, the newest first.

    After an unknown item, the list begins again: clients delete what they list, and then ask for the next page.
    """
    ids = list(newest if order == "desc" else reversed(newest))
    begin = ids.index(after) + 1 if after in newest else 0
    shown = [form(newest[id]) for id in ids[begin : begin + limit]]
    return list_form(shown, has_more=len(ids) > begin + limit)


def list_form(rows: Sequence[JsonDict], *, has_more: bool) -> JsonDict:
    """Make a page of a list."""
    ends = {"first_id": rows[0]["id"], "last_id": rows[-1]["id"]} if rows else {"first_id": None, "last_id": None}
    return {"object": "list", "data": list(rows), **ends, "has_more": has_more}
