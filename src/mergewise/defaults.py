"""The defaults that the library and the command line share, in a module that costs nothing to import."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

When: TypeAlias = Literal["now", "later"]
"""When what is added gets its vectors: in the same call, or in a later one."""

EMBEDDER = "minilm"
# embedders that send nothing and load nothing from elsewhere: whoever wrote an index or a configuration may name them
SHIPPED_EMBEDDERS = frozenset({"minilm", "none"})
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
# Of a section up to which it is one passage: in the strategy `aed`, its triplets, its training and the methods it is compared
# with. The papers' passages have a hundred words; on the question sets those of this size have 44 to 85 in the mean.
PASSAGE_TOKENS = 256
# For reading one file in the process apart.
FILE_SECONDS = 120.0
# Scanned pages of a file that are recognised, where that is asked for: as many as four processors read in about this time.
OCR_PAGES = 100
