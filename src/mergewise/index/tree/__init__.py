"""The tree: document > section > leaf, the view that every index has (Auto-Merge retrieval)."""

from __future__ import annotations

from collections.abc import Sequence

from mergewise.index.tree.build import Tree, TreeSettings, build_trees
from mergewise.index.tree.check import problems
from mergewise.index.tree.names import names_of
from mergewise.index.tree.reader import TreeReader
from mergewise.index.tree.tables import LEAF, NAME, SECTION
from mergewise.index.tree.vectors import embed_trees
from mergewise.models.record import Models
from mergewise.store.views import View, ViewRows
from mergewise.types import DocumentRows, Rows

__all__ = ["VIEW", "Tree", "TreeReader", "TreeSettings", "build_trees"]


def build(documents: Sequence[DocumentRows], settings: TreeSettings, models: Models) -> list[ViewRows]:
    """Leaves, sections and names of each document. Tokens and vectors of all of them are worked out in one call each."""
    trees = build_trees([rows.document for rows in documents], models.count_tokens, settings)
    embedded = [(None, None)] * len(trees) if models.embedder is None else embed_trees(models.embedder, trees)
    built: list[ViewRows] = []
    for rows, tree, (vectors, sentence_vectors) in zip(documents, trees, embedded, strict=True):
        packed = None if sentence_vectors is None else [of_leaf.tobytes() for of_leaf in sentence_vectors]
        columns = {"vector": vectors, "sentence_vectors": packed}
        built.append(
            {
                LEAF.name: Rows(tree.leaves, {name: values for name, values in columns.items() if values is not None}),
                SECTION.name: Rows(tree.sections),
                NAME.name: Rows(names_of(rows.document, tree)),
            }
        )
    return built


VIEW = View(
    name="leaf",
    settings=TreeSettings,
    tables=lambda settings: (LEAF, SECTION, NAME),
    build=build,
    problems=problems,
    reader=TreeReader,
)
