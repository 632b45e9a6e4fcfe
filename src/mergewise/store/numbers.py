"""Document numbers as sorted arrays, and the document filters of searches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from mergewise.protocols.models import BoolArray as BoolArray
from mergewise.protocols.models import IntArray as IntArray

# A number in a condition costs the database as much as a search that reads this many more rows, measured at 200,000 documents
# (benchmarks/filters.py). A range costs about as much as a number.
ROWS_OF_A_NUMBER = 10


class DocumentNumbers(Set[int]):
    """A set of document numbers, 8 bytes each."""

    __slots__ = ("array",)

    def __init__(self, array: IntArray) -> None:
        """Wrap a sorted array without duplicates."""
        self.array = array

    @classmethod
    def of(cls, numbers: Iterable[int]) -> DocumentNumbers:
        return cls(sorted_once(np.fromiter(numbers, np.int64)))

    @classmethod
    def _from_iterable(cls, it: Iterable[Any]) -> Any:
        return cls.of(it)

    def __contains__(self, number: object) -> bool:
        return isinstance(number, int) and bool(self.holds(np.array([number]))[0])

    def __iter__(self) -> Iterator[int]:
        return iter(self.array.tolist())

    def __len__(self) -> int:
        return len(self.array)

    def __sub__(self, other: Iterable[Any]) -> DocumentNumbers:
        return self.without(other if isinstance(other, DocumentNumbers) else DocumentNumbers.of(other))

    def holds(self, numbers: IntArray) -> BoolArray:
        """Return for each number whether it is in the set. Numbers must be at least 0."""
        return look_up(self.array, numbers, self.array) >= 0

    def without(self, other: DocumentNumbers) -> DocumentNumbers:
        return DocumentNumbers(self.array[~other.holds(self.array)]) if len(other) else self


@dataclass(frozen=True)
class DocumentFilter:
    """The documents that a search may return: these numbers, or all others. `share` is their share of all documents."""

    numbers: DocumentNumbers
    excludes: bool
    share: float

    def holds(self, numbers: IntArray) -> BoolArray:
        """Return for each document whether a search may return its rows."""
        held = self.numbers.holds(numbers)
        return ~held if self.excludes else held

    def depth(self, wanted: int) -> int:
        """Return the number of unfiltered rows that hold `wanted` filtered ones on average."""
        return int(np.ceil(wanted / self.share))

    def is_cheaper_as_condition(self, wanted: int) -> bool:
        """Return whether `condition` costs less than reading `depth(wanted)` rows."""
        return not self.excludes and len(self._runs) * ROWS_OF_A_NUMBER < self.depth(wanted)

    @cached_property
    def condition(self) -> str:
        """The numbers as an SQL condition on rows: ranges, and single numbers in a list."""
        runs = self._runs
        single = runs[:, 0] == runs[:, 1]
        parts = [f"doc between {first} and {last}" for first, last in runs[~single].tolist()]
        if single.any():
            parts.append(f"doc in ({sql_numbers(runs[single, 0].tolist())})")
        return " or ".join(parts) or "false"

    @cached_property
    def _runs(self) -> IntArray:
        """The first and last number of each run, shape (runs, 2)."""
        numbers = self.numbers.array
        ends = np.flatnonzero(np.diff(numbers) != 1)
        firsts, lasts = np.concatenate([[0], ends + 1]), np.concatenate([ends, [len(numbers) - 1]])
        return np.stack([numbers[firsts], numbers[lasts]], 1) if len(numbers) else np.empty((0, 2), np.int64)


def look_up(known: IntArray, wanted: IntArray, values: IntArray) -> IntArray:
    """Return the value for each wanted key of the sorted array `known`, or -1 for missing keys."""
    if not len(known):
        return np.full(len(wanted), -1, np.int64)
    at = np.minimum(known.searchsorted(wanted), len(known) - 1)
    return np.where(known[at] == wanted, values[at], -1)


def sorted_once(numbers: IntArray) -> IntArray:
    """Sort and deduplicate. This is much faster than `numpy.unique` on mostly sorted numbers."""
    numbers = np.sort(numbers, kind="stable")
    return numbers[np.concatenate([[True], numbers[1:] != numbers[:-1]])] if len(numbers) else numbers


def sql_numbers(numbers: Iterable[int]) -> str:
    return ",".join(map(str, numbers))


EVERYTHING = DocumentFilter(DocumentNumbers(np.empty(0, np.int64)), excludes=True, share=1.0)
"""The filter that admits all documents."""
