"""Wrappers of embedders, and the check of which embedder an index may load.

The wrappers check an embedder object of the caller, and cache the vectors of questions.

An index may come from an untrusted source. Its embedder gets every question and document, and may be a file next to the index. So
an index may load only embedders that ship with mergewise. The user must name any other embedder once for each index. This is
remembered in the user's state directory, so that the creator of an index never has to name it again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from shlex import quote
from stat import S_ISREG

import numpy as np

from mergewise.defaults import SHIPPED_EMBEDDERS
from mergewise.errors import EmbedderMismatch, ModelError, UsageError
from mergewise.files import state_directory, write_whole
from mergewise.log import log
from mergewise.models import knows_embedder
from mergewise.protocols import Embedder, FloatArray, PartEmbedder, languages_known
from mergewise.types import Part

_NEEDED = "give the embedder a `spec` (a name), a `dimension` (a number), `embed_documents` and `embed_queries`"


class GivenEmbedder:
    """An `Embedder` around an object of the caller. It checks the shape of vectors and scales them to unit length.

    `embed_documents` and `embed_queries` of the object may return anything that numpy can convert to an array of numbers.

    Raises:
        UsageError: if the object lacks a part of an embedder.
        ModelError: if its vectors are invalid.
    """

    def __init__(self, given: Embedder) -> None:
        spec, dimension = getattr(given, "spec", None), getattr(given, "dimension", None)
        if not isinstance(spec, str) or not spec.strip():
            raise UsageError(f"missing `spec` of {_kind(given)}", _NEEDED)
        if isinstance(dimension, bool) or not isinstance(dimension, int | np.integer) or dimension < 1:
            raise UsageError(f"invalid `dimension` of {_kind(given)}: {dimension!r}", _NEEDED)
        for method in ("embed_documents", "embed_queries"):
            if not callable(getattr(given, method, None)):
                raise UsageError(f"missing method `{method}` of {_kind(given)}", _NEEDED)
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
            raise ModelError(
                f"invalid vectors from {self.spec}: {error}", "return one row of numbers for each text"
            ) from error
        if not count and not rows.size:
            return np.empty((0, self.dimension), np.float32)
        if rows.shape != (count, self.dimension):
            raise ModelError(
                f"invalid shape of vectors from {self.spec}: {rows.shape} (expected {(count, self.dimension)})",
                "return one row of `dimension` numbers for each text",
            )
        if not np.isfinite(rows).all():
            raise ModelError(f"vector with a number that is not finite from {self.spec}", "check the embedder")
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        unit: FloatArray = np.asarray(rows / np.where(lengths > 0, lengths, 1), np.float32)
        return unit


class GivenPartEmbedder(GivenEmbedder):
    """A `GivenEmbedder` around an object that also embeds parts of texts."""

    def embed_parts(self, texts: Sequence[str], parts: Sequence[Sequence[Part]]) -> tuple[FloatArray, list[FloatArray]]:
        assert isinstance(self.given, PartEmbedder)
        whole, of_parts = self.given.embed_parts(texts, parts)
        rows = [self._rows(vectors, len(of_text)) for vectors, of_text in zip(of_parts, parts, strict=True)]
        return self._rows(whole, len(texts)), rows


def given_embedder(given: Embedder) -> Embedder:
    """Wrap an embedder object. Raises UsageError if it lacks a part of an embedder."""
    return GivenPartEmbedder(given) if isinstance(given, PartEmbedder) else GivenEmbedder(given)


def check_embedder(directory: Path, built_with: str, dimension: int, given: str | Embedder | None) -> None:
    """Check that the given embedder is the one that an index was built with. Raises EmbedderMismatch otherwise."""
    spec = given if given is None or isinstance(given, str) else given.spec
    if spec is not None and spec != built_with:
        hint = "use the embedder that it was built with"
        if knows_embedder(built_with):
            hint = f"use --embedder {quote(built_with)}"
        raise EmbedderMismatch(
            f"{directory} was built with the embedder {built_with!r}, not {spec!r}",
            f"{hint}, or index into another directory",
        )
    if not isinstance(given, str | None) and given.dimension != dimension:
        raise EmbedderMismatch(
            f"wrong dimension of {spec!r}: {given.dimension} (expected {dimension}, as in {directory})",
            "use the embedder that it was built with, or index into another directory",
        )


def remember_embedder(directory: Path, spec: str) -> None:
    """Remember that the user named this embedder for an index. If the record cannot be written, only log it."""
    if spec in SHIPPED_EMBEDDERS or _is_remembered(directory, spec):
        return
    try:
        record = _record(directory, spec)
        record.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        named = {"index": os.path.realpath(directory), "embedder": spec}
        write_whole(record, json.dumps(named, indent=1).encode(), 0o600)
    except (OSError, RuntimeError) as error:
        log.info("permission of %s to load %s not remembered: %s", directory, spec, error)


def check_named(directory: Path, spec: str) -> None:
    """Check that an index may load its embedder. Raises UsageError if it is not shipped and the user never named it."""
    if spec not in SHIPPED_EMBEDDERS and knows_embedder(spec) and not _is_remembered(directory, spec):
        raise UsageError(
            f"untrusted embedder of {directory}: {spec!r}",
            f"if you trust it, name it once: MERGEWISE_EMBEDDER={quote(spec)}, or mergewise.open(path, embedder={spec!r})",
        )


def _is_remembered(directory: Path, spec: str) -> bool:
    try:
        return S_ISREG(_record(directory, spec).lstat().st_mode)
    except (OSError, RuntimeError):
        return False


def _record(directory: Path, spec: str) -> Path:
    """Return the path of the record that the user named this embedder for an index."""
    digest = sha256(os.fsencode(os.path.realpath(directory)) + b"\0" + spec.encode("utf-8", "surrogatepass"))
    return state_directory() / "embedders" / f"{digest.hexdigest()[:32]}.json"


class QuestionVectors:
    """An `Embedder` that embeds some questions in advance, in one call."""

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
