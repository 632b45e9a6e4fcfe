"""What a state of an index keeps because it costs something to work out: made once, by one thread, while others wait for it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock, RLock
from typing import Any, TypeAlias, TypeVar

import numpy as np

from mergewise.store.numbers import DocumentNumbers

Kept = TypeVar("Kept")
Key: TypeAlias = tuple[str, str | None]
"""A name, and the condition that it goes with."""

CONDITIONS = 64


@dataclass(frozen=True, slots=True)
class Changes:
    """What came and went between two states: documents with numbers from `first_number` on and rows with ids from `first_id` on
    are new, the documents in `gone` are no more."""

    first_number: int
    first_id: int
    gone: DocumentNumbers


@dataclass(frozen=True, slots=True)
class SnapshotRange:
    """The documents of a state, and the numbers and ids that are free in it."""

    numbers: DocumentNumbers
    next_number: int
    next_id: int

    def changes_since(self, then: SnapshotRange) -> Changes | None:
        """None where the other state cannot be an older one of the same index."""
        if then.next_number > self.next_number or then.next_id > self.next_id:
            return None
        stayed = self.numbers.array[: np.searchsorted(self.numbers.array, then.next_number)]
        gone = then.numbers
        if np.array_equal(stayed, gone.array):
            # the usual case, at a glance
            gone = DocumentNumbers.of(())
        elif then.numbers.holds(stayed).all():
            gone = then.numbers.without(DocumentNumbers(stayed))
        else:
            return None
        return Changes(then.next_number, then.next_id, gone)


class SnapshotCache:
    """Values by name. Those that go with a condition are kept for the `CONDITIONS` that came last: each may be as large as the
    list of documents, and anybody may think of another one.

    A value that grows with the index is made out of the one that the state `before` had, or had from a state before it.
    """

    def __init__(self, before: SnapshotCache | None = None) -> None:
        # with the states that they are of
        self._growing: dict[str, tuple[SnapshotRange, Any]] = {}
        # not the values before: they would hold on to all that were before them
        self._older: dict[str, tuple[SnapshotRange, Any]] = (
            {} if before is None else {**before._older.copy(), **before._growing.copy()}
        )
        # a value is a tuple with one element: it may be None
        self._values: dict[Key, tuple[Any]] = {}
        self._making: dict[Key, RLock] = {}
        self._conditions: OrderedDict[str, None] = OrderedDict()
        self._lock = Lock()

    def has(self, name: str) -> bool:
        """Whether the value stands, for no condition."""
        return (name, None) in self._values

    def once(self, name: str, make: Callable[[], Kept], where: str | None = None) -> Kept:
        """What `make` returned when it was first called for this name and condition."""
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
                self._keep_conditions(where)
        kept: Kept = made[0]
        return kept

    def grown(
        self,
        name: str,
        basis: Callable[[], SnapshotRange],
        make: Callable[[], Kept],
        extend: Callable[[Kept, Changes], Kept | None],
    ) -> Kept:
        """Once, what `extend` makes of an older state's value by what has changed since; what `make` returns where it gives None,
        or there is none. `basis` says what state this is."""

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

    def _keep_conditions(self, newest: str) -> None:
        with self._lock:
            self._conditions[newest] = None
            self._conditions.move_to_end(newest)
            gone = list(self._conditions)[:-CONDITIONS]
            for where in gone:
                del self._conditions[where]
            for key in [key for key in list(self._values) if key[1] in gone] if gone else ():
                del self._values[key]
