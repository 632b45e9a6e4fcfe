"""Fits of weave's weights: the regression, its gold, and a fit that beats the present weights."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.evaluate.tuning.test_tune import index, questions  # noqa: F401

from mergewise.designs.weave.completeness import OWN_BIAS, OWN_SLOPE
from mergewise.designs.weave.evidence import WEIGHTS
from mergewise.designs.weave.weights import weights_of
from mergewise.engine import Index
from mergewise.errors import UsageError
from mergewise.evaluate.question_sets import Question
from mergewise.evaluate.tuning.weights import case_of, fit_weights, fitting_points, gold_places, logistic
from mergewise.types import Span


def test_a_strong_pull_keeps_the_weights_and_a_weak_pull_fits_the_data() -> None:
    draw = np.random.default_rng(0)
    x = draw.normal(size=(4000, 2))
    true, prior = np.array([-1.0, 2.0, 0.5]), np.array([0.0, 0.0, 3.0])
    y = (draw.random(4000) < 1 / (1 + np.exp(-(true[0] + x @ true[1:])))).astype(float)
    assert logistic([(x, y, 1)], 1e-6, prior) == pytest.approx(true, abs=0.2)
    assert logistic([(x, y, 1)], 1e9, prior) == pytest.approx(prior, abs=1e-3)
    # the gradient of the loss is zero at the minimum
    found, ridge = logistic([(x, y, 10)], 5.0, prior), 5.0
    columns = np.column_stack([np.ones(len(y)), x])
    slope = columns.T @ (1 / (1 + np.exp(-columns @ found)) - y) / 10 + ridge * (found - prior)
    assert slope == pytest.approx(np.zeros(3), abs=1e-6)


def test_gold_is_found_by_its_span_its_text_and_without_a_document(index: Index) -> None:  # noqa: F811
    asked, store = questions()[0], index.store.reader()
    assert asked.evidence is not None
    ((span, text),) = asked.evidence
    case = case_of(asked, index.state().reader(None), store)
    assert case is not None and case.gold.sum() == 1
    whole = index.document(span.doc_id).text
    place = Span(span.doc_id, whole.index(text), whole.index(text) + len(text))
    for marked in (place, span, Span("", 0, len(text))):
        assert list(gold_places(((marked, text),), case.candidates, store)) == [place]
    assert list(gold_places(((Span(span.doc_id, 0, 3), "not there"),), case.candidates, store)) == []


def test_misleading_weights_are_replaced(index: Index, tmp_path: Path) -> None:  # noqa: F811
    """The present weights prefer sentences without the question's words."""
    misled = {**WEIGHTS, "terms": -8.0, "path_terms": -8.0, "leaf": -4.0, "rest": 0.0}
    turned = replace(index, _models=replace(index.models, weights=misled))
    report = fit_weights(turned, questions(), budget=25, folder=tmp_path)
    assert report.tuning.is_better and report.weights is not None and not report.reranker
    assert report.weights["terms"] > -4 and "[weave]" in report.file_text()
    assert "# better: evidence" in report.file_text()


def test_a_reranker_is_calibrated_too(index: Index) -> None:  # noqa: F811
    assert len(fitting_points("weave", None)) == 4
    with_reranker = fitting_points("weave", object())  # type: ignore[arg-type]
    assert len(with_reranker) == 8 and with_reranker[4].weights == "calibrated=true"


def test_invalid_fits_are_refused(index: Index, tmp_path: Path) -> None:  # noqa: F811
    with pytest.raises(UsageError, match="strategy without weights: topk"):
        fit_weights(index, questions(), "topk", folder=tmp_path)
    strange = [Question(q.id, q.text, q.answers, ((Span(f"x{q.id}", 0, 9), "elsewhere"),)) for q in questions()]
    with pytest.raises(UsageError, match="no evidence of these questions among the candidates"):
        fit_weights(index, strange, folder=tmp_path)


def test_twenty_questions_recalibrate_completeness(index: Index, tmp_path: Path) -> None:  # noqa: F811
    """Contexts of these questions hold less than the shipped weights expect."""
    asked = [
        replace(q, evidence=(*(q.evidence or ()), (Span("", 0, 9), "elsewhere"))) if number % 3 else q
        for number, q in enumerate(questions()[:24])
    ]
    report = fit_weights(index, asked, budget=40, folder=tmp_path)
    own = report.completeness
    assert report.weights is None and not report.tuning.is_better and own is not None
    assert own.after < own.before and own.verdict().startswith("better: log-loss")
    text = report.file_text()
    assert "[complete]" in text and "[weave]" not in text
    (tmp_path / "own.toml").write_text(text)
    weights = weights_of(tmp_path / "own.toml")
    assert weights == pytest.approx({OWN_BIAS: own.bias, OWN_SLOPE: own.slope}, abs=1e-3)
    shifted = replace(index, _models=replace(index.models, weights=weights))
    before, after = (one.context(asked[0].text, budget=40).complete for one in (index, shifted))
    assert before is not None and after is not None and after < before
    # a second fit starts from the first
    again = fit_weights(shifted, asked, budget=40, folder=tmp_path).completeness
    assert again is not None and (again.bias, again.slope) == pytest.approx((own.bias, own.slope))
    assert fit_weights(index, questions()[:20], budget=400, folder=tmp_path).completeness is None
    with pytest.raises(UsageError, match=r"too few questions to tune on: 19 \(expected 20 or more"):
        fit_weights(index, questions()[:19], folder=tmp_path)
