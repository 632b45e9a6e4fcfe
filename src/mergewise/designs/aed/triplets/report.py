"""What `info --view triplet` shows: how many triplets there are, who made them, and what was not taken."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mergewise.designs.aed.triplets.records import TripletExtraction


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
            "rejected": sum(self.rejects.values()),
            "rejects": dict(self.rejects),
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
