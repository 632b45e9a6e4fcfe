"""The slice view of MacRAG: overlapping chunks, a summary of each, overlapping slices of the summaries."""

from __future__ import annotations

from mergewise.designs.macrag.slices.build import build, estimate
from mergewise.designs.macrag.slices.records import (
    PRESETS,
    Chunk,
    ChunkBounds,
    Slice,
    SliceHit,
    SliceReader,
    SliceSettings,
    problems,
    tables,
)
from mergewise.designs.macrag.slices.summaries import INSTRUCTIONS
from mergewise.store.views import View, Writing

__all__ = ["VIEW", "Chunk", "ChunkBounds", "Slice", "SliceHit", "SliceReader", "SliceSettings"]

VIEW = View(
    name="slice",
    settings=SliceSettings,
    tables=tables,
    build=build,
    problems=problems,
    reader=SliceReader,
    with_chat={"summary": "abstractive"},
    prompt=INSTRUCTIONS.name,
    presets=PRESETS,
    writing=Writing(lambda settings: bool(settings.summary == "abstractive"), build, estimate),
)
