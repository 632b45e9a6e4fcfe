"""The scores of runs as arrays. Runs are folders, several side by side, or an evaluation in memory.

There is an array for each set, method, budget and metric, with a number for each question of the set. It is nan if the row is
missing or the metric does not apply to the question. Repeats are averaged. Contexts are read row by row when they are shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mergewise import STRATEGIES
from mergewise.errors import UsageError
from mergewise.evaluate.answers import ANSWER_SCORES, REFUSALS, WITHHELD
from mergewise.evaluate.citing import CITATION_SCORES
from mergewise.evaluate.judged import LostStage
from mergewise.evaluate.methods import METHODS
from mergewise.evaluate.metrics import CONTEXT_SCORES
from mergewise.evaluate.pairs import PairedTests, ScoreVector, over_sets
from mergewise.evaluate.question_sets import Question, clusters
from mergewise.evaluate.ranking import is_measure, ranking_score
from mergewise.evaluate.runs.run_folder import Run, rows_at, rows_of
from mergewise.evaluate.runs.run_row import RunRow
from mergewise.evaluate.runs.run_schema import scores_of
from mergewise.extend import split_spec
from mergewise.protocols import BoolArray, DoubleArray
from mergewise.types import frozen

ColumnKey: TypeAlias = tuple[str | None, str, int, str]
"""A set, or None for all sets, a method, a budget and a metric."""
KINDS = {"": "contexts only", "extractive": "quotations"}
"""Descriptions of rows by mode, if no model wrote their answers."""
OF_ANSWERS = (*ANSWER_SCORES, *CITATION_SCORES, *REFUSALS, WITHHELD)


class CellKey(NamedTuple):
    set: str
    method: str
    budget: int


@frozen
class MeasuredMethod:
    """A method with its displayed name, which is unique. `method` is its name in run number `run`, `judge` its judge's spec."""

    name: str
    method: str
    about: str = ""
    run: int = 0
    judge: str = ""


@frozen
class MeasuredSet:
    name: str
    questions: tuple[Question, ...]
    clusters: tuple[int, ...]


@frozen
class MeasuredRun:
    """The origin of rows: a label, facts to show, and the models by role and view settings that presets are matched with."""

    label: str
    facts: tuple[tuple[str, str], ...] = ()
    models: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Measured:
    """The scores of one or more runs.

    `deviations` holds the standard deviations of means between repeats. `needs` explains why a method has no rows for a set.
    `unheld` counts the questions of a set whose answers are in no document. `names` are the displayed names by run, method and
    mode: a method that answered in several modes has several. `modes` holds the mode of each cell with answers. `left_out`
    counts the stored rows of earlier settings by method.
    """

    runs: tuple[MeasuredRun, ...]
    sets: tuple[MeasuredSet, ...]
    methods: tuple[MeasuredMethod, ...]
    budgets: tuple[int, ...]
    values: Mapping[CellKey, Mapping[str, DoubleArray]]
    deviations: Mapping[tuple[str | None, str, int], Mapping[str, float]]
    needs: Mapping[tuple[str, str], str]
    reference: str
    tables: tuple[str, ...]
    unheld: Callable[[str], int]
    outcomes: Callable[[str, Sequence[int]], Sequence[Mapping[tuple[str, int], RunRow]]]
    texts: Mapping[tuple[str, str], tuple[str, str]]
    names: Mapping[tuple[int, str, str | None], str]
    modes: Mapping[CellKey, str]
    left_out: Mapping[str, int]

    @cached_property
    def tests(self) -> PairedTests:
        return PairedTests({one.name: one.clusters for one in self.sets})

    @cached_property
    def _columns(self) -> dict[ColumnKey, ScoreVector]:
        """The scores by set, method, budget and metric. A set of None stands for all sets."""
        columns: dict[ColumnKey, ScoreVector] = {
            (*key, metric): ScoreVector({key.set: values})
            for key, metrics in self.values.items()
            for metric, values in metrics.items()
            if not np.isnan(values).all()
        }
        judged: dict[str, set[str | None]] = {}
        several: dict[ColumnKey, list[ScoreVector]] = {}
        for (set_name, method, budget, metric), scored in columns.items():
            judged.setdefault(metric, set()).add(set_name)
            several.setdefault((None, method, budget, metric), []).append(scored)
        return columns | {key: over_sets(own) for key, own in several.items() if len(own) == len(judged[key[3]])}

    def scored(self, set_name: str | None, method: str, budget: int, metric: str) -> ScoreVector | None:
        """Return the scores of a method on one set, or on all sets if `set_name` is None.

        Returns None if no question has this score, or if it is missing for a set that another method has it for.
        """
        return self._columns.get((set_name, method, budget, metric))

    def deviation(self, set_name: str | None, method: str, budget: int, metric: str) -> float | None:
        """Return the standard deviation of a mean on one set between repeats, or None without repeats."""
        return self.deviations.get((set_name, method, budget), {}).get(metric)

    @cached_property
    def metrics(self) -> tuple[str, ...]:
        """The names of all scores that at least one question has."""
        return tuple(dict.fromkeys(metric for *_, metric in self._columns))

    def is_scored(self, set_name: str, metric: str) -> bool:
        """Check that at least one question of the set has this score."""
        return (set_name, metric) in self._scored

    @cached_property
    def _scored(self) -> set[tuple[str | None, str]]:
        return {(set_name, metric) for set_name, _, _, metric in self._columns}

    @property
    def answered(self) -> bool:
        return bool(self.modes)

    @property
    def quoted(self) -> bool:
        """True if the answers of any cell are quotations."""
        return "extractive" in self.modes.values()

    @property
    def written(self) -> bool:
        """True if a model wrote the answers of any cell."""
        return not {"extractive"}.issuperset(self.modes.values())

    def kind(self, method: str, budget: int) -> str:
        """Describe the answers of a method. Return an empty text if those of all methods were made in the same way."""
        kinds = {key: self.modes.get(key, "") for key in self.values}
        own = sorted({mode for key, mode in kinds.items() if key[1:] == (method, budget)})
        named = (KINDS.get(mode, f"answers in the mode {mode}") for mode in own)
        return "; ".join(named) if len({*kinds.values()}) > 1 else ""

    @property
    def is_plumbing(self) -> bool:
        """True if a scripted model filled rows."""
        # every scripted model has this in its name
        return any("scripted" in model.lower() for run in self.runs for model in run.models.values())


def measured_runs(runs: Sequence[Run], reference: str | None = None, metrics: Sequence[str] = ()) -> Measured:
    """Combine runs. A method that two runs have on the same set appears once for each run.

    `metrics` may name measures of rankings that the rows have no score for. They are computed from the stored rankings.
    """
    labels = _labels([run.folder for run in runs])
    keys = [_row_keys(run) for run in runs]
    counts = Counter(pair for own in keys for pair in {(key.set, key.method) for key, _ in own})
    # methods that two runs have rows of for the same set
    twice = {method for (_, method), count in counts.items() if count > 1}
    names = {}
    for number, own in enumerate(keys):
        several = Counter(pair[0] for pair in {(key.method, mode) for key, mode in own if mode})
        for key, mode in own:
            name = f"{key.method}, {mode}" if mode and several[key.method] > 1 else key.method
            names[number, key.method, mode] = f"{name} ({labels[number]})" if key.method in twice else name
    asked = {(key.set, question) for own in keys for (key, _), rows in own.items() for question, _, _ in rows}
    sets = _united_sets(runs, asked)
    places = {one.name: {question.id: at for at, question in enumerate(one.questions)} for one in sets}
    judged = {one.name: _questions_by_metric(one.questions) for one in sets}
    values: dict[CellKey, dict[str, DoubleArray]] = {}
    modes: dict[CellKey, str] = {}
    deviations: dict[tuple[str | None, str, int], dict[str, float]] = {}
    rows: dict[str, dict[int, dict[tuple[str, int], tuple[int, int]]]] = {}
    for number, (run, own) in enumerate(zip(runs, keys, strict=True)):
        columns = _score_columns(run)
        columns |= _measure_columns(run, [name for name in metrics if is_measure(name) and name not in columns], sets)
        failed = _flags(pc.not_equal(run.rows()["error"], ""))
        cells: dict[CellKey, list[tuple[str, int, int]]] = {}
        for (key, mode), found in own.items():
            shown = key._replace(method=names[number, key.method, mode])
            cells.setdefault(shown, []).extend(found)
            if mode:
                modes[shown] = mode
        for shown, found in cells.items():
            at = places[shown.set]
            kept = [(at[question], repeat, row) for question, repeat, row in found if question in at]
            values[shown], deviations[shown] = _averaged(columns, kept, failed, len(at), judged[shown.set])
            for question, _, row in reversed(kept):
                rows.setdefault(shown.set, {}).setdefault(question, {})[shown.method, shown.budget] = (number, row)
    needs = {
        (one.set, names.get((number, one.method, None), one.method)): one.needs
        for number, run in enumerate(runs)
        for one in run.plan.needs()
    }
    methods = _methods(runs, names)
    return Measured(
        runs=tuple(_run_facts(run, label) for run, label in zip(runs, labels, strict=True)),
        sets=tuple(sets),
        methods=methods,
        budgets=tuple(sorted({key.budget for key in values})),
        values=values,
        deviations=deviations,
        needs={key: one for key, one in needs.items() if key not in {(v.set, v.method) for v in values}},
        reference=_reference(reference, [run.plan.reference for run in runs], methods),
        tables=tuple(dict.fromkeys(table for run in runs for table in run.plan.tables)),
        unheld=partial(_unheld, runs),
        outcomes=lambda name, asked: _outcomes(runs, [rows.get(name, {}).get(question, {}) for question in asked]),
        texts={key: text for run in reversed(runs) for key, text in run.documents.items()},
        names=names,
        modes=modes,
        left_out=sum((Counter(run.left_out()) for run in runs), Counter()),
    )


def _labels(folders: Sequence[Path]) -> list[str]:
    """Return the names of the folders, with as many parent folders as it takes to tell them apart."""
    for depth in range(1, 9):
        labels = ["/".join(folder.absolute().parts[-depth:]) for folder in folders]
        if len(set(labels)) == len(labels):
            return labels
    raise UsageError("duplicate run folder", "name each folder once")


def _row_keys(run: Run) -> dict[tuple[CellKey, str | None], list[tuple[str, int, int]]]:
    """Map each set, method, budget and mode to the question, repeat and row number of its rows."""
    table = run.rows()
    names = ("set", "method", "budget", "mode", "question", "repeat")
    found: dict[tuple[CellKey, str | None], list[tuple[str, int, int]]] = {}
    for row, (*key, mode, question, repeat) in enumerate(
        zip(*(table[name].to_pylist() for name in names), strict=True)
    ):
        found.setdefault((CellKey(*key), mode), []).append((question, repeat, row))
    return found


def _united_sets(runs: Sequence[Run], asked: Container[tuple[str, str]]) -> list[MeasuredSet]:
    """Return each set once, with the questions that any run has rows of. Clusters are computed from the whole set."""
    found: dict[str, dict[str, Question]] = {}
    for run in runs:
        for planned in run.plan.sets:
            own = found.setdefault(planned.name, {})
            for question in run.set_questions(planned.name):
                own.setdefault(question.id, question)
    sets = []
    for name, questions in found.items():
        whole = tuple(questions.values())
        kept = [(one, own) for one, own in zip(whole, clusters(whole), strict=True) if (name, one.id) in asked]
        if kept:
            sets.append(MeasuredSet(name, *map(tuple, zip(*kept, strict=True))))
    if not sets:
        raise UsageError("runs without questions", "let `mergewise eval` finish: it writes the questions last")
    return sets


def _score_columns(run: Run) -> dict[str, DoubleArray]:
    """Return all numbers of the rows by name. A missing number is nan."""
    table = run.rows()
    answered = _flags(table["mode"].is_valid()) & _flags(pc.equal(table["error"], ""))

    def numbers(name: str) -> DoubleArray:
        values: DoubleArray = (
            table[name].combine_chunks().cast("float64").to_numpy(zero_copy_only=False).astype(np.float64)
        )
        return values

    found = {name: numbers(name) for name in (*scores_of(table), "tokens", "answer_seconds")}
    found |= {
        name: np.where(answered, numbers(name), np.nan)
        for name in ("calls", "input_tokens", "output_tokens", *REFUSALS)
    }
    query = numbers("search_seconds") + numbers("assembly_seconds")
    return {**found, WITHHELD: found["refused"], "query_ms": 1000 * query, "seconds": query + found["answer_seconds"]}


def _measure_columns(run: Run, names: Sequence[str], sets: Sequence[MeasuredSet]) -> dict[str, DoubleArray]:
    """Compute measures from the rankings of the rows."""
    gains = {(one.name, question.id): question.gains for one in sets for question in one.questions} if names else {}
    table = run.rows().select(["set", "question", "ranking", "error"]).to_pylist() if names else []
    ranked = [[one["doc"] for one in row["ranking"] or ()] for row in table]
    known = [{} if row["error"] else gains.get((row["set"], row["question"]), {}) for row in table]
    return {
        name: np.array([ranking_score(name, *pair) for pair in zip(ranked, known, strict=True)], np.float64)
        for name in names
    }


def _flags(column: pa.ChunkedArray) -> BoolArray:
    flags: BoolArray = column.to_numpy().astype(bool)
    return flags


def _questions_by_metric(questions: Sequence[Question]) -> dict[str, BoolArray]:
    """Map each metric that does not apply to every question to a mask of the questions it applies to."""
    with_answers = np.asarray([question.has_answers for question in questions], bool)
    answerable = np.asarray([question.answerable for question in questions], bool)
    return {
        **dict.fromkeys(ANSWER_SCORES, with_answers),
        **dict.fromkeys(REFUSALS, ~answerable),
        **dict.fromkeys((*CONTEXT_SCORES, *CITATION_SCORES, WITHHELD), answerable),
    }


def _averaged(
    columns: Mapping[str, DoubleArray],
    rows: Sequence[tuple[int, int, int]],
    failed: BoolArray,
    count: int,
    judged: Mapping[str, BoolArray],
) -> tuple[dict[str, DoubleArray], dict[str, float]]:
    """Return the scores of each question, averaged over repeats, and the deviation of their mean between repeats.

    A failed row scores 0 in every metric of answers.
    """
    questions, repeats, places = (np.asarray(column, np.intp) for column in zip(*rows, strict=True))
    several = np.unique(repeats)
    values, deviations = {}, {}
    for name, column in columns.items():
        own = column[places]
        if name in OF_ANSWERS and not np.isnan(own).all():
            own = np.where(failed[places], 0.0, own)
        if name in judged:
            own = np.where(judged[name][questions], own, np.nan)
        known = ~np.isnan(own)
        if not known.any():
            continue
        sums = np.bincount(questions[known], own[known], count)
        sizes = np.bincount(questions[known], minlength=count)
        values[name] = np.where(sizes > 0, sums / np.maximum(sizes, 1), np.nan)
        means = [own[known & (repeats == repeat)] for repeat in several]
        if len(several) > 1 and all(map(len, means)):
            deviations[name] = float(np.std([one.mean() for one in means], ddof=1))
    return values, deviations


def _methods(runs: Sequence[Run], names: Mapping[tuple[int, str, str | None], str]) -> tuple[MeasuredMethod, ...]:
    found: dict[str, MeasuredMethod] = {}
    for number, run in enumerate(runs):
        judges = {one.method: one.judge for one in run.plan.rows if one.judge}
        for planned in run.plan.methods:
            about, judge = planned.about or _about(planned.name), judges.get(planned.name, "")
            for (own, method, _), shown in names.items():
                if (own, method) == (number, planned.name):
                    found.setdefault(shown, MeasuredMethod(shown, method, about, number, judge))
    return tuple(found.values())


def _about(method: str) -> str:
    if known := METHODS.get(method):
        return known.about
    strategy = STRATEGIES.get(split_spec(method)[0])
    return "" if strategy is None else strategy.summary


def _reference(wanted: str | None, planned: Sequence[str], methods: Sequence[MeasuredMethod]) -> str:
    """Return the displayed name of the reference method: the wanted one, else a plan's, else the first method.

    Raises UsageError if the wanted method is unknown.
    """
    if not methods:
        raise UsageError("runs without rows", "run `mergewise eval SETS... --out RUN` first")
    for name in planned if wanted is None else [wanted]:
        for one in methods:
            if name in (one.name, one.method):
                return one.name
    if wanted is not None:
        raise UsageError(f"unknown method: {wanted!r}", f"one of: {', '.join(one.name for one in methods)}")
    return methods[0].name


def _run_facts(run: Run, label: str) -> MeasuredRun:
    plan = run.plan
    machine = plan.machine
    facts = [
        ("command", plan.command),
        ("folder", str(run.folder)),
        ("questions", ", ".join(f"{one.name} {one.asked} of {one.questions}" for one in plan.sets)),
        ("digests", ", ".join(f"{one.name} {one.digest} on {one.documents}" for one in plan.sets if one.digest)),
        ("embedder", ", ".join(dict.fromkeys(one.embedder for one in plan.sets if one.embedder))),
        ("models", ", ".join(f"{role} {spec}" for role, spec in plan.models.items() if spec)),
        ("split, limit, sample, seed", f"{plan.split}, {plan.limit or 'none'}, {plan.sample or 'none'}, {plan.seed}"),
        ("repeats", str(plan.repeats) if plan.repeats > 1 else ""),
        ("versions", ", ".join(f"{name} {version}" for name, version in plan.versions.items())),
        ("machine", ", ".join(map(str, filter(None, (machine.system, machine.cores and f"{machine.cores} cores"))))),
    ]
    return MeasuredRun(label, tuple((name, value) for name, value in facts if value), plan.models)


def _outcomes(
    runs: Sequence[Run], asked: Sequence[Mapping[tuple[str, int], tuple[int, int]]]
) -> list[dict[tuple[str, int], RunRow]]:
    """Return the rows of each question by method and budget. `asked` holds the run number and row number of each."""
    wanted: dict[int, list[int]] = {}
    for own in asked:
        for number, place in own.values():
            wanted.setdefault(number, []).append(place)
    read: dict[tuple[int, int], RunRow] = {}
    for number, places in wanted.items():
        rows = rows_of(rows_at(runs[number].rows(), places))
        read |= {(number, place): row for place, row in zip(places, rows, strict=True)}
    return [{key: read[where] for key, where in own.items()} for own in asked]


def _unheld(runs: Sequence[Run], set_name: str) -> int:
    """Count the questions of a set whose answers are in no document."""
    questions: set[str] = set()
    for run in runs:
        rows = run.rows().filter(pc.equal(run.rows()["set"], set_name)).select(["question", "lost"]).combine_chunks()
        lost = rows["lost"].combine_chunks()
        nowhere = pc.equal(pc.struct_field(pc.list_flatten(lost), "stage"), LostStage.NOWHERE.value)
        questions.update(rows["question"].take(pc.list_parent_indices(lost).filter(nowhere)).to_pylist())
    return len(questions)
