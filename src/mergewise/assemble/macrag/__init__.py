"""MacRAG: slices are searched, their chunks rise, documents are ranked, and neighbouring chunks merge.

`strategy` is the paper's Algorithm 1; `document_rank` asks a chat model for the order of documents; `ranked_sentences` is
ours, for budgets that cannot hold the merged chunks whole.
"""

from mergewise.assemble.macrag.strategy import MacRAG, assemble

__all__ = ["MacRAG", "assemble"]
