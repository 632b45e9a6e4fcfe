"""Any model that the sentence-transformers library loads, by its name on the hub or by a path: `st:NAME_OR_PATH`.

A model may bring Python files of its own. They are never run: since version 6 the library refuses them, and an older one, which
runs those of a folder, is not asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from mergewise.errors import MissingExtra, ModelError
from mergewise.protocols import FloatArray

OLDEST = 6
"""The first version of the library that runs no code of a model's folder."""
QUERY_PROMPTS = ("query",)
DOCUMENT_PROMPTS = ("document", "passage", "corpus")


class SentenceTransformersEmbedder:
    """An `Embedder`. The model is loaded at once, so that a wrong name fails before a long job begins."""

    def __init__(self, name: str) -> None:
        self.spec = f"st:{name}"
        self._model = load(name)
        self.dimension = len(self._model.encode("a", show_progress_bar=False))

    def __reduce__(self) -> tuple[Any, ...]:
        """A worker that is sent one loads its own, once."""
        return _of_process, (self.spec.removeprefix("st:"),)

    def embed_documents(self, texts: Sequence[str]) -> FloatArray:
        return self._embed(texts, DOCUMENT_PROMPTS)

    def embed_queries(self, texts: Sequence[str]) -> FloatArray:
        """With the prompt that the model defines for queries, if it defines one."""
        return self._embed(texts, QUERY_PROMPTS)

    def _embed(self, texts: Sequence[str], names: Sequence[str]) -> FloatArray:
        if not texts:
            return np.empty((0, self.dimension), dtype=np.float32)
        prompts = [prompt for name in names if (prompt := self._model.prompts.get(name))]
        vectors = self._model.encode(
            list(texts), prompt=prompts[0] if prompts else None, normalize_embeddings=True, show_progress_bar=False
        )
        return np.asarray(vectors, dtype=np.float32)


@cache
def _of_process(name: str) -> SentenceTransformersEmbedder:
    return SentenceTransformersEmbedder(name)


def load(name: str, kind: str = "SentenceTransformer", **options: Any) -> Any:
    """A model of this class of the library, by its name or path."""
    try:
        import sentence_transformers
    # a broken installation brings errors of any kind
    except Exception as error:
        raise MissingExtra("sentence-transformers", "st", error) from error
    version = sentence_transformers.__version__
    if int(version.partition(".")[0]) < OLDEST:
        raise MissingExtra(f"sentence-transformers {OLDEST} (this is {version}, which runs code of a model)", "st")
    try:
        return getattr(sentence_transformers, kind)(name, trust_remote_code=False, **options)
    except (ImportError, OSError, ValueError) as error:
        reason = str(error).partition("\n")[0]
        hint = "give the path of a model's folder, or check the name"
        raise ModelError(f"sentence-transformers cannot load {name!r}: {reason}", hint) from error
