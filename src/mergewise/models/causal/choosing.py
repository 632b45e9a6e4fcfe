"""The next token of each question from the logits of its streams, where these are: nothing but the choice leaves the device.

The same as `models/blending.py`, which says what is computed, in torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mergewise.models.blending import row_tables
from mergewise.protocols import NextTokens

if TYPE_CHECKING:
    from mergewise.protocols import Blend


def choose(logits: Any, blend: Blend) -> NextTokens:
    import torch

    index, shares = row_tables(blend)
    rows = logits.log_softmax(-1)[torch.as_tensor(index, device=logits.device)]
    weights = torch.as_tensor(shares, device=logits.device, dtype=logits.dtype)[..., None]
    product = torch.where(weights > 0, weights * rows, torch.zeros_like(rows)).sum(1)
    scores = (weights.log() + rows).logsumexp(1) if blend.mixture else product
    tokens = scores.argmax(-1) if blend.temperature <= 0 else _draw_tokens(scores, blend)
    picked = rows.gather(-1, tokens[:, None, None].expand(-1, rows.shape[1], 1))[..., 0]
    agreement = product.logsumexp(-1).exp()
    first = rows.argmax(-1)
    return NextTokens.of(blend, *(values.cpu().numpy() for values in (tokens, picked, agreement, first)))


def _draw_tokens(scores: Any, blend: Blend) -> Any:
    import torch

    heaps = (scores.double() / blend.temperature).softmax(-1).cumsum(-1)
    draws = torch.as_tensor(blend.draws, device=scores.device, dtype=heaps.dtype)[:, None] * heaps[:, -1:]
    return torch.searchsorted(heaps, draws, right=True)[:, 0].clamp(max=scores.shape[-1] - 1)
