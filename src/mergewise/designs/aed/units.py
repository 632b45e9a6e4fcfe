"""The candidates of AED-RAG: the passages that a search brings (D_ret), and the triplet set of each (T_ret, Eq. 4 and 5).

A unit is what the utility predictor judges and what a stream reads. The third kind of Eq. 5, the passage that the model writes
itself, is no unit of the index: who has a model adds it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from mergewise.assemble.fragments import Candidate, Fragment
from mergewise.assemble.passages import search_passages
from mergewise.defaults import PASSAGE_TOKENS
from mergewise.designs.aed.triplets import TripletReader, TripletSet
from mergewise.protocols import IndexReader
from mergewise.text.keys import heading_path
from mergewise.types import Span, Step

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
    question: str, reader: IndexReader, k: int, longest: int = PASSAGE_TOKENS, trace: list[Step] | None = None
) -> list[RetrievedUnit]:
    """D_ret: the first `k` passages that hold a hit of the search, in the order of their best hits.

    A reranker has no say in it, as in Algorithm 2: it predicts the utilities of what was retrieved.
    """
    runs = search_passages(question, reader, k, longest, trace, by="search")
    return [
        RetrievedUnit(
            "passage",
            _below_headings(run.candidate.fragments[-1], run.candidate.texts),
            run.candidate.score,
            run.leaves,
            run.candidate,
        )
        for run in runs
    ]


def triplets_of(reader: IndexReader, passages: Sequence[range]) -> list[TripletSet | None]:
    """MAP(d, C_T) of each passage, given by its leaves; None where it has none. UsageError for an index without the view."""
    view: TripletReader = reader.view(VIEW)
    return view.sets(passages)


def map_triplets(passages: Sequence[RetrievedUnit], reader: IndexReader) -> list[RetrievedUnit]:
    """T_ret: the triplet sets of these passages, in their order; a passage without triplets has none."""
    sets = triplets_of(reader, [unit.leaves for unit in passages])
    return [
        replace(unit, kind="triplets", text=_below_headings(own, [own.text]), triplets=own)
        for unit, own in zip(passages, sets, strict=True)
        if own is not None
    ]


def _below_headings(headed: Fragment | TripletSet, texts: Sequence[str]) -> str:
    return "\n".join(filter(None, [heading_path(headed.title, headed.headings), *texts]))
