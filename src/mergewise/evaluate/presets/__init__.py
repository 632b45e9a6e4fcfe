"""Presets: the tables and figures of the papers. Each is a TOML file with rows, columns, layout and published numbers.

A cell is one method at one budget on one question set, by one metric. A row names the method, a group of columns the set, and a
column the metric, the budget or the mode. The file lists published numbers cell by cell. Reports show them next to measured ones
(`evaluate.layout`). A file:

    title = "MergeRAG, Table 1"         the name
    source = "..."                      the paper, with section and table
    about = "..."                       the content of the cells, as a sentence
    percent = true                      show shares as percentages
    decimals = 1
    budgets = [640]                     for columns without a budget of their own
    shape = "wide"                      groups side by side; "stacked": groups below each other; "curve": a figure over budgets
    notes = ["..."]                     differences between our runs and the paper
    contexts = ["all", "evidence"]      metrics of the layout in a run without answers
    groups = [...]                      label, and question sets in order of preference; no sets: the mean of the other groups
    columns = [...]                     label, metric, budget, mode, decimals; is_mean = true: the mean of the others
    set = ["slice.preset=paper"]        settings of views of all rows
    judge = "reranker"                  the judge of rows with a strategy and no judge of their own (`methods.Judge`)
    [[rows]]                            label, method or strategy with mode and judge, published = [[group], ...], only, needs;
                                        modes = [...]: a cell is their mean; set: settings of views, after those of all rows;
                                        requires = [...]: needed models and packages (`methods.NEEDS`);
                                        probe: scores beside those of a context (`judged.PROBES`)

`only` restricts the runs that fill a row: to a part of a model's name, as in `{chat = "Qwen3-14B"}`, or to a setting of a view,
as in `{"marker.prompt" = "none"}`. An empty text means any setting except "none". A row that the run's own models cannot fill is
not computed.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Container, Mapping, Sequence
from dataclasses import field, fields, replace
from functools import cache
from importlib.resources import files
from typing import Any, Literal, TypeAlias, get_args

from mergewise.errors import UsageError, check_known
from mergewise.evaluate.methods import METHODS, Judge, Method, names_in
from mergewise.types import Json, frozen

Shape: TypeAlias = Literal["wide", "stacked", "curve"]
Published: TypeAlias = tuple[tuple[float | None, ...], ...]
"""For each group the numbers of its columns, as printed. None for a missing number."""


@frozen
class PresetGroup:
    """A group of columns for one question set. `sets` names suitable sets, closest to the paper's first.

    A group without sets holds the mean of the other groups.
    """

    label: str
    sets: tuple[str, ...]

    def set_among(self, names: Container[str]) -> str | None:
        """Return the most suitable of these sets, or None."""
        return next((name for name in self.sets if name in names), None)


@frozen
class PresetColumn:
    """A column. `metric` is a score of `rows.parquet`. A column that `is_mean` holds the mean of its group's other columns."""

    label: str
    metric: str = ""
    budget: int | None = None
    mode: str | None = None
    is_mean: bool = False
    decimals: int | None = None


@frozen
class PresetRow:
    """A row of a table.

    Attributes:
        label: the name in the table.
        method: the method, or None for a row with published numbers only.
        section: the section of the table.
        modes: if given, a cell is the mean over these modes.
        published: the published numbers.
        spread: the published deviations.
        only: the conditions on runs that fill this row.
        needs: what this version lacks to run the method.
    """

    label: str
    method: Method | None
    section: str = ""
    modes: tuple[str, ...] = ()
    published: Published = ()
    spread: Published = ()
    only: Mapping[str, str] = field(default_factory=dict)
    needs: str = ""

    def can_fill(self, models: Mapping[str, str]) -> bool:
        """Return whether a run with these models, by role and view setting, fills this row."""
        for name, value in self.only.items():
            known = models.get(name, "")
            if "." not in name:
                is_met = _plain(value) in _plain(known)
            else:
                is_met = (known or "none") == value if value else known not in ("", "none")
            if not is_met:
                return False
        return True


@frozen
class Preset:
    """One table or figure of a paper."""

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

    def methods_of(self, row: PresetRow, column: PresetColumn) -> tuple[Method, ...]:
        """Return the methods that fill a cell: the row's method in the column's mode, or in each of the row's modes."""
        if row.method is None or column.is_mean:
            return ()
        modes = (column.mode,) if column.mode is not None else row.modes
        return tuple(_in_mode(row.method, mode) for mode in modes) or (row.method,)

    def budgets_of(self, column: PresetColumn) -> tuple[int, ...]:
        """Return the budgets of a column: its own, or else all."""
        return self.budgets if column.budget is None else (column.budget,)

    def runs(self, models: Mapping[str, str] | None = None) -> dict[tuple[str, int], Method]:
        """Return the methods to run, by name and budget.

        Rows that this version cannot run are left out, and those that the run's `models` cannot fill.
        """
        ready = [row for row in self.rows if not row.needs and (models is None or row.can_fill(models))]
        return {
            (method.name, budget): method
            for row in ready
            for column in self.columns
            for method in self.methods_of(row, column)
            for budget in self.budgets_of(column)
        }

    def methods(self) -> tuple[Method, ...]:
        """Return the methods to run, each once."""
        return tuple({method.name: method for method in self.runs().values()}.values())

    def without_answers(self) -> Preset:
        """Return the same layout for contexts only, with the metrics `contexts`. Merge rows that differ only in their mode."""
        if any(row.method and row.method.probe for row in self.rows):
            return self
        budgets = dict.fromkeys(column.budget for column in self.columns if not column.is_mean)
        columns = []
        for budget in budgets:
            for name in self.contexts[:1] if len(budgets) > 1 else self.contexts:
                label = next(column.label for column in self.columns if column.budget == budget)
                if budget is None:
                    label = name
                elif len(budgets) == 1:
                    label = f"{label} {name}"
                columns.append(PresetColumn(label, name, budget))
        rows: dict[tuple[object, ...], PresetRow] = {}
        for row in self.rows:
            if row.method is not None:
                # without its mode, a method whose model replaces the context would be another one
                requires = ("chat",) if row.method.mode in ("naive", "recomp", "self-rag") else row.method.requires
                name = row.method.name.removesuffix(f" {row.method.mode}")
                method = replace(row.method, name=name, mode=None, requires=requires)
                kept = replace(row, method=method, modes=(), published=(), spread=())
                rows.setdefault((method.strategy, method.judge, method.settings, requires), kept)
        return replace(
            self,
            name=f"{self.name}-contexts",
            title=f"{self.title}: contexts only",
            about=f"Scores of contexts in the layout of the paper: {', '.join(self.contexts)}.",
            columns=tuple(columns),
            rows=tuple(rows.values()),
            percent=False,
            decimals=3,
            notes=(
                "No model answered, so these are scores of contexts. They are not comparable with the paper's numbers.",
                *self.notes,
            ),
        )


def _plain(text: str) -> str:
    return re.sub(r"[\W_]+", "", text).lower()


def _in_mode(method: Method, mode: str) -> Method:
    return method if method.mode == mode else replace(method, name=f"{method.name} {mode}", mode=mode)


@cache
def preset_names() -> tuple[str, ...]:
    """Return the names of all presets, sorted."""
    here = files("mergewise.evaluate.presets")
    return tuple(sorted(entry.name[:-5] for entry in here.iterdir() if entry.name.endswith(".toml")))


@cache
def preset(name: str) -> Preset:
    """Return the preset of this name. Raises UsageError for an unknown name."""
    check_known("table", name, preset_names())
    text = (files("mergewise.evaluate.presets") / f"{name}.toml").read_text(encoding="utf-8")
    return read_preset(name, tomllib.loads(text))


def presets_of(names: str) -> list[Preset]:
    """Return the presets of these names, separated by commas. Raises UsageError for an unknown name, or without any."""
    found = [preset(part) for part in dict.fromkeys(names_in(names))]
    if not found:
        raise UsageError("missing table name", f"one of: {', '.join(preset_names())}")
    return found


def preset_methods(
    presets: Sequence[Preset], budgets: Sequence[int] | None, models: Mapping[str, str]
) -> list[tuple[Method, int]]:
    """Return the methods that fill the tables with these models, each once per budget. Raises UsageError if none can."""
    wanted = {key: method for preset in presets for key, method in preset.runs(models).items()}
    if not wanted:
        only = {f"{role} {name}" for preset in presets for row in preset.rows for role, name in row.only.items()}
        raise UsageError("these models fill no row of these tables", f"name one of: {', '.join(sorted(only))}")
    if budgets is None:
        return [(method, budget) for (_, budget), method in wanted.items()]
    methods = {method.name: method for method in wanted.values()}
    return [(method, budget) for method in methods.values() for budget in budgets]


def read_preset(name: str, table: Json) -> Preset:
    """Read a preset from its TOML. Raises ValueError for an unknown key, or numbers that do not match the columns."""
    known = {one.name for one in fields(Preset)} - {"name"} | {"set", "judge"}
    if unknown := table.keys() - known:
        raise ValueError(f"{name}: unknown keys {', '.join(sorted(unknown))}")
    if table.get("shape", "wide") not in get_args(Shape):
        raise ValueError(f"{name}: unknown shape {table['shape']!r}")
    groups = tuple(PresetGroup(one["label"], tuple(one["sets"])) for one in table["groups"])
    columns = tuple(PresetColumn(**one) for one in table["columns"])
    common = tuple(table.get("set", ()))
    judge = table.get("judge", "given")
    rows = []
    for one in table["rows"]:
        given: dict[str, Any] = {key: one[key] for key in ("label", "section", "only", "needs") if key in one}
        for key in ("published", "spread"):
            # TOML has no null, so a missing number is nan
            numbers = [[None if number != number else float(number) for number in group] for group in one.get(key, ())]
            if numbers and [len(group) for group in numbers] != [len(columns)] * len(groups):
                raise ValueError(f"{name}: the numbers of {one['label']!r} do not match its columns")
            given[key] = tuple(map(tuple, numbers))
        method = _method({**one, "set": (*common, *one.get("set", ()))}, judge)
        rows.append(PresetRow(**given, method=method, modes=tuple(one.get("modes", ()))))
    values: dict[str, Any] = {
        key: tuple(one) if isinstance(one, list) else one for key, one in table.items() if key not in ("set", "judge")
    }
    values |= {"groups": groups, "columns": columns, "rows": tuple(rows)}
    return Preset(name=name, **values)


def _method(one: Json, judge: Judge) -> Method | None:
    if "method" not in one and "strategy" not in one:
        return None
    spec = one.get("strategy", "")
    method = METHODS[one["method"]] if "method" in one else Method(one.get("name", spec), spec, about=one["label"])
    if "mode" in one:
        method = replace(method, mode=one["mode"]) if "name" in one else _in_mode(method, one["mode"])
    # a method that has a name also has a judge
    return replace(
        method,
        judge=one.get("judge", judge if spec else method.judge),
        views=tuple(one.get("views", method.views)),
        settings=tuple(one["set"]),
        requires=tuple(one.get("requires", ())),
        probe=one.get("probe", ""),
    )
