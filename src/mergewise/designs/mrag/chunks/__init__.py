"""Three views of chunks that tile their documents, split by size, by distance, or by a summary.

They are the chunking baselines of M-RAG (section 3.1), and share the record, table, reader and check. Each view has its own
settings and rule of splitting.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from mergewise.designs.mrag.chunks import fixed, pic, semantic
from mergewise.designs.mrag.chunks.records import (
    FIXED,
    PIC,
    PIC_PRESETS,
    SEMANTIC,
    SEMANTIC_PRESETS,
    ChunkReader,
    FixedSettings,
    PICSettings,
    SemanticSettings,
    TextChunk,
    problems,
)
from mergewise.designs.mrag.chunks.summaries import INSTRUCTIONS
from mergewise.index.writing.write import written_by_chat
from mergewise.store.tables import Table
from mergewise.store.views import View

__all__ = ["VIEWS", "ChunkReader", "FixedSettings", "PICSettings", "SemanticSettings", "TextChunk"]


def _view(table: Table, **fields: Any) -> View:
    return View(
        name=table.name,
        tables=lambda settings: (table,),
        problems=partial(problems, table.name),
        reader=partial(ChunkReader, table.name),
        **fields,
    )


VIEWS = {
    "fixed": _view(FIXED, settings=FixedSettings, build=fixed.build),
    "semantic": _view(
        SEMANTIC, settings=SemanticSettings, build=semantic.build, needs_embedder=True, presets=SEMANTIC_PRESETS
    ),
    "pic": _view(
        PIC,
        settings=PICSettings,
        needs_embedder=True,
        prompt=INSTRUCTIONS.name,
        presets=PIC_PRESETS,
        **written_by_chat("summary", "abstractive", pic.build, pic.estimate),
    ),
}
