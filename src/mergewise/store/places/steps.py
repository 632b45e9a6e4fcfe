"""A table during a change, with detection of a second writer.

LanceDB applies concurrent changes of a table one after the other, whoever made them. The later change then builds on rows that
no manifest names. So each step checks its effect: a step of our own raises the version by one, and a rearrangement of rows keeps
their number. Any other effect comes from another writer, and the change is abandoned. Nothing of the change is visible then,
and the next change goes back to the state before it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from mergewise.errors import IndexBusy

# methods that raise the version by one
_STEPS = frozenset({"add", "delete", "add_columns", "alter_columns"})
# methods that only rearrange rows
_REARRANGEMENTS = frozenset({"optimize", "create_index", "drop_index"})
# parts of Lance's messages about two conflicting changes
_CONFLICTS = ("concurrent transaction", "commit conflict")


class SteppedTable:
    """A proxy of a LanceDB table. Methods raise IndexBusy if another writer changes the table at the same time."""

    def __init__(self, table: Any, place: object) -> None:
        self._table = table
        self._place = place

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._table, name)
        if name in _STEPS:
            return self._measured(attribute, lambda: self._table.version, 1)
        if name in _REARRANGEMENTS:
            return self._measured(attribute, self._table.count_rows, 0)
        return attribute

    def updating(self, column: str, rows: Any) -> int:
        """Update the rows with equal values in `column` from `rows`. Return their number."""
        update = self._table.merge_insert(column).when_matched_update_all().execute
        return int(self._measured(update, lambda: self._table.version, 1)(rows).num_updated_rows)

    def _measured(self, method: Callable[..., Any], measure: Callable[[], int], most: int) -> Callable[..., Any]:
        @wraps(method)
        def call(*args: Any, **kwargs: Any) -> Any:
            busy = IndexBusy(f"another writer has changed {self._place}", "try again")
            before = measure()
            try:
                done = method(*args, **kwargs)
            except RuntimeError as error:
                # the other writer has restored a version, which fences off open tables
                if any(sign in str(error).lower() for sign in _CONFLICTS):
                    raise busy from error
                raise
            if not 0 <= measure() - before <= most:
                raise busy
            return done

        return call
