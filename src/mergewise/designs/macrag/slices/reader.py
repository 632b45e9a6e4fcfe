"""What can be asked of the slice view: slices by search, their chunks, and where chunks stand."""

from __future__ import annotations

from collections.abc import Sequence

from mergewise.designs.macrag.slices.records import CHUNK_VECTORS, Chunk, ChunkBounds, SliceHit, SliceParts
from mergewise.errors import UsageError
from mergewise.protocols import RowReader


class SliceReader:
    """For the length of a question."""

    def __init__(self, rows: RowReader) -> None:
        self._rows = rows

    def search(self, question: str, k: int) -> list[SliceHit]:
        """The `k` best slices by hybrid search, best first."""
        ranking = self._rows.rank_rows(question, k, "slice")
        slices = self._rows.rows("slice", SliceParts, [row for row, _ in ranking])
        return [
            SliceHit(row, slices[row].doc_id, slices[row].chunk, slices[row].parts, score)
            for row, score in ranking
            if row in slices
        ]

    def rank_chunks(self, question: str, k: int, by: str) -> list[tuple[int, float]]:
        """Chunk ids and scores by hybrid search of the chunks' own vectors ("chunk") or their summaries' ("summary")."""
        if by not in self._rows.settings("slice")["vectors"]:
            raise UsageError(
                f"this index has no vectors of its {by} view",
                "make one with open(..., settings={'slice': SliceSettings(vectors=('slice', 'chunk', 'summary'))})",
            )
        return list(self._rows.rank_rows(question, k, "chunk", CHUNK_VECTORS[by]))

    def chunks(self, ids: Sequence[int]) -> dict[int, Chunk]:
        """The chunks with these ids. A missing id is missing in the result."""
        return self._rows.rows("chunk", Chunk, ids)

    def bounds(self, ids: Sequence[int]) -> dict[int, ChunkBounds]:
        """Where the chunks with these ids stand."""
        return self._rows.rows("chunk", ChunkBounds, ids)
