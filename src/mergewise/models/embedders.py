"""Embedders around others: one that checks an object which a caller gives, and one that has embedded some questions already.

Also which embedder an index may have. An index may come from anywhere, as a folder's configuration may: the embedder that it
names gets every question and every document, and may be a file beside it. So only one that ships with mergewise is loaded on its
word. Any other is to be named by the user too, once for each index: that is remembered below the user's own state directory,
so that who made an index never meets this.
"""

from __future__ import annotations

import json
import logging
import os
from collections import OrderedDict
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from shlex import quote
from stat import S_ISREG
from threading import Lock
from weakref import WeakKeyDictionary

import numpy as np

from mergewise.defaults import SHIPPED_EMBEDDERS
from mergewise.errors import EmbedderMismatch, ModelError, UsageError
from mergewise.files import state_directory, write_whole
from mergewise.models import knows_embedder
from mergewise.protocols import Embedder, FloatArray, PartEmbedder, languages_known

log = logging.getLogger("mergewise")

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
        hint = (
            f"use --embedder {quote(built_with)}"
            if knows_embedder(built_with)
            else "give the one that it was built with"
        )
        raise EmbedderMismatch(
            f"{directory} was built with the embedder {built_with!r}, not {spec!r}",
            f"{hint}, or index into another directory",
        )
    if not isinstance(given, str | None) and given.dimension != dimension:
        raise EmbedderMismatch(
            f"{directory} has vectors of {dimension} numbers, but {spec!r} gives {given.dimension}",
            "give the one that it was built with, or index into another directory",
        )


def remember_embedder(directory: Path, spec: str) -> None:
    """The user named this embedder for the index in `directory`. Where that cannot be written down, it is named each time."""
    if spec in SHIPPED_EMBEDDERS or _is_remembered(directory, spec):
        return
    try:
        record = _record(directory, spec)
        record.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        named = {"index": os.path.realpath(directory), "embedder": spec}
        write_whole(record, json.dumps(named, indent=1).encode(), 0o600)
    except (OSError, RuntimeError) as error:
        log.info("that %s may load %s is not remembered: %s", directory, spec, error)


def check_named(directory: Path, spec: str) -> None:
    """Raises UsageError where an index names an embedder that only its user can have meant, and the user never named it."""
    if spec not in SHIPPED_EMBEDDERS and knows_embedder(spec) and not _is_remembered(directory, spec):
        raise UsageError(
            f"{directory} names the embedder {spec!r}, which is not loaded on the word of an index",
            f"if you trust it, name it once: --embedder {quote(spec)}, or mergewise.open(path, embedder={spec!r})",
        )


def _is_remembered(directory: Path, spec: str) -> bool:
    try:
        return S_ISREG(_record(directory, spec).lstat().st_mode)
    except (OSError, RuntimeError):
        return False


def _record(directory: Path, spec: str) -> Path:
    """Where it is written down that the user named this embedder for the index that stands there."""
    digest = sha256(os.fsencode(os.path.realpath(directory)) + b"\0" + spec.encode("utf-8", "surrogatepass"))
    return state_directory() / "embedders" / f"{digest.hexdigest()[:32]}.json"


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


class QuestionMemory:
    """The vectors of the questions that were asked last, `most` for each embedder that is in use. Safe between threads."""

    def __init__(self, most: int = 4096) -> None:
        self._most = most
        self._lock = Lock()
        self._known: WeakKeyDictionary[Embedder, OrderedDict[str, FloatArray]] = WeakKeyDictionary()

    def vector(self, embedder: Embedder, question: str) -> FloatArray:
        """The unit vector of a question, which nobody may change."""
        with self._lock:
            known = self._known.setdefault(embedder, OrderedDict())
            if question in known:
                known.move_to_end(question)
                return known[question]
        # by itself, never in a batch: so it is the same to the last bit whenever it is made
        vector = np.array(embedder.embed_queries([question])[0])
        vector.setflags(write=False)
        with self._lock:
            known[question] = vector
            if len(known) > self._most:
                known.popitem(last=False)
        return vector


QUESTIONS = QuestionMemory()
"""Of the process, whatever indexes are open."""


def _kind(given: object) -> str:
    return f"the embedder {type(given).__name__}"
