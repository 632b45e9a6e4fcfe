"""weave: the densest context for a budget, without a model call.

MergeRAG's Eq. 1 (the most information about the question per token) is approximated there by merging chunks with a
model. Here a tractable form of it is solved directly over verbatim sentences: candidates come from hybrid search and
from bridge hops, each with the probability that it is needed, and a monotone submodular objective is maximised under
the budget (`submodular`). Deterministic, milliseconds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mergewise.assemble.shared.budget import Models, fill
from mergewise.assemble.shared.fragments import Candidate
from mergewise.assemble.shared.render import heading_line
from mergewise.assemble.weave.evidence import Asked, Item, Link, PlaceKey, Pool
from mergewise.assemble.weave.hops import Follower, by_place, leaves_of, named_places, strongest
from mergewise.assemble.weave.submodular import Objective, Selection, maximise
from mergewise.errors import UsageError
from mergewise.protocols import FloatArray, IndexReader
from mergewise.text.terms import spelled_terms
from mergewise.types import GAP, ChunkBounds, Context, LeafSentences, SliceHit, Step

MOST_HOPS = 3
POOL = 100  # the most relevant candidates, among which is selected
LENGTH_POWER = 0.4  # a sentence's worth is its relevance times its tokens to this power
ALIKE = 0.95  # cosine above which two sentences begin to say the same
HALF = 0.5  # what a sentence covers of a term that it holds; half of that where the question wants a list
LEFT_OUT = 8  # sentences that are named where selection stopped by itself
SURE = 0.05  # relevance from which a sentence covers the terms that it holds in full


@dataclass(frozen=True, slots=True)
class Weave:
    """`k`: leaves from the search. `slices`: slices from the search, where the index has them.

    `hops`: how often evidence leads on (0 to 3). `beam`: candidates that lead on. `coverage`: weight of the question's
    aspects against relevance. `redundancy`: whether near-duplicates gain nothing. `lean`: whether a sentence that leans
    on the one before brings it along. `stop`: share of the first gain per token below which selection ends; 0 fills the
    budget.
    """

    k: int = 60
    slices: int = 0
    hops: int = 2
    beam: int = 12
    coverage: float = 0.2
    redundancy: bool = True
    lean: bool = True
    stop: float = 0.0


def assemble(question: str, reader: IndexReader, budget: int, models: Models, parameters: Weave, name: str) -> Context:
    if parameters.hops > MOST_HOPS:
        raise UsageError(f"weave: hops cannot be {parameters.hops}", f"0 to {MOST_HOPS}")
    trace: list[Step] = []
    pool = gather(question, reader, parameters, trace)
    if not pool.items:
        return fill(question, name, [], budget, models, "document", trace)
    chosen, counts = select(pool, budget, models, parameters, trace)
    candidates = [Candidate((pool.items[i].fragment,), float(pool.relevance[i])) for i in chosen]
    return fill(question, name, candidates, budget, models, "document", trace, counts)


def gather(question: str, reader: IndexReader, parameters: Weave, trace: list[Step]) -> Pool:
    """Candidates with their relevance: from the search, from what the question names, and from `hops` hops."""
    scores = dict(reader.rank(question, parameters.k))
    pool = Pool(Asked.of(question, reader.question_vector(question)), scores)
    asked_names, known = named_places(pool, reader)
    named = [place for mention in asked_names for place in known[mention.name]]
    wanted = [*scores, *leaves_of(named, scores)]
    sliced = slices_found(question, reader, parameters)
    around = [leaf for place, _ in sliced for leaf in place.leaves]
    found = reader.sentences(list(dict.fromkeys([*wanted, *around])))
    for _, hit in sliced:
        raise_scores(scores, hit, found)
    pool.add(found[leaf] for leaf in dict.fromkeys([*wanted, *scores]) if leaf in found)
    pool.named = {
        pool.leaves[place.first_leaf]: mention.name
        for mention in asked_names
        for place in known[mention.name]
        if place.first_leaf in pool.leaves
    }
    pool.judge()
    trace.append(Step("search", f"{len(scores)} leaves, {len(pool.items)} sentences"))
    leant_on = leaves_leant_on(pool, parameters.beam) if parameters.lean else []
    follower = Follower(pool, reader, asked_names, parameters.beam)
    for hop in range(1, parameters.hops + 1):
        reached = follower.follow()
        wanted = leaves_of(strongest(reached), pool.leaves)
        pool.add(reader.sentences([*wanted, *leant_on]).values())
        leant_on = []
        links = by_place(pool, reached)
        settled = links == pool.links
        _tell(hop, pool, links, trace)
        pool.links = links
        pool.judge()
        if settled:
            break
    return pool


def slices_found(question: str, reader: IndexReader, parameters: Weave) -> list[tuple[ChunkBounds, SliceHit]]:
    """The best slices with where their chunks stand, in an index that has the slice view."""
    hits = reader.slices(question, parameters.slices) if parameters.slices and reader.has("slice") else []
    places = reader.chunk_bounds([hit.chunk for hit in hits])
    return [(places[hit.chunk], hit) for hit in hits if hit.chunk in places]


def raise_scores(scores: dict[int, float], hit: SliceHit, leaves: Mapping[int, LeafSentences]) -> None:
    """A leaf that a found slice comes from has at least the slice's score."""
    for leaf in leaves.values():
        if any(leaf.span.overlaps(span) for span in hit.spans):
            scores[leaf.id] = max(hit.score, scores.get(leaf.id, 0.0))


def leaves_leant_on(pool: Pool, count: int) -> list[int]:
    """Leaves before those that the `count` most relevant candidates begin, leaning on what is not in the pool."""
    best = [pool.items[i] for i in np.argsort(-pool.relevance, kind="stable")[:count].tolist()]
    wanted = (item.leaf.id - 1 for item in best if item.number == 0 and item.leans)
    return [leaf for leaf in dict.fromkeys(wanted) if leaf not in pool.leaves]


def select(
    pool: Pool, budget: int, models: Models, parameters: Weave, trace: list[Step]
) -> tuple[list[int], dict[str, int]]:
    """Candidates in the order in which they were taken, and the tokens of their texts and heading lines."""
    best = np.argsort(-pool.relevance, kind="stable")[:POOL].tolist()
    leaning = {i: pool.before(i) for i in best if parameters.lean and pool.items[i].leans}
    considered = list(dict.fromkeys([*best, *(before for before in leaning.values() if before is not None)]))
    items = [pool.items[i] for i in considered]
    prices = _Prices(items, models)
    at = {i: position for position, i in enumerate(considered)}
    bundles = [(at[i],) if (before := leaning.get(i)) is None else (at[before], at[i]) for i in considered]
    objective = objective_of(pool, considered, prices.tokens, parameters)
    found = maximise(objective, bundles, prices.cost, budget, prices.same_place, parameters.stop)
    chosen = [considered[position] for position in found.order]
    _tell_selection(pool, chosen, found, trace)
    return chosen, prices.counts


def objective_of(pool: Pool, considered: Sequence[int], tokens: FloatArray, parameters: Weave) -> Objective:
    """Relevance by length, near-duplicates, and the aspects: the question's terms and the things that it names."""
    items = [pool.items[i] for i in considered]
    relevance = pool.relevance[considered]
    worth = (relevance * np.maximum(tokens, 1) ** LENGTH_POWER).astype(np.float32)
    similarity = _alike(pool, considered) if parameters.redundancy else np.eye(len(items), dtype=np.float32)
    # what a more relevant candidate says already covers no aspect anew
    new = 1 - np.triu(similarity, 1).max(axis=0)
    half = HALF / 2 if pool.asked.kind == "list" else HALF
    sure = half * new * np.minimum(1, relevance / SURE)
    rows, weights = [], []
    for term in sorted(pool.asked.terms):
        rows.append(sure * np.array([term in item.terms for item in items]))
        weights.append(pool.share([term]))
    named = [place for place in pool.named if any(item.place == place for item in items)]
    for place in named if pool.asked.kind == "comparison" else ():
        rows.append(relevance * new * np.array([item.place == place for item in items]))
        weights.append(1 / len(named))
    most = float(np.sort(worth)[::-1][:10].sum())
    aspects = np.array(rows, np.float32).reshape(len(rows), len(items))
    return Objective(worth, similarity, aspects, np.array(weights, np.float32) * np.float32(parameters.coverage * most))


def _alike(pool: Pool, considered: Sequence[int]) -> FloatArray:
    """1 on the diagonal, rising from 0 at a cosine of ALIKE to 1 elsewhere; shape (considered, considered)."""
    vectors = pool.vectors()
    if vectors is None:
        return np.eye(len(considered), dtype=np.float32)
    vectors = vectors[list(considered)]
    similarity: FloatArray = np.clip((np.einsum("ik,jk->ij", vectors, vectors) - ALIKE) / (1 - ALIKE), 0, 1)
    np.fill_diagonal(similarity, 1)
    return similarity


class _Prices:
    """What candidates cost in tokens: their text, a mark for the gap, and their heading line once a place."""

    def __init__(self, items: Sequence[Item], models: Models) -> None:
        self.items = items
        self.members: dict[PlaceKey, list[int]] = defaultdict(list)
        for at, item in enumerate(items):
            self.members[item.place].append(at)
        firsts = [items[own[0]].leaf for own in self.members.values()]
        lines = [GAP, *(heading_line(9, leaf.title, leaf.headings) for leaf in firsts)]
        texts = [item.text for item in items]
        if models.stored_tokens:
            self.counts = dict(zip(texts, (item.sentence.tokens for item in items), strict=True))
            self.counts |= zip(lines, models.count_tokens(lines), strict=True)
        else:
            self.counts = dict(zip([*lines, *texts], models.count_tokens([*lines, *texts]), strict=True))
        self.headings = {place: self.counts[line] for place, line in zip(self.members, lines[1:], strict=True)}
        self.tokens = np.array([self.counts[text] for text in texts], np.float32)
        self._costs = [self.counts[text] + self.counts[GAP] for text in texts]

    def cost(self, new: Sequence[int], taken: frozenset[int]) -> int:
        places = {self.items[at].place for at in new}
        headed = {place for place in places if not taken.isdisjoint(self.members[place])}
        return sum(self._costs[at] for at in new) + sum(self.headings[place] for place in places - headed)

    def same_place(self, at: int) -> Sequence[int]:
        return self.members[self.items[at].place]


def _tell(hop: int, pool: Pool, links: dict[PlaceKey, list[Link]], trace: list[Step]) -> None:
    """The places that a hop reached for the first time, strongest first."""
    reached = {
        place: max(found, key=lambda link: link.strength) for place, found in links.items() if place not in pool.links
    }
    for place, link in sorted(reached.items(), key=lambda pair: -pair[1].strength):
        target = pool.items[pool.members[place][0]].leaf.span
        evidence = pool.items[link.evidence]
        trace.append(Step("hop", f"{hop}: the evidence names “{link.name}”", (evidence.span,), target, link.strength))


def _tell_selection(pool: Pool, chosen: Sequence[int], found: Selection, trace: list[Step]) -> None:
    for i in chosen:
        item = pool.items[i]
        trace.append(Step("take", _why(pool, item), (item.span,), score=float(pool.relevance[i])))
    if found.stopped:
        out = [i for i in np.argsort(-pool.relevance, kind="stable").tolist() if i not in set(chosen)]
        reason = f"a further token gains little; {len(out)} sentences were left out, the most relevant first"
        spans = tuple(pool.items[i].span for i in out[:LEFT_OUT])
        trace.append(Step("stop", reason, spans, score=float(pool.relevance[out[0]])))


def _why(pool: Pool, item: Item) -> str:
    """What brought a sentence in: the names in the question, the chain that led to it, the terms that it holds."""
    reasons = []
    if item.place in pool.named:
        reasons.append(f"the question names “{pool.named[item.place]}”")
    if links := pool.links.get(item.place):
        reasons.append(f"a hop by “{max(links, key=lambda link: link.strength).name}”")
    if item.terms:
        words = spelled_terms(pool.asked.text)
        reasons.append("it holds " + ", ".join(sorted(words[term] for term in item.terms)))
    return "; ".join(reasons) or "its leaf was found"
