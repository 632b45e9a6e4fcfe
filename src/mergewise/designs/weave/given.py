"""Judge sentences beside those that are chosen first.

The most relevant sentence is taken as chosen, and the others are judged again beside it: what they share with it, and what they
hold that it lacks. Then the next one is taken as chosen, and they are judged once more. Sentences that say the same of another
thing fall; the second fact of a chain, which shares rare words with the first, rises.

A head is a small network with one hidden layer. Its output is added to the log-odds of the first judgement.
`python -m benchmarks.heads fit` fits both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from math import fsum

import numpy as np

from mergewise.designs.weave.evidence import DOCUMENT, Candidates
from mergewise.designs.weave.hops import LONGEST_EVIDENCE
from mergewise.designs.weave.place import clamped_log_odds, fitted_weights, odds_and_features
from mergewise.protocols import FloatArray
from mergewise.text.languages import Terms

HEADS = 2
LIMIT = 4.0  # of the log-odds that a head adds or takes
ALONE = ("document", "shared", "terms", "rarest")  # features that the chosen one itself lacks
LACKING = ("new", "new_in_text", "rarest", "document", "leads")  # features that count by what the chosen one lacks, too


def relevance_given(candidates: Candidates, relevance: FloatArray, best: Sequence[int]) -> FloatArray:
    """Judge the candidates `best`, most relevant first, beside the ones to choose first. The others keep their relevance."""
    if not best:
        return relevance
    beside = Beside(candidates, best)
    held, features = (part[..., best] for part in odds_and_features(candidates))
    judged, chosen = relevance[best], list[int]()
    for number in range(1, HEADS + 1):
        at = next(i for i in np.argsort(-judged, kind="stable").tolist() if i not in chosen or len(chosen) == len(best))
        more = beside.features(at, float(judged[at])).values()
        features = np.vstack([features, *more, *([clamped_log_odds(judged)] if chosen else [])])
        chosen.append(at)
        judged = 1 / (1 + np.exp(-held - output(number, features)))
    found = relevance.copy()
    found[best] = judged
    return found


def output(number: int, features: FloatArray) -> FloatArray:
    """Return a head's output, within `LIMIT`, for features of shape (features, candidates): a linear part, and a hidden layer."""
    weights = fitted_weights()
    linear, hidden, out = (weights[f"{part}{number}"] for part in ("linear", "hidden", "out"))
    inner = np.tanh(hidden[:, 1:] @ features + hidden[:, :1])
    return np.asarray(np.clip(linear[1:] @ features + linear[0] + out @ inner, -LIMIT, LIMIT), np.float32)


class Beside:
    """The candidates `best` beside one of them."""

    def __init__(self, candidates: Candidates, best: Sequence[int]) -> None:
        pool = candidates.pool
        self._pool, self._links, self._best = pool, candidates.signals.links, best
        self._documents = pool.places[DOCUMENT, best]
        self._texts = [pool.sentences[i].text[:LONGEST_EVIDENCE] for i in best]
        self._languages: dict[str, dict[str, float]] = {language: {} for language in pool.asked.telling.languages}
        self._shares: dict[frozenset[str], float] = {}

    def features(self, at: int, relevance: float) -> dict[str, FloatArray]:
        """Return the features of all beside the one at this position, each of shape (candidates,), by name.

        Those in `ALONE` are 0 for that one itself. Each feature is also given times its relevance, and some times the share of
        the question that it lacks.
        """
        pool, best, chosen = self._pool, self._best, self._best[at]
        covered = pool.covered_terms[chosen]
        # the terms that others share with it, unless the question has them: the rarer, the more they count
        terms = Terms(self._texts[at], self._languages)
        own = terms.all - pool.asked.terms
        shared = [own & held for held in terms.held(self._texts)]
        counts = Counter(term for held in shared for term in held)
        size = len(best) + 1
        rarity = {term: np.log(size / count) / np.log(size) for term, count in counts.items()}
        rarities = [[rarity[term] for term in held] for held in shared]
        leads = np.zeros(len(pool))
        for section, group in self._links.items():
            leads[pool.members[section]] = max(
                (link.strength for link in group if link.evidence == chosen), default=0.0
            )
        found = {
            "document": self._documents == self._documents[at],
            "new": self._share([pool.covered_terms[i] - covered for i in best]),
            "shared": self._share([pool.covered_terms[i] & covered for i in best]),
            "new_in_text": self._share([pool.terms[i] - covered for i in best]),
            "terms": np.array(list(map(fsum, rarities))),
            "rarest": np.array([max(of_one, default=0.0) for of_one in rarities]),
            "leads": leads[best],
            "chosen": np.arange(len(best)) == at,
        }
        found = {name: column.astype(np.float32) for name, column in found.items()}
        for name in ALONE:
            found[name][at] = 0
        lacks = pool.share(pool.asked.terms - covered)
        return {
            **found,
            **{f"{name}_sure": column * relevance for name, column in found.items()},
            **{f"{name}_lacking": found[name] * lacks for name in LACKING},
            "sure": np.full(len(best), relevance, np.float32),
            "lacking": np.full(len(best), lacks, np.float32),
        }

    def _share(self, terms: Iterable[frozenset[str]]) -> FloatArray:
        """Return the shares of these terms in the question."""
        known = self._shares
        return np.array([known[own] if own in known else known.setdefault(own, self._pool.share(own)) for own in terms])
