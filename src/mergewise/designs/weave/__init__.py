"""weave: the densest context for a budget, without a model call unless `select=point` asks for one.

`strategy` gathers candidates by the search and over bridge hops (`hops`). `evidence` estimates how likely each is needed.
`selection` sets up the objective and the costs, and `submodular` selects the best candidates that fit. With `select=point`,
`pointing` lets a chat model choose the first sentences. The baselines are `sentence`, the best single sentences, and RECOMP's
extractive compressor, which is `sentence` with other parameters.
"""

from __future__ import annotations

from mergewise.designs.design import Design, later

DESIGN = Design(
    strategies=later(f"{__name__}.strategy", "STRATEGIES", "weave", "sentence", "recomp"),
    prompts=later(f"{__name__}.pointing", "PROMPTS", "point"),
)
