"""The defaults that the library and the command line share, in a module that costs nothing to import."""

from __future__ import annotations

EMBEDDER = "minilm"
CHAT = "extractive"
RERANKER = "none"
SCORER = "lm"
STRATEGY = "auto-merge"
BUDGET = 640
MAX_TOKENS = 1024
