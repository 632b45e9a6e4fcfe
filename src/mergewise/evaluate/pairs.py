"""Comparisons of many methods on the same questions: intervals, paired tests, and marks of the best methods.

The random draws of a set are made once and shared by all its columns: a sign for each cluster (paired tests) and a count for each
cluster (intervals). Exact or cheap figures come from `statistics`. Over several sets a mean is the mean of the sets' means, and
the draws of different sets are independent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt

from mergewise.evaluate.report_records import LEVEL
from mergewise.evaluate.statistics import (
    EXACT,
    STUDENT,
    Interval,
    holm,
    interval,
    mean_interval,
    sign_flip,
    smallest_difference,
)
from mergewise.protocols import DoubleArray, FloatArray

DRAWS = 10_000
_CELLS = 1 << 25
"""Maximum of numbers in a matrix of draws. Very large sets get fewer draws."""
_FEWEST = 1000
_SAME = 1e-9
_SIGNS, _COUNTS = 1, 2


@dataclass(frozen=True, eq=False)
class ScoreVector:
    """The scores of one method by one metric: for each set an array of shape (questions,), with nan for a missing score."""

    by_set: Mapping[str, DoubleArray]

    @cached_property
    def mean(self) -> float | None:
        """The mean of the sets' means, or None if a set has no score."""
        return self._mean_of(np.nanmean)

    @property
    def median(self) -> float | None:
        """The mean of the sets' medians, or None if a set has no score."""
        return self._mean_of(np.nanmedian)

    def _mean_of(self, figure: Callable[[DoubleArray], Any]) -> float | None:
        sets = self.by_set.values()
        is_known = bool(sets) and not any(np.isnan(values).all() for values in sets)
        return float(np.mean(list(map(figure, sets)))) if is_known else None


def mean_of(columns: Sequence[ScoreVector]) -> ScoreVector | None:
    """Average score vectors question by question. Return None for no vectors, or for vectors of different sets."""
    if not columns:
        return None
    sets = columns[0].by_set.keys()
    if any(column.by_set.keys() != sets for column in columns):
        return None
    return ScoreVector({name: np.mean([column.by_set[name] for column in columns], 0) for name in sets})


def over_sets(columns: Sequence[ScoreVector]) -> ScoreVector:
    """Combine the score vectors of several sets."""
    return ScoreVector({name: values for column in columns for name, values in column.by_set.items()})


class PairedTests:
    """Tests and intervals of scores. `clusters` maps each set to the cluster numbers of its questions."""

    def __init__(self, clusters: Mapping[str, Sequence[int]], seed: int = 0) -> None:
        self._clusters = {name: np.unique(np.asarray(own), return_inverse=True)[1] for name, own in clusters.items()}
        self._seed = seed
        self._drawn = cache(self._draw)
        # the arrays are kept alive, because their ids are keys
        self._known: dict[tuple[str, int, str], tuple[DoubleArray, FloatArray]] = {}

    def probability(self, ours: ScoreVector, theirs: ScoreVector) -> float | None:
        """Return the p-value of the paired sign-flip test, or None if no question has both scores."""
        pairs = self.gains(ours, theirs).by_set
        if any(np.isnan(gains).all() for gains in pairs.values()) or not pairs:
            return None
        if len(pairs) == 1:
            ((name, gains),) = pairs.items()
            known = ~np.isnan(gains)
            values, clusters = gains[known], self._resampled_clusters(name)[0][known]
            sums = np.abs(np.bincount(clusters, values))
            sums = sums[sums > _SAME]
            if len(sums) <= EXACT or np.allclose(sums, sums[0], atol=_SAME):
                return sign_flip(list(values), list(clusters))
        ours, theirs = self._on_common(ours, theirs, pairs)
        observed = abs((ours.mean or 0.0) - (theirs.mean or 0.0))
        found = [self._flips(name, ours) - self._flips(name, theirs) for name in sorted(pairs)]
        fewest = min(map(len, found))
        moved = np.mean([one[:fewest] for one in found], 0)
        hits = int((np.abs(moved) >= observed * (1 - 1e-6) - 1e-7).sum())
        return float((1 + hits) / (1 + len(moved)))

    def interval(self, scored: ScoreVector) -> Interval | None:
        """Return the 95 % interval of the mean, or None without scores."""
        if scored.mean is None:
            return None
        if len(scored.by_set) == 1:
            ((name, values),) = scored.by_set.items()
            if (exact := self._exact_interval(name, values)) is not None:
                return exact
        low, high = map(float, np.nanquantile(self._means(scored), (0.025, 0.975)))
        if high - low > _SAME:
            return low, high
        # scores without spread: average the exact intervals of the sets
        bounds = [self._exact_interval(name, values) or (low, high) for name, values in scored.by_set.items()]
        return float(np.mean([one[0] for one in bounds])), float(np.mean([one[1] for one in bounds]))

    def _exact_interval(self, name: str, values: DoubleArray) -> Interval | None:
        """Return the interval from `statistics`, or None if the set needs bootstrap draws."""
        known = ~np.isnan(values)
        clusters, scores = self._clusters[name][known], values[known]
        alike, count = len(np.unique(scores)), len(np.unique(clusters))
        is_share = alike <= 2 and bool(np.isin(scores, (0.0, 1.0)).all())
        if count <= len(STUDENT) or (is_share and (alike == 1 or count == len(scores))):
            return mean_interval(list(scores), list(clusters))
        return None

    def gains(self, ours: ScoreVector, theirs: ScoreVector) -> ScoreVector:
        """Return the differences, question by question, on the sets that both vectors cover."""
        return ScoreVector({n: ours.by_set[n] - theirs.by_set[n] for n in ours.by_set.keys() & theirs.by_set.keys()})

    def gain_interval(self, ours: ScoreVector, theirs: ScoreVector) -> Interval:
        """Return the 95 % interval of the mean difference."""
        gains = self.gains(ours, theirs).by_set
        if len(gains) == 1:
            ((name, values),) = gains.items()
            known = ~np.isnan(values)
            clusters = self._clusters[name][known]
            if len(np.unique(clusters)) <= len(STUDENT):
                return interval(list(values[known]), list(clusters))
        ours, theirs = self._on_common(ours, theirs, gains)
        low, high = map(float, np.nanquantile(self._means(ours) - self._means(theirs), (0.025, 0.975)))
        return low, high

    def smallest(self, ours: ScoreVector, theirs: ScoreVector) -> float | None:
        """Return the smallest true difference on one set that these questions detect with 80 % power."""
        ((name, values),) = ours.by_set.items()
        gains = values - theirs.by_set[name]
        known = ~np.isnan(gains)
        return smallest_difference(list(gains[known]), list(self._clusters[name][known])) if known.any() else None

    def marks(self, rows: Sequence[ScoreVector | None]) -> list[str]:
        """Return a mark for each row: "best", "second" or an empty text.

        "best" marks the highest mean and all rows that are not significantly worse (adjusted 0.05). "second" marks the highest
        mean of the other rows.
        """
        known = {place: row for place, row in enumerate(rows) if row is not None and row.mean is not None}
        marks = [""] * len(rows)
        if len(known) < 2:
            return marks
        top, *others = sorted(known, key=lambda place: known[place].mean or 0.0, reverse=True)
        marks[top] = "best"
        probabilities = holm([self._against(known[top], known[place]) for place in others])
        for place, probability in zip(others, probabilities, strict=True):
            marks[place] = "best" if probability >= LEVEL else ""
        if rest := [place for place in others if not marks[place]]:
            marks[rest[0]] = "second"
        return marks

    def _against(self, best: ScoreVector, other: ScoreVector) -> float:
        probability = self.probability(best, other)
        return 1.0 if probability is None else probability

    def adjusted(self, rows: Sequence[ScoreVector]) -> dict[tuple[int, int], float]:
        """Return the p-value of each pair of rows, corrected by Holm's method for the number of pairs."""
        pairs = [(a, b) for a in range(len(rows)) for b in range(a)]
        return dict(zip(pairs, holm([self._against(rows[a], rows[b]) for a, b in pairs]), strict=True))

    def _on_common(
        self, ours: ScoreVector, theirs: ScoreVector, gains: Mapping[str, DoubleArray]
    ) -> tuple[ScoreVector, ScoreVector]:
        """Return the scores with nan for questions that only one of the two vectors has."""
        if ours.by_set.keys() == theirs.by_set.keys() and all(
            np.array_equal(np.isnan(values), np.isnan(theirs.by_set[name])) for name, values in ours.by_set.items()
        ):
            return ours, theirs
        missing = {name: np.isnan(values) for name, values in gains.items()}
        first, second = (
            ScoreVector({name: np.where(lack, np.nan, one.by_set[name]) for name, lack in missing.items()})
            for one in (ours, theirs)
        )
        return first, second

    def _draw(self, kind: int, name: str) -> FloatArray:
        """Draw a sign or a count for each cluster of a set, many times."""
        count = self._resampled_clusters(name)[1]
        draws = max(_FEWEST, min(DRAWS, _CELLS // max(1, count)))
        draw = np.random.default_rng([self._seed, kind, crc32(name.encode())])
        if kind == _SIGNS:
            return draw.integers(0, 2, (draws, count), np.int8).astype(np.float32) * 2 - 1
        return draw.multinomial(count, np.full(count, 1 / count), draws).astype(np.float32)

    def _flips(self, name: str, scored: ScoreVector) -> FloatArray:
        """Return the mean of a set's scores under each draw of signs."""
        key = ("flips", id(scored.by_set[name]), name)
        if key not in self._known:
            sums, sizes = self._sums(name, scored.by_set[name])
            means = self._drawn(_SIGNS, name) @ (sums / sizes.sum()).astype(np.float32)
            self._known[key] = scored.by_set[name], means
        return self._known[key][1]

    def _means(self, scored: ScoreVector) -> DoubleArray:
        """Return the mean over sets under each draw of clusters, with nan for a draw without scores."""
        found = []
        for name in sorted(scored.by_set):
            key = ("means", id(scored.by_set[name]), name)
            if key not in self._known:
                sums, sizes = self._sums(name, scored.by_set[name])
                counts = self._drawn(_COUNTS, name)
                weights = counts @ sizes.astype(np.float32)
                means = (counts @ sums.astype(np.float32)) / np.where(weights > 0, weights, np.nan)
                self._known[key] = scored.by_set[name], means.astype(np.float32)
            found.append(self._known[key][1])
        fewest = min(map(len, found))
        over: DoubleArray = np.mean([one[:fewest].astype(np.float64) for one in found], 0)
        return over

    def _sums(self, name: str, values: DoubleArray) -> tuple[DoubleArray, DoubleArray]:
        """Return the sum and the number of scores of each cluster."""
        clusters, count = self._resampled_clusters(name)
        known = ~np.isnan(values)
        sums = np.bincount(clusters[known], values[known], count)
        return sums.astype(np.float64), np.bincount(clusters[known], minlength=count).astype(np.float64)

    def _resampled_clusters(self, name: str) -> tuple[npt.NDArray[np.intp], int]:
        """Return the cluster of each question, and the number of clusters. A single cluster is split into its questions."""
        own = self._clusters[name]
        if len(own) and own.max() == 0:
            own = np.arange(len(own))
        return own, int(own.max()) + 1 if len(own) else 0
