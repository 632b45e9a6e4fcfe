"""Embedder `st:NAME_OR_PATH`: any model of the sentence-transformers library, by its name on the hub or by a path.

Python files of a model are never run: version 6 of the library refuses them. Older versions run the files of a folder, so they
are not supported.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mergewise.errors import MissingExtra, ModelError, first_line
from mergewise.lazy import of_process
from mergewise.models.hub import silence
from mergewise.protocols import FloatArray

OLDEST = 6
"""The first version of the library that does not run the code of a model's folder."""
QUERY_PROMPTS = ("query",)
DOCUMENT_PROMPTS = ("document", "passage", "corpus")


class SentenceTransformersEmbedder:
    """An `Embedder` by sentence-transformers. The model is loaded at once, so that a wrong name fails early."""

    def __init__(self, name: str) -> None:
        self.spec = f"st:{name}"
        self._model = load(name)
        self.dimension = len(self._model.encode("a", show_progress_bar=False))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as a name, so that each worker process loads the model once."""
        return of_process, (SentenceTransformersEmbedder, self.spec.removeprefix("st:"))

    def embed_documents(self, texts: Sequence[str]) -> FloatArray:
        return self._embed(texts, DOCUMENT_PROMPTS)

    def embed_queries(self, texts: Sequence[str]) -> FloatArray:
        """Embed questions, with the model's prompt for queries if it has one."""
        return self._embed(texts, QUERY_PROMPTS)

    def _embed(self, texts: Sequence[str], names: Sequence[str]) -> FloatArray:
        if not texts:
            return np.empty((0, self.dimension), dtype=np.float32)
        prompts = [prompt for name in names if (prompt := self._model.prompts.get(name))]
        vectors = self._model.encode(
            list(texts), prompt=prompts[0] if prompts else None, normalize_embeddings=True, show_progress_bar=False
        )
        return np.asarray(vectors, dtype=np.float32)


def load(name: str, kind: str = "SentenceTransformer", **options: Any) -> Any:
    """Load a model of this class of the library, by its name or path."""
    silence()
    try:
        import sentence_transformers
    # a broken installation may raise any error
    except Exception as error:
        raise MissingExtra("sentence-transformers", "st", error) from error
    version = sentence_transformers.__version__
    if int(version.partition(".")[0]) < OLDEST:
        raise MissingExtra(f"sentence-transformers {OLDEST} (version {version} runs code of models)", "st")
    try:
        return getattr(sentence_transformers, kind)(name, trust_remote_code=False, **options)
    except (ImportError, OSError, ValueError) as error:
        hint = "give the path of a model's folder, or check the name"
        raise ModelError(f"cannot load {name!r} with sentence-transformers: {first_line(error)}", hint) from error
