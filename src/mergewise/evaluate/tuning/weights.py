"""Fitting of weave's weights and a reranker's calibration to a user's own questions and models.

The default weights are a guess for another embedder or a reranker.

1. A logistic regression starts from the default weights, and a ridge pulls towards them.
2. The weights for a question are fitted on the other folds of questions, as in `tune`.
3. The strength of the ridge (`PULLS`) that wins is compared with the default weights by cross-fitting, as in `tune`. A weight for
   one fold is fitted on questions of the folds that choose the strength for another, so the comparison is slightly optimistic.
4. `Context.complete` is recalibrated on contexts with the chosen weights, if that lowers the log-loss in cross-validation. For
   this step alone, `FEWEST_CONTEXTS` questions suffice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np

from mergewise import Index, Models, Progress
from mergewise.errors import UsageError
from mergewise.evaluate.loaders.rows import place_of
from mergewise.evaluate.question_sets import Evidence, Question
from mergewise.evaluate.runs.digests import digest, question_digest
from mergewise.evaluate.tuning.measuring import ContextMeasure, Metric, PointScore
from mergewise.evaluate.tuning.space import Point, Value
from mergewise.evaluate.tuning.tune import (
    FEWEST,
    FOLDER,
    FOLDS,
    TuningReport,
    compare_points,
    folded_questions,
    setup_of,
    usable_questions,
)
from mergewise.extend import (
    FEATURES,
    OWN_BIAS,
    OWN_SLOPE,
    Calibration,
    Candidates,
    IndexState,
    ScoredTexts,
    Weave,
    calibrate,
    features_of,
    gather,
    is_mostly,
    resolve,
    scored_sentences,
    weights_text,
)
from mergewise.protocols import DoubleArray, IndexReader, Reranker, StoreReader
from mergewise.types import JsonDict, Span, frozen

NAMES = ("bias", *FEATURES)
PULLS = (1.0, 0.1, 0.01)
"""Strengths of the ridge. Half of it times the squared distance from the default weights is added to a question's log-loss."""
FEWEST_CONTEXTS = 20
"""Minimum of questions for recalibrating `Context.complete`."""
OWN_PULL = 4.0
"""Strength of the ridge that pulls the recalibration towards none, in contexts."""
NEWTON, HALVED = 60, 40
"""Maximum of Newton steps, and of halvings of a step."""
STANDARD = Weave()


@dataclass(slots=True)
class Case:
    """The candidates of a question: features of shape (candidates, features), and `gold` of shape (candidates,), 1 for gold.

    `scored` holds the candidates that a reranker scored, or None without a reranker.
    """

    question: Question
    candidates: Candidates
    features: DoubleArray
    gold: DoubleArray
    scored: ScoredTexts | None


def case_of(
    question: Question,
    reader: IndexReader,
    store: StoreReader,
    parameters: Weave = STANDARD,
    models: Models | None = None,
) -> Case | None:
    """Return the candidates of a question, or None without any. A sentence is gold if more than half of it is marked.

    The candidates are scored by the reranker of `models`.
    """
    candidates = gather(question.text, reader, parameters, [], models=models)
    sentences = candidates.pool.sentences
    if not sentences:
        return None
    places = list(gold_places(question.evidence or (), candidates, store))
    gold = [any(is_mostly(sentence.span, place) for place in places) for sentence in sentences]
    features = features_of(candidates.pool, candidates.signals).astype(float)
    scored = None if candidates.signals.reranked is None else scored_sentences(candidates, places)
    return Case(question, candidates, features, np.array(gold, float), scored)


def gold_places(evidence: Evidence, candidates: Candidates, store: StoreReader) -> Iterable[Span]:
    """Yield the spans of the evidence: as marked, or else where the document has the text.

    Evidence without a document is searched for in the leaves of the candidates.
    """
    for span, text in evidence:
        document = store.document(span.doc_id) if span.doc_id else None
        if document is not None:
            marked = document.text[span.start : span.end] == text
            found = (span.start, span.end) if marked else place_of(document.text, text)
            if found is not None:
                yield Span(document.id, *found)
        else:
            for leaf in {sentence.leaf.id: sentence.leaf for sentence in candidates.pool.sentences}.values():
                if (found := place_of(leaf.text, text)) is not None:
                    yield Span(leaf.doc_id, leaf.start + found[0], leaf.start + found[1])


def rows_of(cases: Sequence[Case]) -> tuple[DoubleArray, DoubleArray, float]:
    """Return the rows of several questions as a set for `logistic`."""
    return np.concatenate([case.features for case in cases]), np.concatenate([case.gold for case in cases]), len(cases)


def logistic(
    sets: Sequence[tuple[DoubleArray, DoubleArray, float]], ridge: float = 1e-3, towards: DoubleArray | None = None
) -> DoubleArray:
    """Fit a logistic regression by Newton's method with step halving.

    Args:
        sets: for each set its features, shape (rows, features), its labels, shape (rows,), and its number of questions. All sets
            have the same weight.
        ridge: strength of the pull.
        towards: weights to start from and to pull towards, shape (1 + features,). By default zeros.

    Returns:
        The bias and the weights of the features, shape (1 + features,).
    """
    x = np.concatenate([np.column_stack([np.ones(len(labels)), features]) for features, labels, _ in sets])
    y = np.concatenate([labels for _, labels, _ in sets])
    share = np.concatenate([np.full(len(labels), 1 / questions) for _, labels, questions in sets])
    prior = np.zeros(x.shape[1]) if towards is None else towards
    weights = prior.copy()

    def loss(tried: DoubleArray) -> float:
        z = x @ tried
        return float(share @ (np.logaddexp(0, z) - y * z) + ridge / 2 * ((tried - prior) ** 2).sum())

    for _ in range(NEWTON):
        p = 1 / (1 + np.exp(-np.clip(x @ weights, -60, 60)))
        hessian = (x * (share * p * (1 - p))[:, None]).T @ x + ridge * np.eye(len(weights))
        step = np.linalg.solve(hessian, x.T @ (share * (p - y)) + ridge * (weights - prior))
        before = loss(weights)
        halved = next((size for size in 0.5 ** np.arange(HALVED) if loss(weights - size * step) < before), None)
        if halved is None:
            break
        weights -= halved * step
    return weights


def fitted_models(
    point: Point, cases: Sequence[Case], present: Mapping[str, float]
) -> tuple[Mapping[str, float] | None, Calibration | None]:
    """Fit the weights and the calibration that the point asks for, on these questions. None means the present one."""
    wanted = point.changes.get("weights", {})
    weights = None
    if "pull" in wanted:
        prior = np.array([present[name] for name in NAMES])
        weights = dict(zip(NAMES, logistic([rows_of(cases)], float(wanted["pull"]), prior).tolist(), strict=True))
    scored = [case.scored for case in cases if case.scored is not None]
    return weights, calibrate(scored) if "calibrated" in wanted else None


def fitting_points(strategy: str, reranker: Reranker | None) -> list[Point]:
    """Return points for the present models, for fitted weights, and with a reranker also for each of these with a calibration."""
    fits: list[dict[str, Value]] = [{}]
    fits += [{"pull": pull} for pull in PULLS]
    fits += [] if reranker is None else [{**fit, "calibrated": True} for fit in fits]
    return [Point(strategy, {"weights": fit} if fit else {}) for fit in fits]


@frozen
class Recalibration:
    """A shift and a slope for the log-odds of `Context.complete`.

    Attributes:
        bias: log-odds to add.
        slope: factor of the log-odds.
        before: mean log-loss with the present calibration.
        after: mean log-loss with this one, in cross-validation.
    """

    bias: float
    slope: float
    before: float
    after: float

    def verdict(self) -> str:
        """Return the result as a sentence."""
        what = "better" if self.after < self.before else "keep the calibration of completeness"
        return f"{what}: log-loss of Context.complete {self.after:.3f} instead of {self.before:.3f}, cross-validated"


@frozen
class WeightsReport:
    """The result of a fit.

    Attributes:
        tuning: the comparison with the present models.
        weights: the fitted weights by feature, or None if the trials chose the present weights.
        reranker: the spec of the calibrated reranker, or an empty text without a calibration.
        completeness: the recalibration of `Context.complete`, or None if all contexts are complete, or none is.
        present: the user's present weights.
    """

    tuning: TuningReport
    weights: Mapping[str, float] | None
    reranker: str = ""
    completeness: Recalibration | None = None
    present: Mapping[str, float] = field(default_factory=dict)

    def as_dict(self) -> JsonDict:
        """Return the fits, without the report of the tuning."""
        own = self.completeness and asdict(self.completeness)
        return {"weights": self.weights, "reranker": self.reranker, "completeness": own}

    def file_text(self) -> str:
        """Return the text of a weights file, with the figures as comments, or an empty text if all weights should be kept."""
        weights, comments, own = {**self.present}, ["Fitted by `mergewise tune --fit`."], self.completeness
        if self.weights is not None and self.tuning.is_better:
            weights |= self.weights
            comments.append(self.tuning.verdict())
        if own is not None and own.after < own.before:
            weights |= {OWN_BIAS: own.bias, OWN_SLOPE: own.slope}
            comments.append(own.verdict())
        return weights_text(weights, comments) if len(comments) > 1 else ""


def fit_weights(
    index: Index,
    questions: Sequence[Question],
    strategy: str = "weave",
    *,
    metric: Metric = "evidence",
    budget: int = 384,
    seed: int = 0,
    trust_made: bool = False,
    folder: Path | None = None,
    progress: Progress | None = None,
) -> WeightsReport:
    """Fit weave's weights, the calibration of the index's reranker and that of completeness, on questions with marked evidence.

    Args:
        index: the index of the questions' documents.
        questions: the questions. Questions without evidence are left out.
        strategy: spec of weave.
        metric: the score of contexts to compare by.
        budget: token budget of the contexts.
        seed: random seed of the split.
        trust_made: accept questions that were made from the documents.
        folder: folder of the measurements, by default in the index's directory.
        progress: called after each question.

    Returns:
        The fitted weights, and their comparison with the present weights.

    Raises:
        UsageError: as for `tune`, for another strategy, or if no evidence is among the candidates. From `FEWEST_CONTEXTS`
            questions on, completeness alone is recalibrated.
    """
    _, parameters = resolve(strategy)
    if not isinstance(parameters, Weave):
        raise UsageError(f"strategy without weights: {strategy} (expected weave)", "leave out --strategy, or --fit")
    usable = usable_questions([q for q in questions if q.evidence], metric, trust_made, FEWEST_CONTEXTS)
    advance = progress or (lambda done, total, item: None)
    contexts, own_weights = ContextMeasure(index, metric, budget), index.models.weights or {}
    if (count := len(usable)) < FEWEST:
        reason = f"{count} questions recalibrate completeness only (weights need {FEWEST})"
        report = TuningReport(strategy, metric, budget, Point(strategy), None, count, count, [], {}, reason)
        return WeightsReport(report, None, "", recalibration(contexts, strategy, usable, own_weights), own_weights)
    folded = folded_questions(usable, seed)
    folds = {question.id: fold for question, fold in zip(folded.questions, folded.folds, strict=True)}
    cases = _cases(folded.questions, contexts.state, parameters, advance)
    present = cases[0].candidates.pool.weights
    points = fitting_points(strategy, index.reranker)
    fits = {(p.key, -1): fitted_models(p, cases, present) for p in points}
    for fold in set(folded.folds):
        others = [case for case in cases if folds[case.question.id] != fold]
        fits |= {(p.key, fold): fitted_models(p, others, present) for p in points}

    def measure(points: Sequence[Point], question: Question) -> list[PointScore]:
        contexts.memory.forget()
        fold = folds[question.id]
        return [contexts.with_models(*fits[p.key, fold]).score(Point(strategy), question) for p in points]

    fitted_on = digest([(question_digest(q, with_gold=True), folds[q.id]) for q in folded.questions])
    count = len(folded.questions)
    report = compare_points(
        points,
        folded,
        measure,
        {**setup_of(index, metric, budget), "fitted_on": fitted_on},
        folder or index.store.directory / FOLDER,
        {},
        on_question=lambda seen: advance(count + seen, 2 * count, f"{len(points)} fits"),
    )
    weights, calibration = fits[report.winner.key, -1]
    reranker = contexts.with_models(weights, calibration).state.models.reranker
    spec = reranker.spec if reranker is not None and calibration is not None else ""
    contexts.memory.forget()
    kept, kept_calibration = (weights, calibration) if report.is_better else (None, None)
    own = recalibration(
        contexts.with_models(None, kept_calibration), strategy, folded.questions, {**own_weights, **(kept or {})}
    )
    return WeightsReport(report, weights, spec, own, own_weights)


def recalibration(
    contexts: ContextMeasure, strategy: str, questions: Sequence[Question], weights: Mapping[str, float]
) -> Recalibration | None:
    """Fit a recalibration on the contexts of these questions at the budget, its half and its double."""
    standing = weights.get(OWN_BIAS, 0.0), weights.get(OWN_SLOPE, 1.0)
    bare = contexts.with_models({**weights, OWN_BIAS: 0.0, OWN_SLOPE: 1.0}, None)
    rows = [bare.completeness(Point(strategy), question) for question in questions]
    z, held = (np.array(values) for values in zip(*(row for own in rows for row in own), strict=True))
    if len(set(held)) < 2:
        return None
    of_folds = np.repeat(np.arange(len(rows)) % FOLDS, len(rows[0]))
    after = np.empty(len(z))
    for fold in set(of_folds):
        own, others = of_folds == fold, of_folds != fold
        bias, slope = _shift(z[others], held[others], len(rows[0]))
        after[own] = _log_loss(bias + slope * z[own], held[own]).mean()
    bias, slope = _shift(z, held, len(rows[0]))
    return Recalibration(bias, slope, float(_log_loss(standing[0] + standing[1] * z, held).mean()), float(after.mean()))


def _shift(z: DoubleArray, held: DoubleArray, rows: int) -> tuple[float, float]:
    """Fit bias and slope of log-odds. Each question has this number of rows."""
    bias, slope = logistic([(z[:, None], held, rows)], OWN_PULL, np.array([0.0, 1.0])).tolist()
    return bias, max(0.0, slope)


def _log_loss(z: DoubleArray, held: DoubleArray) -> DoubleArray:
    return np.asarray(np.logaddexp(0, z) - held * z)


def _cases(questions: Sequence[Question], state: IndexState, parameters: Weave, advance: Progress) -> list[Case]:
    found = []
    for number, question in enumerate(questions, 1):
        own = state.for_question()
        reader = own.reader(question.where)
        case = case_of(question, reader, state.store, replace(parameters, select="scores"), own.models)
        found += [case] if case is not None else []
        advance(number, 2 * len(questions), "candidates")
    if not any(case.gold.any() for case in found):
        raise UsageError(
            "no evidence of these questions among the candidates", "check that the index holds their documents"
        )
    return found
