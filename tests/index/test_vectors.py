from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from tests.support import HashEmbedder, token_vectors

from mergewise.index.tree import build_trees
from mergewise.index.tree.embedding import as_int8, embed_leaves
from mergewise.models.onnx import minilm
from mergewise.models.tokens import count_tokens
from mergewise.text.sections import search_key
from mergewise.types import Document

DOCUMENTS = [
    Document(id="a", title="Cats", text="# Cats\n\nCats purr. They sleep all day.\n\n## Food\n\nFish is best."),
    Document(id="b", text="One sentence only."),
]


def test_sentences_are_pooled_in_the_pass_that_embeds_their_leaf() -> None:
    trees = build_trees(DOCUMENTS, count_tokens)
    model = minilm()
    for tree in trees:
        vectors, packed = embed_leaves(tree.leaves, model).values()
        sentence_vectors = [np.frombuffer(of_leaf, np.int8).reshape(-1, model.dimension) for of_leaf in packed]
        keys = [search_key(leaf.title, leaf.headings, leaf.text) for leaf in tree.leaves]
        np.testing.assert_allclose(vectors, model.embed_documents(keys), atol=1e-5)
        for leaf, key, rows in zip(tree.leaves, keys, sentence_vectors, strict=True):
            tokens, offsets = token_vectors(key)
            shift = len(key) - len(leaf.text) - leaf.start
            for sentence, row in zip(leaf.sentences, rows, strict=True):
                inside = [
                    i for i, (a, b) in enumerate(offsets)
                    if a < b and sentence.start + shift <= a and b <= sentence.end + shift
                ]  # fmt: skip
                mean = tokens[inside].mean(axis=0)
                cosine = row @ mean / np.linalg.norm(row.astype(float)) / np.linalg.norm(mean)
                assert cosine > 0.999


def test_an_embedder_of_whole_texts_gives_no_vectors_of_sentences() -> None:
    trees = build_trees(DOCUMENTS, count_tokens)
    for tree in trees:
        columns = embed_leaves(tree.leaves, HashEmbedder())
        assert list(columns) == ["vector"] and columns["vector"].shape == (len(tree.leaves), HashEmbedder.dimension)


@given(arrays.arrays(np.float32, (3, 8), elements=st.floats(-1, 1, width=32)))
def test_int8_keeps_the_direction(vectors: np.ndarray) -> None:
    small = as_int8(vectors).astype(np.float64)
    lengths = np.linalg.norm(vectors, axis=1)
    for row, own, length in zip(vectors, small, lengths, strict=True):
        if length > 1e-3:
            assert row @ own / length / np.linalg.norm(own) > 0.999
