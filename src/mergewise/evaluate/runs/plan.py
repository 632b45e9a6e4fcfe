"""The plan of a run, resolved: what `run.toml` holds."""

from __future__ import annotations

import json
import os
import platform
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from typing import Any, get_args, get_origin, get_type_hints

from mergewise.errors import UsageError

FORMAT = 1
PACKAGES = ("mergewise", "lancedb", "pyarrow", "numpy", "onnxruntime", "tokenizers", "torch", "transformers")


@dataclass(frozen=True, slots=True)
class PlannedSet:
    """A question set: `asked` of its `questions` are in the plan. `digest` is that of the questions, `documents` that of the
    documents of the index, both of which the rows of the set depend on.
    """

    name: str
    questions: int = 0
    asked: int = 0
    digest: str = ""
    documents: str = ""
    embedder: str = ""


@dataclass(frozen=True, slots=True)
class PlannedMethod:
    """`mode` is empty where the strategy's own is meant, or where contexts alone are judged. `search` are settings of the search,
    `weights` those of weave's features, as far as they differ from the defaults.
    """

    name: str
    strategy: str
    mode: str = ""
    judge: str = "given"
    about: str = ""
    search: str = ""
    weights: str = ""


@dataclass(frozen=True, slots=True)
class PlannedRows:
    """A method on a set: the digest of all that its rows depend on but the question and the budget, or what it needs to run."""

    set: str
    method: str
    spec: str = ""
    needs: str = ""


@dataclass(frozen=True, slots=True)
class Machine:
    system: str = ""
    processor: str = ""
    cores: int = 0
    python: str = ""


@dataclass(frozen=True, slots=True)
class RunPlan:
    """All that a run is made by.

    `tables` are the presets that it fills, `reference` the method that others are compared with (empty: the first). `sample` is 0
    where no sample was drawn. `models` are specs by their role (chat, causal, reranker, utility), and settings of views by
    `VIEW.NAME`.
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

    def specs(self) -> dict[tuple[str, str], str]:
        """For each set and method that can run the digest of its rows."""
        return {(one.set, one.method): one.spec for one in self.rows if one.spec}

    def needs(self) -> list[PlannedRows]:
        """What could not run, with what it needs."""
        return [one for one in self.rows if one.needs]

    def joined_to(self, earlier: RunPlan) -> RunPlan:
        """This plan with what the run folder had in plan before: nothing that was computed is forgotten."""
        known = earlier.with_records(self.sets, self.rows, self.models)
        methods = {one.name: one for one in (*earlier.methods, *self.methods)}
        return replace(
            self,
            sets=known.sets,
            methods=tuple(methods.values()),
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
        """Return this plan with these records, which replace those of the same set (and method)."""
        by_name = {one.name: one for one in (*self.sets, *sets)}
        by_method = {(one.set, one.method): one for one in (*self.rows, *rows)}
        models = {**self.models, **(models or {})}
        return replace(self, sets=tuple(by_name.values()), rows=tuple(by_method.values()), models=models)


def this_machine() -> Machine:
    processor = platform.processor() or platform.machine()
    return Machine(platform.platform(), processor, os.cpu_count() or 0, platform.python_version())


def installed_versions(names: Sequence[str] = PACKAGES) -> dict[str, str]:
    found = {}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def plan_text(plan: RunPlan) -> str:
    """As TOML: single values, then tables, then a table for each set, method and row."""
    values = asdict(plan)
    single = {name: value for name, value in values.items() if not _is_table(value)}
    parts = [_lines({"format": FORMAT, **single})]
    for name, value in values.items():
        if isinstance(value, dict):
            parts.append(f"[{name}]\n{_lines(value)}")
        elif _is_table(value):
            parts += [f"[[{name}]]\n{_lines(one)}" for one in value]
    return "\n".join(parts)


def _is_table(value: object) -> bool:
    return isinstance(value, dict) or (isinstance(value, list | tuple) and any(isinstance(one, dict) for one in value))


def _lines(values: Mapping[str, Any]) -> str:
    return "".join(f"{_key(name)} = {_toml(value)}\n" for name, value in values.items())


def _key(name: str) -> str:
    return name if re.fullmatch(r"[\w-]+", name, re.ASCII) else _toml(name)


def _toml(value: object) -> str:
    """JSON's texts, numbers and lists are TOML's but for lone halves of characters and the sign of deletion."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, str):
        value = value.encode("utf-8", "replace").decode()
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return json.dumps(value)


def read_plan(text: str, where: str) -> RunPlan:
    """The plan of a `run.toml`. Raises UsageError for what is none."""
    try:
        values = tomllib.loads(text)
        if values.pop("format", None) != FORMAT:
            raise ValueError("it was written by another version")
        plan = _read(RunPlan, values)
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        raise UsageError(f"{where} is no plan of a run: {error}", "name another folder") from None
    assert isinstance(plan, RunPlan)
    return plan


def _read(kind: Any, values: object) -> Any:
    """A value of the type that the field of a plan has. Raises TypeError for another one."""
    if is_dataclass(kind):
        if not isinstance(values, dict):
            raise TypeError(f"{values!r:.60} is no table")
        hints = get_type_hints(kind)
        known = {one.name for one in fields(kind)}
        return kind(**{name: _read(hints[name], value) for name, value in values.items() if name in known})  # type: ignore[operator]
    if get_origin(kind) is tuple:
        if not isinstance(values, list):
            raise TypeError(f"{values!r:.60} is no list")
        return tuple(_read(get_args(kind)[0], value) for value in values)
    if get_origin(kind) is not None:
        if not isinstance(values, dict) or not all(isinstance(value, str) for value in values.values()):
            raise TypeError(f"{values!r:.60} is no table of texts")
        return values
    if type(values) is not kind:
        raise TypeError(f"{values!r:.60} is no {kind.__name__}")
    return values
