"""The methods that AED-RAG is compared with (Tables 1 and 2, Figure 3), each as a strategy, a mode, and what judges its passages.

All answer by the same prompt (Table 6), and by the same model. A passage is a section of at most 160 tokens, or a leaf, for all
of them; the paper's have 100 words. It retrieves by Contriever, we by the index's own search.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from mergewise.designs.specs import split_specs
from mergewise.designs.strategies import resolve
from mergewise.errors import UsageError

Judge = Literal["given", "none", "reranker", "utility"]
"""What judges: the reranker that reranks every search ("given", as with any strategy), nothing but the search, or, for selection
alone, the reranker or the trained utility predictor."""

_SELECT = "aed(k={k}, m={m}, longest=160, memory={memory}, triplets={triplets}, ensemble={ensemble}, beta={beta})"
BETAS = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0, 2.0, 50.0)


@dataclass(frozen=True, slots=True)
class Method:
    """`strategy` is a spec, `mode` a name in `MODES` or None: what the strategy prefers. `views` are what it needs
    beyond those of its strategy.
    """

    name: str
    strategy: str
    mode: str | None = None
    judge: Judge = "given"
    about: str = ""
    views: tuple[str, ...] = ()


def _aed_method(
    name: str,
    about: str,
    k: int = 10,
    m: int = 2,
    *,
    judge: Judge = "utility",
    memory: bool = True,
    triplets: bool = True,
    ensemble: bool = True,
    beta: float = 0.5,
) -> Method:
    """A choice of the strategy `aed`."""
    given = {"memory": memory, "triplets": triplets, "ensemble": ensemble}
    flags = {flag: str(value).lower() for flag, value in given.items()}
    strategy = _SELECT.format(k=k, m=m, beta=f"{beta:g}", **flags)
    return Method(name, strategy, "aed", judge, about, ("triplet",) if triplets else ())


def _reranking_method(
    name: str, about: str, n: int, judge: Judge = "utility", memory: bool = False, triplets: bool = False
) -> Method:
    """The n most useful of ten passages in one prompt; of five where one is kept, as in Table 1."""
    k = 5 if n == 1 else 10
    return _aed_method(name, about, k, n, judge=judge, memory=memory, triplets=triplets, ensemble=False)


_TABLE_1 = (
    Method("naive", "topk", "naive", "none", "the model alone, without a context"),
    Method("rag-1", "topk(k=1, order=score, longest=160)", "short", "none", "standard RAG: the best passage"),
    Method("rag-5", "topk(k=5, order=score, longest=160)", "short", "none", "standard RAG: the five best passages"),
    Method(
        "recomp-extractive",
        "recomp(k=10)",
        "short",
        "none",
        "RECOMP: the two sentences of ten leaves that are most like the question, or none (Xu et al. 2023; the paper trains "
        "an encoder to choose them)",
    ),
    Method(
        "recomp-abstractive",
        "topk(k=5, order=score, longest=160)",
        "recomp",
        "none",
        "RECOMP: a summary of five passages, or none (Xu et al. 2023; the paper trains a model to write it, here the one that "
        "answers does)",
    ),
    Method(
        "replug",
        "topk(k=5, order=score, longest=160)",
        "replug",
        "none",
        "REPLUG: five passages apart, their probabilities added up, weighed by the search (Shi et al. 2024)",
    ),
    _reranking_method("reranker-1", "a reranker: the best of five passages (Xiao et al. 2024)", 1, "reranker"),
    _reranking_method("reranker-5", "a reranker: the best five of ten passages (Xiao et al. 2024)", 5, "reranker"),
    Method(
        "reranker-sentences",
        "sentence(by=utility, among=24, n=12)",
        "short",
        "reranker",
        "a reranker over sentences: the best twelve of 24 (Table 7), shown in the order of their documents",
    ),
    _reranking_method(
        "gainrag-1",
        "GainRAG: the most useful of five passages and one that the model writes (Jiang et al. 2025)",
        1,
        memory=True,
    ),
    _reranking_method(
        "gainrag-5",
        "GainRAG: the five most useful of ten passages and one that the model writes (Jiang et al. 2025)",
        5,
        memory=True,
    ),
    _aed_method("aed-1", "AED-RAG with m = 1, of five passages", 5, 1),
    _aed_method("aed-2", "AED-RAG with m = 2, of ten passages"),
)

_TABLE_2 = (
    _aed_method("aed-no-triplets", "w/o AED (triplets): no stream of triplets", triplets=False),
    _aed_method("aed-no-memory", "w/o AED (ssp): no stream of the model's own", memory=False),
    _reranking_method(
        "aed-no-ensemble",
        "w/o AED (full): the five most useful of ten in one prompt, each as passage or as triplets, whichever is more useful",
        5,
        triplets=True,
    ),
    _reranking_method(
        "aed-passages", "w/o AED (full) & triplets: the five most useful passages of ten in one prompt", 5
    ),
)

_FIGURE_3 = tuple(_aed_method(f"beta-{beta:g}", f"AED-RAG with beta = {beta:g}", beta=beta) for beta in BETAS)

GROUPS: Mapping[str, tuple[Method, ...]] = {"table-1": _TABLE_1, "table-2": _TABLE_2, "beta": _FIGURE_3}
METHODS: Mapping[str, Method] = {method.name: method for group in GROUPS.values() for method in group}


def methods_of(names: str) -> list[Method]:
    """Methods by their names or those of their groups, separated by commas; each once."""
    chosen: dict[str, Method] = {}
    for name in filter(None, (part.strip() for part in names.split(","))):
        found = GROUPS.get(name) or ((METHODS[name],) if name in METHODS else ())
        if not found:
            known = ", ".join([*GROUPS, *METHODS])
            raise UsageError(f"unknown method {name!r}", f"one of: {known}")
        chosen.update((method.name, method) for method in found)
    if not chosen:
        raise UsageError("no method is named", f"one of: {', '.join([*GROUPS, *METHODS])}")
    return list(chosen.values())


def strategy_methods(specs: str, mode: str | None = None) -> list[Method]:
    """Strategies as methods, by their specs, separated by commas; `mode` answers from the contexts of all of them."""
    return [Method(spec, spec, mode) for spec in split_specs(specs)]


def needed_views(methods: Sequence[Method]) -> list[str]:
    """The views that an index needs for these methods, each once."""
    views = [view for method in methods for view in (*resolve(method.strategy)[0].views, *method.views)]
    return list(dict.fromkeys(("leaf", *views)))
