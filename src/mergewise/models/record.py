"""The record of models that an index passes to strategies, modes and the builders of views."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any

from mergewise.errors import UsageError
from mergewise.models.scores import RememberingReranker
from mergewise.models.utilities import utilities_of
from mergewise.protocols import (
    CausalModel,
    ChatModel,
    Embedder,
    FloatArray,
    NLLScorer,
    Reranker,
    SecondSource,
    TokenCounter,
    UtilityPredictor,
)
from mergewise.types import SHIPPED, Prompts


@dataclass(frozen=True, slots=True)
class Models:
    """The models of an index. A model is None if the user did not choose one.

    Attributes:
        count_tokens: the token counter of budgets.
        embedder: the embedder.
        chat: the chat model.
        reranker: the reranker.
        scorer: the scorer of sources given anchors.
        causal: the causal model.
        predictor: the utility predictor of one question. If it is None, strategies use the scores of the search.
        stored_tokens: whether the counts in the index come from `count_tokens`.
        prompts: the prompts of chat models.
        weights: the user's weights of weave's features, or None for the default weights.
        second_source: the search of other texts, or None to search the index again (CRAG).
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
    second_source: SecondSource | None = None

    def for_question(self) -> Models:
        """Return a copy for one question, with a reranker that scores each text once, and with a predictor."""
        return replace(
            self,
            reranker=None if self.reranker is None else RememberingReranker(self.reranker),
            predictor=self.utilities,
        )

    @property
    def utilities(self) -> UtilityPredictor:
        """The predictor, or else one made from the other models."""
        return self.predictor or utilities_of(self.reranker, self.embedder)


def embed_groups(embedder: Embedder, groups: Sequence[Sequence[str]]) -> list[FloatArray]:
    """Embed groups of texts in one call, and return the vectors of each group."""
    vectors = embedder.embed_documents([text for texts in groups for text in texts])
    return [vectors[first:end] for first, end in pairwise(accumulate(map(len, groups), initial=0))]


def chat_of(models: Models, what: str = "summaries") -> ChatModel:
    """Return the chat model that writes `what`. Raise UsageError if it is missing."""
    if models.chat is None:
        raise UsageError(f"missing chat model for the {what} of this index", "name one: --chat openai:MODEL")
    return models.chat
