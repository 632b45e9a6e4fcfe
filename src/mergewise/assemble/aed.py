"""AED-RAG's selection, Eq. 10 and 11: the m most useful passages, and how useful they are together.

    S = Top_m {S_phi(q, x) | x in D_ret} = [s_(1), ..., s_(m)]          Eq. 10
    U = sum over j of beta^(j-1) s_(j)                                  Eq. 11

S_phi is the utility predictor of the question (`Models.predictor`): a reranker, trained for it or not. A passage is the outermost
section of at most `longest` tokens around a leaf that was found; the paper's passages have a hundred words.

The streams themselves are decoded by the mode `aed` (`generate/ensemble`). A strategy reads what an index holds, so the model's
own background joins there. The index has no view of triplets yet: their weight is shared among the streams that there are, which
is what the softmax of Eq. 13 over these does.

Note on Eq. 11: the loss of Eq. 9 leaves S_phi free up to a constant, but Eq. 11 is not. A constant c adds c (1 + beta + ...)
to the utility of m passages and c to that of one, and with logits below zero a second passage takes from the utility. We follow
the equation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp
from typing import Annotated

from mergewise.assemble.shared.budget import Models, pack
from mergewise.assemble.shared.fragments import Candidate
from mergewise.assemble.shared.streams import utility
from mergewise.assemble.shared.units import SEARCHED, Unit, retrieve
from mergewise.index.triplets.passages import LONGEST
from mergewise.protocols import IndexReader
from mergewise.ranges import MOST_ROWS, Range, check_fields
from mergewise.types import Context, Ensemble, Passage, Step, Stream

PASSAGES = "passages"


@dataclass(frozen=True, slots=True)
class AED:
    k: Annotated[int, Range(1, MOST_ROWS // SEARCHED), "passages retrieved, whose utility is predicted"] = 10
    m: Annotated[int, Range(1, 100), "passages kept, the most useful ones"] = 2
    beta: Annotated[float, Range(0, 1000), "what the next passage adds to the utility of those before it"] = 0.5
    longest: Annotated[int, Range(1, 10_000), "tokens of a section up to which it is one passage"] = LONGEST
    memory: Annotated[bool, "whether what the model knows itself is a stream of its own"] = True
    ensemble: Annotated[
        bool, "whether streams are decoded together; if not, the m most useful are read in one prompt"
    ] = True
    temperature: Annotated[float, Range(0, 10), "0 takes the best token, above it tokens are drawn"] = 0.0
    seed: Annotated[int, Range(0, 2**32), "what tokens are drawn by"] = 0

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, slots=True)
class _Judged:
    """A passage that was retrieved, with its utility."""

    candidate: Candidate
    utility: float


def assemble(question: str, reader: IndexReader, budget: int, models: Models, parameters: AED) -> Context:
    trace: list[Step] = []
    retrieved = retrieve(question, reader, parameters.k, parameters.longest, trace)
    judged = _judged(question, retrieved, models, trace)
    top = sorted(judged, key=lambda one: -one.utility)[: parameters.m]  # Eq. 10
    context = pack(question, [one.candidate for one in top], budget, models, "score", trace)
    stream = _stream(top, context.passages, parameters.beta)
    told = Step("streams", "no triplets in this index: their weight is shared among the other streams")
    together = 0 if parameters.ensemble else parameters.m
    ensemble = Ensemble(
        (stream,), parameters.memory, parameters.temperature, parameters.seed, together, parameters.beta
    )
    return replace(context, ensemble=ensemble, trace=(*context.trace, told))


def _judged(question: str, retrieved: Sequence[Unit], models: Models, trace: list[Step]) -> list[_Judged]:
    """The passages with S_phi(q, d); as scores, by which they are ordered later, with the logistic function of it."""
    if models.predictor is None:
        return [_Judged(unit.candidate, unit.score) for unit in retrieved]
    utilities = models.predictor.utilities(question, [unit.text for unit in retrieved])
    trace.append(Step("utility", f"{len(retrieved)} passages by {models.predictor.spec}"))
    return [
        _Judged(replace(unit.candidate, score=_share(value)), value)
        for unit, value in zip(retrieved, utilities, strict=True)
    ]


def _share(utility: float) -> float:
    return 1 / (1 + exp(-max(-500.0, min(500.0, utility))))


def _stream(top: Sequence[_Judged], passages: Sequence[Passage], beta: float) -> Stream:
    """The passages of the context, best first, and the utilities of the candidates that have a place in it."""
    numbers: list[int] = []
    scores: list[float] = []
    for one in top:
        own = [number for number, passage in enumerate(passages, 1) if _holds(one.candidate, passage)]
        if own:
            numbers += [number for number in own if number not in numbers]
            scores.append(one.utility)
    return Stream(PASSAGES, tuple(numbers), tuple(scores), utility(scores, beta))


def _holds(candidate: Candidate, passage: Passage) -> bool:
    return any(
        part.doc_id == span.doc_id and part.start <= span.start and span.end <= part.end
        for part in candidate.fragments
        for span in passage.spans
    )
