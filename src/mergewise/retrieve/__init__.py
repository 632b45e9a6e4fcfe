"""The search that all strategies share: full text and vectors, fused."""
