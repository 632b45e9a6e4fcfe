"""weave: the densest context for a budget, without a model call.

`strategy` gathers candidates, from the search and over bridge hops (`hops`); `evidence` says how likely each is needed;
`selection` weighs them against each other, and `submodular` takes the best that fit.
"""

from mergewise.assemble.weave.parameters import Weave
from mergewise.assemble.weave.strategy import assemble, gather

__all__ = ["Weave", "assemble", "gather"]
