"""The edges: what models and indexes must be able to do. Strategies see them through these protocols alone."""

from __future__ import annotations

from mergewise.protocols.indexes import IndexReader, Ranking, RowReader, Store, StoreReader
from mergewise.protocols.models import (
    Blend,
    CausalModel,
    CausalState,
    ChatModel,
    CompletingModel,
    Embedder,
    FloatArray,
    KeepsReplies,
    LogitReranker,
    NextTokens,
    NLLScorer,
    PartEmbedder,
    Reranker,
    TokenCounter,
    UtilityPredictor,
)

__all__ = [
    "Blend",
    "CausalModel",
    "CausalState",
    "ChatModel",
    "CompletingModel",
    "Embedder",
    "FloatArray",
    "IndexReader",
    "KeepsReplies",
    "LogitReranker",
    "NLLScorer",
    "NextTokens",
    "PartEmbedder",
    "Ranking",
    "Reranker",
    "RowReader",
    "Store",
    "StoreReader",
    "TokenCounter",
    "UtilityPredictor",
]
