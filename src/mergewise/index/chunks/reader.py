"""What can be asked of a view of chunks: the best ones for a question."""

from __future__ import annotations

from mergewise.index.chunks.records import TextChunk
from mergewise.protocols import RowReader


class ChunkReader:
    """Of one of the three views, for the length of a question."""

    def __init__(self, table: str, rows: RowReader) -> None:
        self._table = table
        self._rows = rows

    def search(self, question: str, k: int, weight: float | None = None) -> list[tuple[TextChunk, float]]:
        """The `k` best chunks with their scores, best first, by hybrid search; `weight` as in `RowReader.rank_rows`."""
        ranking = self._rows.rank_rows(question, k, self._table, weight=weight)
        chunks = self._rows.rows(self._table, TextChunk, [row for row, _ in ranking])
        return [(chunks[row], score) for row, score in ranking if row in chunks]
