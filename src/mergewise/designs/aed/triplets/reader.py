"""Reader of the triplet view: triplets of passages, and the report of `info --view triplet`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace

import numpy as np

from mergewise.designs.aed.triplets.records import EXTRACTION, TRIPLET, TripletExtraction, TripletSet
from mergewise.index.tree.tables import LEAF
from mergewise.index.views import all_rows, count_rejects, rejects_text, unfinished_lines, unfinished_of
from mergewise.protocols import RowReader
from mergewise.text.sections import shared_path
from mergewise.types import JsonDict, frozen


@frozen
class TripletReport:
    """Statistics of the view, with the field names of `info --view triplet --json`.

    `with_triplets` is the number of `passages` with triplets, `most` the maximum in a passage. `made` counts triplets by maker.
    """

    documents: int
    passages: int
    with_triplets: int
    triplets: int
    made: Mapping[str, int]
    most: int
    rejected: Mapping[str, int]
    calls: int
    unfinished: Mapping[str, str]

    def as_dict(self) -> JsonDict:
        """Return the JSON form of `info --view triplet --json`."""
        return asdict(self)

    def lines(self) -> Iterator[str]:
        """Yield the lines that `info --view triplet` prints."""
        made = ", ".join(f"{count} by {how}" for how, count in self.made.items())
        yield f"{self.documents} documents, {self.triplets} triplets: {made or 'none'}"
        mean = self.triplets / self.with_triplets if self.with_triplets else 0.0
        yield f"  {self.with_triplets} of {self.passages} passages have triplets: mean {mean:.1f}, maximum {self.most}"
        if self.calls or self.rejected:
            yield f"  {self.calls} calls of a chat model; rejected: {rejects_text(self.rejected)}"
        yield from unfinished_lines(self.unfinished)


# -- the reader

_PLACES = ("first_leaf", "id", "leaf_count")


@frozen
class LeafBounds:
    """Offsets of a leaf."""

    id: int
    start: int
    end: int


@frozen
class TripletReader:
    """Access to the triplets for the duration of a question."""

    stored: RowReader

    def sets(self, passages: Sequence[range]) -> list[TripletSet | None]:
        """Return MAP(d, C_T) of Algorithms 1 and 2: the triplets of each passage, given by the ids of its leaves.

        If `longest` of the strategy and of the view differ, a passage overlaps with several rows. It then gets the triplets with
        a source sentence inside the passage. A passage without triplets gets None.
        """
        columns = self.stored.sorted_columns(TRIPLET.name, _PLACES)
        firsts, ids, counts = (columns[name] for name in _PLACES)
        # The rows that hold some leaves of each passage, in document order.
        touching: list[list[int]] = []
        for leaves in passages:
            first = int(np.searchsorted(firsts, leaves.start, "right")) - 1
            end = int(np.searchsorted(firsts, leaves.stop, "left"))
            if first >= 0 and int(firsts[first] + counts[first]) <= leaves.start:
                first += 1
            touching.append(ids[max(0, first) : end].tolist())
        found = self.stored.rows(TRIPLET.name, TripletSet, sorted({row for rows in touching for row in rows}))
        held = [[found[row] for row in rows if row in found] for rows in touching]
        return [self._set(rows, leaves) for rows, leaves in zip(held, passages, strict=True)]

    def _set(self, rows: Sequence[TripletSet], leaves: range) -> TripletSet | None:
        if len(rows) == 1 and rows[0].leaves == leaves:
            return rows[0] if rows[0].triplets else None
        bounds = self.stored.rows(LEAF.name, LeafBounds, [leaves.start, leaves.stop - 1])
        if not rows or leaves.start not in bounds or leaves.stop - 1 not in bounds:
            return None
        # The triplets of several rows with sentences inside the passage.
        start, end = bounds[leaves.start].start, bounds[leaves.stop - 1].end
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

    def all(self) -> list[TripletSet]:
        """Return the triplet sets of all passages, in the order of their ids."""
        return all_rows(self.stored, TRIPLET, TripletSet)

    # -- reports

    def extractions(self) -> list[TripletExtraction]:
        """Return the extraction statistics of each document."""
        return all_rows(self.stored, EXTRACTION, TripletExtraction)

    def report(self) -> TripletReport:
        """Count the triplets by maker and the rejected ones, over all documents."""
        extractions, sets = self.extractions(), self.stored.whole(TRIPLET.name, ["made", "triplets"])
        sizes = [len(json.loads(packed)) for packed in sets["triplets"].to_pylist()]
        made: Counter[str] = Counter()
        for how, size in zip(sets["made"].to_pylist(), sizes, strict=True):
            made[how] += size
        return TripletReport(
            documents=len(extractions),
            passages=len(sizes),
            with_triplets=sum(size > 0 for size in sizes),
            triplets=sum(sizes),
            made={how: count for how, count in made.most_common() if count},
            most=max(sizes, default=0),
            rejected=count_rejects(extractions),
            calls=sum(one.calls for one in extractions),
            unfinished=unfinished_of(extractions),
        )
