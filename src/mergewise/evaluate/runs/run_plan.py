"""The resolved plan of a run: the content of `run.toml`."""

from __future__ import annotations

import json
import os
import platform
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, field, fields, is_dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from typing import Any, get_args, get_origin, get_type_hints

from mergewise.errors import UsageError
from mergewise.types import Json, frozen

FORMAT = 1
PACKAGES = "mergewise lancedb pyarrow numpy onnxruntime tokenizers torch transformers".split()


@frozen
class PlannedSet:
    """A question set. `asked` of its `questions` are in the plan. `digest` covers the questions, `documents` the documents."""

    name: str
    questions: int = 0
    asked: int = 0
    digest: str = ""
    documents: str = ""
    embedder: str = ""


@frozen
class PlannedMethod:
    """A method of the plan.

    `mode` is empty for the strategy's preferred mode, and if only contexts are judged. `search` and `weights` hold the search
    settings and weave's weights that differ from the defaults.
    """

    name: str
    strategy: str
    mode: str = ""
    judge: str = "given"
    about: str = ""
    search: str = ""
    weights: str = ""


@frozen
class PlannedRows:
    """The rows of a method on a set, in one mode of answering. `mode` is empty if only contexts are judged.

    `spec` is the digest of everything that they depend on except the question and the budget. `needs` explains why the method
    could not run. `judge` is the spec of its judge, and `views` its settings of views.
    """

    set: str
    method: str
    spec: str = ""
    needs: str = ""
    judge: str = ""
    views: str = ""
    mode: str = ""


@frozen
class Machine:
    system: str = ""
    processor: str = ""
    cores: int = 0
    python: str = ""


@frozen
class RunPlan:
    """The plan of a run.

    `tables` names the presets that it fills. `reference` is the method that others are compared with, or empty for the first.
    `limit` and `sample` are 0 for none. `models` maps roles (chat, causal, reranker, utility) to specs, and `VIEW.NAME` to a
    view's setting.
    """

    sets: tuple[PlannedSet, ...] = ()
    methods: tuple[PlannedMethod, ...] = ()
    budgets: tuple[int, ...] = ()
    repeats: int = 1
    answers: bool = False
    split: str = "all"
    limit: int = 0
    sample: int = 0
    seed: int = 0
    max_tokens: int = 0
    together: int = 1
    workers: int = 1
    reference: str = ""
    tables: tuple[str, ...] = ()
    command: str = ""
    models: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    machine: Machine = Machine()
    rows: tuple[PlannedRows, ...] = ()

    def specs(self) -> set[tuple[str, str, str]]:
        """Return the set, the method and the digest of all planned rows."""
        return {(one.set, one.method, one.spec) for one in self.rows if one.spec}

    def needs(self) -> list[PlannedRows]:
        """Return the methods that could not run."""
        return [one for one in self.rows if one.needs]

    def joined_to(self, earlier: RunPlan) -> RunPlan:
        """Return this plan joined to the folder's earlier plan, so that the run keeps its earlier rows."""
        known = earlier.with_records(self.sets, self.rows, self.models)
        return replace(
            self,
            sets=known.sets,
            methods=tuple({one.name: one for one in (*earlier.methods, *self.methods)}.values()),
            budgets=tuple(dict.fromkeys((*earlier.budgets, *self.budgets))),
            repeats=max(earlier.repeats, self.repeats),
            answers=earlier.answers or self.answers,
            tables=tuple(dict.fromkeys((*earlier.tables, *self.tables))),
            reference=self.reference or earlier.reference,
            models=known.models,
            rows=known.rows,
        )

    def with_records(
        self, sets: Iterable[PlannedSet] = (), rows: Iterable[PlannedRows] = (), models: Mapping[str, str] | None = None
    ) -> RunPlan:
        """Return this plan with these records. They replace records of the same set, method and mode."""
        by_name = {one.name: one for one in (*self.sets, *sets)}
        by_method = {(one.set, one.method, one.mode): one for one in (*self.rows, *rows)}
        models = {**self.models, **(models or {})}
        return replace(self, sets=tuple(by_name.values()), rows=tuple(by_method.values()), models=models)


def this_machine() -> Machine:
    processor = platform.processor() or platform.machine()
    return Machine(platform.platform(), processor, os.cpu_count() or 0, platform.python_version())


def installed_versions() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def plan_text(plan: RunPlan) -> str:
    """Return the plan as TOML: single values, then tables, then a table for each set, method and row."""
    values = asdict(plan)
    parts = [_lines({"format": FORMAT, **{name: value for name, value in values.items() if not _is_table(value)}})]
    for name, value in values.items():
        if isinstance(value, dict):
            parts.append(f"[{name}]\n{_lines(value)}")
        elif _is_table(value):
            parts += [f"[[{name}]]\n{_lines(one)}" for one in value]
    return "\n".join(parts)


def _is_table(value: object) -> bool:
    return isinstance(value, dict) or (isinstance(value, list | tuple) and any(isinstance(one, dict) for one in value))


def _lines(values: Json) -> str:
    lines = []
    for name, value in values.items():
        key = name if re.fullmatch(r"[\w-]+", name, re.ASCII) else toml_value(name)
        lines.append(f"{key} = {toml_value(value)}\n")
    return "".join(lines)


def toml_value(value: object) -> str:
    """Format a value as TOML.

    TOML shares JSON's strings, numbers and lists, except for lone surrogates and the DEL character.
    """
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_value, value))}]"
    if isinstance(value, str):
        value = value.encode("utf-8", "replace").decode()
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return json.dumps(value)


def read_plan(text: str, where: str) -> RunPlan:
    """Read the plan from the text of a `run.toml`. Raises UsageError for an invalid plan."""
    try:
        values = tomllib.loads(text)
        if values.pop("format", None) != FORMAT:
            raise ValueError("written by another version")
        plan = _read(RunPlan, values)
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        raise UsageError(f"invalid plan of a run: {where}: {error}", "name another folder") from None
    assert isinstance(plan, RunPlan)
    return plan


def _read(kind: Any, values: object) -> Any:
    """Convert a value to the type of a plan's field. Raises TypeError for a value of another type."""
    if is_dataclass(kind):
        if not isinstance(values, dict):
            raise TypeError(f"{values!r:.60} (expected a table)")
        hints = get_type_hints(kind)
        known = {one.name for one in fields(kind)}
        return kind(**{name: _read(hints[name], value) for name, value in values.items() if name in known})  # type: ignore[operator]
    if get_origin(kind) is tuple:
        if not isinstance(values, list):
            raise TypeError(f"{values!r:.60} (expected a list)")
        return tuple(_read(get_args(kind)[0], value) for value in values)
    if get_origin(kind) is not None:
        if not isinstance(values, dict) or not all(isinstance(value, str) for value in values.values()):
            raise TypeError(f"{values!r:.60} (expected a table of strings)")
        return values
    if type(values) is not kind:
        raise TypeError(f"{values!r:.60} (expected {kind.__name__})")
    return values
