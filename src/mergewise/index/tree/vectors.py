"""Vectors of leaves and of their sentences, in one pass of the embedder where it can."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

import numpy as np

from mergewise.index.tree.build import Tree
from mergewise.protocols import Embedder, FloatArray, PartEmbedder
from mergewise.text.keys import search_key
from mergewise.text.markup import readable

if TYPE_CHECKING:
    import numpy.typing as npt


def embed_trees(
    embedder: Embedder, trees: Sequence[Tree]
) -> list[tuple[FloatArray, tuple[npt.NDArray[np.int8], ...] | None]]:
    """For each tree the vectors of its leaves, one row each, and those of each leaf's sentences, as int8.

    A leaf is embedded with its title and headings in front, and without its mark-up. An embedder that sees whole texts alone
    gives no vectors of sentences.
    """
    leaves = [leaf for tree in trees for leaf in tree.leaves]
    keys = [search_key(leaf.title, leaf.headings, readable(leaf.text)) for leaf in leaves]
    ends = np.cumsum([0, *(len(tree.leaves) for tree in trees)])
    if not isinstance(embedder, PartEmbedder):
        rows = embedder.embed_documents([key.strip() for key in keys])
        return [(rows[a:b], None) for a, b in pairwise(ends)]
    parts = []
    for leaf, key in zip(leaves, keys, strict=True):
        shift = len(key) - len(leaf.text) - leaf.start
        parts.append([(sentence.start + shift, sentence.end + shift) for sentence in leaf.sentences])
    rows, part_rows = embedder.embed_parts(keys, parts)
    counts = [0, *accumulate(map(len, part_rows))]
    all_small = as_int8(np.concatenate([np.empty((0, embedder.dimension), dtype=np.float32), *part_rows]))
    small = [all_small[a:b] for a, b in pairwise(counts)]
    return [(rows[a:b], tuple(small[a:b])) for a, b in pairwise(ends)]


def as_int8(vectors: FloatArray) -> npt.NDArray[np.int8]:
    """Rows scaled so that the largest component of each is 127: their direction is what counts."""
    largest = np.abs(vectors).max(axis=1, keepdims=True, initial=1e-9)
    scaled: npt.NDArray[np.int8] = np.rint(vectors * (127 / largest)).astype(np.int8)
    return scaled
