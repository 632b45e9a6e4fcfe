"""weave: the densest context for a budget, without a model call unless `select=point` asks for one.

`strategy` gathers candidates by the search and over bridge hops (`hops`); `evidence` says how likely each is needed;
`selection` sets up what a selection is worth and costs, and `submodular` takes the best that fits.
With `select=point`, `pointing` lets a chat model say which sentences come first.
"""

from mergewise.assemble.weave.parameters import Weave
from mergewise.assemble.weave.strategy import assemble, evidence_in, gather

__all__ = ["Weave", "assemble", "evidence_in", "gather"]
