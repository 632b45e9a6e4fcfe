"""The probability that a selection holds all evidence that the question needs, and that each section of a context is needed.

The first is a logistic function of features of the candidates, most of them about the relevance that was left out.
`benchmarks/weave.py complete` fits the weights on the first halves of several question sets, and judges each set by the weights
of the others. The user's own questions may shift the log-odds (`mergewise tune --fit`).

The second is the passage's score, and documents are ranked by it. The best sentence alone ignores the chain to its section and
from it. In "Where was the composer of film Billy Elliot born?" the film's passage has little in common with the question, and
yet both are needed. So the log odds of a section's best sentence are combined with two features: how far the question names the
section, and how surely a section of another document leads to it. These scores change neither the order nor the text of a
context. The weights are those of a logistic regression over the sections of contexts of 4,000 tokens. `benchmarks/pools.py` fits
them on the first halves of the question sets.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from mergewise.assemble.fragments import SectionKey
from mergewise.designs.weave.evidence import DOCUMENT, SECTION, TOKENS, Candidates
from mergewise.designs.weave.submodular import Selection
from mergewise.models.scores import log_odds
from mergewise.protocols import FloatArray
from mergewise.text.names import names_of_title
from mergewise.types import Passage

Array = npt.NDArray[np.float64]
Steps = npt.NDArray[np.int64]

COMPLETENESS_WEIGHTS = {
    "bias": -8.56,
    "tokens": 0.34,  # logarithm of the selected sentences' tokens
    "length": 0.63,  # logarithm of their tokens per sentence
    "sections": 0.01,  # logarithm of the relevance left out in sections with a selected sentence
    "documents": -0.37,  # the same in other sections of documents with a selected sentence
    "best": -0.33,  # log-odds of the most relevant sentence left out
    "lacking": -1.86,  # weighted share of the question's terms that only sentences left out have
    "terms": 0.68,  # logarithm of the number of the question's terms
    "search": 2.91,  # score of the first leaf of the search: 1 if the words and the vector agree on it
    "named": -1.41,  # 1 minus the best selected relevance in a section that the question names, of the worst such section
    "linked": 1.02,  # strength of the strongest link into a section with a selected sentence
    "comparison": 1.05,  # the question compares things
}
COMPLETENESS_FEATURES = tuple(COMPLETENESS_WEIGHTS)[1:]
OWN_BIAS, OWN_SLOPE = "complete_bias", "complete_slope"
"""Names of the user's recalibration among the weights of weave: log-odds become slope * log-odds + bias."""

FAINT = 0.01  # the best relevance is clamped to [FAINT, 1 - FAINT], and sums get it before their logarithm


def probabilities(candidates: Candidates, order: Sequence[int], sizes: Sequence[int]) -> Array:
    """Return the probability that the first `size` candidates of the order hold all evidence, for each of the rising `sizes`."""
    weights, own = np.array([COMPLETENESS_WEIGHTS[name] for name in COMPLETENESS_FEATURES]), candidates.pool.weights
    z = features(candidates, order, sizes) @ weights + COMPLETENESS_WEIGHTS["bias"]
    return np.asarray(1 / (1 + np.exp(-own.get(OWN_SLOPE, 1.0) * z - own.get(OWN_BIAS, 0.0))))


def worthwhile(candidates: Candidates, order: Sequence[int], selection: Selection, price: float) -> int:
    """Return the number of steps with the highest probability of being complete, less `price` per token."""
    worth = probabilities(candidates, order, selection.sizes) - price * np.array(selection.costs)
    return int(worth.argmax()) + 1


def features(candidates: Candidates, order: Sequence[int], sizes: Sequence[int]) -> Array:
    """Return the features of the first candidates of an order, shape (sizes, features)."""
    pool, signals, relevance, count = candidates.pool, candidates.signals, candidates.relevance, len(sizes)
    step = np.arange(count)[:, None]
    # the step that takes each candidate, or `count`
    taken = np.full(len(pool), count)
    taken[list(order[: sizes[-1]])] = np.repeat(np.arange(count), np.diff(sizes, prepend=0))
    left = np.where(taken > step, relevance, 0)
    held = []
    for groups in pool.places[[SECTION, DOCUMENT]]:
        # for each candidate the step that takes the first candidate of its group
        first = np.full(int(groups.max(initial=0)) + 1, count)
        np.minimum.at(first, groups, taken)
        held.append(first[groups] <= step)
    in_section, in_document = held
    tokens = np.cumsum(pool.places[TOKENS][list(order)])[np.array(sizes) - 1]
    best = np.clip(left.max(axis=1), FAINT, 1 - FAINT)
    weakest_name = np.zeros(count)
    for section in signals.named:
        if members := pool.members.get(section):
            best_shown = np.where(taken[members] <= step, relevance[members], 0).max(axis=1)
            weakest_name = np.maximum(weakest_name, 1 - best_shown)
    strongest_link = np.zeros(count + 1)
    for section, links in signals.links.items():
        taken_at = taken[pool.members[section]].min()
        strongest_link[taken_at] = max(strongest_link[taken_at], *(link.strength for link in links))
    lacking, at, lacking_shares = frozenset[str]().union(*pool.covered_terms), 0, []
    for size in sizes:
        lacking = lacking.difference(*(pool.covered_terms[i] for i in order[at:size]))
        at = size
        lacking_shares.append(pool.share(lacking))
    columns = {
        "tokens": np.log(tokens),
        "length": np.log(tokens / np.array(sizes)),
        "sections": np.log(FAINT + np.where(in_section, left, 0).sum(axis=1)),
        "documents": np.log(FAINT + np.where(in_document & ~in_section, left, 0).sum(axis=1)),
        "best": np.log(best / (1 - best)),
        "lacking": lacking_shares,
        "terms": np.log1p(len(pool.asked.terms)),
        "search": max(pool.scores.values(), default=0.0),
        "named": weakest_name,
        "linked": np.maximum.accumulate(strongest_link[:count]),
        "comparison": float(pool.asked.kind == "comparison"),
    }
    return np.column_stack([np.broadcast_to(columns[name], count) for name in COMPLETENESS_FEATURES])


# -- sections

SECTION_WEIGHTS = {
    "bias": 0.08,
    "evidence": 0.91,  # log odds that the best sentence shown is needed
    "named": 2.39,  # share of marked words (capital or digit) in the name by which the question names this start of a document
    "compared": 2.12,  # the same, in a comparison
    "led": 2.37,  # best relevance in a section of another document that names this one, over the sections that it names
}
SECTION_FEATURES = tuple(SECTION_WEIGHTS)[1:]


def scored_passages(
    passages: Sequence[Passage],
    candidates: Candidates,
    chosen: Iterable[int],
    weights: Mapping[str, float] = SECTION_WEIGHTS,
) -> tuple[Passage, ...]:
    """Return the passages of a context with the probability that their section is needed as their score."""
    shown = best_by_section(candidates, chosen)
    z = section_features(candidates, shown) @ np.array([weights[name] for name in SECTION_FEATURES]) + weights["bias"]
    scores: dict[SectionKey, float] = dict(zip(shown, (1 / (1 + np.exp(-z))).tolist(), strict=True))
    of_documents: dict[str, float] = {}
    for (doc_id, _), score in scores.items():
        of_documents[doc_id] = max(score, of_documents.get(doc_id, 0.0))
    scored = []
    for passage in passages:
        doc_id = passage.spans[0].doc_id
        # A passage shown without its headings has no known section.
        scored.append(replace(passage, score=scores.get((doc_id, passage.headings), of_documents[doc_id])))
    return tuple(scored)


def best_by_section(candidates: Candidates, chosen: Iterable[int]) -> dict[SectionKey, float]:
    """Return the best relevance of these candidates in each section."""
    best: dict[SectionKey, float] = {}
    for candidate in chosen:
        section, relevance = candidates.pool.sentences[candidate].section, float(candidates.relevance[candidate])
        best[section] = max(relevance, best.get(section, 0.0))
    return best


def section_features(candidates: Candidates, shown: Mapping[SectionKey, float]) -> FloatArray:
    """Return the features of the sections shown, shape (sections, features)."""
    pool, signals = candidates.pool, candidates.signals
    # The share of marked words in the names of sections that the question names. Plain words are headings in manuals, and "place
    # of birth" is a page of its own: they name nothing in particular.
    words = pool.asked.words
    marked = {word for word, is_marked in zip(words.folded, words.marked, strict=True) if is_marked}
    named = {}
    for section, name in signals.named.items():
        # A section may hold only mark-up.
        members = pool.members[section]
        if members and pool.sentences[members[0]].leaf.start == 0:
            parts = name.split()
            named[section] = sum(part in marked for part in parts) / len(parts)
    # The sections of other documents that lead to each section, by the whole title as a name of several words. A section that
    # names several others passes an equal part of its relevance to each, since only one of them is meant.
    sources: dict[SectionKey, set[SectionKey]] = {}
    targets: defaultdict[SectionKey, set[SectionKey]] = defaultdict(set)
    for section, links in signals.links.items():
        leaf = pool.sentences[pool.members[section][0]].leaf
        titles = set[str]().union(*map(names_of_title, (leaf.title, *leaf.headings[-1:])))
        whole = {pool.sentences[link.evidence].section for link in links if " " in link.name and link.name in titles}
        sources[section] = {source for source in whole if source[0] != section[0]}
        for source in sources[section]:
            targets[source].add(section)
    trust = {
        source: float(candidates.relevance[pool.members[source]].max()) / len(led) for source, led in targets.items()
    }
    rows = []
    for section, relevance in shown.items():
        share = named.get(section, 0.0)
        surest = max(map(trust.__getitem__, sources.get(section, ())), default=0.0)
        rows.append((log_odds(relevance), share, share * (pool.asked.kind == "comparison"), surest))
    return np.array(rows, np.float32).reshape(len(rows), len(SECTION_FEATURES))
