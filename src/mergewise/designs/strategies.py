"""Running a strategy, chosen by its spec, on a question, or on a context that another strategy selected."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any

from mergewise.designs import STRATEGIES
from mergewise.designs.design import Strategy
from mergewise.designs.specs import assignments, split_spec, with_parameters
from mergewise.errors import UsageError, one_of
from mergewise.models.record import Models
from mergewise.protocols import IndexReader
from mergewise.ranges import Ceilings, short_repr, text
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
    if name not in STRATEGIES:
        raise UsageError(f"unknown strategy: {name!r}", one_of(name, STRATEGIES))
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
