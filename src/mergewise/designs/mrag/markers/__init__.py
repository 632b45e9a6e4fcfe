"""The marker view of M-RAG: keys to search and values for the context, instead of chunks."""

from __future__ import annotations

from mergewise.designs.mrag.markers.build import WRITER, build
from mergewise.designs.mrag.markers.extract import RULES, with_file_of_examples, without_file_of_examples
from mergewise.designs.mrag.markers.grounding import ValueSentence
from mergewise.designs.mrag.markers.reader import MarkerReader
from mergewise.designs.mrag.markers.records import (
    EXTRACTION,
    PRESETS,
    Draft,
    Marker,
    MarkerExtraction,
    MarkerSettings,
    problems,
    tables,
)
from mergewise.index.writing.write import written_by_chat
from mergewise.store.views import View

__all__ = ["VIEW", "Draft", "Marker", "MarkerExtraction", "MarkerReader", "MarkerSettings", "ValueSentence"]

VIEW = View(
    name="marker",
    settings=MarkerSettings,
    tables=tables,
    problems=problems,
    reader=MarkerReader,
    prompt=RULES.name,
    presets=PRESETS,
    report=MarkerReader.report,
    with_files=with_file_of_examples,
    without_files=without_file_of_examples,
    **written_by_chat("made", "model", build, WRITER.estimate, EXTRACTION),
)
