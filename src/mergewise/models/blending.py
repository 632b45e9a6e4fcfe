"""The choice of each question's next token from the log-probabilities of its streams, on arrays.

    product   argmax over v of  sum over z of w_z log P(v | q, z, y_<t)        Eq. 14 of AED-RAG
    mixture   argmax over v of  log sum over z of w_z P(v | q, z, y_<t)        REPLUG

The agreement of streams is  sum over v of  prod over z of P(v | z)^w_z : 1 for equal distributions, near 0 if one stream rules
out what another is sure of.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mergewise.protocols import Blend, DoubleArray, FloatArray, IntArray, NextTokens


def choose(log_probs: FloatArray, blend: Blend) -> NextTokens:
    index, shares = row_tables(blend)
    rows, weights = log_probs[index], shares.astype(log_probs.dtype)[..., None]
    # impossible tokens have a log-probability of minus infinity, even in a stream of weight 0
    with np.errstate(divide="ignore", invalid="ignore"):
        product = np.where(weights > 0, weights * rows, 0).sum(1)
        scores = np.logaddexp.reduce(np.log(weights) + rows, 1) if blend.mixture else product
    tokens = scores.argmax(-1)
    picked = np.take_along_axis(rows, np.broadcast_to(tokens[:, None, None], (*rows.shape[:2], 1)), -1)[..., 0]
    return NextTokens.of(blend, tokens, picked, np.exp(np.logaddexp.reduce(product, -1)))


def row_tables(blend: Blend) -> tuple[IntArray, DoubleArray]:
    """Return the rows and weights of questions as tables of shape (questions, streams). Missing streams have weight 0."""
    most = max(map(len, blend.rows))
    index = [[*rows, *[rows[0]] * (most - len(rows))] for rows in blend.rows]
    weights = [[*shares, *[0.0] * (most - len(shares))] for shares in blend.weights]
    return np.array(index, np.int64), np.array(weights, np.float64)


# -- the same in torch


def choose_on_device(logits: Any, blend: Blend) -> NextTokens:
    """Choose like `choose`, but from logits in torch on their device. Only the choice leaves the device."""
    import torch

    index, shares = row_tables(blend)
    rows = logits.log_softmax(-1)[torch.as_tensor(index, device=logits.device)]
    weights = torch.as_tensor(shares, device=logits.device, dtype=logits.dtype)[..., None]
    product = torch.where(weights > 0, weights * rows, torch.zeros_like(rows)).sum(1)
    scores = (weights.log() + rows).logsumexp(1) if blend.mixture else product
    tokens = scores.argmax(-1)
    picked = rows.gather(-1, tokens[:, None, None].expand(-1, rows.shape[1], 1))[..., 0]
    agreement = product.logsumexp(-1).exp()
    return NextTokens.of(blend, *(values.cpu().numpy() for values in (tokens, picked, agreement)))
