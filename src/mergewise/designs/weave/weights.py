"""Custom weights of weave's features in a file. The built-in weights were fitted with MiniLM and without a reranker.

    [weave]
    bias = -6.8
    cosine = 9.1

    [complete]
    bias = -0.4
    slope = 0.8

Features missing from the file keep their built-in weights. The table [complete] recalibrates the log-odds of `Context.complete`.
One of the tables may be missing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from mergewise.designs.weave.completeness import OWN_BIAS, OWN_SLOPE
from mergewise.designs.weave.evidence import WEIGHTS, Candidates, log_odds
from mergewise.errors import UsageError
from mergewise.files import load_toml
from mergewise.models.calibration import ScoredTexts
from mergewise.ranges import Range, number
from mergewise.types import Span

TABLE, COMPLETE = "weave", "complete"
OWN = {"bias": OWN_BIAS, "slope": OWN_SLOPE}
NAMES = (*WEIGHTS, OWN_BIAS, OWN_SLOPE)
MOST = Range(-1000, 1000)


def weights_of(given: str | os.PathLike[str] | Mapping[str, object] | None) -> Mapping[str, float] | None:
    """Return the weights in a file or dictionary, or None if nothing is given. The others keep their built-in values.

    Raises UsageError for an unreadable file, an unknown feature, and a weight that is not a number from -1000 to 1000.
    """
    if given is None:
        return None
    named: Mapping[str, object]
    if isinstance(given, Mapping):
        named, origin = given, "the weights"
    else:
        origin, hint = str(given), "`mergewise tune --fit FILE` writes such a file"
        read = load_toml(Path(given), hint)
        table, own = read.get(TABLE), read.get(COMPLETE, {})
        if not isinstance(table if table is not None else own or None, dict) or not isinstance(own, dict):
            raise UsageError(f"{Path(given)}: missing table [{TABLE}]", hint)
        named = {**(table or {}), **{OWN[name] if name in OWN else name: value for name, value in own.items()}}  # noqa: SIM401
    if unknown := named.keys() - set(NAMES):
        raise UsageError(f"{origin}: unknown feature of weave: {min(map(str, unknown))}", f"one of: {', '.join(NAMES)}")
    return {name: number(f"{name} of {origin}", value, float, MOST) for name, value in named.items()}


def weights_line(weights: Mapping[str, float] | None) -> str:
    """Format the given weights, as `name=value, ...`."""
    return ", ".join(f"{name}={value}" for name, value in (weights or {}).items())


def weights_text(weights: Mapping[str, float], comments: Sequence[str] = ()) -> str:
    """Return the text of a weights file."""
    lines = [f"# {comment}" for comment in comments]
    for table, names in ((TABLE, {name: name for name in WEIGHTS}), (COMPLETE, OWN)):
        rows = [f"{shown} = {weights[name]:.4g}" for shown, name in names.items() if name in weights]
        lines += [f"[{table}]", *rows] if rows else []
    return "\n".join(lines) + "\n"


# -- training data


def scored_sentences(candidates: Candidates, gold: Iterable[Span]) -> ScoredTexts:
    """Return training data for `calibrate`: the reranked candidates, and the sentences that are mostly `gold`."""
    pool, reranked, spans = candidates.pool, candidates.signals.reranked, list(gold)
    if reranked is None:
        raise UsageError("no reranked candidates", "name a reranker, and let weave use it")
    needed = [any(is_mostly(pool.sentences[i].span, span) for span in spans) for i in reranked.asked]
    return ScoredTexts(log_odds(pool, candidates.signals)[reranked.asked], reranked.logits, np.array(needed, np.bool_))


def is_mostly(span: Span, gold: Span) -> bool:
    """Return true if more than half of `span` lies in `gold`."""
    return span.doc_id == gold.doc_id and 2 * (min(span.end, gold.end) - max(span.start, gold.start)) > len(span)
