"""The tree view, which every index has: document > section > leaf (Auto-Merge retrieval)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, groupby, pairwise

from mergewise.index.tree.build import PRESETS, Tree, TreeSettings, build_trees
from mergewise.index.tree.check import problems
from mergewise.index.tree.embedding import embed_leaves
from mergewise.index.tree.reader import TreeReader
from mergewise.index.tree.tables import LEAF, NAME, SECTION, WORDS
from mergewise.models.record import Models
from mergewise.store.tables import Table
from mergewise.store.views import View, ViewRows
from mergewise.text.languages import ENGLISH, UNKNOWN, document_language, search_words
from mergewise.text.names import names_defined
from mergewise.text.sections import search_key
from mergewise.types import Document, DocumentRows, Name, Rows

__all__ = ["VIEW", "Tree", "TreeReader", "TreeSettings", "build_trees", "names_of"]


def build(documents: Sequence[DocumentRows], settings: TreeSettings, models: Models) -> list[ViewRows]:
    """Build leaves, sections and names of each document. One call each computes the tokens and the vectors of all documents."""
    trees = build_trees([rows.document for rows in documents], models.count_tokens, settings)
    leaves = [leaf for tree in trees for leaf in tree.leaves]
    columns = {} if models.embedder is None else embed_leaves(leaves, models.embedder)
    built: list[ViewRows] = []
    ends = accumulate((len(tree.leaves) for tree in trees), initial=0)
    for rows, tree, (first, end) in zip(documents, trees, pairwise(ends), strict=True):
        own = {name: values[first:end] for name, values in columns.items()}
        language = document_language(rows.document)
        # the search words of each leaf, with title and headings, in a language other than English
        words = None
        if language not in (ENGLISH, UNKNOWN):
            keys = (search_key(leaf.title, leaf.headings, leaf.text) for leaf in tree.leaves)
            words = [search_words(key, [language]) for key in keys]
        built.append(
            {
                LEAF.name: Rows(tree.leaves, own if words is None else {**own, WORDS: words}),
                SECTION.name: Rows(tree.sections),
                NAME.name: Rows(names_of(rows.document, tree)),
            }
        )
    return built


def names_of(document: Document, tree: Tree) -> tuple[Name, ...]:
    """Return the names that a document defines, which bridge from one section to another.

    Each name occurs once for each place that defines it, in document order.
    """
    names = []
    language = document_language(document)
    for _, place in groupby(tree.leaves, key=lambda leaf: leaf.headings):
        leaves = list(place)
        if leaves[0].start and document.text[leaves[0].start : leaves[0].body].isspace():
            # a heading that is only repeated for the text after an entry
            continue
        sentence = next((sentence for leaf in leaves for sentence in leaf.sentences), None)
        first = document.text[sentence.start : sentence.end] if sentence else ""
        # the innermost heading, and the document's title for its beginning
        titles = list(leaves[0].headings[-1:])
        if leaves[0].start == 0 or not titles:
            titles.append(leaves[0].title)
        defined = names_defined(titles, first, language)
        names += [Name(name, leaves[0].id, len(leaves)) for name in sorted(defined)]
    return tuple(names)


def _tables(settings: TreeSettings) -> tuple[Table, ...]:
    return LEAF, SECTION, NAME


VIEW = View(
    name="leaf",
    settings=TreeSettings,
    tables=_tables,
    build=build,
    problems=problems,
    reader=TreeReader,
    presets=PRESETS,
)
