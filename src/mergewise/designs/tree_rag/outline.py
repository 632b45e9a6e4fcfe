"""The view `outline`: the inner nodes of the section tree, each indexed by its title, headings and first sentences.

Tree-RAG embeds the chunks of every level with the path of their headings. The leaves of the tree already have both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

from mergewise.index.tree.tables import KEY
from mergewise.index.views import search_rows, with_vectors
from mergewise.models.record import Models
from mergewise.protocols import RowReader
from mergewise.ranges import CheckedFields, Range
from mergewise.store.tables import Table
from mergewise.store.views import View, ViewRows
from mergewise.types import DocumentRows, Leaf, LeafId, OverLeaves, RowId, Rows, frozen


@frozen
class OutlineSettings(CheckedFields):
    sentences: Annotated[int, Range(0, 100), "Sentences of a section that are indexed with its headings"] = 1


@frozen
class OutlineNode(OverLeaves):
    """A section with the leaves `first_leaf .. first_leaf + leaf_count - 1`. `text` holds its first sentences."""

    id: RowId
    doc_id: str
    title: str
    headings: tuple[str, ...]
    first_leaf: LeafId
    leaf_count: int
    text: str


OUTLINE = Table("outline", OutlineNode, (KEY,), vectors=("vector",), text="key", mapped=True)


def build(documents: Sequence[DocumentRows], settings: OutlineSettings, models: Models) -> list[ViewRows]:
    """Build a node per section of each document, and embed all of them in one call.

    Ids of sections may be final or count from 0, so leaves are found by offset.
    """
    built: list[ViewRows] = []
    for rows in documents:
        leaves: Sequence[Leaf] = rows["leaf"]
        nodes = []
        for number, section in enumerate(rows["section"]):
            first = section.first_leaf - leaves[0].id
            below = leaves[first : first + section.leaf_count]
            sentences = [sentence for leaf in below for sentence in leaf.sentences][: settings.sentences]
            text = rows.document.text[sentences[0].start : sentences[-1].end] if sentences else ""
            title, headings = below[0].title, section.headings
            nodes.append(OutlineNode(number, rows.document.id, title, headings, first, section.leaf_count, text))
        built.append({OUTLINE.name: Rows(tuple(nodes))})
    return with_vectors(built, OUTLINE.name, models.embedder)


def problems(rows: DocumentRows, settings: OutlineSettings, dimension: int) -> Iterator[str]:
    """Yield the problems of one document's nodes."""
    nodes: Sequence[OutlineNode] = rows[OUTLINE.name]
    expected = [(one.first_leaf, one.leaf_count) for one in rows["section"]]
    if [(node.first_leaf, node.leaf_count) for node in nodes] != expected:
        yield "outline differs from the sections"
    if any(node.text not in rows.document.text for node in nodes):
        yield "text of the outline missing in the document"


@frozen
class OutlineReader:
    """Access to the outline for the duration of a question."""

    stored: RowReader

    def search(self, question: str, k: int) -> list[tuple[OutlineNode, float]]:
        """Return the `k` best inner nodes by full text and vectors, best first."""
        return search_rows(self.stored, OUTLINE.name, OutlineNode, question, k, "hybrid")


VIEW = View(
    name="outline",
    settings=OutlineSettings,
    tables=lambda settings: (OUTLINE,),
    build=build,
    problems=problems,
    reader=OutlineReader,
)
