"""The slice view of MacRAG: overlapping chunks, a summary of each, and overlapping slices of the summaries."""

from __future__ import annotations

from mergewise.designs.macrag.slices.build import build, estimate
from mergewise.designs.macrag.slices.records import (
    PRESETS,
    Chunk,
    ChunkBounds,
    Slice,
    SliceParts,
    SliceReader,
    SliceSettings,
    problems,
    tables,
)
from mergewise.designs.macrag.slices.summaries import INSTRUCTIONS
from mergewise.index.writing.write import written_by_chat
from mergewise.store.views import View

__all__ = ["VIEW", "Chunk", "ChunkBounds", "Slice", "SliceParts", "SliceReader", "SliceSettings"]

VIEW = View(
    name="slice",
    settings=SliceSettings,
    tables=tables,
    problems=problems,
    reader=SliceReader,
    report=SliceReader.report,
    prompt=INSTRUCTIONS.name,
    presets=PRESETS,
    **written_by_chat("summary", "abstractive", build, estimate),
)
