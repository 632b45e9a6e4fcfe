"""What `check` demands of a document's triplets: passages that hold every leaf once, and sentences that are the document's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from mergewise.designs.aed.triplets.records import Extraction, TripletSet
from mergewise.designs.aed.triplets.settings import TripletSettings
from mergewise.types import DocumentRows


def problems(rows: DocumentRows, settings: TripletSettings, dimension: int) -> Iterator[str]:
    """What is wrong with one document's triplets."""
    sets: Sequence[TripletSet] = rows["triplet"]
    extractions: Sequence[Extraction] = rows["extraction"]
    if len(extractions) != 1 or extractions[0].passages != len(sets):
        yield "it is not known how the triplets came to be"
    bounds = {leaf.id: (leaf.start, leaf.end) for leaf in rows["leaf"]}
    if [leaf for row in sets for leaf in row.leaves] != list(bounds):
        yield "the passages with triplets do not hold every leaf once"
    elif any((bounds[row.leaves[0]][0], bounds[row.leaves[-1]][1]) != (row.start, row.end) for row in sets):
        yield "a passage with triplets does not stand where its leaves do"
    sentences = {(start, end) for leaf in rows["leaf"] for start, end, _ in leaf.sentences}
    triplets = [(row, triplet) for row in sets for triplet in row.triplets]
    if any((t.start, t.end) not in sentences or not row.start <= t.start < t.end <= row.end for row, t in triplets):
        yield "a triplet's sentence is not one of its passage"
    if any(not part.strip() for _, triplet in triplets for part in triplet[:3]):
        yield "a triplet has an empty part"
    if any(a.ordinal >= b.ordinal for a, b in pairwise(sets)):
        yield "the passages with triplets are out of order"
