"""The reader of the tree view: leaves, sections, sentences with vectors, and definitions of names."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from mergewise.index.tree.tables import LEAF, NAME, SECTION, name_digest
from mergewise.protocols import FloatArray, OrderedBy, RowReader
from mergewise.types import Definition, Leaf, LeafSentences, Section, Span, frozen


@frozen
class LeafStart:
    """The start of a leaf in its document. The leaf ends at the start of the next one, or with the document."""

    id: int
    start: int


class TreeReader:
    """The tree's reader for one query. `IndexReader` has the same methods."""

    def __init__(self, rows: RowReader) -> None:
        self._rows = rows

    def rank(self, question: str, k: int, by: OrderedBy = "both") -> list[tuple[int, float]]:
        """Return leaf ids and scores by hybrid search, best first, without reranking."""
        return list(self._rows.rank_rows(question, k, LEAF.name))

    def leaves(self, ids: Sequence[int]) -> dict[int, Leaf]:
        return self._rows.rows(LEAF.name, Leaf, ids)

    def sections(self, ids: Sequence[int]) -> dict[int, Section]:
        return self._rows.rows(SECTION.name, Section, ids)

    def vectors(self, ids: Sequence[int]) -> dict[int, FloatArray]:
        return self._rows.vectors(ids, LEAF.name)

    def sentences(self, ids: Sequence[int]) -> dict[int, LeafSentences]:
        """Read sentences with their vectors. A sentence without its own vector has that of its leaf, if any."""
        leaves = self._rows.rows(LEAF.name, LeafSentences, ids)
        bare = [leaf for leaf, sentences in leaves.items() if sentences.vectors is None]
        for leaf, vector in self._rows.vectors(bare, LEAF.name).items() if bare else ():
            # half precision has changed its length
            unit = vector / max(np.sqrt(vector @ vector), 1e-9)
            leaves[leaf] = replace(leaves[leaf], vectors=unit[None].repeat(len(leaves[leaf].sentences), axis=0))
        return leaves

    def leaves_under(self, spans: Sequence[Span]) -> list[int]:
        """Return the ids of the leaves that overlap one of the spans, document by document, in text order."""
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
        """Return the definitions of each name in document order. Names without definition are missing."""
        # all names of this state in memory, as sorted hashes of 28 bytes a name: a lookup needs no query
        table = self._rows.sorted_columns(NAME.name, ("hash", "first_leaf", "doc", "leaf_count"))
        hashes, numbers = table["hash"], self._rows.numbers()
        wanted = np.frombuffer(b"".join(map(name_digest, names)), "<i8")
        starts = hashes.searchsorted(wanted)
        definitions = {}
        for i in np.flatnonzero(hashes.take(starts, mode="clip") == wanted).tolist() if len(hashes) else ():
            own = slice(starts[i], hashes.searchsorted(wanted[i], "right"))
            known = map(Definition, *(table[name][own].tolist() for name in ("doc", "first_leaf", "leaf_count")))
            if rows := [definition for definition in known if numbers is None or definition.document in numbers]:
                definitions[names[i]] = rows
        return definitions


def extent(leaf: Leaf, sections: Mapping[int, Section], longest: int) -> range:
    """Return the leaves of the passage around a leaf: its outermost section of at most `longest` tokens, or only the leaf."""
    around = (sections[section] for section in leaf.ancestors if section in sections)
    passage = next((section for section in around if section.tokens <= longest), None)
    return range(leaf.id, leaf.id + 1) if passage is None else passage.leaves
