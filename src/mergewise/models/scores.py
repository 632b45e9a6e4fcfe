"""The common part of rerankers and scorers: scores in [0, 1], and a cache of scored pairs.

The scale of scores is a property of the model. It is determined once, not per call: otherwise a call whose logits all lie in
[0, 1] would be read on another scale than the next call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from math import log
from threading import Lock
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from mergewise.concurrency import check_time
from mergewise.errors import ModelError
from mergewise.protocols import DoubleArray, FloatArray, LogitReranker, Reranker

Scale: TypeAlias = Literal["shares", "logits"]
"""The scale of a model's scores: shares in [0, 1], or logits, which the logistic function maps to shares."""

Pair: TypeAlias = tuple[str, str]

REMEMBERED_PAIRS = 100_000
_ROUNDING = 1e-3
_LEAST = 1e-7


def scale_of(scores: Sequence[float]) -> Scale:
    """Guess the scale of scores, given scores of both fitting and unrelated texts."""
    return "shares" if all(-_ROUNDING <= score <= 1 + _ROUNDING for score in scores) else "logits"


def unit_interval(scores: Sequence[float], scale: Scale) -> FloatArray:
    """Map scores to [0, 1]. Raises ModelError for a score that is not finite, and for a share outside [0, 1]."""
    raw = _finite(np.asarray(scores, np.float64))
    if scale == "logits":
        return logistic(raw).astype(np.float32)
    if scale_of(raw.tolist()) != "shares":
        raise ModelError(
            "score of the reranker outside [0, 1], unlike its first scores",
            "configure it to always normalise its scores, or never",
        )
    return np.asarray(np.clip(raw, 0, 1), np.float32)


def logistic(logits: DoubleArray) -> DoubleArray:
    return np.asarray(1 / (1 + np.exp(-np.clip(logits, -60, 60))), np.float64)


def logit(shares: DoubleArray) -> DoubleArray:
    return np.asarray(np.log(shares) - np.log1p(-shares), np.float64)


def log_odds(probability: float) -> float:
    """Return the log-odds of a probability, which is clamped to [0.0001, 0.9999]."""
    clamped = min(max(probability, 1e-4), 1 - 1e-4)
    return log(clamped / (1 - clamped))


def logits_of(reranker: Reranker, question: str, texts: Sequence[str]) -> FloatArray:
    """Return the reranker's logits, or the logits of its shares, shape (texts,). Raises ModelError for non-finite scores."""
    if isinstance(reranker, LogitReranker):
        return _finite(reranker.logits(question, texts))
    return shares_to_logits(reranker.score(question, texts))


def shares_to_logits(shares: FloatArray) -> FloatArray:
    """Return log(p / (1 - p)). Shares of 0 and 1 are clipped, because their logits are infinite."""
    return logit(np.clip(_finite(shares).astype(np.float64), _LEAST, 1 - _LEAST)).astype(np.float32)


def _finite(scores: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if not np.all(np.isfinite(scores)):
        raise ModelError("score of the reranker not finite", "try another model")
    return scores


class ScoredByLogits(LogitReranker, Protocol):
    """A `Reranker` whose scores are those of its logits."""

    def score(self, question: str, texts: Sequence[str]) -> FloatArray:
        return unit_interval(self.logits(question, texts).tolist(), "logits")


class PairMemory:
    """A cache of scores of pairs of texts. `score` is called once for each pair, in batches, by one thread at a time.

    Beyond `REMEMBERED_PAIRS` the oldest scores are dropped.
    """

    def __init__(self, score: Callable[[Sequence[Pair]], Sequence[float]], batch: int = REMEMBERED_PAIRS) -> None:
        self._score = score
        self._batch = batch
        self._known: dict[Pair, float] = {}
        self._lock = Lock()

    def scores(self, pairs: Sequence[Pair]) -> list[float]:
        with self._lock:
            scores = {pair: self._known[pair] for pair in pairs if pair in self._known}
            missing = [pair for pair in dict.fromkeys(pairs) if pair not in scores]
            for first in range(0, len(missing), self._batch):
                check_time()
                batch = missing[first : first + self._batch]
                scores.update(zip(batch, self._score(batch), strict=True))
            self._known.update(scores)
            for pair in list(islice(self._known, max(0, len(self._known) - REMEMBERED_PAIRS))):
                del self._known[pair]
        return [scores[pair] for pair in pairs]

    def table(self, sources: Sequence[str], anchors: Sequence[str]) -> FloatArray:
        """Return the scores of all pairs, shape (len(sources), len(anchors))."""
        scores = self.scores([(source, anchor) for source in sources for anchor in anchors])
        return np.array(scores, np.float32).reshape(len(sources), len(anchors))


class RememberingReranker:
    """A `Reranker` that scores each pair of question and text once. Make a new one for each question."""

    def __init__(self, reranker: Reranker) -> None:
        self.reranker = reranker
        self.spec = reranker.spec
        self._has_logits = isinstance(reranker, LogitReranker)
        self._memory = PairMemory(self._scores)

    def score(self, question: str, texts: Sequence[str]) -> FloatArray:
        scores: FloatArray = self._memory.table([question], texts)[0]
        return unit_interval(scores.tolist(), "logits") if self._has_logits else scores

    def logits(self, question: str, texts: Sequence[str]) -> FloatArray:
        scores: FloatArray = self._memory.table([question], texts)[0]
        return scores if self._has_logits else shares_to_logits(scores)

    def _scores(self, pairs: Sequence[Pair]) -> list[float]:
        """Score pairs of one question, as logits if the reranker has them, else as shares."""
        question, texts = pairs[0][0], [text for _, text in pairs]
        if isinstance(self.reranker, LogitReranker):
            return [float(logit) for logit in logits_of(self.reranker, question, texts)]
        return [float(score) for score in self.reranker.score(question, texts)]
