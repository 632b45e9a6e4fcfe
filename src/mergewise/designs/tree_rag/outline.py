"""The view `outline`: the inner nodes of the section tree, each by its title, its headings, and its first sentences.

Tree-RAG's chunks carry the path of their headings, and are embedded at every level. Leaves have both in the tree already.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

from mergewise.index.tree.tables import KEY
from mergewise.index.views import search_rows, with_vectors
from mergewise.models.record import Models
from mergewise.protocols import RowReader
from mergewise.ranges import CheckedFields, Range
from mergewise.store.tables import Table
from mergewise.store.views import ViewRows
from mergewise.types import DocumentRows, LeafId, RowId, Rows, Section


@dataclass(frozen=True, slots=True)
class OutlineSettings(CheckedFields):
    sentences: Annotated[int, Range(0, 100), "of a section that are searched and embedded with its headings"] = 1


@dataclass(frozen=True, slots=True)
class OutlineNode:
    """A section, with the leaves `first_leaf .. first_leaf + leaf_count - 1`. `text` are its first sentences."""

    id: RowId
    doc_id: str
    title: str
    headings: tuple[str, ...]
    first_leaf: LeafId
    leaf_count: int
    text: str

    @property
    def leaves(self) -> range:
        return range(self.first_leaf, self.first_leaf + self.leaf_count)


OUTLINE = Table("outline", OutlineNode, (KEY,), vectors=("vector",), text="key", mapped=True)


def build(documents: Sequence[DocumentRows], settings: OutlineSettings, models: Models) -> list[ViewRows]:
    """The nodes of each document, all embedded in one call."""
    nodes = [{OUTLINE.name: Rows(tuple(_nodes(rows, settings)))} for rows in documents]
    return with_vectors(nodes, OUTLINE.name, models.embedder)


def _nodes(rows: DocumentRows, settings: OutlineSettings) -> Iterator[OutlineNode]:
    """Ids of the tree may be final, or count from 0: the leaves tell."""
    leaves = rows["leaf"]
    sections: Sequence[Section] = rows["section"]
    for number, section in enumerate(sections):
        first = section.first_leaf - leaves[0].id
        below = leaves[first : first + section.leaf_count]
        said = [sentence for leaf in below for sentence in leaf.sentences][: settings.sentences]
        text = rows.document.text[said[0].start : said[-1].end] if said else ""
        title, headings = below[0].title, section.headings
        yield OutlineNode(number, rows.document.id, title, headings, first, section.leaf_count, text)


def problems(rows: DocumentRows, settings: OutlineSettings, dimension: int) -> Iterator[str]:
    """What is wrong with one document's nodes."""
    nodes: Sequence[OutlineNode] = rows[OUTLINE.name]
    wanted = [(one.first_leaf, one.leaf_count) for one in rows["section"]]
    if [(node.first_leaf, node.leaf_count) for node in nodes] != wanted:
        yield "the outline is not that of the sections"
    if any(node.text not in rows.document.text for node in nodes):
        yield "a text of the outline is not the document's"


class OutlineReader:
    """For the length of a question."""

    def __init__(self, rows: RowReader) -> None:
        self._rows = rows

    def search(self, question: str, k: int) -> list[tuple[OutlineNode, float]]:
        """The `k` best inner nodes, best first, by full text and vectors."""
        return search_rows(self._rows, OUTLINE.name, OutlineNode, question, k, "hybrid")
