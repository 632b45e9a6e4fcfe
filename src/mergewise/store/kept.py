"""What a state of an index keeps because it costs something to work out: made once, by one thread, while others wait for it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock, RLock
from typing import Any, TypeAlias, TypeVar

Kept = TypeVar("Kept")
Key: TypeAlias = tuple[str, str | None]
"""A name, and the condition that it goes with."""

CONDITIONS = 64


class KeptValues:
    """Values by name. Those that go with a condition are kept for the `CONDITIONS` that came last: each may be as large as the
    list of documents, and anybody may think of another one."""

    def __init__(self) -> None:
        # a value is a tuple with one element: it may be None
        self._values: dict[Key, tuple[Any]] = {}
        self._making: dict[Key, RLock] = {}
        self._conditions: OrderedDict[str, None] = OrderedDict()
        self._lock = Lock()

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

    def _keep_conditions(self, newest: str) -> None:
        with self._lock:
            self._conditions[newest] = None
            self._conditions.move_to_end(newest)
            gone = list(self._conditions)[:-CONDITIONS]
            for where in gone:
                del self._conditions[where]
            for key in [key for key in list(self._values) if key[1] in gone] if gone else ():
                del self._values[key]
