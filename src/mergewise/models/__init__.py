"""Models behind the protocols, one file an adapter. `load_embedder` imports the one that a spec names."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from mergewise.errors import UsageError

if TYPE_CHECKING:
    from mergewise.protocols import Embedder


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


EMBEDDERS: dict[str, Callable[[str], Embedder | None]] = {
    "minilm": _minilm,
    "none": _none,
    "openai:MODEL": _openai,
    "st:NAME_OR_PATH": _sentence_transformers,
}
"""The forms of a spec. What stands after the colon is handed on."""


def load_embedder(spec: str) -> Embedder | None:
    """The embedder that `spec` names, or None for `none`: text search alone.

    Raises UsageError for any other spec, and MissingExtra where an optional dependency is not installed.
    """
    kind, colon, name = spec.partition(":")
    for form, load in EMBEDDERS.items():
        if form.partition(":")[:2] == (kind, colon) and bool(name) == bool(colon):
            return load(name)
    raise UsageError(f"unknown embedder {spec!r}", "use " + ", ".join(EMBEDDERS))
