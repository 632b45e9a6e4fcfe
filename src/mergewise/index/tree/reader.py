"""What can be asked of the tree: leaves, sections, sentences with their vectors, and where names are defined."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from mergewise.index.tree.tables import LEAF, NAME, SECTION, name_hash
from mergewise.protocols import FloatArray, OrderedBy, RowReader
from mergewise.types import Definition, Leaf, LeafSentences, Section, Span


@dataclass(frozen=True, slots=True)
class LeafStart:
    """Where a leaf starts in its document. It ends where the next one starts, or with the document."""

    id: int
    start: int


class TreeReader:
    """For the length of a question; `IndexReader` has the same methods."""

    def __init__(self, rows: RowReader) -> None:
        self._rows = rows

    def rank(self, question: str, k: int, by: OrderedBy = "both") -> list[tuple[int, float]]:
        """Leaf ids and scores by hybrid search, best first; nothing here reranks them."""
        return list(self._rows.rank_rows(question, k, LEAF.name))

    def leaves(self, ids: Sequence[int]) -> dict[int, Leaf]:
        return self._rows.rows(LEAF.name, Leaf, ids)

    def sections(self, ids: Sequence[int]) -> dict[int, Section]:
        return self._rows.rows(SECTION.name, Section, ids)

    def vectors(self, ids: Sequence[int]) -> dict[int, FloatArray]:
        return self._rows.vectors(ids, LEAF.name)

    def sentences(self, ids: Sequence[int]) -> dict[int, LeafSentences]:
        """Where the embedder gave no vectors of sentences, each has the vector of its leaf, if that has one yet."""
        leaves = self._rows.rows(LEAF.name, LeafSentences, ids)
        bare = [leaf for leaf, sentences in leaves.items() if sentences.vectors is None]
        for leaf, vector in self._rows.vectors(bare, LEAF.name).items() if bare else ():
            # half precision has shortened it
            unit = vector / max(np.sqrt(vector @ vector), 1e-9)
            leaves[leaf] = replace(leaves[leaf], vectors=unit[None].repeat(len(leaves[leaf].sentences), axis=0))
        return leaves

    def leaves_under(self, spans: Sequence[Span]) -> list[int]:
        """The ids of the leaves that share text with one of the spans, document by document, in the order of the text."""
        ranges = self._rows.leaf_ranges(list(dict.fromkeys(span.doc_id for span in spans)))
        starts = self._rows.rows(LEAF.name, LeafStart, [leaf for leaves in ranges.values() for leaf in leaves])
        under: dict[int, None] = {}
        for doc_id, leaves in ranges.items():
            own = [starts[leaf].start for leaf in leaves if leaf in starts]
            for start, end in sorted((span.start, span.end) for span in spans if span.doc_id == doc_id):
                first, last = max(bisect_right(own, start) - 1, 0), bisect_left(own, end)
                under |= dict.fromkeys(leaves[first:last])
        return list(under)

    def definitions(self, names: Sequence[str]) -> dict[str, list[Definition]]:
        """Where each of these names is defined, in document order; a name that nothing defines is missing."""
        known = NameTable(self._rows.sorted_columns(NAME.name, NameTable.COLUMNS))
        return known.definitions(names, self._rows.numbers())


class NameTable:
    """All names of one state in memory, as sorted hashes: 28 bytes a name, looked up without a query."""

    COLUMNS = ("hash", "first_leaf", "doc", "leaf_count")

    def __init__(self, columns: Mapping[str, npt.NDArray[np.int64]]) -> None:
        self._hashes, self._first, self._docs, self._count = (columns[name] for name in self.COLUMNS)

    def definitions(self, names: Sequence[str], numbers: Collection[int] | None) -> dict[str, list[Definition]]:
        """The definitions of those names that have some, in the documents with these numbers; None: in all."""
        wanted = np.fromiter(map(name_hash, names), np.int64, len(names))
        starts = self._hashes.searchsorted(wanted)
        definitions = {}
        for i in np.flatnonzero(self._hashes.take(starts, mode="clip") == wanted).tolist() if len(self._hashes) else ():
            own = slice(starts[i], self._hashes.searchsorted(wanted[i], "right"))
            found = map(Definition, *(column[own].tolist() for column in (self._docs, self._first, self._count)))
            if rows := [one for one in found if numbers is None or one.document in numbers]:
                definitions[names[i]] = rows
        return definitions


def extent(leaf: Leaf, sections: Mapping[int, Section], longest: int) -> range:
    """The leaves of the passage around this one: its outermost section of at most `longest` tokens, or the leaf alone."""
    around = (sections[section] for section in leaf.ancestors if section in sections)
    passage = next((section for section in around if section.tokens <= longest), None)
    if passage is None:
        return range(leaf.id, leaf.id + 1)
    return range(passage.first_leaf, passage.first_leaf + passage.leaf_count)
