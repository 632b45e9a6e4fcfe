"""The triplet view of AED-RAG: the facts of each passage as (head, relation, tail), each with the sentence it came from."""

from __future__ import annotations

from mergewise.designs.aed.triplets.build import build, estimate, unfinished
from mergewise.designs.aed.triplets.check import problems
from mergewise.designs.aed.triplets.reader import TripletReader
from mergewise.designs.aed.triplets.records import Extraction, Triplet, TripletSet, tables
from mergewise.designs.aed.triplets.settings import TripletSettings
from mergewise.store.views import View, Writing

__all__ = ["VIEW", "Extraction", "Triplet", "TripletReader", "TripletSet", "TripletSettings"]

VIEW = View(
    name="triplet",
    settings=TripletSettings,
    tables=tables,
    build=build,
    problems=problems,
    reader=TripletReader,
    with_chat={"made": "model"},
    writing=Writing(lambda settings: bool(settings.made == "model"), build, estimate, unfinished),
)
