"""M-RAG: keys are searched, values are given.

`strategy` searches and takes values by rank, `pieces` is what a value contributes to a context, `selection` keeps within the
budget, `notes` tells of the markers that were taken.
"""

from mergewise.assemble.mrag.notes import GroundingNote, MarkerNote
from mergewise.assemble.mrag.strategy import MRAG, assemble

__all__ = ["MRAG", "GroundingNote", "MarkerNote", "assemble"]
