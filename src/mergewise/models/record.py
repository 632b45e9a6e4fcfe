"""The models at hand, in one record that is passed whole: from an index to strategies, modes and the builders of views."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any

from mergewise.models.scores import RememberingReranker
from mergewise.models.utilities import utilities_of
from mergewise.protocols import (
    CausalModel,
    ChatModel,
    Embedder,
    FloatArray,
    NLLScorer,
    Reranker,
    TokenCounter,
    UtilityPredictor,
)
from mergewise.types import SHIPPED, Prompts


@dataclass(frozen=True, slots=True)
class Models:
    """A model is None where the user named none. `stored_tokens`: whether `count_tokens` made the counts in the index.

    `predictor` judges the utility of texts for one question; where it is None, strategies go by the scores of the search.
    `prompts` are what chat models are told. `weights` are a user's own of weave's features, in place of those that ship.
    """

    count_tokens: TokenCounter
    embedder: Embedder | None = None
    chat: ChatModel | None = None
    reranker: Reranker | None = None
    scorer: NLLScorer | None = None
    causal: CausalModel[Any] | None = None
    predictor: UtilityPredictor | None = None
    stored_tokens: bool = False
    prompts: Prompts = SHIPPED
    weights: Mapping[str, float] | None = None

    def for_question(self) -> Models:
        """The same for the length of one question: no text is scored twice, and there is a predictor."""
        return replace(
            self,
            reranker=None if self.reranker is None else RememberingReranker(self.reranker),
            predictor=self.utilities,
        )

    @property
    def utilities(self) -> UtilityPredictor:
        """The predictor, or the one that the other models make."""
        return self.predictor or utilities_of(self.reranker, self.embedder)


def embed_groups(embedder: Embedder, groups: Sequence[Sequence[str]]) -> list[FloatArray]:
    """The vectors of each group of texts, out of one call."""
    vectors = embedder.embed_documents([text for texts in groups for text in texts])
    return [vectors[first:end] for first, end in pairwise(accumulate(map(len, groups), initial=0))]
