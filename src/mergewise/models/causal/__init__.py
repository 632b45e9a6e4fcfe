"""Causal models by transformers: loading, chat templates, batches, caches, next tokens. `network` holds the model itself."""

from __future__ import annotations

from mergewise.models.causal.network import HFCausalModel, HFState

__all__ = ["HFCausalModel", "HFState"]
