"""What can be asked of a view of chunks: the best ones for a question."""

from __future__ import annotations

from typing import Literal

from mergewise.designs.mrag.chunks.records import TextChunk
from mergewise.protocols import RowReader


class ChunkReader:
    """Of one of the three views, for the length of a question."""

    def __init__(self, table: str, rows: RowReader) -> None:
        self._table = table
        self._rows = rows

    def search(
        self, question: str, k: int, by: Literal["hybrid", "vectors"] = "hybrid"
    ) -> list[tuple[TextChunk, float]]:
        """The `k` best chunks with their scores, best first, by full text and vectors, or by vectors alone."""
        rank = self._rows.rank_rows if by == "hybrid" else self._rows.rank_by_vectors
        ranking = rank(question, k, self._table)
        chunks = self._rows.rows(self._table, TextChunk, [row for row, _ in ranking])
        return [(chunks[row], score) for row, score in ranking if row in chunks]
