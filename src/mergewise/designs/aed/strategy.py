"""AED-RAG's selection, Eq. 10 and 11: the m most useful passages and triplet sets, and the joint utility of each kind.

    S = Top_m {S_phi(q, x) | x in zeta} = [s_(1), ..., s_(m)],  zeta in {D_ret, T_ret}          Eq. 10
    U = sum over j of beta^(j-1) s_(j)                                                        Eq. 11

S_phi is the utility predictor (`Models.predictor`): a reranker, optionally trained for utility. A passage is the outermost
section of at most `longest` tokens around a retrieved leaf. The paper's passages have a hundred words. T_ret are the triplet sets
of the retrieved passages, from the view `triplet`. Without this view, the softmax of Eq. 13 runs over the other streams only.

The paper has no token budget. Here passages get the tokens that the triplet sets leave, and at least `PASSAGES_SHARE` of the
budget. A set that does not fit is cut to its first triplets.

The mode `aed` (`ensemble`) decodes the streams. It also adds the model's own background, since a strategy reads only the index.

With `ensemble=false` no streams are fused, and one prompt has the m most useful candidates. `together` selects the candidates:

    better      each passage or its triplets, whichever is more useful: "w/o AED (full)". Without triplets this is an ordinary
                reranker; with the background among the candidates it is GainRAG (Jiang et al. 2025)
    triplets    the triplet sets only (Table 4, "triplet")
    both        the passages, each with its triplets (Table 4, "both")

With `by=search` the candidates keep the order of the search, as in standard RAG.

The preset `paper` differs from the defaults only in the background. The paper does not mention a background of "N/A", so the
preset reads and weights it like any other. By default such a background has no weight, because the model said that it knows
nothing.

Note on Eq. 11: the loss of Eq. 9 determines S_phi only up to a constant, but Eq. 11 depends on it. A constant c adds
c (1 + beta + ...) to the utility of m passages and c to the utility of a single passage. If the logits are negative, a second
passage lowers the utility. We follow the equation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
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
from mergewise.designs.design import Strategy
from mergewise.errors import UsageError
from mergewise.models.record import Models
from mergewise.protocols import CountsCut, IndexReader
from mergewise.ranges import MOST_ROWS, Range, check_fields
from mergewise.types import Context, Passage, Step, frozen

PASSAGES_SHARE = 0.6
"""Share of the budget reserved for passages, however long the triplet sets are."""


@frozen
class AED:
    k: Annotated[int, Range(1, MOST_ROWS // SEARCHED), "Passages to retrieve and score by utility"] = 10
    m: Annotated[int, Range(1, 100), "Most useful passages to keep"] = 2
    beta: Annotated[float, Range(0, 1000), "Weight of each further passage in the joint utility"] = 0.5
    longest: Annotated[int, Range(1, 10_000), "Maximum size of a passage, in tokens"] = PASSAGE_TOKENS
    by: Annotated[Literal["utility", "search"], "Order of passages and triplet sets: by utility or by search score"] = (
        "utility"
    )
    triplets: Annotated[bool, "Stream of triplet sets, if the index has them"] = True
    memory: Annotated[bool, "Stream of the model's own background"] = True
    na: Annotated[bool, "Background stream even if the model writes N/A"] = False
    ensemble: Annotated[
        bool, "Joint decoding of the streams; without it, one prompt with the m most useful candidates"
    ] = True
    together: Annotated[
        Literal["better", "triplets", "both"],
        "Candidates without the ensemble: the better of passage and triplets, only triplets, or both",
    ] = "better"

    def __post_init__(self) -> None:
        check_fields(self)
        if self.by == "search" and self.memory:
            raise UsageError("aed: by=search has no score for the model's own background", "add memory=false")
        if self.together != "better" and (self.ensemble or not self.triplets):
            raise UsageError(
                f"aed: together={self.together} needs triplets and a single prompt",
                "add ensemble=false and remove triplets=false",
            )


PRESETS = {"paper": {"na": True}}
"""All other defaults equal the paper's (section 4.1), if it states a value."""


def assemble(question: str, reader: IndexReader, budget: int, models: Models, parameters: AED) -> Context:
    trace: list[Step] = []
    retrieved = retrieve(question, reader, parameters.k, parameters.longest, trace)
    wanted = parameters.triplets and (reader.has(VIEW) or parameters.together == "triplets")
    units = [*retrieved, *(map_triplets(retrieved, reader) if wanted else ())]
    judged = _with_utilities(question, units, models, trace, parameters.by)
    if not parameters.ensemble:
        judged = _candidates_of_prompt(judged, parameters.together, parameters.m)
    passages, sets = (_top(judged, kind, parameters.m) for kind in ("passage", "triplets"))  # Eq. 10
    cost = sum(cost_of(one.triplets, models.count_tokens) for one in sets if one.triplets is not None)
    room = max(budget - cost, int(PASSAGES_SHARE * budget))
    candidates = [replace(one.candidate, score=one.score) for one in passages]
    context = pack(question, candidates, room, models, "score", trace)
    streams = [_passage_stream(passages, context.passages, parameters.beta)]
    if wanted:
        context, stream = _with_sets(replace(context, budget=budget), sets, models, parameters.beta)
        streams.append(stream)
        reason = f"{len(stream.passages)} triplet sets in a stream"
    else:
        lacking = "no triplets in this index" if parameters.triplets else "triplets disabled"
        reason = f"{lacking}: the other streams share their weight"
    p, together = parameters, 0 if parameters.ensemble else max(parameters.m, len(judged))
    ensemble = Ensemble(tuple(streams), p.memory, together, p.na)
    return replace(context, budget=budget, reading=ensemble, trace=(*context.trace, Step("streams", reason)))


def _with_utilities(
    question: str, units: Sequence[RetrievedUnit], models: Models, trace: list[Step], by: str
) -> list[RetrievedUnit]:
    """Attach to each unit its utility S_phi(q, u), and the logistic function of the utility as its score."""
    if models.predictor is None or by == "search":
        return [unit._replace(utility=unit.score) for unit in units]
    texts = [unit.text for unit in units]
    utilities = models.predictor.utilities(question, texts)
    counts = Counter(unit.kind for unit in units)
    sets = f" and {counts['triplets']} triplet sets" if counts["triplets"] else ""
    cut = models.predictor.count_cut(question, texts) if isinstance(models.predictor, CountsCut) else 0
    beginnings = f" ({cut} of them cut to its input length)" if cut else ""
    trace.append(Step("utility", f"{counts['passage']} passages{sets} by {models.predictor.spec}{beginnings}"))
    return [
        unit._replace(utility=value, score=1 / (1 + exp(-max(-500.0, min(500.0, value)))))
        for unit, value in zip(units, utilities, strict=True)
    ]


def _top(judged: Sequence[RetrievedUnit], kind: str, m: int) -> list[RetrievedUnit]:
    return sorted((one for one in judged if one.kind == kind), key=lambda one: -one.utility)[:m]


def _candidates_of_prompt(judged: Sequence[RetrievedUnit], together: str, m: int) -> list[RetrievedUnit]:
    """Return the m candidates of a single prompt. With "both", each passage's triplet set has the utility of its passage."""
    if together == "triplets":
        return _top(judged, "triplets", m)
    if together == "better":
        # Each passage or its triplets, whichever is more useful, the best first.
        best: dict[range, RetrievedUnit] = {}
        for one in judged:
            best[one.leaves] = max(best.get(one.leaves, one), one, key=lambda other: other.utility)
        return sorted(best.values(), key=lambda one: -one.utility)[:m]
    passages = _top(judged, "passage", m)
    sets = {one.leaves: one for one in judged if one.kind == "triplets"}
    behind = (sets[one.leaves]._replace(utility=one.utility, score=one.score) for one in passages if one.leaves in sets)
    return [*passages, *behind]


# -- passages


def _passage_stream(top: Sequence[RetrievedUnit], passages: Sequence[Passage], beta: float) -> Stream:
    """Return the stream of the candidates in the context, best first, each with the passages that hold its fragments."""
    places = ((one, _places(one.candidate.fragments, passages)) for one in top)
    # the last fragment must be in the context: those before it lead to it, and may be there for another candidate
    held = ((one, own) for one, own in places if _places(one.candidate.fragments[-1:], passages))
    return Stream(PASSAGES, tuple(StreamUnit(one.utility, own) for one, own in held), beta)


def _places(fragments: Sequence[Fragment], passages: Sequence[Passage]) -> tuple[int, ...]:
    """Return the numbers of the passages that overlap with these fragments."""
    return tuple(
        number
        for number, passage in enumerate(passages, 1)
        if any(part.span.overlaps(span) for part in fragments for span in passage.spans)
    )


# -- triplet sets


def _with_sets(context: Context, top: Sequence[RetrievedUnit], models: Models, beta: float) -> tuple[Context, Stream]:
    """Append the triplet sets that fit to the context, and return it with their stream."""
    left = context.budget - context.tokens
    taken: list[tuple[RetrievedUnit, TripletSet]] = []
    steps = list(context.trace)
    for one in top:
        found = None if one.triplets is None else first_triplets(one.triplets, left, models.count_tokens)
        if found is None:
            steps.append(
                Step("skip", f"triplet set does not fit into the {left} tokens left", one.spans, score=one.utility)
            )
            continue
        left -= cost_of(found, models.count_tokens)
        taken.append((one, found))
    sets = [(found, one.score) for one, found in taken]
    text, tokens, kept = render_with_sets(context.passages, sets, context.budget, models.count_tokens)
    shown = list(context.passages)
    units: list[StreamUnit] = []
    for (one, _), found in zip(taken, kept, strict=True):
        if found is None:
            steps.append(Step("drop", "over the budget once rendered", one.spans, score=one.utility))
            continue
        shown.append(passage_of(found, one.score))
        units.append(StreamUnit(one.utility, (len(shown),)))
        whole = len(found.triplets) == len(one.triplets.triplets) if one.triplets is not None else True
        count = f"{len(found.triplets)} triplets" if whole else f"the first {len(found.triplets)} triplets"
        steps.append(
            Step("triplets", f"{count} by {found.made}", found.spans, score=one.utility, note=TripletNote(found))
        )
    context = replace(context, text=text, tokens=tokens, passages=tuple(shown), trace=tuple(steps))
    return context, Stream(TRIPLETS, tuple(units), beta)


STRATEGIES = {
    "aed": Strategy(
        assemble,
        AED(),
        "the most useful passages and triplets, for separate streams (AED-RAG)",
        mode="aed",
        presets=PRESETS,
    )
}
