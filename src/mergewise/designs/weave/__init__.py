"""weave: the densest context for a budget, without a model call unless `select=point` asks for one.

`strategy` gathers candidates by the search and over bridge hops (`hops`). `evidence` estimates how likely each is needed.
`selection` sets up the objective and the costs, and `submodular` selects the best candidates that fit. With `select=point`,
`pointing` lets a chat model choose the first sentences. The baselines are `sentence`, the best single sentences, and RECOMP's
extractive compressor, which is `sentence` with other parameters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mergewise.designs.design import Design, later
from mergewise.lazy import lazy_names

if TYPE_CHECKING:
    from mergewise.designs.weave.completeness import OWN_BIAS as OWN_BIAS
    from mergewise.designs.weave.completeness import OWN_SLOPE as OWN_SLOPE
    from mergewise.designs.weave.evidence import FEATURES as FEATURES
    from mergewise.designs.weave.evidence import TEXT_WEIGHTS as TEXT_WEIGHTS
    from mergewise.designs.weave.evidence import WEIGHTS as WEIGHTS
    from mergewise.designs.weave.evidence import Candidates as Candidates
    from mergewise.designs.weave.evidence import features_of as features_of
    from mergewise.designs.weave.parameters import Weave as Weave
    from mergewise.designs.weave.strategy import gather as gather
    from mergewise.designs.weave.weights import is_mostly as is_mostly
    from mergewise.designs.weave.weights import scored_sentences as scored_sentences
    from mergewise.designs.weave.weights import weights_line as weights_line
    from mergewise.designs.weave.weights import weights_of as weights_of
    from mergewise.designs.weave.weights import weights_text as weights_text


DESIGN = Design(strategies=later(f"{__name__}.strategy", "STRATEGIES", "weave", "sentence", "recomp"))

__getattr__ = lazy_names(
    __name__,
    {
        "completeness": "OWN_BIAS OWN_SLOPE",
        "evidence": "Candidates FEATURES TEXT_WEIGHTS WEIGHTS features_of",
        "parameters": "Weave",
        "strategy": "gather",
        "weights": "is_mostly scored_sentences weights_line weights_of weights_text",
    },
)
