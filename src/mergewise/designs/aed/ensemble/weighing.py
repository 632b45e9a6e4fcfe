"""From utilities to weights: Eq. 12 and 13 of AED-RAG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import exp, fsum

from mergewise.types import Context, Ensemble, Stream

MEMORY = "memory"


def weights_of(utilities: Mapping[str, float]) -> dict[str, float]:
    """w = Softmax([U_D, U_T, U_ss]), Eq. 13, over the streams that there are."""
    most = max(utilities.values())
    shares = {name: exp(utility - most) for name, utility in utilities.items()}
    whole = fsum(shares.values())
    return {name: share / whole for name, share in shares.items()}


def ensemble_of(context: Context, utilities: Sequence[float]) -> Ensemble:
    """A context that another strategy made, as one stream of all its passages; `utilities` are theirs (Eq. 10 and 11)."""
    ranked = sorted(range(len(context.passages)), key=lambda i: -utilities[i])
    best = tuple(utilities[i] for i in ranked)
    ensemble = Ensemble(())
    total = sum(ensemble.beta**j * score for j, score in enumerate(best))
    return replace(ensemble, streams=(Stream("passages", tuple(i + 1 for i in ranked), best, total),))
