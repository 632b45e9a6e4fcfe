"""The tree: document > section > leaf, the view that every index has (Auto-Merge retrieval)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, groupby, pairwise

import numpy as np
import numpy.typing as npt

from mergewise.index.tree.build import Tree, TreeSettings, build_trees
from mergewise.index.tree.check import problems
from mergewise.index.tree.reader import TreeReader
from mergewise.index.tree.tables import LEAF, NAME, SECTION, WORDS
from mergewise.models.record import Models
from mergewise.protocols import Embedder, FloatArray, PartEmbedder
from mergewise.store.views import View, ViewRows
from mergewise.text.keys import search_key
from mergewise.text.languages import ENGLISH, UNKNOWN, document_language, search_words
from mergewise.text.markup import readable
from mergewise.text.names import names_defined
from mergewise.types import Document, DocumentRows, Leaf, Name, Rows

__all__ = ["VIEW", "Tree", "TreeReader", "TreeSettings", "build_trees", "embed_trees", "names_of"]


def build(documents: Sequence[DocumentRows], settings: TreeSettings, models: Models) -> list[ViewRows]:
    """Leaves, sections and names of each document. Tokens and vectors of all of them are worked out in one call each."""
    trees = build_trees([rows.document for rows in documents], models.count_tokens, settings)
    embedded = [(None, None)] * len(trees) if models.embedder is None else embed_trees(models.embedder, trees)
    built: list[ViewRows] = []
    for rows, tree, (vectors, sentence_vectors) in zip(documents, trees, embedded, strict=True):
        packed = None if sentence_vectors is None else [of_leaf.tobytes() for of_leaf in sentence_vectors]
        columns = {"vector": vectors, "sentence_vectors": packed, WORDS: words_of(rows.document, tree)}
        built.append(
            {
                LEAF.name: Rows(tree.leaves, {name: values for name, values in columns.items() if values is not None}),
                SECTION.name: Rows(tree.sections),
                NAME.name: Rows(names_of(rows.document, tree)),
            }
        )
    return built


def words_of(document: Document, tree: Tree) -> list[str] | None:
    """What is searched of each leaf, title and headings included; None for a document that is taken for English."""
    language = document_language(document)
    if language in (ENGLISH, UNKNOWN):
        return None
    return [search_words(search_key(leaf.title, leaf.headings, leaf.text), [language]) for leaf in tree.leaves]


def names_of(document: Document, tree: Tree) -> tuple[Name, ...]:
    """The names that a document's places define, by which a bridge from one section to another is found.

    Each stands once for each place that defines it, in document order.
    """
    names = []
    for _, place in groupby(tree.leaves, key=lambda leaf: leaf.headings):
        leaves = list(place)
        sentence = next((sentence for leaf in leaves for sentence in leaf.sentences), None)
        first = document.text[sentence.start : sentence.end] if sentence else ""
        names += [Name(name, leaves[0].id, len(leaves)) for name in sorted(names_defined(_titles(leaves[0]), first))]
    return tuple(names)


def _titles(first: Leaf) -> list[str]:
    """The innermost heading, and the document's title above its beginning."""
    titles = list(first.headings[-1:])
    return [*titles, first.title] if first.start == 0 or not titles else titles


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


VIEW = View(
    name="leaf",
    settings=TreeSettings,
    tables=lambda settings: (LEAF, SECTION, NAME),
    build=build,
    problems=problems,
    reader=TreeReader,
)
