"""The names that the places of a document define: what a bridge from one section to another is found by."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from mergewise.index.tree.build import Tree
from mergewise.text.names import names_defined
from mergewise.types import Document, Leaf, Name


def names_of(document: Document, tree: Tree) -> tuple[Name, ...]:
    """Each name once for each place that defines it, in document order."""
    names = []
    for leaves in _places(tree.leaves):
        sentence = next((sentence for leaf in leaves for sentence in leaf.sentences), None)
        first = document.text[sentence.start : sentence.end] if sentence else ""
        names += [Name(name, leaves[0].id, len(leaves)) for name in sorted(names_defined(_titles(leaves[0]), first))]
    return tuple(names)


def _places(leaves: Sequence[Leaf]) -> Iterator[list[Leaf]]:
    for _, group in groupby(leaves, key=lambda leaf: leaf.headings):
        yield list(group)


def _titles(first: Leaf) -> list[str]:
    """The innermost heading, and the document's title above its beginning."""
    titles = list(first.headings[-1:])
    return [*titles, first.title] if first.start == 0 or not titles else titles
