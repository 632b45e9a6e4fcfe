"""Self-RAG (Asai et al. 2024), a baseline of MacRAG: the model writes an answer per passage and grades its own answers."""

from __future__ import annotations

from mergewise.designs.design import Design, lazy

DESIGN = Design(strategies=lazy(f"{__name__}.strategy", "STRATEGIES"), modes=lazy(f"{__name__}.answering", "MODES"))
