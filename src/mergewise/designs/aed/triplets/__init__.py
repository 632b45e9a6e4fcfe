"""The triplet view of AED-RAG: the facts of each passage as (head, relation, tail), each with its source sentence."""

from __future__ import annotations

from mergewise.designs.aed.triplets.build import WRITER, build
from mergewise.designs.aed.triplets.extract import RULES
from mergewise.designs.aed.triplets.reader import TripletReader
from mergewise.designs.aed.triplets.records import (
    EXTRACTION,
    Triplet,
    TripletExtraction,
    TripletSet,
    TripletSettings,
    problems,
    tables,
)
from mergewise.index.writing.write import written_by_chat
from mergewise.store.views import View

__all__ = ["VIEW", "Triplet", "TripletExtraction", "TripletReader", "TripletSet", "TripletSettings"]

VIEW = View(
    name="triplet",
    settings=TripletSettings,
    tables=tables,
    problems=problems,
    reader=TripletReader,
    prompt=RULES.name,
    report=TripletReader.report,
    **written_by_chat("made", "model", build, WRITER.estimate, EXTRACTION),
)
