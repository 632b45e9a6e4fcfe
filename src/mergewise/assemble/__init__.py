"""The strategies, one module each, chosen by name from one dictionary."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, get_args, get_origin, get_type_hints

from mergewise.assemble import auto_merge, longrag, macrag, mergerag, sentence, topk, weave
from mergewise.assemble.shared.budget import Models
from mergewise.errors import UsageError
from mergewise.protocols import IndexReader
from mergewise.types import Context

__all__ = ["STRATEGIES", "Models", "Strategy", "assemble", "merge_context", "room_for", "split_specs", "stopping"]


@dataclass(frozen=True, slots=True)
class Strategy:
    """`assemble(question, reader, budget, models, parameters, name)` with the parameters it has by default.

    `merge(context, budget, models, parameters, name)` is set where it can also merge what another strategy selected.
    """

    assemble: Callable[[str, IndexReader, int, Models, Any, str], Context]
    parameters: Any
    summary: str
    merge: Callable[[Context, int, Models, Any, str], Context] | None = None
    views: tuple[str, ...] = ()  # that an index must have besides the leaves


STRATEGIES: dict[str, Strategy] = {
    "auto-merge": Strategy(
        auto_merge.assemble, auto_merge.AutoMerge(), "leaves that cover enough of a section become the section"
    ),
    "dos": Strategy(topk.assemble, topk.TopK(order="document"), "the best leaves in the order of their documents"),
    "longrag": Strategy(
        longrag.assemble, longrag.LongRAG(), "the documents of the best chunks (LongRAG)", views=("slice",)
    ),
    "macrag": Strategy(
        macrag.assemble, macrag.MacRAG(), "slices, their chunks, the best documents' neighbourhoods", views=("slice",)
    ),
    "mergerag-asym": Strategy(
        mergerag.assemble,
        mergerag.MergeRAG(pairs="asymmetric"),
        "the weakest chunk is fused onto the one that makes it least surprising, until the budget holds them",
        mergerag.merge_context,
    ),
    "mergerag-sym": Strategy(
        mergerag.assemble,
        mergerag.MergeRAG(),
        "the weakest chunks are fused with each other until the budget holds them",
        mergerag.merge_context,
    ),
    "sentence": Strategy(sentence.assemble, sentence.Sentences(), "the best single sentences until the budget is full"),
    "topk": Strategy(topk.assemble, topk.TopK(), "the best leaves until the budget is full"),
    "weave": Strategy(
        weave.assemble, weave.Weave(), "the sentences that tell most about the question, over bridge hops"
    ),
}


def assemble(
    spec: str,
    question: str,
    reader: IndexReader,
    budget: int,
    models: Models,
    parameters: Mapping[str, object] | None = None,
) -> Context:
    """Run a strategy given as `name` or `name(parameter=value, ...)`; `parameters` come on top."""
    strategy, chosen = resolve(spec, parameters)
    return strategy.assemble(question, reader, budget, models, chosen, spec)


def stopping(spec: str, share: float, parameters: Mapping[str, object] | None) -> dict[str, object]:
    """Parameters with which a strategy ends by itself where its gains fall below this share of the first one."""
    _, chosen = resolve(spec, parameters)
    if "stop" not in {field.name for field in fields(chosen)}:
        able = ", ".join(name for name, known in STRATEGIES.items() if hasattr(known.parameters, "stop"))
        raise UsageError(f"{spec} does not know when to stop", f"give a budget in tokens, or use one of: {able}")
    return {"stop": share, **(parameters or {})} if not chosen.stop else dict(parameters or {})


def room_for(then: str, budget: int) -> int:
    """The tokens that a strategy may select before `then` merges them down to the budget."""
    _, parameters = _merging(then)
    return max(budget, budget * int(parameters.widen))


def merge_context(then: str, context: Context, budget: int, models: Models) -> Context:
    """Merge what another strategy selected; `then` is a spec of a strategy that can."""
    merge, parameters = _merging(then)
    return merge(context, budget, models, parameters, f"{context.strategy} then {then}")


def _merging(then: str) -> tuple[Callable[[Context, int, Models, Any, str], Context], Any]:
    strategy, parameters = resolve(then)
    if strategy.merge is None:
        able = ", ".join(name for name, known in STRATEGIES.items() if known.merge is not None)
        raise UsageError(f"{then} cannot merge what another strategy selected", f"one of: {able}")
    return strategy.merge, parameters


def resolve(spec: str, parameters: Mapping[str, object] | None = None) -> tuple[Strategy, Any]:
    """The strategy and its parameters, all of them checked."""
    match = _SPEC.fullmatch(spec.strip())
    name = match["name"] if match else spec
    if match is None or name not in STRATEGIES:
        raise UsageError(f"unknown strategy {name!r}", f"one of: {', '.join(STRATEGIES)}")
    strategy = STRATEGIES[name]
    given = dict(_assignments(match["arguments"] or "", spec)) | dict(parameters or {})
    return strategy, _with(strategy.parameters, given, name)


def split_specs(text: str) -> list[str]:
    """Specs separated by commas; commas between brackets separate parameters."""
    return [spec.strip() for spec in _COMMA.split(text) if spec.strip()]


_SPEC = re.compile(r"(?P<name>[\w-]+)\s*(?:\((?P<arguments>[^()]*)\))?")
_SWITCHES = {"true": True, "on": True, "yes": True, "1": True, "false": False, "off": False, "no": False, "0": False}
_COMMA = re.compile(r",(?![^()]*\))")


def _assignments(arguments: str, spec: str) -> list[tuple[str, object]]:
    pairs: list[tuple[str, object]] = []
    for part in filter(None, (part.strip() for part in arguments.split(","))):
        key, equals, value = part.partition("=")
        if not equals:
            raise UsageError(f"{part!r} in {spec!r} sets nothing", "write name(parameter=value, ...)")
        pairs.append((key.strip(), value.strip()))
    return pairs


def _with(defaults: Any, given: Mapping[str, object], name: str) -> Any:
    hints = get_type_hints(type(defaults))
    known = [field.name for field in fields(defaults)]
    for key in given:
        if key not in known:
            raise UsageError(f"{name} has no parameter {key!r}", f"it has: {', '.join(known)}")
    return replace(defaults, **{key: _converted(key, value, hints[key], name) for key, value in given.items()})


def _converted(key: str, value: object, wanted: Any, name: str) -> object:
    """The value as the parameter's type; text is read as a person would write it."""
    if get_origin(wanted) is Literal:
        if value not in get_args(wanted):
            raise UsageError(f"{name}: {key} cannot be {value!r}", f"one of: {', '.join(get_args(wanted))}")
        return value
    if wanted is bool:
        return _switch(key, value, name)
    try:
        converted = wanted(value)
    except (TypeError, ValueError):
        raise UsageError(f"{name}: {key} cannot be {value!r}", f"it is of type {wanted.__name__}") from None
    if converted < 0:
        raise UsageError(f"{name}: {key} cannot be negative", "give 0 or more")
    return converted


def _switch(key: str, value: object, name: str) -> bool:
    found = _SWITCHES.get(str(value).lower())
    if found is None:
        raise UsageError(f"{name}: {key} cannot be {value!r}", "true or false")
    return found
