"""The probability that a selection holds all evidence that the question needs.

It is a logistic function of features of the candidates, most of them about the relevance that was left out.
`benchmarks/weave.py complete` fits the weights on the first halves of several question sets, and judges each set by the weights
of the others. The user's own questions may shift the log-odds (`mergewise tune --fit`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from mergewise.designs.weave.evidence import Candidates
from mergewise.designs.weave.submodular import Selection

Array = npt.NDArray[np.float64]
Steps = npt.NDArray[np.int64]

COMPLETENESS_WEIGHTS: Mapping[str, float] = {
    "bias": -7.82,
    "tokens": 0.26,  # logarithm of the selected sentences' tokens
    "length": 0.87,  # logarithm of their tokens per sentence
    "sections": -0.10,  # logarithm of the relevance left out in sections with a selected sentence
    "documents": -0.43,  # the same in other sections of documents with a selected sentence
    "best": -0.24,  # log-odds of the most relevant sentence left out
    "lacking": -2.16,  # weighted share of the question's terms that only sentences left out have
    "terms": 0.41,  # logarithm of the number of the question's terms
    "search": 1.89,  # score of the first leaf of the search: 1 if the words and the vector agree on it
    "named": -1.05,  # 1 minus the best selected relevance in a section that the question names, of the worst such section
    "linked": 0.92,  # strength of the strongest link into a section with a selected sentence
    "comparison": 0.91,  # the question compares things
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
    for groups in pool.groups:
        # for each candidate the step that takes the first candidate of its group
        first = np.full(int(groups.max(initial=0)) + 1, count)
        np.minimum.at(first, groups, taken)
        held.append(first[groups] <= step)
    in_section, in_document = held
    tokens = np.cumsum([pool.tokens[i] for i in order])[np.array(sizes) - 1]
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
