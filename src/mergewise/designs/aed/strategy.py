"""AED-RAG's selection, Eq. 10 and 11: the m most useful passages and triplet sets, and how useful those of a kind are together.

    S = Top_m {S_phi(q, x) | x in zeta} = [s_(1), ..., s_(m)],  zeta in {D_ret, T_ret}          Eq. 10
    U = sum over j of beta^(j-1) s_(j)                                                        Eq. 11

S_phi is the utility predictor of the question (`Models.predictor`): a reranker, trained for it or not. A passage is the outermost
section of at most `longest` tokens around a leaf that was found; the paper's passages have a hundred words. T_ret are the triplet
sets of the passages that were retrieved, where the index has the view `triplet`. Without it the triplets' weight is shared among
the streams that there are, which is what the softmax of Eq. 13 over these does.

The paper knows no budget. Here passages may take what the triplet sets leave of it, and `PASSAGES_SHARE` of it at least; a set
that does not fit keeps its first triplets.

The streams themselves are decoded by the mode `aed` (`generate/ensemble`). A strategy reads what an index holds, so the model's
own background joins there.

With `ensemble=false` nothing is fused, and m are read in one prompt. `together` says of what:

    better      of each passage it or its triplets, whichever is more useful, and the most useful of these: "w/o AED (full)";
                without triplets an ordinary reranker, and with the background among the candidates GainRAG (Jiang et al. 2025)
    triplets    the most useful triplet sets alone (Table 4, "triplet")
    both        the most useful passages, each with its triplets behind it (Table 4, "both")

With `by=search` it is the search that orders them, as in standard RAG.

The preset `paper` differs from the defaults in the background alone: the paper says nothing of one that is "N/A", so that it is
read and weighed like any other. Ours has no weight: the model said that it knows nothing.

Note on Eq. 11: the loss of Eq. 9 leaves S_phi free up to a constant, but Eq. 11 is not. A constant c adds c (1 + beta + ...)
to the utility of m passages and c to that of one, and with logits below zero a second passage takes from the utility. We follow
the equation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp
from typing import Annotated, Literal

from mergewise.assemble.budget import pack
from mergewise.assemble.fragments import Fragment
from mergewise.assemble.passages import SEARCHED
from mergewise.defaults import PASSAGE_TOKENS
from mergewise.designs.aed.streams import PASSAGES, TRIPLETS, Ensemble, Stream, StreamUnit
from mergewise.designs.aed.triplet_passages import TripletNote, cost_of, first_triplets, passage_of, render_with_sets
from mergewise.designs.aed.triplets import TripletSet
from mergewise.designs.aed.units import VIEW, RetrievedUnit, map_triplets, retrieve
from mergewise.errors import UsageError
from mergewise.models.record import Models
from mergewise.protocols import CountsCut, IndexReader
from mergewise.ranges import MOST_ROWS, Range, check_fields
from mergewise.store.views import Presets
from mergewise.types import Context, Passage, Step

PASSAGES_SHARE = 0.6  # of the budget, which passages may fill however long the triplet sets are


@dataclass(frozen=True, slots=True)
class AED:
    k: Annotated[int, Range(1, MOST_ROWS // SEARCHED), "passages retrieved, whose utility is predicted"] = 10
    m: Annotated[int, Range(1, 100), "passages kept, the most useful ones"] = 2
    beta: Annotated[float, Range(0, 1000), "what the next passage adds to the utility of those before it"] = 0.5
    longest: Annotated[int, Range(1, 10_000), "tokens of a section up to which it is one passage"] = PASSAGE_TOKENS
    by: Annotated[
        Literal["utility", "search"], "what orders passages and triplet sets: their utilities, or the search"
    ] = "utility"
    triplets: Annotated[bool, "whether triplet sets are a stream, in an index that has them"] = True
    memory: Annotated[bool, "whether what the model knows itself is a stream of its own"] = True
    na: Annotated[bool, "whether it is one also where the model says N/A"] = False
    ensemble: Annotated[
        bool, "whether streams are decoded together; if not, the m most useful are read in one prompt"
    ] = True
    together: Annotated[
        Literal["better", "triplets", "both"],
        "without the ensemble, what is read: of each passage it or its triplets, the triplets alone, or both",
    ] = "better"
    temperature: Annotated[float, Range(0, 10), "0 takes the best token, above it tokens are drawn"] = 0.0
    seed: Annotated[int, Range(0, 2**32), "what tokens are drawn by"] = 0

    def __post_init__(self) -> None:
        check_fields(self)
        if self.by == "search" and self.memory:
            raise UsageError("aed: the search has no score for what the model knows itself", "add memory=false")
        if self.together != "better" and (self.ensemble or not self.triplets):
            raise UsageError(
                f"aed: together={self.together} reads triplets in one prompt",
                "add ensemble=false, without triplets=false",
            )


PRESETS: Presets = {"paper": {"na": True}}
"""All other defaults are the paper's (section 4.1), or what it has no figure for."""


@dataclass(frozen=True, slots=True)
class _UsefulUnit:
    """A unit that was retrieved, with its utility S_phi(q, u), and the score by which passages are ordered."""

    unit: RetrievedUnit
    utility: float
    score: float


def assemble(question: str, reader: IndexReader, budget: int, models: Models, parameters: AED) -> Context:
    trace: list[Step] = []
    retrieved = retrieve(question, reader, parameters.k, parameters.longest, trace)
    wanted = parameters.triplets and (reader.has(VIEW) or parameters.together == "triplets")
    units = [*retrieved, *(map_triplets(retrieved, reader) if wanted else ())]
    judged = _with_utilities(question, units, models, trace, parameters.by)
    if not parameters.ensemble:
        judged = _in_one_prompt(judged, parameters.together, parameters.m)
    passages, sets = (_top(judged, kind, parameters.m) for kind in ("passage", "triplets"))  # Eq. 10
    room = max(budget - sum(_cost(one, models) for one in sets), int(PASSAGES_SHARE * budget))
    candidates = [replace(one.unit.candidate, score=one.score) for one in passages]
    context = pack(question, candidates, room, models, "score", trace)
    streams = [_passage_stream(passages, context.passages, parameters.beta)]
    if wanted:
        context, stream = _with_sets(replace(context, budget=budget), sets, models, parameters.beta)
        streams.append(stream)
        reason = f"{len(stream.passages)} triplet sets are a stream"
    else:
        lacking = "no triplets in this index" if parameters.triplets else "no triplets are wanted"
        reason = f"{lacking}: their weight is shared among the other streams"
    p, together = parameters, 0 if parameters.ensemble else max(parameters.m, len(judged))
    ensemble = Ensemble(tuple(streams), p.memory, p.temperature, p.seed, together, p.na)
    return replace(context, budget=budget, reading=ensemble, trace=(*context.trace, Step("streams", reason)))


def _with_utilities(
    question: str, units: Sequence[RetrievedUnit], models: Models, trace: list[Step], by: str
) -> list[_UsefulUnit]:
    """The units with S_phi(q, u); as scores, by which they are ordered later, with the logistic function of it."""
    if models.predictor is None or by == "search":
        return [_UsefulUnit(unit, unit.score, unit.score) for unit in units]
    texts = [unit.text for unit in units]
    utilities = models.predictor.utilities(question, texts)
    counts = Counter(unit.kind for unit in units)
    sets = f" and {counts['triplets']} triplet sets" if counts["triplets"] else ""
    cut = models.predictor.count_cut(question, texts) if isinstance(models.predictor, CountsCut) else 0
    beginnings = f", which reads no more than the beginning of {cut}" if cut else ""
    trace.append(Step("utility", f"{counts['passage']} passages{sets} by {models.predictor.spec}{beginnings}"))
    return [_UsefulUnit(unit, value, _share(value)) for unit, value in zip(units, utilities, strict=True)]


def _top(judged: Sequence[_UsefulUnit], kind: str, m: int) -> list[_UsefulUnit]:
    return sorted((one for one in judged if one.unit.kind == kind), key=lambda one: -one.utility)[:m]


def _in_one_prompt(judged: Sequence[_UsefulUnit], together: str, m: int) -> list[_UsefulUnit]:
    """The m that are read in one prompt; with "both" their triplet sets, too, which stand where their passages do."""
    if together == "triplets":
        return _top(judged, "triplets", m)
    if together == "better":
        return _more_useful(judged)[:m]
    passages = _top(judged, "passage", m)
    sets = {one.unit.leaves: one.unit for one in judged if one.unit.kind == "triplets"}
    behind = [replace(one, unit=sets[one.unit.leaves]) for one in passages if one.unit.leaves in sets]
    return [*passages, *behind]


def _more_useful(judged: Sequence[_UsefulUnit]) -> list[_UsefulUnit]:
    """Of each passage it or its triplets, whichever is more useful; the best first."""
    best: dict[range, _UsefulUnit] = {}
    for one in judged:
        best[one.unit.leaves] = max(best.get(one.unit.leaves, one), one, key=lambda other: other.utility)
    return sorted(best.values(), key=lambda one: -one.utility)


def _share(utility: float) -> float:
    return 1 / (1 + exp(-max(-500.0, min(500.0, utility))))


# -- passages


def _passage_stream(top: Sequence[_UsefulUnit], passages: Sequence[Passage], beta: float) -> Stream:
    """The candidates that have a place in the context, best first, each with the passages that hold it or what leads to it."""
    places = ((one, _places(one.unit.candidate.fragments, passages)) for one in top)
    # a lead may stand there for another candidate
    held = ((one, own) for one, own in places if _places(one.unit.candidate.fragments[-1:], passages))
    return Stream(PASSAGES, tuple(StreamUnit(one.utility, own) for one, own in held), beta)


def _places(fragments: Sequence[Fragment], passages: Sequence[Passage]) -> tuple[int, ...]:
    """The numbers of the passages that share text with these fragments."""
    return tuple(
        number
        for number, passage in enumerate(passages, 1)
        if any(part.span.overlaps(span) for part in fragments for span in passage.spans)
    )


# -- triplet sets


def _cost(one: _UsefulUnit, models: Models) -> int:
    return 0 if one.unit.triplets is None else cost_of(one.unit.triplets, models.count_tokens)


def _with_sets(context: Context, top: Sequence[_UsefulUnit], models: Models, beta: float) -> tuple[Context, Stream]:
    """The context with the triplet sets behind its passages, as far as they fit, and their stream."""
    left = context.budget - context.tokens
    taken: list[tuple[_UsefulUnit, TripletSet]] = []
    steps = list(context.trace)
    for one in top:
        found = None if one.unit.triplets is None else first_triplets(one.unit.triplets, left, models.count_tokens)
        if found is None:
            steps.append(Step("skip", f"a triplet set, {left} tokens left", one.unit.spans, score=one.utility))
            continue
        left -= cost_of(found, models.count_tokens)
        taken.append((one, found))
    sets = [(found, one.score) for one, found in taken]
    text, tokens, kept = render_with_sets(context.passages, sets, context.budget, models.count_tokens)
    shown = list(context.passages)
    units: list[StreamUnit] = []
    for (one, _), found in zip(taken, kept, strict=True):
        if found is None:
            steps.append(Step("drop", "over the budget once rendered", one.unit.spans, score=one.utility))
            continue
        shown.append(passage_of(found, one.score))
        units.append(StreamUnit(one.utility, (len(shown),)))
        steps.append(_triplet_step(found, one))
    context = replace(context, text=text, tokens=tokens, passages=tuple(shown), trace=tuple(steps))
    return context, Stream(TRIPLETS, tuple(units), beta)


def _triplet_step(found: TripletSet, one: _UsefulUnit) -> Step:
    whole = len(found.triplets) == len(one.unit.triplets.triplets) if one.unit.triplets is not None else True
    count = f"{len(found.triplets)} triplets" if whole else f"the first {len(found.triplets)} triplets"
    reason = f"{count} made by {found.made}"
    return Step("triplets", reason, found.spans, score=one.utility, note=TripletNote(found))
