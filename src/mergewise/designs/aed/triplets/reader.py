"""What can be asked of the triplet view: triplets of passages, and how they came to be, as `info --view triplet` shows it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mergewise.designs.aed.triplets.records import EXTRACTION, TRIPLET, TripletExtraction, TripletSet
from mergewise.index.tree.tables import LEAF
from mergewise.protocols import RowReader
from mergewise.text.sections import shared_path


@dataclass(frozen=True, slots=True)
class TripletReport:
    """`made` counts triplets by who made them. `found` of the `passages` have some, with `most` in one of them."""

    documents: int
    passages: int
    found: int
    most: int
    made: Mapping[str, int]
    rejects: Mapping[str, int]
    calls: int
    failures: Mapping[str, str]  # documents of which something is missing, with the reason

    @property
    def triplets(self) -> int:
        return sum(self.made.values())

    def as_dict(self) -> dict[str, Any]:
        """As `info --view triplet --json` prints it."""
        return {
            "documents": self.documents,
            "passages": self.passages,
            "with_triplets": self.found,
            "triplets": self.triplets,
            "made": dict(self.made),
            "most": self.most,
            "rejected": dict(self.rejects),
            "calls": self.calls,
            "unfinished": dict(self.failures),
        }

    def lines(self) -> Iterator[str]:
        """As `info --view triplet` prints it."""
        made = ", ".join(f"{count} by {how}" for how, count in self.made.items())
        yield f"{self.documents} documents, {self.triplets} triplets: {made or 'none'}"
        mean = self.triplets / self.found if self.found else 0.0
        yield f"  {self.found} of {self.passages} passages have some, {mean:.1f} on average, {self.most} at most"
        if self.calls or self.rejects:
            rejected = ", ".join(f"{count} {kind}" for kind, count in self.rejects.items())
            yield f"  {self.calls} calls of a chat model; not taken: {rejected or 'nothing'}"
        for doc_id, reason in self.failures.items():
            yield f"  not complete: {doc_id}: {reason}"
        if self.failures:
            yield "  `mergewise index` with the chat model takes these documents up again; what was answered is kept"


def report_of(extractions: Sequence[TripletExtraction], sets: Any) -> TripletReport:
    """`sets` is an Arrow table with their columns made and triplets."""
    sizes = [len(json.loads(packed)) for packed in sets["triplets"].to_pylist()]
    made: Counter[str] = Counter()
    for how, size in zip(sets["made"].to_pylist(), sizes, strict=True):
        made[how] += size
    rejects: Counter[str] = Counter()
    for one in extractions:
        rejects.update(dict(zip(one.rejects, one.reject_counts, strict=True)))
    return TripletReport(
        documents=len(extractions),
        passages=len(sizes),
        found=sum(size > 0 for size in sizes),
        most=max(sizes, default=0),
        made={how: count for how, count in made.most_common() if count},
        rejects=dict(rejects.most_common()),
        calls=sum(one.calls for one in extractions),
        failures={one.doc_id: one.failure for one in extractions if one.failure},
    )


# -- the reader


@dataclass(frozen=True, slots=True)
class LeafBounds:
    """Where a leaf stands."""

    id: int
    start: int
    end: int


class TripletReader:
    """For the length of a question."""

    def __init__(self, rows: RowReader) -> None:
        self._rows = rows

    def sets(self, passages: Sequence[range]) -> list[TripletSet | None]:
        """MAP(d, C_T) of Algorithms 1 and 2: the triplets of each passage, given by the ids of its leaves.

        A passage of other bounds than the rows have (`longest` of the strategy is not that of the view) gets the triplets whose
        sentences lie in it, out of all rows that touch it. None where there are none.
        """
        places = TripletPlaces(self._rows.sorted_columns(TRIPLET.name, TripletPlaces.COLUMNS))
        touching = [places.rows(leaves) for leaves in passages]
        found = self._rows.rows(TRIPLET.name, TripletSet, sorted({row for rows in touching for row in rows}))
        held = [[found[row] for row in rows if row in found] for rows in touching]
        return [self._set(rows, leaves) for rows, leaves in zip(held, passages, strict=True)]

    def _set(self, rows: Sequence[TripletSet], leaves: range) -> TripletSet | None:
        if len(rows) == 1 and rows[0].leaves == leaves:
            return rows[0] if rows[0].triplets else None
        bounds = self._rows.rows(LEAF.name, LeafBounds, [leaves.start, leaves.stop - 1])
        if not rows or leaves.start not in bounds or leaves.stop - 1 not in bounds:
            return None
        return _one_set(rows, leaves, (bounds[leaves.start].start, bounds[leaves.stop - 1].end))

    def all(self) -> list[TripletSet]:
        """The triplet sets of all passages, in the order of their ids."""
        ids = self._rows.whole(TRIPLET.name, ["id"])["id"].to_pylist()
        return list(self._rows.rows(TRIPLET.name, TripletSet, sorted(ids)).values())

    # -- reports

    def extractions(self) -> list[TripletExtraction]:
        """How the triplets of each document came to be."""
        ids = self._rows.whole(EXTRACTION.name, ["id"])["id"].to_pylist()
        return list(self._rows.rows(EXTRACTION.name, TripletExtraction, ids).values())

    def report(self) -> TripletReport:
        """How many triplets there are, who made them, and what was not taken, over all documents."""
        return report_of(self.extractions(), self._rows.whole(TRIPLET.name, ["made", "triplets"]))


class TripletPlaces:
    """Which row holds which leaves, of one state of the index: 24 bytes a row."""

    COLUMNS = ("first_leaf", "id", "leaf_count")

    def __init__(self, columns: Mapping[str, npt.NDArray[np.int64]]) -> None:
        self._first, self._ids, self._count = (columns[name] for name in self.COLUMNS)

    def rows(self, leaves: range) -> list[int]:
        """The rows that hold some of these leaves, in the order of the document."""
        first = int(np.searchsorted(self._first, leaves.start, "right")) - 1
        end = int(np.searchsorted(self._first, leaves.stop, "left"))
        if first >= 0 and int(self._first[first] + self._count[first]) <= leaves.start:
            first += 1
        return [int(row) for row in self._ids[max(0, first) : end]]


def _one_set(rows: Sequence[TripletSet], leaves: range, bounds: tuple[int, int]) -> TripletSet | None:
    """The triplets of several rows whose sentences lie within these bounds, as one set."""
    start, end = bounds
    triplets = tuple(t for row in rows for t in row.triplets if start <= t.start and t.end <= end)
    if not triplets:
        return None
    return replace(
        rows[0],
        headings=shared_path([row.headings for row in rows]),
        first_leaf=leaves.start,
        leaf_count=len(leaves),
        start=start,
        end=end,
        made=", ".join(dict.fromkeys(row.made for row in rows)),
        triplets=triplets,
    )
