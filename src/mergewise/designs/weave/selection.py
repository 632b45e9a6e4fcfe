"""weave's selection among its candidates: the objective and the trace."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from functools import partial

import numpy as np

from mergewise.assemble.fragments import SectionKey
from mergewise.assemble.sentences import SentenceInLeaf, next_start, section_of
from mergewise.designs.weave.completeness import worthwhile
from mergewise.designs.weave.evidence import Candidates, SentencePool, by_score
from mergewise.designs.weave.given import relevance_given
from mergewise.designs.weave.parameters import Weave
from mergewise.designs.weave.place import records_of, relevance_in_place
from mergewise.designs.weave.submodular import Objective, maximise
from mergewise.models.record import Models
from mergewise.protocols import FloatArray
from mergewise.text.blocks import SEPARATOR, heading_parts, opens_with, path_levels
from mergewise.tracing import span
from mergewise.types import GAP, Cause, Step

CONSIDERED = 100  # the most relevant candidates, from which the selection is made
LENGTH_POWER = 0.4  # a sentence's worth is its relevance times its tokens to this power
ALIKE = 0.95  # cosine above which two sentences begin to count as near-duplicates
HALF = 0.5  # share of a term that a sentence with it covers; half of that if the question asks for a list
LEFT_OUT = 8  # the best sentences left out, which the trace lists
TILE = 6  # rows of a matrix product that is too small for BLAS to wake its threads, which would spin
SURE = 0.05  # relevance from which a sentence fully covers its terms


@span("mergewise.select")
def select(
    candidates: Candidates,
    budget: int,
    models: Models,
    parameters: Weave,
    trace: list[Step],
    pointed: Sequence[int] = (),
) -> tuple[list[int], dict[str, int]]:
    """Return the selected candidates in order of selection, and the tokens of their texts and heading lines.

    With the parameter `first`, the candidates that a model `pointed` at are selected first, in its order, as far as they fit.
    """
    first = pointed if parameters.first else ()
    pool, relevance = candidates.pool, relevance_in_place(candidates)
    best = by_score(relevance)[:CONSIDERED]
    relevance = relevance_given(candidates, relevance, best)
    best.sort(key=lambda i: -relevance[i])
    needed = needed_by(pool, list(dict.fromkeys([*best, *first])), parameters.previous)
    considered = list(needed)
    relevance[[i for i in considered if pool.says_nothing(i)]] = 0  # it comes only with what needs it
    at = {i: position for position, i in enumerate(considered)}
    bundles = [tuple([at[i] for i in bundle]) for bundle in needed.values()]
    needing = frozenset(position for position, bundle in enumerate(bundles) if len(bundle) > 1)
    prices = Prices([pool.sentences[i] for i in considered], models, needing)
    objective = objective_of(candidates, considered, relevance[considered], prices.tokens, parameters)
    ahead = [at[i] for i in first if i in at]
    # A document has no advantage because its title is shown already.
    whole_cost = partial(prices.cost, shared=False)
    selection = maximise(objective, bundles, prices.cost, budget, prices.cheaper, ahead, whole_cost)
    chosen = [considered[position] for position in selection.order]
    steps = len(selection.sizes)
    if parameters.price and steps:
        steps = worthwhile(candidates, chosen, selection, parameters.price / budget)
        chosen = chosen[: selection.sizes[steps - 1]]
    companions = {
        other for i, bundle in needed.items() for other in bundle if other != i and relevance[other] < relevance[i]
    }
    _trace_choices(candidates, chosen, companions, steps < len(selection.sizes), trace, pointed)
    return chosen, prices.counts


def needed_by(pool: SentencePool, best: Sequence[int], previous: bool) -> dict[int, tuple[int, ...]]:
    """Map these candidates, and every candidate that they need in turn, to the candidates that must be selected with them.

    Candidates with a missing need are left out.
    """
    needed: dict[int, tuple[int, ...] | None] = {}
    waiting = list(best)
    for candidate in waiting:
        if candidate not in needed:
            needed[candidate] = pool.bundle(candidate, previous=previous)
            waiting.extend(needed[candidate] or ())
    known = {candidate: bundle for candidate, bundle in needed.items() if bundle is not None}
    while lacking := [candidate for candidate, bundle in known.items() if not all(map(known.__contains__, bundle))]:
        for candidate in lacking:
            del known[candidate]
    return known


def objective_of(
    candidates: Candidates, considered: Sequence[int], relevance: FloatArray, tokens: FloatArray, parameters: Weave
) -> Objective:
    """Return the objective: relevance by length, near-duplicates, and the question's terms and named things as aspects."""
    pool, asked = candidates.pool, candidates.pool.asked
    count = len(considered)
    worth = (relevance * np.maximum(tokens, 1) ** LENGTH_POWER).astype(np.float32)
    # 1 on the diagonal, else rising from 0 at a cosine of ALIKE
    similarity: FloatArray = np.eye(count, dtype=np.float32)
    if parameters.redundancy and (known := pool.vectors()) is not None:
        vectors = known[list(considered)]
        cosines = np.concatenate([vectors[i : i + TILE] @ vectors.T for i in range(0, count, TILE)])
        alike = 1 - (1 - ALIKE) / pool.cosine_scale()
        similarity = np.clip((cosines - alike) / (1 - alike), 0, 1)
        np.fill_diagonal(similarity, 1)
    # A candidate covers no aspect to the extent that a more relevant one is its near-duplicate.
    new = 1 - np.triu(similarity, 1).max(axis=0)
    half = HALF / 2 if asked.kind == "list" else HALF
    sure = half * new * np.minimum(1, relevance / SURE)
    rows, weights = [], []
    held = [pool.terms[i] for i in considered]
    for term in sorted(asked.terms):
        rows.append(sure * np.array([term in terms for terms in held]))
        weights.append(pool.share([term]))
    sections = [pool.sentences[i].section for i in considered] if asked.kind == "comparison" else []
    named = [section for section in candidates.signals.named if section in sections]
    for section in named:
        rows.append(relevance * new * np.array([section == other for other in sections]))
        weights.append(1 / len(named))
    most = float(np.sort(worth)[::-1][:10].sum())
    aspects = np.array(rows, np.float32).reshape(len(rows), count)
    return Objective(worth, similarity, aspects, np.array(weights, np.float32) * np.float32(parameters.coverage * most))


def _trace_choices(
    candidates: Candidates,
    chosen: Sequence[int],
    companions: Collection[int],
    stopped: bool,
    trace: list[Step],
    pointed: Sequence[int],
) -> None:
    pool, signals = candidates.pool, candidates.signals
    records = records_of(candidates)
    place = {i: f"the model pointed at it, number {n} of {len(pointed)}; " for n, i in enumerate(pointed, 1)}

    taken = set(chosen)

    def step(i: int) -> Step:
        # Why it was a candidate: a name in the question, the chain that led to it, the terms that it covers.
        sentence, reasons, cause = pool.sentences[i], [], Cause.TAKE
        if links := signals.links.get(sentence.section):
            cause = Cause.HOP
            reasons.append(f"a hop by “{max(links, key=lambda link: link.strength).name}”")
        if sentence.section in signals.named:
            cause = Cause.NAMED
            reasons.insert(0, f"the question names “{signals.named[sentence.section]}”")
        if terms := pool.terms[i]:
            reasons.append("covers: " + ", ".join(pool.asked.telling.spellings(terms)))
        if sentence.section in records:
            reasons.append("from a change log, a test or the like, which counts less")
        why = place.get(i, "") + ("; ".join(reasons) or "found by the search")
        if i not in taken:
            cause = Cause.LEFT
        elif i in companions:
            why = f"a neighbour that the evidence needs; {why}"
            cause = Cause.NEIGHBOUR if cause is Cause.TAKE else cause
        action = "take" if i in taken else "left"
        return Step(action, why, (sentence.span,), score=float(candidates.relevance[i]), cause=cause)

    trace.extend(map(step, chosen))
    out = [i for i in by_score(candidates.relevance) if i not in taken]
    if stopped:
        spans = tuple(pool.sentences[i].span for i in out[:LEFT_OUT])
        trace.append(Step("stop", f"another token gains little; {len(out)} sentences left out", spans))
    order = {i: n for n, i in enumerate(pointed)}
    out.sort(key=lambda i: order.get(i, len(order)))  # pointed sentences that did not fit come first
    trace.extend(map(step, out[:LEFT_OUT]))


# -- costs


class Prices:
    """Token costs of sentences in a context: their text, marks for gaps, and their heading lines.

    A heading line costs its number and marks once a section, and each of its levels once a document. The first sentence of a
    section may begin with the innermost level, and then shows it for the whole section.

    Sections and levels are numbered. Their keys are nested tuples, which Python hashes again in each look-up.
    """

    def __init__(
        self, sentences: Sequence[SentenceInLeaf], models: Models, needing: frozenset[int] = frozenset()
    ) -> None:
        """Count tokens. `needing` are the positions of sentences that need others in the context."""
        self._needing = needing
        mates: dict[SectionKey, list[int]] = {}
        for at, (leaf, _) in enumerate(sentences):
            mates.setdefault(section_of(leaf), []).append(at)
        starts = [sentence.sentence.start for sentence in sentences]
        own_texts = [sentence.text for sentence in sentences]
        # For each sentence, its section and the levels above it, innermost last, and the sentence that shows the last one.
        self._above: list[tuple[int, ...]] = [()] * len(sentences)
        self._opener: list[int | None] = [None] * len(sentences)
        self._mates: dict[int, list[int]] = {}
        numbers: dict[Hashable, int] = {}
        shown: dict[int, str] = {}
        for (doc_id, headings), members in mates.items():
            levels = path_levels(sentences[members[0]].leaf.title, headings)
            keys: list[Hashable] = [(doc_id, headings), *((doc_id, i, levels[: i + 1]) for i in range(len(levels)))]
            above = tuple([numbers.setdefault(key, len(numbers)) for key in keys])
            shown |= zip(above, heading_parts(levels), strict=True)
            first = min(members, key=starts.__getitem__)
            opener = first if levels and opens_with(own_texts[first], levels[-1]) else None
            for at in members:
                self._above[at], self._opener[at] = above, opener
            self._mates[above[0]] = members
        ends = [next_start(sentence.leaf, sentence.number) for sentence in sentences]
        texts = [
            leaf.text[start - leaf.start : end - leaf.start].strip()
            for (leaf, _), start, end in zip(sentences, starts, ends, strict=True)
        ]
        self.counts = (
            {text: s.tokens for text, s in zip(own_texts, sentences, strict=True)} if models.stored_tokens else {}
        )
        fresh = [text for text in dict.fromkeys([GAP, SEPARATOR, *shown.values(), *texts]) if text not in self.counts]
        self.counts |= zip(fresh, models.count_tokens(fresh), strict=True)
        self._gap, self._separator = self.counts[GAP], self.counts[SEPARATOR]
        self._tokens = [self.counts[text] for text in texts]
        self.tokens = np.array(self._tokens, np.float32)
        self._costs = {key: self.counts[text] for key, text in shown.items()}
        self._alone = [
            n + sum([self._costs[k] for k in self._heading_keys(at, frozenset())]) for at, n in enumerate(self._tokens)
        ]
        # For each sentence, those of its section that it touches.
        self._neighbours: list[list[int]] = [[] for _ in sentences]
        by_start = {(above[0], start): at for at, (above, start) in enumerate(zip(self._above, starts, strict=True))}
        for at, end in enumerate(ends):
            if (following := by_start.get((self._above[at][0], end))) is not None:
                self._neighbours[at].append(following)
                self._neighbours[following].append(at)
        # The selection of the last call, and what its heading lines show.
        self._taken: tuple[frozenset[int], set[int]] = frozenset(), set()

    def cost(self, new: Sequence[int], taken: frozenset[int], *, shared: bool = True) -> int:
        """Return the tokens that the sentences `new`, in this order, add to a context of those `taken`.

        Without `shared`, a new section pays all levels of its line, also those that another section of the document shows.
        """
        if not taken and len(new) == 1:
            return self._alone[new[0]]
        held, cost = self._shown_headings(taken), 0
        for at in new:
            joints = len(taken.intersection(self._neighbours[at]))
            fresh: Sequence[int] = ()
            if self._above[at][0] in held:
                # the section shows all its levels already
                cost += self._tokens[at] + self._gap * (1 - joints) + self._separator * joints
            else:
                fresh = [key for key in self._heading_keys(at, taken) if not shared or key not in held]
                cost += self._tokens[at] + sum([self._costs[key] for key in fresh])
                cost += self._separator * (joints + bool(taken)) - self._gap * joints
            if len(new) > 1:
                held, taken = held.union(fresh), taken | {at}
        return cost

    def _shown_headings(self, taken: frozenset[int]) -> set[int]:
        """Return what the heading lines of a selection show."""
        if taken is not self._taken[0]:
            self._taken = taken, {key for at in taken for key in self._heading_keys(at, taken)}
        return self._taken[1]

    def _heading_keys(self, at: int, taken: frozenset[int]) -> tuple[int, ...]:
        """Return what a heading line above the sentence shows: its number, and its levels."""
        opener, above = self._opener[at], self._above[at]
        return above[:-1] if opener is not None and (opener == at or opener in taken) else above

    def cheaper(self, new: Sequence[int], taken: frozenset[int]) -> set[int]:
        """Return the sentences whose cost may fall when those `new` join the `taken` ones.

        The first sentence of a section pays the heading line for all others. A later one only joins its neighbours.
        """
        held, found = self._shown_headings(taken), set[int]()
        for at in new:
            section = self._above[at][0]
            mates = self._mates[section]
            found.update(mates if section not in held else self._neighbours[at])
            found.update(self._needing.intersection(mates))
        return found
