"""Embedders around others: one that checks an object which a caller gives, and one that has embedded some questions already."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mergewise.errors import EmbedderMismatch, ModelError, UsageError
from mergewise.models import knows_embedder
from mergewise.protocols import Embedder, FloatArray, PartEmbedder, languages_known

_NEEDED = "an embedder has `spec` (a name), `dimension` (a number), `embed_documents` and `embed_queries`"


class GivenEmbedder:
    """An `Embedder` around an object: arrays of the promised shape, finite, with rows made unit length.

    `embed_documents` and `embed_queries` of the object may return anything that numpy takes for an array of numbers.
    Raises UsageError where the object lacks what an embedder has, and ModelError where its vectors are not what they should be.
    """

    def __init__(self, given: Embedder) -> None:
        spec, dimension = getattr(given, "spec", None), getattr(given, "dimension", None)
        if not isinstance(spec, str) or not spec.strip():
            raise UsageError(f"{_kind(given)} has no `spec`, by which an index remembers its embedder", _NEEDED)
        if isinstance(dimension, bool) or not isinstance(dimension, int | np.integer) or dimension < 1:
            raise UsageError(f"the `dimension` of {_kind(given)} is {dimension!r}", _NEEDED)
        for method in ("embed_documents", "embed_queries"):
            if not callable(getattr(given, method, None)):
                raise UsageError(f"{_kind(given)} has no method `{method}`", _NEEDED)
        self.given = given
        self.spec = spec
        self.dimension = int(dimension)
        self.languages = languages_known(given)

    def embed_documents(self, texts: Sequence[str]) -> FloatArray:
        return self._rows(self.given.embed_documents(texts), len(texts))

    def embed_queries(self, texts: Sequence[str]) -> FloatArray:
        return self._rows(self.given.embed_queries(texts), len(texts))

    def _rows(self, vectors: object, count: int) -> FloatArray:
        try:
            rows: FloatArray = np.asarray(vectors, np.float32)
        except (TypeError, ValueError) as error:
            raise ModelError(f"{self.spec} gave no array of numbers: {error}", "one row of numbers a text") from error
        if not count and not rows.size:
            return np.empty((0, self.dimension), np.float32)
        if rows.shape != (count, self.dimension):
            raise ModelError(
                f"{self.spec} gave vectors of the shape {rows.shape}, not {(count, self.dimension)}",
                "one row a text, as long as its `dimension` says",
            )
        if not np.isfinite(rows).all():
            raise ModelError(f"{self.spec} gave a vector with a number that is not finite", "look at the embedder")
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        unit: FloatArray = np.asarray(rows / np.where(lengths > 0, lengths, 1), np.float32)
        return unit


class GivenPartEmbedder(GivenEmbedder):
    """The same around an object that embeds the parts of texts too."""

    def embed_parts(
        self, texts: Sequence[str], parts: Sequence[Sequence[tuple[int, int]]]
    ) -> tuple[FloatArray, list[FloatArray]]:
        assert isinstance(self.given, PartEmbedder)
        whole, of_parts = self.given.embed_parts(texts, parts)
        rows = [self._rows(vectors, len(of_text)) for vectors, of_text in zip(of_parts, parts, strict=True)]
        return self._rows(whole, len(texts)), rows


def given_embedder(given: Embedder) -> Embedder:
    """The object, checked. Raises UsageError where it lacks what an embedder has."""
    return GivenPartEmbedder(given) if isinstance(given, PartEmbedder) else GivenEmbedder(given)


def check_embedder(directory: Path, built_with: str, dimension: int, given: str | Embedder | None) -> None:
    """Raises EmbedderMismatch where an index that was built with one embedder is given another."""
    spec = given if given is None or isinstance(given, str) else given.spec
    if spec is not None and spec != built_with:
        hint = f"use --embedder {built_with}" if knows_embedder(built_with) else "give the one that it was built with"
        raise EmbedderMismatch(
            f"{directory} was built with the embedder {built_with!r}, not {spec!r}",
            f"{hint}, or index into another directory",
        )
    if not isinstance(given, str | None) and given.dimension != dimension:
        raise EmbedderMismatch(
            f"{directory} has vectors of {dimension} numbers, but {spec!r} gives {given.dimension}",
            "give the one that it was built with, or index into another directory",
        )


class QuestionVectors:
    """An `Embedder` that has embedded some questions already, all of them in one call."""

    def __init__(self, embedder: Embedder, questions: Sequence[str]) -> None:
        self._embedder = embedder
        asked = list(dict.fromkeys(questions))
        self._known = dict(zip(asked, embedder.embed_queries(asked), strict=True)) if asked else {}
        self.spec = embedder.spec
        self.dimension = embedder.dimension
        self.languages = languages_known(embedder)

    def embed_documents(self, texts: Sequence[str]) -> FloatArray:
        return self._embedder.embed_documents(texts)

    def embed_queries(self, texts: Sequence[str]) -> FloatArray:
        if all(text in self._known for text in texts):
            return np.array([self._known[text] for text in texts], np.float32).reshape(len(texts), self.dimension)
        return self._embedder.embed_queries(texts)


def _kind(given: object) -> str:
    return f"the embedder {type(given).__name__}"
