"""Utilities of texts for a question, S_phi of AED-RAG (Eq. 6): by a reranker, else by the embedder, else by words.

The utility of a reranker is its logit, or the logit of its share. The other two are untrained fallbacks: the cosine of question
and text, or the share of the question's terms in the text.
"""

from __future__ import annotations

from collections.abc import Sequence

from mergewise.concurrency import check_time
from mergewise.models.scores import RememberingReranker
from mergewise.protocols import CountsCut, Embedder, Reranker, UtilityPredictor
from mergewise.text.terms import content_terms


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
