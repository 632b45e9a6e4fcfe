"""weave: the densest context for a budget, without a model call unless `select=point` asks for one.

`strategy` gathers candidates by the search and over bridge hops (`hops`); `evidence` says how likely each is needed;
`selection` sets up what a selection is worth and costs, and `submodular` takes the best that fits.
With `select=point`, `pointing` lets a chat model say which sentences come first. Beside it stand its baselines: `sentence`,
the best single sentences, and RECOMP's extractive compressor, which is `sentence` with other parameters.
"""

from __future__ import annotations

from mergewise.designs.design import Design, Lazy, Strategy


def _strategies() -> dict[str, Strategy]:
    from mergewise.designs.weave import sentence, strategy
    from mergewise.designs.weave.parameters import Weave

    return {
        "weave": Strategy(
            strategy.assemble, Weave(), "the sentences that tell most about the question, over bridge hops"
        ),
        "sentence": Strategy(
            sentence.assemble, sentence.Sentences(), "the best single sentences until the budget is full"
        ),
        "recomp": Strategy(
            sentence.assemble,
            sentence.Sentences(k=5, by="cosine", n=2, least=0.2),
            "the sentences of few leaves that are most like the question, or none (RECOMP, extractive)",
        ),
    }


DESIGN = Design(strategies=Lazy(_strategies))
