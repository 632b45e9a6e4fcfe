"""Weights of weave's features in a file of one's own: those that ship were fitted with MiniLM, and without a reranker.

    [weave]
    bias = -6.8
    cosine = 9.1

A feature that the file does not name keeps the weight that ships.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from mergewise.designs.weave.evidence import WEIGHTS, Candidates
from mergewise.errors import UsageError
from mergewise.files import load_toml
from mergewise.models.calibration import ScoredTexts
from mergewise.ranges import Range, number
from mergewise.types import Span

TABLE = "weave"
MOST = Range(-1000, 1000)


def weights_of(given: str | os.PathLike[str] | Mapping[str, object] | None) -> Mapping[str, float] | None:
    """The weights of a file or of a dictionary, with those that ship where it names none; None where nothing is given.

    Raises UsageError for a file that cannot be read, a feature that there is not, and what is no number from -1000 to 1000.
    """
    if given is None:
        return None
    named, origin = (given, "the weights") if isinstance(given, Mapping) else (_table(Path(given)), str(given))
    if unknown := named.keys() - WEIGHTS.keys():
        raise UsageError(f"{origin}: weave has no feature {min(map(str, unknown))}", f"it has: {', '.join(WEIGHTS)}")
    return {**WEIGHTS, **{name: number(f"{origin}: {name} is", value, float, MOST) for name, value in named.items()}}


def _table(path: Path) -> Mapping[str, object]:
    hint = "`mergewise tune --fit FILE` writes such a file"
    read = load_toml(path, hint)
    table = read.get(TABLE)
    if not isinstance(table, dict):
        raise UsageError(f"{path} has no table [{TABLE}]", hint)
    return table


def weights_line(weights: Mapping[str, float] | None) -> str:
    """Those that differ from the ones that ship, as `name=value, ...`."""
    return ", ".join(f"{name}={value}" for name, value in (weights or {}).items() if value != WEIGHTS[name])


def weights_text(weights: Mapping[str, float], comments: Sequence[str] = ()) -> str:
    """Such a file."""
    lines = [f"# {comment}" for comment in comments]
    return "\n".join([*lines, f"[{TABLE}]", *(f"{name} = {weights[name]:.4g}" for name in WEIGHTS)]) + "\n"


# -- what a question teaches


def scored_sentences(candidates: Candidates, gold: Iterable[Span]) -> ScoredTexts:
    """What `calibrate` learns from a question whose candidates were reranked. A sentence is needed where half of it is `gold`."""
    reranked, spans = candidates.reranked, list(gold)
    if reranked is None:
        raise UsageError("nothing was reranked", "name a reranker, and let weave ask it")
    needed = [any(is_mostly(candidates.sentences[i].span, span) for span in spans) for i in reranked.asked]
    return ScoredTexts(candidates.log_odds()[reranked.asked], reranked.logits, np.array(needed, np.bool_))


def is_mostly(span: Span, gold: Span) -> bool:
    """Whether more than half of `span` lies in `gold`."""
    return span.doc_id == gold.doc_id and 2 * (min(span.end, gold.end) - max(span.start, gold.start)) > len(span)
