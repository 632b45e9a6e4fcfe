"""The methods that the papers compare. Each is a strategy, a mode and a judge.

The methods of AED-RAG are grouped by its tables (1, 2, 4, 8 and Figure 3). All use the same prompt (Table 6) and the same model.
The variants of `aed` start from its preset `paper`. Differences from the paper:

- Passages are those of `aed`. The paper's have 100 words.
- Retrieval is the index's own search. The paper's is Contriever.

The group `baselines` holds the baselines of the other papers. Their contexts come from the strategies of the same names.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from mergewise.defaults import PASSAGE_TOKENS
from mergewise.designs import MODES, STRATEGIES, assignments, resolve, search_settings, split_spec, split_specs
from mergewise.designs.weave import weights_of
from mergewise.errors import UsageError, one_of
from mergewise.models import Models

Judge = Literal["given", "none", "reranker", "utility"]
"""The reranker of a method: the index's own ("given"), none, the reranker of the tables, or the trained utility predictor."""

ALL = "all"
"""The spec that stands for all strategies."""
OF_SEARCH = "search."
"""Prefix of a search setting among the parameters of a strategy."""

_STANDARD = f"topk(k={{k}}, order=score, longest={PASSAGE_TOKENS})"
BETAS = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0, 2.0, 50.0)


@dataclass(frozen=True, slots=True)
class Method:
    """A method: a strategy spec, a mode and a judge.

    `mode` is a name in `MODES`, or None for the strategy's preferred mode. `views` lists the views it needs besides those of its
    strategy. A method that `reads_one_prompt` needs no next-token probabilities, even if its mode does. `search` holds settings
    in the form of `--search`, and `weights` the weights of weave's features. Both default to the index's own.
    """

    name: str
    strategy: str
    mode: str | None = None
    judge: Judge = "given"
    about: str = ""
    views: tuple[str, ...] = ()
    reads_one_prompt: bool = False
    search: str = ""
    weights: Mapping[str, float] | None = None

    def with_settings(self, search: str | None, weights: Path | None) -> Method:
        """Return a copy with these defaults for its own settings. Raises UsageError for invalid settings or an invalid file."""
        given = {**assignments(search or "", "--search"), **assignments(self.search, self.name)}
        own = _assigned(given)
        search_settings(own)
        return replace(self, search=own, weights=self.weights or weights_of(weights))


def _aed_method(name: str, about: str, judge: Judge = "utility", **choices: object) -> Method:
    """Return a variant of the strategy `aed`. `choices` are the parameters that differ from the paper's defaults."""
    written = (f"{key}={str(value).lower()}" for key, value in choices.items())
    views = ("triplet",) if choices.get("triplets", True) else ()
    return Method(name, f"aed({', '.join(('preset=paper', *written))})", "aed", judge, about, views)


def _one_prompt_method(name: str, about: str, n: int, judge: Judge = "utility", **choices: object) -> Method:
    """Return a method that puts the n most useful passages of ten into one prompt. For n = 1 they are of five, as in Table 1."""
    given = {"k": 5 if n == 1 else 10, "m": n, "ensemble": False, "memory": False, **choices}
    return replace(_aed_method(name, about, judge, **given), reads_one_prompt=True)


def _reranker_method(name: str, about: str, n: int = 5, **choices: object) -> Method:
    return _one_prompt_method(name, f"a reranker: {about}", n, "reranker", **choices)


def _gainrag_method(n: int, passages: str) -> Method:
    about = f"GainRAG: {passages} and one written by the model (Jiang et al. 2025)"
    return _one_prompt_method(f"gainrag-{n}", about, n, memory=True, triplets=False)


def _baseline(name: str, about: str, strategy: str = "", mode: str = "short", judge: Judge = "none") -> Method:
    """Return a method of another paper. Without a `strategy` it is the strategy of the same name."""
    return Method(name, strategy or name, mode, judge, about)


def _standard_method(k: int) -> Method:
    passages = "the best passage" if k == 1 else f"the {k} best passages"
    return _baseline(f"rag-{k}", f"standard RAG: {passages}", _STANDARD.format(k=k))


_RAG_5 = _standard_method(5)
_RERANKER_5 = _reranker_method("reranker-5", "the best five of ten passages (Xiao et al. 2024)", triplets=False)
_AED_1 = _aed_method("aed-1", "AED-RAG with m = 1, of five passages", k=5, m=1)
_AED_2 = _aed_method("aed-2", "AED-RAG with m = 2, of ten passages")

_TABLE_1 = (
    _baseline("naive", "the model alone, without a context", "topk", "naive"),
    _standard_method(1),
    _RAG_5,
    _baseline(
        "recomp-extractive",
        "RECOMP: the two sentences of ten leaves most similar to the question, or none (Xu et al. 2023; the paper trains "
        "an encoder to choose them)",
        "recomp(k=10)",
    ),
    _baseline(
        "recomp-abstractive",
        "RECOMP: a summary of five passages, or none (Xu et al. 2023; written by the answering model, in the paper by a trained "
        "one)",
        _STANDARD.format(k=5),
        "recomp",
    ),
    _baseline(
        "replug",
        "REPLUG: five passages in separate prompts, their probabilities weighted by search score (Shi et al. 2024)",
        _STANDARD.format(k=5),
        "replug",
    ),
    _reranker_method("reranker-1", "the best of five passages (Xiao et al. 2024)", 1, triplets=False),
    _RERANKER_5,
    _baseline(
        "reranker-sentences",
        "a reranker over sentences: the best twelve of 24 (Table 7), in document order",
        "sentence(by=utility, among=24, n=12)",
        judge="reranker",
    ),
    _gainrag_method(1, "the most useful of five passages"),
    _gainrag_method(5, "the five most useful of ten passages"),
    _AED_1,
    _AED_2,
)

_TABLE_2 = (
    _aed_method("aed-no-triplets", "w/o AED (triplets): no stream of triplets", triplets=False),
    _aed_method("aed-no-memory", "w/o AED (ssp): no stream of a passage written by the model", memory=False),
    _one_prompt_method(
        "aed-no-ensemble",
        "w/o AED (full): the five most useful of ten in one prompt, each as a passage or as triplets",
        5,
    ),
    _one_prompt_method(
        "aed-passages",
        "w/o AED (full) & triplets: the five most useful passages of ten in one prompt",
        5,
        triplets=False,
    ),
)

_TABLE_4 = (
    _RAG_5,
    _one_prompt_method(
        "rag-5-triplets", "the triplets of the five best passages", 5, "none", k=5, by="search", together="triplets"
    ),
    _one_prompt_method(
        "rag-5-both", "the five best passages with their triplets", 5, "none", k=5, by="search", together="both"
    ),
    _RERANKER_5,
    _reranker_method("reranker-5-triplets", "the best five triplet sets of ten", together="triplets"),
    _reranker_method("reranker-5-both", "the best five passages of ten with their triplets", together="both"),
    _AED_2,
)

_TABLE_8 = (_RAG_5, _standard_method(10), _standard_method(20), _RERANKER_5, _AED_1, _AED_2)

_FIGURE_3 = tuple(_aed_method(f"beta-{beta:g}", f"AED-RAG with beta = {beta:g}", beta=f"{beta:g}") for beta in BETAS)

_BASELINES = (
    _baseline("full", "LC: all documents in order, cut in the middle to fit the budget, as in LongBench"),
    _baseline("bm25", "the best leaves by full-text search"),
    _baseline("dense", "the best leaves by vector search"),
    _baseline("hybrid", "the best leaves by full-text and vector search"),
    _baseline(
        "bge-reranker", "the best leaves in the order of a reranker (BGE; here any)", "reranker", judge="reranker"
    ),
    _baseline(
        "raptor",
        "RAPTOR: the ten nearest nodes of a tree of summaries (Sarthi et al. 2024; with the view's summariser)",
        "raptor(k=10)",
    ),
    _baseline("raptor-traverse", "RAPTOR: five nodes of each layer, top down", "raptor(tree=traverse, k=5)"),
    _baseline("tree-rag", "Tree-RAG: sections and leaves, top down and bottom up (Tao et al. 2025)"),
    _baseline(
        "crag",
        "CRAG: strips of judged passages (Yan et al. 2024; the second search is a keyword search of the index, not of the web)",
        judge="utility",
    ),
    _baseline(
        "self-rag",
        "Self-RAG: a graded answer for each passage (Asai et al. 2024; with any model, in the paper with a trained one); "
        "its contexts are those of a plain search",
        mode="self-rag",
    ),
)

GROUPS: Mapping[str, tuple[Method, ...]] = {
    "table-1": _TABLE_1,
    "table-2": _TABLE_2,
    "table-4": _TABLE_4,
    "table-8": _TABLE_8,
    "beta": _FIGURE_3,
    "baselines": _BASELINES,
}
METHODS: Mapping[str, Method] = {method.name: method for group in GROUPS.values() for method in group}


def methods_of(names: str) -> list[Method]:
    """Return the methods of these names or groups, separated by commas. Raises UsageError for an unknown name."""
    chosen: dict[str, Method] = {}
    for name in filter(None, (part.strip() for part in names.split(","))):
        found = GROUPS.get(name) or ((METHODS[name],) if name in METHODS else ())
        if not found:
            raise UsageError(f"unknown method: {name!r}", one_of(name, [*GROUPS, *METHODS]))
        chosen.update((method.name, method) for method in found)
    if not chosen:
        raise UsageError("missing method name", f"one of: {', '.join([*GROUPS, *METHODS])}")
    return list(chosen.values())


def strategy_methods(specs: str, mode: str | None = None) -> list[Method]:
    """Return strategies as methods that answer in this mode.

    Args:
        specs: specs of strategies, separated by commas, or "all". Besides its own parameters a strategy takes `search.NAME=VALUE`
            for a search setting, and weave takes `weights=FILE`, as `mergewise tune` prints them.
        mode: the mode of all of them, or None for their preferred modes.

    Raises:
        UsageError: if a spec or a file of weights is invalid.
    """
    # the first method is the default reference
    every = sorted(STRATEGIES, key=lambda name: name != "topk")
    names = every if specs.strip() == ALL else split_specs(specs)
    return [_strategy_method(spec, mode) for spec in names]


def _strategy_method(spec: str, mode: str | None) -> Method:
    name, arguments = split_spec(spec)
    given = assignments(arguments, spec)
    file = given.pop("weights", None) if name == "weave" else None
    search = {key.removeprefix(OF_SEARCH): given.pop(key) for key in list(given) if key.startswith(OF_SEARCH)}
    if file is None and not search:
        return Method(spec, spec, mode)
    weights = None if file is None else weights_of(str(file))
    own = f"{name}({_assigned(given)})" if given else name
    return Method(spec, own, mode, search=_assigned(search), weights=weights)


def _assigned(given: Mapping[str, object]) -> str:
    return ", ".join(f"{name}={value}" for name, value in given.items())


def mode_of(method: Method, models: Models) -> str | None:
    """Return the method's mode, or a mode for any chat model if it reads one prompt and no model gives probabilities."""
    mode = None if method.mode is None else MODES.get(method.mode)
    if mode is None or not (method.reads_one_prompt and mode.otherwise) or mode.needs.of(models) is not None:
        return method.mode
    return method.mode if MODES[mode.otherwise].needs.of(models) is None else mode.otherwise


def unmet_needs(method: Method, views: Collection[str], models: Models, answers: bool = True) -> str:
    """Describe what the method needs and lacks, for a row of a table without figures. Return an empty text if it can run.

    `models` includes the method's judge, and `views` are those of the index. Needs of the mode count only with `answers`.
    """
    strategy = resolve(method.strategy)[0]
    missing = [view for view in (*strategy.views, *method.views) if view not in views]
    needs = [strategy.needs] if strategy.needs is not None else []
    if answers:
        # a method without a mode never lacks one: its strategy's preferred mode has a fallback
        mode = mode_of(method, models)
        needs += [MODES[mode].needs] if mode else []
    absent = {need.what: need.hint for need in needs if need.of(models) is None}
    wants = [
        *(f"the view {view} (--views leaf,{view})" for view in missing),
        *(f"{n} ({h})" for n, h in absent.items()),
    ]
    return f"needs {' and '.join(wants)}" if wants else ""


def needed_views(methods: Sequence[Method]) -> list[str]:
    """Return the views that an index needs for these methods."""
    views = [view for method in methods for view in (*resolve(method.strategy)[0].views, *method.views)]
    return list(dict.fromkeys(("leaf", *views)))
