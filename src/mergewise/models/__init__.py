"""Models behind the protocols, one file an adapter. The loaders import the one that a spec names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

from mergewise.errors import UsageError

if TYPE_CHECKING:
    from mergewise.protocols import ChatModel, Embedder, NLLScorer, Reranker

Model = TypeVar("Model")


def _none(name: str) -> None:
    return None


def _minilm(name: str) -> Embedder:
    from mergewise.models.minilm import MiniLM

    return MiniLM()


def _sentence_transformers(name: str) -> Embedder:
    from mergewise.models.sentence_transformers import SentenceTransformersEmbedder

    return SentenceTransformersEmbedder(name)


def _openai(name: str) -> Embedder:
    from mergewise.models.openai import OpenAIEmbedder

    return OpenAIEmbedder(name)


# The forms of a spec. What stands after the colon is handed on.
EMBEDDERS: dict[str, Callable[[str], Embedder | None]] = {
    "minilm": _minilm,
    "none": _none,
    "openai:MODEL": _openai,
    "st:NAME_OR_PATH": _sentence_transformers,
}
CHATS: dict[str, Callable[[str], ChatModel | None]] = {"extractive": _none}
RERANKERS: dict[str, Callable[[str], Reranker | None]] = {"none": _none}
SCORERS: dict[str, Callable[[str], NLLScorer | None]] = {"lm": _none}


def load_embedder(spec: str) -> Embedder | None:
    """The embedder that `spec` names, or None for `none`: text search alone.

    Raises UsageError for any other spec, and MissingExtra where an optional dependency is not installed.
    """
    return _load(spec, EMBEDDERS, "embedder")


def load_chat(spec: str) -> ChatModel | None:
    """The chat model that `spec` names, or None for `extractive`: sentences instead of a model."""
    return _load(spec, CHATS, "chat model")


def load_reranker(spec: str) -> Reranker | None:
    """The reranker that `spec` names, or None for `none`: the order of the search."""
    return _load(spec, RERANKERS, "reranker")


def load_scorer(spec: str) -> NLLScorer | None:
    """The scorer that `spec` names, or None for `lm`: counts of words, which the index provides."""
    return _load(spec, SCORERS, "scorer")


def _load(spec: str, forms: Mapping[str, Callable[[str], Model]], what: str) -> Model:
    kind, colon, name = spec.partition(":")
    for form, load in forms.items():
        if form.partition(":")[:2] == (kind, colon) and bool(name) == bool(colon):
            return load(name)
    raise UsageError(f"unknown {what} {spec!r}", "use " + ", ".join(forms))
