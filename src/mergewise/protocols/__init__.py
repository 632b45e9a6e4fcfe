"""The edges: what models and indexes must be able to do. Strategies see them through these protocols alone."""

from __future__ import annotations

from mergewise.protocols.indexes import IndexReader, Ranking, RowReader, Store, StoreReader
from mergewise.protocols.models import (
    CausalModel,
    CausalState,
    ChatModel,
    Embedder,
    FloatArray,
    KeepsReplies,
    NLLScorer,
    PartEmbedder,
    Reranker,
    TokenCounter,
)

__all__ = [
    "CausalModel",
    "CausalState",
    "ChatModel",
    "Embedder",
    "FloatArray",
    "IndexReader",
    "KeepsReplies",
    "NLLScorer",
    "PartEmbedder",
    "Ranking",
    "Reranker",
    "RowReader",
    "Store",
    "StoreReader",
    "TokenCounter",
]
