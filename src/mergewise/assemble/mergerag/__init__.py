"""MergeRAG (Guo et al., "Rethinking Retrieval-Augmentation as Synthesis"): weak chunks are fused until the budget holds the rest.

`strategy` is the whole, `merging` its Algorithms 1 to 4. Chunks are sentences (`pieces`) of some worth (`relevance`);
`fusion_operators` make one chunk of two, some by asking a model (`fusion_prompts`). `notes` tell each merge in the trace.
"""

from mergewise.assemble.mergerag.notes import MergeNode, MergeNote
from mergewise.assemble.mergerag.strategy import MergeRAG, assemble, merge_context

__all__ = ["MergeNode", "MergeNote", "MergeRAG", "assemble", "merge_context"]
