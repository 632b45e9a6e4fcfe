"""What can be asked of the marker view: markers by their keys, and how the markers of documents came to be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from mergewise.designs.mrag.markers.records import EXTRACTION, MARKER, Marker, MarkerExtraction
from mergewise.designs.mrag.markers.report import MarkerReport, report_of
from mergewise.protocols import RowReader

By: TypeAlias = Literal["hybrid", "vectors"]


class MarkerReader:
    """For the length of a question."""

    def __init__(self, rows: RowReader) -> None:
        self._rows = rows

    def rank(self, question: str, k: int, by: By = "hybrid") -> list[tuple[int, float]]:
        """Ids and scores of the `k` markers whose keys fit best, best first."""
        if by == "vectors":
            return list(self._rows.rank_by_vectors(question, k, MARKER.name))
        return list(self._rows.rank_rows(question, k, MARKER.name))

    def markers(self, ids: Sequence[int]) -> dict[int, Marker]:
        """The markers with these ids, in this order. A missing id is missing in the result."""
        return self._rows.rows(MARKER.name, Marker, ids)

    def search(self, question: str, k: int, by: By = "hybrid") -> list[tuple[Marker, float]]:
        """The `k` best markers with their scores, best first."""
        ranking = self.rank(question, k, by)
        found = self.markers([row for row, _ in ranking])
        return [(found[row], score) for row, score in ranking if row in found]

    # -- reports

    def extractions(self) -> list[MarkerExtraction]:
        """How the markers of each document came to be."""
        ids = self._rows.whole(EXTRACTION.name, ["id"])["id"].to_pylist()
        return list(self._rows.rows(EXTRACTION.name, MarkerExtraction, ids).values())

    def report(self) -> MarkerReport:
        """Coverage, attempts, rejects, support and lengths over all documents (the paper's Table 3 and Figure 5)."""
        rows = self._rows.whole(MARKER.name, ["made", "sentences", "key_tokens", "value_tokens"])
        return report_of(self.extractions(), rows)
