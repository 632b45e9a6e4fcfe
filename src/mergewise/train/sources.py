"""Questions with the index that is searched for them, and what tells this index from another one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from mergewise.designs import VIEWS
from mergewise.retrieve.hybrid import HybridReader
from mergewise.train.candidates import Example, Kind
from mergewise.train.labels import Source

if TYPE_CHECKING:
    from mergewise.engine import Index

TRIPLETS = "triplet"


def source_of(index: Index, examples: Sequence[Example]) -> Source:
    reader = HybridReader(index.store.reader(), index.embedder, VIEWS, None, index.search_settings)
    return Source(examples, reader, _facts(index, reader))


def _facts(index: Index, reader: HybridReader) -> dict[Kind, Mapping[str, Any]]:
    """What changes the passages that a search brings, and what changes their triplets."""
    views = index.manifest.views
    searched = {
        "documents": len(index),
        "characters": sum(document.characters for document in index.documents()),
        "embedder": index.manifest.embedder,
        "leaf": dict(views["leaf"].settings),
        "search": asdict(index.search_settings),
    }
    facts: dict[Kind, Mapping[str, Any]] = {"passages": searched}
    if reader.has(TRIPLETS):
        extractions = reader.view(TRIPLETS).extractions()
        found = sum(extraction.triplets for extraction in extractions)
        facts["triplets"] = {**searched, TRIPLETS: dict(views[TRIPLETS].settings), "found": found}
    return facts
