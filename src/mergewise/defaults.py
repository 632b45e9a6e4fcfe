"""Defaults of the library and the command line. Importing this module costs nothing."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

When: TypeAlias = Literal["now", "later"]
"""Time to compute the vectors of added documents: in the same call, or in a later one."""

EMBEDDER = "minilm"
# Embedders that neither send data nor load code or models from elsewhere. Even an untrusted index may name them.
SHIPPED_EMBEDDERS = frozenset({"e5", "minilm", "none"})
CHAT = "extractive"
RERANKER = "none"
SCORER = "lm"
CAUSAL = "none"
STRATEGY = "weave"
BUDGET: Final = "default"
# "default" and "auto" in tokens of English. In other languages, text of the same length may take more tokens.
# With "auto", weave maximises the probability that all evidence is held, less this price of the whole budget.
DEFAULT_BUDGET = 640
AUTO_BUDGET, AUTO_PRICE = 1024, 0.2
MAX_TOKENS = 1024
# Longest section that is one passage: in the strategy `aed`, its triplets, its training and its baselines. The papers' passages
# have a hundred words. On our question sets, passages of this size have 44 to 85 words on average.
PASSAGE_TOKENS = 256
# time limit for reading one file in the sandbox
FILE_SECONDS = 120.0
# Scanned pages of a file to recognise. Four processors read about this number in FILE_SECONDS.
OCR_PAGES = 100
# size of the local copies of the files of buckets
CACHE_SIZE = "10GB"
READERS_VERSION = 4
"""Version of the readers. Raise it when they read a file differently, so that `index --reread` reads older documents again."""
READ_BY = " read by "
"""Mark before the version in the digest of a document that was read from a file."""
