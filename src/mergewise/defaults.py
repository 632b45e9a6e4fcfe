"""The defaults that the library and the command line share, in a module that costs nothing to import."""

from __future__ import annotations

from typing import Final

EMBEDDER = "minilm"
CHAT = "extractive"
RERANKER = "none"
SCORER = "lm"
CAUSAL = "none"
STRATEGY = "weave"
BUDGET: Final = "default"
# What "default" and "auto" stand for, in tokens of English: in other languages they are as many as text of this length takes.
# With "auto", the share of the first gain per token below which weave adds no more.
DEFAULT_BUDGET = 640
AUTO_BUDGET, AUTO_STOP = 1024, 0.05
MAX_TOKENS = 1024
