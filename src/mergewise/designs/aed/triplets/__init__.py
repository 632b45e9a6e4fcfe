"""The triplet view of AED-RAG: the facts of each passage as (head, relation, tail), each with the sentence it came from."""

from __future__ import annotations

from mergewise.designs.aed.triplets.build import build, estimate, unfinished
from mergewise.designs.aed.triplets.reader import TripletReader
from mergewise.designs.aed.triplets.records import (
    Triplet,
    TripletExtraction,
    TripletSet,
    TripletSettings,
    problems,
    tables,
)
from mergewise.store.views import View, Writing

__all__ = ["VIEW", "Triplet", "TripletExtraction", "TripletReader", "TripletSet", "TripletSettings"]

VIEW = View(
    name="triplet",
    settings=TripletSettings,
    tables=tables,
    build=build,
    problems=problems,
    reader=TripletReader,
    with_chat={"made": "model"},
    writing=Writing(lambda settings: bool(settings.made == "model"), build, estimate, unfinished),
    report=TripletReader.report,
)
