"""Evidence from a reranker's scores, against a slow reference, and for useless, weak and strong rerankers."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log
from statistics import median
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mergewise.errors import UsageError
from mergewise.models import load_reranker
from mergewise.models.calibration import (
    ALIKE,
    FALSE_ALARMS,
    FEWEST,
    LEAST,
    MISSES,
    MOST,
    ODDS,
    ROUNDS,
    SEPARATIONS,
    Calibrated,
    Calibration,
    ScoredTexts,
    calibrate,
    calibration_of,
    evidence_of,
    separated_evidence,
)
from mergewise.models.record import Models
from mergewise.models.scores import RememberingReranker
from mergewise.models.tokens import count_tokens
from mergewise.protocols import FloatArray

TEXTS = 60


def slow_evidence(prior: Sequence[float], scores: Sequence[float]) -> list[float]:
    """Compute the rule of the module number by number."""
    before = [min(max(1 / (1 + exp(-z)), 1e-4), 1 - 1e-4) for z in prior]
    odds = [log(p / (1 - p)) for p in before]
    width = max(scores) - min(scores)
    found: list[tuple[float, list[float]]] = []
    for d, odds_of_d in zip(SEPARATIONS, ODDS, strict=True):
        for share in FALSE_ALARMS:
            alarms = [1 / (1 + (1 - share) / share * exp(-ALIKE * (o - median(odds)))) for o in odds]
            looks = [(1 - share**MISSES) * p + (1 - p) * alarm for p, alarm in zip(before, alarms, strict=True)]
            mean = median(scores)
            deviation = max(1.4826 * median(abs(s - mean) for s in scores), 1e-3 * width)
            for _ in range(ROUNDS):
                after = posterior(looks, scores, mean, deviation, d)
                mean = sum(s - a * d * deviation for s, a in zip(scores, after, strict=True)) / len(scores)
                squares = [
                    (1 - a) * (s - mean) ** 2 + a * (s - mean - d * deviation) ** 2
                    for s, a in zip(scores, after, strict=True)
                ]
                deviation = max((sum(squares) / len(scores)) ** 0.5, 1e-3 * width)
            density = [
                q * exp(-(((s - mean) / deviation - d) ** 2) / 2) + (1 - q) * exp(-(((s - mean) / deviation) ** 2) / 2)
                for q, s in zip(looks, scores, strict=True)
            ]
            after = posterior(looks, scores, mean, deviation, d)
            needed = [
                a * (1 - share**MISSES) * p / q + (1 - a) * share**MISSES * p / (1 - q) if d > 0 else p
                for a, p, q in zip(after, before, looks, strict=True)
            ]
            likely = sum(map(log, density)) - len(scores) * log(deviation) + log(odds_of_d)
            found.append((likely, needed))
    most = max(likely for likely, _ in found)
    total = sum(exp(likely - most) for likely, _ in found)
    added = []
    for i, o in enumerate(odds):
        share = sum(exp(likely - most) * needed[i] for likely, needed in found) / total
        share = min(max(share, 1e-8), 1 - 1e-8)
        added.append(min(max(log(share / (1 - share)) - o, LEAST), MOST))
    return added


def posterior(looks: Sequence[float], scores: Sequence[float], mean: float, deviation: float, d: float) -> list[float]:
    odds = [q / (1 - q) * exp(d * (s - mean) / deviation - d * d / 2) for q, s in zip(looks, scores, strict=True)]
    return [o / (1 + o) for o in odds]


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), gain=st.sampled_from([-3.0, 0.0, 2.0, 5.0]), texts=st.integers(FEWEST, 25))
def test_evidence_matches_the_slow_reference(seed: int, gain: float, texts: int) -> None:
    prior, scores, _ = question(seed, gain, texts)
    expected = slow_evidence(prior.tolist(), scores.tolist())
    assert separated_evidence(prior, scores) == pytest.approx(expected, abs=2e-3)


def question(seed: int, gain: float, texts: int = TEXTS) -> tuple[FloatArray, FloatArray, np.ndarray]:
    """Draw prior log-odds, logits and needed texts of a question: a few likely texts, and many unlikely ones."""
    draw = np.random.default_rng(seed)
    prior = np.where(np.arange(texts) < 6, draw.uniform(-2, 2, texts), draw.uniform(-7, -3, texts))
    needed = draw.random(texts) < 1 / (1 + np.exp(-prior))
    logits = gain * needed + draw.standard_normal(texts)
    return prior.astype(np.float32), logits.astype(np.float32), needed


def log_loss(gain: float | None, echo: float = 0.0) -> float:
    """Return the log-loss of the log-odds in nats per question, without a reranker or with a reranker of this gain.

    The reranker also repeats the prior, weighted by `echo`.
    """
    total = 0.0
    for seed in range(60):
        prior, logits, needed = question(seed, gain or 0)
        known = prior if gain is None else prior + separated_evidence(prior, logits + echo * prior)
        total += float(np.logaddexp(0, np.where(needed, -known, known)).sum())
    return total / 60


def test_better_rerankers_add_more_and_useless_ones_do_no_harm() -> None:
    without, useless, weak, fair, strong = (log_loss(gain) for gain in (None, 0, 1, 3, 8))
    assert strong < 0.1 * without and strong < fair < weak < 1.01 * without
    assert useless < 1.02 * without and log_loss(-4) < 1.02 * without


def test_a_reranker_that_repeats_the_prior_adds_little() -> None:
    without = log_loss(None)
    assert log_loss(0, echo=0.5) < 1.2 * without and log_loss(0, echo=1.0) < 1.4 * without
    assert log_loss(4, echo=1.0) < 0.9 * without


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000), factor=st.floats(0.01, 100), shift=st.floats(-50, 50))
def test_the_scale_of_scores_does_not_matter(seed: int, factor: float, shift: float) -> None:
    prior, logits, _ = question(seed, 3)
    moved: Any = (logits.astype(np.float64) * factor + shift).astype(np.float64)
    assert separated_evidence(prior, moved) == pytest.approx(separated_evidence(prior, logits), abs=0.02)


def test_scores_without_information_add_nothing() -> None:
    prior, logits, _ = question(1, 3)
    assert not separated_evidence(prior, np.full(TEXTS, 0.5, np.float32)).any()
    assert not separated_evidence(prior[: FEWEST - 1], logits[: FEWEST - 1]).any(), "too few to tell"
    assert separated_evidence(prior[:0], logits[:0]).shape == (0,)


# -- calibrations


def score_texts(gain: float, questions: int = 80) -> list[ScoredTexts]:
    return [
        ScoredTexts(prior, logits, needed) for prior, logits, needed in (question(s, gain) for s in range(questions))
    ]


def test_a_calibration_recovers_the_slope() -> None:
    """For normal scores a gain apart, the log-odds are gain * score - gain ** 2 / 2."""
    found = calibrate(score_texts(2))
    assert found.slope == pytest.approx(2, rel=0.15) and found.bias == pytest.approx(-2, rel=0.2)
    assert calibrate(score_texts(-2)) == Calibration(0.0, 0.0)
    assert abs(calibrate(score_texts(0)).slope) < 0.2
    assert Calibration(1, 0.5).evidence(np.array([-90, 1, 90], np.float32)).tolist() == [LEAST, 1.5, MOST]


@pytest.mark.parametrize("needed", [True, False])
def test_a_calibration_needs_both_kinds_of_texts(needed: bool) -> None:
    one = ScoredTexts(np.zeros(3, np.float32), np.ones(3, np.float32), np.full(3, needed))
    for given_questions in ([one], []):
        with pytest.raises(UsageError, match="no calibration possible"):
            calibrate(given_questions)


class Lengths:
    spec = "lengths"

    def score(self, question: str, texts: Sequence[str]) -> FloatArray:
        return np.array([len(text) / 10 for text in texts], np.float32)


def test_a_calibrated_reranker_has_the_same_scores_and_one_call() -> None:
    calibration = Calibration(0.5, 1)
    reranker = Calibrated(Lengths(), calibration)
    assert reranker.spec == "calibrated:0.5,1:lengths"
    assert reranker.score("q", ["aa"]) == pytest.approx([0.2])
    own = Models(count_tokens, reranker=reranker).for_question().reranker
    assert isinstance(own, RememberingReranker) and calibration_of(own) == calibration
    assert calibration_of(Lengths()) is None
    logit = log(0.5 / 0.5)
    assert evidence_of(own, "q", ["aaaaa"], np.zeros(1, np.float32)) == pytest.approx([0.5 * logit + 1])


@pytest.mark.parametrize(
    "spec", ["1:none", "1,2:none", "a,b:http:https://host", "-1,0:http:https://host", "nan,0:http:x"]
)
def test_invalid_specs_are_refused(spec: str) -> None:
    with pytest.raises(UsageError):
        load_reranker(f"calibrated:{spec}")
    with pytest.raises(UsageError):
        load_reranker("calibrated:")
