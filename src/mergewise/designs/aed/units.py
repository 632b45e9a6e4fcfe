"""The candidates of AED-RAG: the retrieved passages (D_ret), and the triplet set of each (T_ret, Eq. 4 and 5).

The utility predictor scores units, and streams read them. The third kind of Eq. 5, the background that the model writes itself,
is not in the index. The mode adds it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from mergewise.assemble.fragments import Candidate, Fragment
from mergewise.assemble.passages import search_passages
from mergewise.defaults import PASSAGE_TOKENS
from mergewise.designs.aed.triplets import TripletReader, TripletSet
from mergewise.protocols import IndexReader
from mergewise.text.sections import heading_path
from mergewise.types import Span, Step

VIEW = "triplet"


class RetrievedUnit(NamedTuple):
    """A passage or its triplet set, with the score of the passage's best hit and the leaves of the passage.

    `text` is the input of a predictor or a model: a line of title and headings, then the passage or the triplets.
    """

    kind: Literal["passage", "triplets"]
    text: str
    score: float
    leaves: range
    candidate: Candidate
    triplets: TripletSet | None = None
    utility: float = 0.0  # S_phi(q, u)

    @property
    def spans(self) -> tuple[Span, ...]:
        """Spans of the passage, or of the source sentences of the triplets."""
        if self.triplets is not None:
            return self.triplets.spans
        return tuple(fragment.span for fragment in self.candidate.fragments)


def retrieve(
    question: str, reader: IndexReader, k: int, longest: int = PASSAGE_TOKENS, trace: list[Step] | None = None
) -> list[RetrievedUnit]:
    """Return D_ret: the first `k` passages with a hit of the search, in the order of their best hits.

    As in Algorithm 2, a reranker does not change the search. It predicts the utilities of the retrieved passages later.
    """
    return [
        RetrievedUnit(
            "passage",
            _below_headings(run.candidate.fragments[-1], run.candidate.texts),
            run.candidate.score,
            run.leaves,
            run.candidate,
        )
        for run in search_passages(question, reader, k, longest, trace, by="search")
    ]


def map_triplets(passages: Sequence[RetrievedUnit], reader: IndexReader) -> list[RetrievedUnit]:
    """Return T_ret: the triplet sets of these passages, in their order. A passage without triplets is skipped.

    Raises:
        UsageError: if the index lacks the view `triplet`.
    """
    view: TripletReader = reader.view(VIEW)
    return [
        unit._replace(kind="triplets", text=_below_headings(own, [own.text]), triplets=own)
        for unit, own in zip(passages, view.sets([unit.leaves for unit in passages]), strict=True)
        if own is not None
    ]


def _below_headings(headed: Fragment | TripletSet, texts: Sequence[str]) -> str:
    return "\n".join(filter(None, [heading_path(headed.title, headed.headings), *texts]))
