"""The tables and figures of the papers as data: a TOML file each, with its rows, columns, layout and published numbers.

A cell of a table is one method at one budget on one question set, by one metric. A row names the method, a group of columns the
set, a column the metric, the budget or the mode. What a paper published stands in the file cell by cell; what a run measured is
put beside it (`evaluate.layout`). A file:

    title = "MergeRAG, Table 1"         what it is called
    source = "..."                      the paper, with section and table
    about = "..."                       a sentence: what stands in the cells
    percent = true                      shares are written as percentages
    decimals = 1
    budgets = [640]                     where neither row nor column has its own
    shape = "wide"                      groups side by side; "stacked": one below the other; "curve": a figure over budgets
    notes = ["..."]                     where a run of ours differs from the paper
    contexts = ["all", "evidence"]      metrics that fill the layout where nothing answers
    groups = [...]                      label, and the sets that can stand in it: the first that a run has; none: their mean
    columns = [...]                     label, metric, budget, mode, decimals, or mean = true: the mean of the others of a group
    [[rows]]                            label, method or strategy with mode and judge, published = [[group], ...], only, needs;
                                        modes = [...]: a cell is the mean of these; model_free: the strategy where nothing answers

`only` names what a run must hold for a row to be filled by it: a part of a model's name, as in `{chat = "Qwen3-14B"}`, or a
setting of a view, as in `{"marker.examples" = "none"}`, where an empty text means any but "none".
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from importlib.resources import files
from typing import Any, Literal, TypeAlias, get_args

from mergewise.designs import STRATEGIES, split_spec
from mergewise.errors import UsageError
from mergewise.evaluate.methods import METHODS, Method

Shape: TypeAlias = Literal["wide", "stacked", "curve"]
Published: TypeAlias = tuple[tuple[float | None, ...], ...]
"""For each group the numbers of its columns, as they are printed; None where there is none."""


@dataclass(frozen=True, slots=True)
class PresetGroup:
    """Columns of one question set. `sets` are names that can stand for it, the closest to the paper's first; without any it is
    the mean of the other groups.
    """

    label: str
    sets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PresetColumn:
    """`metric` is one of a row of `rows.parquet`. `is_mean`: the mean of the other columns in its group (of the same row)."""

    label: str
    metric: str = ""
    budget: int | None = None
    mode: str | None = None
    is_mean: bool = False
    decimals: int | None = None


@dataclass(frozen=True, slots=True)
class PresetRow:
    """`method` is None where a number is published alone, as that of another reader. With `modes` a cell is the mean of the
    method's answers in these. `needs` says what this version lacks to run it, `only` what a run must hold to fill it. `spread`
    are the published deviations, `model_free` is the strategy that stands for it where no model answers.
    """

    label: str
    method: Method | None
    section: str = ""
    modes: tuple[str, ...] = ()
    published: Published = ()
    spread: Published = ()
    only: Mapping[str, str] = field(default_factory=dict)
    needs: str = ""
    model_free: str = ""


@dataclass(frozen=True, slots=True)
class Preset:
    """One table or figure. `unit` is what its figures count where they are no shares, as "seconds"."""

    name: str
    title: str
    source: str
    about: str
    groups: tuple[PresetGroup, ...]
    columns: tuple[PresetColumn, ...]
    rows: tuple[PresetRow, ...]
    shape: Shape = "wide"
    percent: bool = True
    decimals: int = 1
    budgets: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()
    contexts: tuple[str, ...] = ("answer", "evidence", "all")
    repeats: int = 1
    by: Literal["questions", "index", "sources"] = "questions"

    @property
    def sets(self) -> tuple[str, ...]:
        """The names of all sets that have a place in it, those of a group one after another."""
        return tuple(dict.fromkeys(name for group in self.groups for name in group.sets))

    def methods_of(self, row: PresetRow, column: PresetColumn) -> tuple[Method, ...]:
        """What fills a cell: the row's method in the column's mode, or in each of its own modes."""
        if row.method is None or column.is_mean:
            return ()
        modes = (column.mode,) if column.mode is not None else row.modes
        return tuple(_in_mode(row.method, mode) for mode in modes) or (row.method,)

    def budgets_of(self, column: PresetColumn) -> tuple[int, ...]:
        """The budgets of a column: its own, or all."""
        return self.budgets if column.budget is None else (column.budget,)

    def runs(self) -> dict[tuple[str, int], Method]:
        """What must be run to fill it: methods by name and budget. Rows that need what this version lacks are left out."""
        ready = [row for row in self.rows if not row.needs] if self.by == "questions" else []
        return {
            (method.name, budget): method
            for row in ready
            for column in self.columns
            for method in self.methods_of(row, column)
            for budget in self.budgets_of(column)
        }

    def methods(self) -> tuple[Method, ...]:
        """The methods to be run, each once."""
        return tuple({method.name: method for method in self.runs().values()}.values())

    def without_answers(self) -> Preset:
        """The same layout by what contexts hold: no mode, no model that answers, `contexts` in place of the metrics.

        Rows that differ in their mode alone become one.
        """
        budgets = dict.fromkeys(column.budget for column in self.columns if not column.is_mean)
        columns = tuple(
            PresetColumn(name if budget is None else _budget_label(self, budget, name, len(budgets)), name, budget)
            for budget in budgets
            for name in (self.contexts[:1] if len(budgets) > 1 else self.contexts)
        )
        rows: dict[tuple[str, str], PresetRow] = {}
        for row in self.rows:
            if row.method is not None:
                spec = row.model_free
                own = Method(spec, spec, None, row.method.judge, row.method.about) if spec else row.method
                method = replace(own, name=_context_name(own), mode=None)
                kept = replace(row, method=method, modes=(), published=(), spread=())
                rows.setdefault((method.strategy, method.judge), kept)
        return replace(
            self,
            name=f"{self.name}-contexts",
            title=f"{self.title}: what contexts hold",
            about=f"In the layout of the paper, of contexts alone: {', '.join(self.contexts)}.",
            columns=columns,
            rows=tuple(rows.values()),
            percent=False,
            decimals=3,
            by="questions",
            notes=(
                "What contexts hold, since no model answers: no number of the paper can stand beside it.",
                *self.notes,
            ),
        )


def _budget_label(preset: Preset, budget: int, name: str, count: int) -> str:
    labels = [column.label for column in preset.columns if column.budget == budget]
    return f"{labels[0]} {name}" if count == 1 else labels[0]


def _in_mode(method: Method, mode: str) -> Method:
    return method if method.mode == mode else replace(method, name=f"{method.name} {mode}", mode=mode)


def _context_name(method: Method) -> str:
    """The name of a method without its mode."""
    return method.name.removesuffix(f" {method.mode}")


@cache
def preset_names() -> tuple[str, ...]:
    """The names of all presets, sorted."""
    here = files("mergewise.evaluate.presets")
    return tuple(sorted(entry.name[:-5] for entry in here.iterdir() if entry.name.endswith(".toml")))


@cache
def preset(name: str) -> Preset:
    """The preset of this name. Raises UsageError where there is none."""
    if name not in preset_names():
        raise UsageError(f"unknown table {name!r}", f"one of: {', '.join(preset_names())}")
    text = (files("mergewise.evaluate.presets") / f"{name}.toml").read_text(encoding="utf-8")
    return read_preset(name, tomllib.loads(text))


def presets_of(names: str) -> list[Preset]:
    """Presets by their names, separated by commas; each once."""
    found = [preset(part) for part in dict.fromkeys(filter(None, (part.strip() for part in names.split(","))))]
    if not found:
        raise UsageError("no table is named", f"one of: {', '.join(preset_names())}")
    return found


def read_preset(name: str, table: Mapping[str, Any]) -> Preset:
    """A preset from its TOML. Raises ValueError where a key is unknown, or published numbers have no column."""
    known = {one.name for one in fields(Preset)} - {"name"}
    if unknown := table.keys() - known:
        raise ValueError(f"{name}: unknown keys {', '.join(sorted(unknown))}")
    if table.get("shape", "wide") not in get_args(Shape):
        raise ValueError(f"{name}: unknown shape {table['shape']!r}")
    groups = tuple(PresetGroup(one["label"], tuple(one["sets"])) for one in table["groups"])
    columns = tuple(_column(one) for one in table["columns"])
    rows = tuple(_row(one) for one in table["rows"])
    for row in rows:
        for numbers in (row.published, row.spread):
            if numbers and [len(group) for group in numbers] != [len(columns)] * len(groups):
                raise ValueError(f"{name}: the numbers of {row.label!r} are not those of its columns")
    values: dict[str, Any] = {key: tuple(one) if isinstance(one, list) else one for key, one in table.items()}
    values |= {"groups": groups, "columns": columns, "rows": rows}
    return Preset(name=name, **values)


def _column(one: Mapping[str, Any]) -> PresetColumn:
    return PresetColumn(**{"is_mean" if key == "mean" else key: value for key, value in one.items()})


def _row(one: Mapping[str, Any]) -> PresetRow:
    method, needs = _method(one)
    return PresetRow(
        label=one["label"],
        method=method,
        section=one.get("section", ""),
        modes=tuple(one.get("modes", ())),
        published=_numbers(one.get("published", ())),
        spread=_numbers(one.get("spread", ())),
        only=dict(one.get("only", {})),
        needs=one.get("needs", needs),
        model_free=one.get("model_free", ""),
    )


def _method(one: Mapping[str, Any]) -> tuple[Method | None, str]:
    """The method of a row, and what it needs where this version has none of that name."""
    if "method" in one:
        name, mode = one["method"], one.get("mode")
        known = METHODS.get(name) or Method(name, name, None, "given", one["label"])
        absent = name not in METHODS and name not in STRATEGIES
        needs = f"needs the method {name}, which this version does not have" if absent else ""
        return (known if mode is None else _in_mode(known, mode)), needs
    if "strategy" not in one:
        return None, ""
    spec = one["strategy"]
    method = Method(
        one.get("name", spec), spec, None, one.get("judge", "given"), one["label"], tuple(one.get("views", ()))
    )
    name = split_spec(spec)[0]
    needs = "" if name in STRATEGIES else f"needs the strategy {name}, which this version does not have"
    if "mode" in one:
        method = replace(method, mode=one["mode"]) if "name" in one else _in_mode(method, one["mode"])
    return method, needs


def _numbers(groups: Sequence[Sequence[float]]) -> Published:
    # TOML has no null: a number that is not there is nan
    return tuple(tuple(None if number != number else float(number) for number in group) for group in groups)
