"""The candidates of AED-RAG: the passages that a search brings (D_ret), and the triplet set of each (T_ret, Eq. 4 and 5).

A unit is what the utility predictor judges and what a stream reads. The third kind of Eq. 5, the passage that the model writes
itself, is no unit of the index: who has a model adds it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from mergewise.assemble.fragments import Candidate
from mergewise.assemble.passages import LeafRun, passages_around, search_passages
from mergewise.designs.aed.triplets import TripletReader, TripletSet
from mergewise.index.tree.reader import LONGEST
from mergewise.protocols import IndexReader
from mergewise.text.keys import heading_path
from mergewise.types import Hit, Span, Step

VIEW = "triplet"


@dataclass(frozen=True, slots=True)
class RetrievedUnit:
    """A passage, or its triplet set; `score` is that of its best hit, `leaves` are those of the passage.

    `text` is what a predictor or a model is given of it: a line of title and headings, then the passage or the triplets.
    """

    kind: Literal["passage", "triplets"]
    text: str
    score: float
    leaves: range
    candidate: Candidate
    triplets: TripletSet | None = None

    @property
    def spans(self) -> tuple[Span, ...]:
        """Where it stands, or the sentences that its triplets came from."""
        if self.triplets is not None:
            return self.triplets.spans
        return tuple(fragment.span for fragment in self.candidate.fragments)


def retrieve(
    question: str, reader: IndexReader, k: int, longest: int = LONGEST, trace: list[Step] | None = None
) -> list[RetrievedUnit]:
    """D_ret: the first `k` passages that hold a hit of the search, in the order of their best hits."""
    return list(map(_passage, search_passages(question, reader, k, longest, trace)))


def units_around(hits: Sequence[Hit], reader: IndexReader, k: int, longest: int = LONGEST) -> list[RetrievedUnit]:
    """The passages around leaves that were found."""
    return list(map(_passage, passages_around(hits, reader, k, longest)))


def triplets_of(reader: IndexReader, passages: Sequence[range]) -> list[TripletSet | None]:
    """MAP(d, C_T) of each passage, given by its leaves; None where it has none. UsageError for an index without the view."""
    view: TripletReader = reader.view(VIEW)
    return view.sets(passages)


def map_triplets(passages: Sequence[RetrievedUnit], reader: IndexReader) -> list[RetrievedUnit]:
    """T_ret: the triplet sets of these passages, in their order; a passage without triplets has none."""
    sets = triplets_of(reader, [unit.leaves for unit in passages])
    return [
        RetrievedUnit(
            "triplets",
            "\n".join(filter(None, [heading_path(found.title, found.headings), found.text])),
            unit.score,
            unit.leaves,
            unit.candidate,
            found,
        )
        for unit, found in zip(passages, sets, strict=True)
        if found is not None
    ]


def _passage(run: LeafRun) -> RetrievedUnit:
    return RetrievedUnit("passage", _text(run.candidate), run.candidate.score, run.leaves, run.candidate)


def _text(candidate: Candidate) -> str:
    last = candidate.fragments[-1]
    path = heading_path(last.title, last.headings)
    return "\n".join(filter(None, [path, *(fragment.visible[2] for fragment in candidate.fragments)]))
