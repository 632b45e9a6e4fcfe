"""The triplet view of AED-RAG: the facts of each passage as (head, relation, tail), each with the sentence it came from."""

from __future__ import annotations

from functools import partial

from mergewise.designs.aed.triplets.build import build, estimate
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
from mergewise.index.writing.write import unfinished_documents
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
    writing=Writing(
        lambda settings: bool(settings.made == "model"),
        build,
        estimate,
        partial(unfinished_documents, table=EXTRACTION.name),
    ),
    prompt=RULES.name,
    report=TripletReader.report,
)
