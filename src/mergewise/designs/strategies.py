"""Running a strategy, chosen by its spec, on a question, or on a context that another strategy selected.

A strategy's spec is `name` or `name(parameter=value, ...)`. Settings of views are assignments `VIEW.NAME=VALUE`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from mergewise.defaults import CHAT
from mergewise.designs import STRATEGIES, VIEWS
from mergewise.designs.design import Strategy
from mergewise.errors import UsageError, check_known, did_you_mean
from mergewise.ranges import Ceilings, hints_of, short_repr, text, value_of
from mergewise.store.views import Presets, views_of

if TYPE_CHECKING:
    from mergewise.models.record import Models
    from mergewise.protocols import IndexReader
    from mergewise.retrieve.hybrid import SearchSettings
    from mergewise.types import Context


def assemble(
    spec: str,
    question: str,
    reader: IndexReader,
    budget: int,
    models: Models,
    parameters: Mapping[str, object] | None = None,
) -> Context:
    """Run the strategy of a spec, `name` or `name(parameter=value, ...)`. `parameters` override those in the spec."""
    strategy, chosen = resolve(spec, parameters)
    for view in strategy.views:
        if not reader.has(view):
            raise UsageError(f"this index has no {view} view", f"build it: mergewise index PATH... --views leaf,{view}")
    if strategy.needs is not None and strategy.needs.of(models) is None:
        raise UsageError(f"the strategy {split_spec(spec)[0]!r} needs {strategy.needs.what}", strategy.needs.hint)
    return replace(strategy.assemble(question, reader, budget, models, chosen), strategy=spec)


def merge_context(then: str, context: Context, budget: int, models: Models) -> Context:
    """Merge what another strategy selected with the strategy of the spec `then`. Raises UsageError if it cannot merge."""
    merge, parameters = _merging(then)
    merged = merge(context, budget, models, parameters)
    return replace(merged, strategy=f"{context.strategy} then {then}").merged_from([context])


def room_for(then: str, budget: int) -> int:
    """Return the tokens that a strategy may select before `then` merges them down to the budget."""
    _, parameters = _merging(then)
    return max(budget, budget * int(parameters.widen))


def stopping(spec: str, price: float, parameters: Mapping[str, object] | None) -> dict[str, object]:
    """Return parameters that make the strategy stop by itself, at this `price` of tokens."""
    _, chosen = resolve(spec, parameters)
    if "price" not in {known.name for known in fields(chosen)}:
        able = ", ".join(name for name, known in STRATEGIES.items() if hasattr(known.parameters, "price"))
        raise UsageError(f"{spec} cannot stop by itself", f"give a budget in tokens, or use one of: {able}")
    return {"price": price, **(parameters or {})} if not chosen.price else dict(parameters or {})


def resolve(spec: str, parameters: Mapping[str, object] | None = None) -> tuple[Strategy, Any]:
    """Return the strategy of a spec and its checked parameters."""
    name, arguments = split_spec(text("strategy", spec))
    check_known("strategy", name, STRATEGIES)
    strategy = STRATEGIES[name]
    if not isinstance(parameters, Mapping | None):
        raise UsageError(f"the parameters are {short_repr(parameters)}", "give a dictionary, name to value")
    given = {**assignments(arguments, spec), **(parameters or {})}
    return strategy, with_parameters(strategy.parameters, given, name, strategy.presets)


def check_within(ceilings: Ceilings, spec: str, parameters: Mapping[str, object] | None = None) -> None:
    """Raise UsageError if a parameter exceeds both its ceiling and its default."""
    strategy, chosen = resolve(spec, parameters)
    for field in fields(chosen):
        ceiling, value = ceilings.of(field.name), getattr(chosen, field.name)
        if ceiling is not None and value > max(ceiling, getattr(strategy.parameters, field.name)):
            raise UsageError(f"{spec}: {field.name} cannot be {short_repr(value)}", f"its ceiling here is {ceiling:,}")


def preferred_mode(spec: str) -> str:
    """Return the preferred mode of the strategy of this spec, or "" without a preference or for an invalid spec."""
    known = STRATEGIES.get(split_spec(spec)[0]) if isinstance(spec, str) else None
    return "" if known is None else known.mode


def _merging(then: str) -> tuple[Callable[[Context, int, Models, Any], Context], Any]:
    strategy, parameters = resolve(then)
    if strategy.merge is None:
        able = ", ".join(name for name, known in STRATEGIES.items() if known.merge is not None)
        raise UsageError(f"{then} cannot merge what another strategy selected", f"one of: {able}")
    return strategy.merge, parameters


# -- specs

_SPEC = re.compile(r"(?P<name>[\w-]+)\s*(?:\((?P<arguments>[^()]*)\))?")
_COMMA = re.compile(r",(?![^()]*\))")


def split_specs(text: str) -> list[str]:
    """Split a list of specs at its commas. Commas in parentheses separate parameters and do not split."""
    return [spec.strip() for spec in _COMMA.split(text) if spec.strip()]


def split_spec(spec: str) -> tuple[str, str]:
    """Split a spec into its name and the text in parentheses. An invalid spec is returned as a name, unchanged."""
    match = _SPEC.fullmatch(spec.strip())
    return (match["name"], match["arguments"] or "") if match else (spec, "")


def assignments(arguments: str, spec: str) -> dict[str, object]:
    """Parse the `arguments` in the parentheses of `spec` into a dictionary. Values stay text."""
    given: dict[str, object] = {}
    for part in filter(None, (part.strip() for part in arguments.split(","))):
        key, equals, value = part.partition("=")
        if not equals:
            raise UsageError(f"invalid assignment in {spec!r}: {part!r}", "write name(parameter=value, ...)")
        given[key.strip()] = value.strip()
    return given


def with_parameters(defaults: Any, given: Mapping[str, object], name: str, presets: Presets | None = None) -> Any:
    """Return `defaults` with the `given` parameters, converted to their types and checked against their ranges.

    `preset=NAME` sets all parameters of this preset. A parameter that is also given on its own overrides the preset.
    """
    if presets and "preset" in given:
        preset = given["preset"]
        if not isinstance(preset, str) or preset not in presets:
            raise UsageError(f"{name} has no preset {short_repr(preset)}", f"it has: {', '.join(presets)}")
        given = {**presets[preset], **{key: value for key, value in given.items() if key != "preset"}}
    if not given:
        return defaults
    hints = hints_of(type(defaults))
    known = [field.name for field in fields(defaults)]
    for key in given:
        if key not in known:
            named = f"; presets: {', '.join(presets)}" if presets else ""
            hint = f"{did_you_mean(key, known)}it has: {', '.join(known)}{named}"
            raise UsageError(f"{name} has no parameter {short_repr(key)}", hint)
    return replace(defaults, **{key: value_of(f"{key} of {name}", value, hints[key]) for key, value in given.items()})


def search_settings(text: str, what: str = "the search", standing: SearchSettings | None = None) -> SearchSettings:
    """Parse search settings such as `weight=0.5, depth=200`. Settings not in the text keep their `standing` values."""
    from mergewise.retrieve.hybrid import SearchSettings

    chosen: SearchSettings = with_parameters(standing or SearchSettings(), assignments(text, text), what)
    return chosen


def view_settings(
    views: Sequence[str], assignments: Sequence[str], chat: str, standing: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return settings of views by name, from assignments `VIEW.NAME=VALUE`. With a chat model a view may have other defaults.

    A view without an assignment has no entry: it keeps its `standing` settings, its settings in an index, or the defaults.
    """
    values: dict[str, dict[str, object]] = {}
    for assignment in assignments:
        view, dot, setting = assignment.partition(".")
        name, equals, value = setting.partition("=")
        if not (dot and equals):
            raise UsageError(f"invalid setting: {assignment!r}", "write --set VIEW.NAME=VALUE, such as slice.chunk=300")
        values.setdefault(view.strip(), {})[name.strip()] = value.strip()
    settings = dict(standing or {})
    for known in views_of(VIEWS, [*views, *values]):
        chosen = {**(known.with_chat if chat != CHAT else {}), **values.get(known.name, {})}
        if chosen:
            before = settings.get(known.name) or known.settings()
            settings[known.name] = with_parameters(before, chosen, f"the view {known.name}", known.presets)
    return settings
