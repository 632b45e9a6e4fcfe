"""A table in the middle of a change, which tells when another writer writes to it at the same time.

LanceDB puts two changes of one table one after the other, whoever made them. Then the later one stands on rows that no manifest
named. A step of one's own moves the version by one, and what only rearranges rows leaves their number as it was: anything else
is somebody else's, and the change is given up. Nothing of it is visible then, and the next one goes back before it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from mergewise.errors import IndexBusy

# moves the version by one; rearranges rows
_STEPS = frozenset({"add", "delete", "add_columns", "alter_columns"})
_REARRANGEMENTS = frozenset({"optimize", "create_index", "drop_index"})
# what Lance says of two changes that cannot be put one after the other
_CONFLICTS = ("concurrent transaction", "commit conflict")


class SteppedTable:
    """As the table of LanceDB that it holds. Raises IndexBusy where another writer has changed it meanwhile."""

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
        """Give the rows of the same values in the column the other columns. How many there were."""
        update = self._table.merge_insert(column).when_matched_update_all().execute
        return int(self._measured(update, lambda: self._table.version, 1)(rows).num_updated_rows)

    def _measured(self, method: Callable[..., Any], measure: Callable[[], int], most: int) -> Callable[..., Any]:
        @wraps(method)
        def call(*args: Any, **kwargs: Any) -> Any:
            busy = IndexBusy(f"another writer has changed {self._place} meanwhile", "try again")
            before = measure()
            try:
                done = method(*args, **kwargs)
            except RuntimeError as error:
                # the other one has gone back to a version, which fences off what others have open
                if any(sign in str(error).lower() for sign in _CONFLICTS):
                    raise busy from error
                raise
            if not 0 <= measure() - before <= most:
                raise busy
            return done

        return call
