"""The record of models that an index passes to strategies, modes and the builders of views, and utilities by these models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise

from mergewise.concurrency import check_time
from mergewise.errors import UsageError
from mergewise.models.scores import RememberingReranker
from mergewise.protocols import (
    CausalModel,
    ChatModel,
    CountsCut,
    Embedder,
    FloatArray,
    NLLScorer,
    Reranker,
    SecondSource,
    TokenCounter,
    UtilityPredictor,
)
from mergewise.text.terms import content_terms
from mergewise.types import SHIPPED, Prompts, frozen


@frozen
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
    causal: CausalModel | None = None
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


# -- utilities of texts for a question, S_phi of AED-RAG (Eq. 6): by a reranker, else by the embedder, else by words.
# The utility of a reranker is its logit, or the logit of its share. The other two are untrained fallbacks: the cosine of question
# and text, or the share of the question's terms in the text.


def utilities_of(reranker: Reranker | None, embedder: Embedder | None) -> UtilityPredictor:
    if reranker is not None:
        return RerankerUtilities(reranker)
    return WordUtilities() if embedder is None else EmbedderUtilities(embedder)


class RerankerUtilities:
    """A `UtilityPredictor` by a reranker. Each pair of question and text is scored once. Make a new one for each question."""

    def __init__(self, reranker: Reranker) -> None:
        self.spec = reranker.spec
        self._reranker = reranker
        self._remembering = RememberingReranker(reranker)

    def utilities(self, question: str, texts: Sequence[str]) -> list[float]:
        return [float(logit) for logit in self._remembering.logits(question, texts)]

    def count_cut(self, question: str, texts: Sequence[str]) -> int:
        return _count_cut(self._reranker, question, texts)


def _count_cut(model: Embedder | Reranker, question: str, texts: Sequence[str]) -> int:
    """Count the truncated texts, or return 0 if the model cannot."""
    return model.count_cut(question, texts) if isinstance(model, CountsCut) else 0


class EmbedderUtilities:
    """A `UtilityPredictor` by cosines."""

    def __init__(self, embedder: Embedder) -> None:
        self.spec = f"cosines of {embedder.spec}"
        self._embedder = embedder

    def utilities(self, question: str, texts: Sequence[str]) -> list[float]:
        if not texts:
            return []
        check_time()
        asked = self._embedder.embed_queries([question])[0]
        return [float(cosine) for cosine in self._embedder.embed_documents(texts) @ asked]

    def count_cut(self, question: str, texts: Sequence[str]) -> int:
        return _count_cut(self._embedder, question, texts)


class WordUtilities:
    """A `UtilityPredictor` by the share of the question's terms in a text."""

    spec = "shares of the question's terms"

    def utilities(self, question: str, texts: Sequence[str]) -> list[float]:
        asked = frozenset(content_terms(question))
        return [len(asked & frozenset(content_terms(text))) / len(asked) if asked else 0.0 for text in texts]
