"""Self-RAG (Asai et al. 2024), a baseline of MacRAG: the model writes an answer per passage and grades its own answers."""

from __future__ import annotations

from mergewise.designs.design import Design, later

_PROMPTS = ("short-from-source", "retrieve", "relevant", "supported", "useful", "graded")
DESIGN = Design(
    strategies=later(f"{__name__}.strategy", "STRATEGIES", "self-rag"),
    modes=later(f"{__name__}.answering", "MODES", "self-rag"),
    prompts=later(f"{__name__}.answering", "PROMPTS", *_PROMPTS),
)
