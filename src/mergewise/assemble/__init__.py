"""The strategies, chosen by name from one dictionary. Each is a module, or a folder if it needs more than one file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any

from mergewise.assemble import aed, auto_merge, chunked, longrag, macrag, mergerag, mrag, sentence, topk, weave
from mergewise.assemble.shared.budget import Models
from mergewise.assemble.shared.streams import with_streams_of
from mergewise.assemble.specs import assignments, split_spec, split_specs, with_new_names, with_parameters
from mergewise.assemble.weave import evidence_in
from mergewise.errors import UsageError
from mergewise.protocols import IndexReader
from mergewise.ranges import shown, text
from mergewise.types import Context

__all__ = [
    "STRATEGIES",
    "Models",
    "Strategy",
    "assemble",
    "evidence_in",
    "merge_context",
    "preferred_mode",
    "resolve",
    "room_for",
    "split_specs",
    "stopping",
]


@dataclass(frozen=True, slots=True)
class Strategy:
    """`assemble(question, reader, budget, models, parameters)` with the parameters that it has by default.

    `merge(context, budget, models, parameters)` is set if the strategy can also merge what another one selected.
    `views`: what an index must have besides the leaves. `renamed`: the former names of parameters, with the present ones.
    `mode`: the mode that answers from its contexts where the user names none, if its models are at hand.
    """

    assemble: Callable[[str, IndexReader, int, Models, Any], Context]
    parameters: Any
    summary: str
    merge: Callable[[Context, int, Models, Any], Context] | None = None
    views: tuple[str, ...] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)
    mode: str = ""


STRATEGIES: dict[str, Strategy] = {
    "aed": Strategy(
        aed.assemble, aed.AED(), "the most useful passages, to be read in streams of their own (AED-RAG)", mode="aed"
    ),
    "auto-merge": Strategy(
        auto_merge.assemble, auto_merge.AutoMerge(), "leaves that cover enough of a section become the section"
    ),
    "dos": Strategy(topk.assemble, topk.TopK(order="document"), "the best leaves in the order of their documents"),
    "fixed": Strategy(
        partial(chunked.assemble, "fixed"),
        chunked.Chunked(),
        "the best chunks of a fixed size until the budget is full",
        views=("fixed",),
    ),
    "longrag": Strategy(
        longrag.assemble, longrag.LongRAG(), "the documents of the best chunks (LongRAG)", views=("slice",)
    ),
    "macrag": Strategy(
        macrag.assemble, macrag.MacRAG(), "slices, their chunks, the best documents' neighbourhoods", views=("slice",)
    ),
    "mergerag-asym": Strategy(
        mergerag.assemble,
        mergerag.MergeRAG(pairs="asymmetric"),
        "the weakest chunk is fused onto the chunk that predicts it best, until the budget holds them",
        mergerag.merge_context,
    ),
    "mergerag-sym": Strategy(
        mergerag.assemble,
        mergerag.MergeRAG(),
        "the weakest chunks are fused with each other until the budget holds them",
        mergerag.merge_context,
    ),
    "mrag": Strategy(mrag.assemble, mrag.MRAG(), "the values of the markers whose keys fit best", views=("marker",)),
    "pic": Strategy(
        partial(chunked.assemble, "pic"),
        chunked.Chunked(),
        "the best chunks that were grouped around a summary (PIC) until the budget is full",
        views=("pic",),
    ),
    "recomp": Strategy(
        sentence.assemble,
        sentence.Sentences(k=5, by="cosine", n=2, least=0.2),
        "the sentences of few leaves that are most like the question, or none (RECOMP, extractive)",
    ),
    "semantic": Strategy(
        partial(chunked.assemble, "semantic"),
        chunked.Chunked(),
        "the best chunks that end where the topic changes until the budget is full",
        views=("semantic",),
    ),
    "sentence": Strategy(sentence.assemble, sentence.Sentences(), "the best single sentences until the budget is full"),
    "topk": Strategy(topk.assemble, topk.TopK(), "the best leaves until the budget is full"),
    "weave": Strategy(
        weave.assemble,
        weave.Weave(),
        "the sentences that tell most about the question, over bridge hops",
        renamed={"lean": "previous"},
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
    """Run the strategy of this spec, `name` or `name(parameter=value, ...)`; `parameters` override those of the spec."""
    strategy, chosen = resolve(spec, parameters)
    _demand_views(strategy, reader)
    context = strategy.assemble(question, reader, budget, models, chosen)
    return replace(context, strategy=spec)


def merge_context(then: str, context: Context, budget: int, models: Models) -> Context:
    """Merge what another strategy selected, by the strategy of the spec `then`, which must be able to."""
    merge, parameters = _merging(then)
    merged = merge(context, budget, models, parameters)
    return with_streams_of(replace(merged, strategy=f"{context.strategy} then {then}"), [context])


def room_for(then: str, budget: int) -> int:
    """The tokens that a strategy may select before `then` merges them down to the budget."""
    _, parameters = _merging(then)
    return max(budget, budget * int(parameters.widen))


def stopping(spec: str, share: float, parameters: Mapping[str, object] | None) -> dict[str, object]:
    """Parameters with which the strategy stops by itself once its gains fall below this share of the first one."""
    _, chosen = resolve(spec, parameters)
    if "stop" not in {known.name for known in fields(chosen)}:
        able = ", ".join(name for name, known in STRATEGIES.items() if hasattr(known.parameters, "stop"))
        raise UsageError(f"{spec} does not know when to stop", f"give a budget in tokens, or use one of: {able}")
    return {"stop": share, **(parameters or {})} if not chosen.stop else dict(parameters or {})


def resolve(spec: str, parameters: Mapping[str, object] | None = None) -> tuple[Strategy, Any]:
    """The strategy and its parameters, all of them checked."""
    name, arguments = split_spec(text("the strategy is", spec))
    if name not in STRATEGIES:
        raise UsageError(f"unknown strategy {name!r}", f"one of: {', '.join(STRATEGIES)}")
    strategy = STRATEGIES[name]
    if not isinstance(parameters, Mapping | None):
        raise UsageError(f"the parameters are {shown(parameters)}", "give a dictionary, name to value")
    written = with_new_names(assignments(arguments, spec), strategy.renamed, name)
    given = written | with_new_names(parameters or {}, strategy.renamed, name)
    return strategy, with_parameters(strategy.parameters, given, name)


def preferred_mode(spec: str) -> str:
    """The mode that the strategy of this spec wants to be answered in; an empty text where any does, and for what is no spec."""
    known = STRATEGIES.get(split_spec(spec)[0]) if isinstance(spec, str) else None
    return "" if known is None else known.mode


def _merging(then: str) -> tuple[Callable[[Context, int, Models, Any], Context], Any]:
    strategy, parameters = resolve(then)
    if strategy.merge is None:
        able = ", ".join(name for name, known in STRATEGIES.items() if known.merge is not None)
        raise UsageError(f"{then} cannot merge what another strategy selected", f"one of: {able}")
    return strategy.merge, parameters


def _demand_views(strategy: Strategy, reader: IndexReader) -> None:
    for view in strategy.views:
        if not reader.has(view):
            raise UsageError(f"this index has no {view} view", f"build it: mergewise index PATH... --views leaf,{view}")
