"""A cache of computed values of one state of an index. One thread computes a value while the others wait."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock, RLock
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from mergewise.protocols.indexes import Kept
from mergewise.store.numbers import DocumentNumbers

Key: TypeAlias = tuple[str, str | None]
"""The name of a value, and the condition it was computed for."""

CONDITIONS = 64


class Changes(NamedTuple):
    """Changes between two states: documents from `first_number` and rows from `first_id` are new, `gone` were deleted."""

    first_number: int
    first_id: int
    gone: DocumentNumbers


class SnapshotRange(NamedTuple):
    """The documents of a state, and its next free number and id."""

    numbers: DocumentNumbers
    next_number: int
    next_id: int

    def changes_since(self, then: SnapshotRange) -> Changes | None:
        """Return the changes since another state, or None if that is not an older state of the same index."""
        if then.next_number > self.next_number or then.next_id > self.next_id:
            return None
        stayed = self.numbers.array[: np.searchsorted(self.numbers.array, then.next_number)]
        gone = then.numbers
        if np.array_equal(stayed, gone.array):
            # the usual case: nothing was deleted
            gone = DocumentNumbers.of(())
        elif then.numbers.holds(stayed).all():
            gone = then.numbers.without(DocumentNumbers(stayed))
        else:
            return None
        return Changes(then.next_number, then.next_id, gone)


class SnapshotCache:
    """Cached values by name and condition.

    Only the last `CONDITIONS` conditions keep their values: each value may be as large as the list of documents, and the number
    of conditions is unbounded. A growing value is computed from the value of an earlier state.
    """

    def __init__(self, before: SnapshotCache | None = None) -> None:
        # growing values with their states
        self._growing: dict[str, tuple[SnapshotRange, Any]] = {}
        # a copy, since a reference to `before` would keep all earlier caches alive
        self._older: dict[str, tuple[SnapshotRange, Any]] = {} if before is None else before._older | before._growing
        # each value is wrapped in a tuple, because it may be None
        self._values: dict[Key, tuple[Any]] = {}
        self._making: dict[Key, RLock] = {}
        self._conditions: OrderedDict[str, None] = OrderedDict()
        self._lock = Lock()

    def has(self, name: str) -> bool:
        """Return whether the value without a condition is cached."""
        return (name, None) in self._values

    def once(self, name: str, make: Callable[[], Kept], where: str | None = None) -> Kept:
        """Return the cached value for this name and condition. The first call computes it by `make`."""
        key = name, where
        made = self._values.get(key)
        if made is None:
            with self._making.setdefault(key, RLock()):
                try:
                    made = self._values.get(key)
                    if made is None:
                        made = self._values[key] = (make(),)
                finally:
                    self._making.pop(key, None)
            if where is not None:
                with self._lock:
                    self._conditions[where] = None
                    self._conditions.move_to_end(where)
                    gone = list(self._conditions)[:-CONDITIONS]
                    for old in gone:
                        del self._conditions[old]
                    for key in [key for key in list(self._values) if key[1] in gone] if gone else ():
                        del self._values[key]
        kept: Kept = made[0]
        return kept

    def extend_or_make(
        self,
        name: str,
        basis: Callable[[], SnapshotRange],
        make: Callable[[], Kept],
        extend: Callable[[Kept, Changes], Kept | None],
    ) -> Kept:
        """Return the cached value, computed by `extend` from an older state's value and the changes since.

        Without an older value, or if `extend` returns None, `make` computes the value. `basis` returns the range of this state.
        """

        def grow() -> Kept:
            now, value = basis(), None
            if name in self._older:
                then, older = self._older[name]
                changes = now.changes_since(then)
                value = None if changes is None else extend(older, changes)
            value = make() if value is None else value
            self._growing[name] = now, value
            self._older.pop(name, None)
            return value

        return self.once(name, grow)
