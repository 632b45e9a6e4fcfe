"""The marker view of M-RAG: keys that are searched, and values that a context gets, in place of chunks."""

from __future__ import annotations

from functools import partial

from mergewise.designs.mrag.markers.build import build, estimate
from mergewise.designs.mrag.markers.extract import RULES
from mergewise.designs.mrag.markers.reader import MarkerReader
from mergewise.designs.mrag.markers.records import (
    EXTRACTION,
    PRESETS,
    Draft,
    Marker,
    MarkerExtraction,
    MarkerSettings,
    ValueSentence,
    problems,
    tables,
)
from mergewise.index.writing.write import unfinished_documents
from mergewise.store.views import View, Writing

__all__ = ["VIEW", "Draft", "Marker", "MarkerExtraction", "MarkerReader", "MarkerSettings", "ValueSentence"]

VIEW = View(
    name="marker",
    settings=MarkerSettings,
    tables=tables,
    build=build,
    problems=problems,
    reader=MarkerReader,
    with_chat={"made": "model"},
    writing=Writing(
        lambda settings: bool(settings.made == "model"),
        build,
        estimate,
        partial(unfinished_documents, table=EXTRACTION.name),
    ),
    prompt=RULES.name,
    presets=PRESETS,
    report=MarkerReader.report,
)
