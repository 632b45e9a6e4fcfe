"""Three ways to cut documents into chunks that tile them, each a view: by size, by distance, around a summary.

They are the chunking baselines of M-RAG (section 3.1). One record, one table, one reader and one check serve all three; a view
brings its settings and where it cuts.
"""

from __future__ import annotations

from functools import partial

from mergewise.designs.mrag.chunks import fixed, pic, semantic
from mergewise.designs.mrag.chunks.check import problems
from mergewise.designs.mrag.chunks.reader import ChunkReader
from mergewise.designs.mrag.chunks.records import FIXED, PIC, SEMANTIC, TextChunk
from mergewise.designs.mrag.chunks.settings import FixedSettings, PICSettings, SemanticSettings
from mergewise.store.views import View, Writing

__all__ = [
    "FIXED_VIEW",
    "PIC_VIEW",
    "SEMANTIC_VIEW",
    "ChunkReader",
    "FixedSettings",
    "PICSettings",
    "SemanticSettings",
    "TextChunk",
]

FIXED_VIEW = View(
    name="fixed",
    settings=FixedSettings,
    tables=lambda settings: (FIXED,),
    build=fixed.build,
    problems=partial(problems, FIXED.name),
    reader=partial(ChunkReader, FIXED.name),
)
SEMANTIC_VIEW = View(
    name="semantic",
    settings=SemanticSettings,
    tables=lambda settings: (SEMANTIC,),
    build=semantic.build,
    problems=partial(problems, SEMANTIC.name),
    reader=partial(ChunkReader, SEMANTIC.name),
    needs_embedder=True,
)
PIC_VIEW = View(
    name="pic",
    settings=PICSettings,
    tables=lambda settings: (PIC,),
    build=pic.build,
    problems=partial(problems, PIC.name),
    reader=partial(ChunkReader, PIC.name),
    with_chat={"summary": "abstractive"},
    writing=Writing(lambda settings: bool(settings.summary == "abstractive"), pic.build, pic.estimate),
    needs_embedder=True,
)
