"""The vectors of leaves and their sentences."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from mergewise.protocols import Embedder, FloatArray, PartEmbedder
from mergewise.text.markup import readable
from mergewise.text.sections import search_key
from mergewise.types import Leaf


def embed_leaves(leaves: Sequence[Leaf], embedder: Embedder) -> dict[str, Any]:
    """Return the columns `vector` (leaves, dimension) and `sentence_vectors`, the vectors of each leaf's sentences as int8 bytes.

    A leaf is embedded with title and headings in front, and without markup. `sentence_vectors` is missing if the embedder
    embeds only whole texts.
    """
    keys = [search_key(leaf.title, leaf.headings, readable(leaf.text)) for leaf in leaves]
    if not isinstance(embedder, PartEmbedder):
        return {"vector": embedder.embed_documents([key.strip() for key in keys])}
    parts = []
    for leaf, key in zip(leaves, keys, strict=True):
        shift = len(key) - len(leaf.text) - leaf.start
        parts.append([(sentence.start + shift, sentence.end + shift) for sentence in leaf.sentences])
    rows, part_rows = embedder.embed_parts(keys, parts)
    counts = [0, *accumulate(map(len, part_rows))]
    all_small = as_int8(np.concatenate([np.empty((0, embedder.dimension), dtype=np.float32), *part_rows]))
    return {"vector": rows, "sentence_vectors": [all_small[a:b].tobytes() for a, b in pairwise(counts)]}


def as_int8(vectors: FloatArray) -> npt.NDArray[np.int8]:
    """Scale each row so that its largest component is 127. Only the direction matters."""
    largest = np.abs(vectors).max(axis=1, keepdims=True, initial=1e-9)
    scaled: npt.NDArray[np.int8] = np.rint(vectors * (127 / largest)).astype(np.int8)
    return scaled
