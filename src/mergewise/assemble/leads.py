"""Sentences that leaves need from earlier leaves: the header of a table that continues, or the line that announces a list."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from mergewise.assemble.fragments import Candidate, Fragment, fragment_of, split_runs
from mergewise.assemble.sentences import fragment_at
from mergewise.protocols import IndexReader
from mergewise.types import Leaf, LeafSentences

# Maximum reads of further leaves: a row's header, the line that announces the table, and what announces that line.
ROUNDS = 3


class Antecedents:
    """The leads of some leaves, and the leads of these in turn."""

    def __init__(self, leaves: Mapping[int, Leaf | LeafSentences], reader: IndexReader) -> None:
        self._leaves: dict[int, Leaf | LeafSentences] = dict(leaves)
        fresh: Collection[int] = list(leaves)
        for _ in range(ROUNDS):
            wanted = {leaf for i in fresh for leaf, _ in self._of(i) if leaf not in self._leaves}
            if not wanted:
                break
            read = reader.leaves(sorted(wanted))
            self._leaves |= read
            fresh = read

    def candidate(self, leaves: Sequence[Leaf], score: float, instead: tuple[Candidate, ...] = ()) -> Candidate:
        """Return the leaves as a candidate, after the sentences that they need. Leaves that touch become one fragment."""
        runs = split_runs(leaves, lambda left, right: left.end == right.start)
        return Candidate((*self.before([leaf.id for leaf in leaves]), *map(fragment_of, runs)), score, instead)

    def before(self, ids: Collection[int]) -> tuple[Fragment, ...]:
        """Return the sentences outside these leaves that they need, in the order of the document."""
        waiting = [place for i in ids for place in self._of(i)]
        if not waiting:
            return ()
        needed: dict[tuple[int, int], None] = {}
        for leaf, number in waiting:
            if leaf not in ids and leaf in self._leaves and (leaf, number) not in needed:
                needed[leaf, number] = None
                waiting += self._of(leaf, number)
        return tuple(fragment_at(self._leaves[leaf], number) for leaf, number in sorted(needed))

    def _of(self, leaf: int, number: int | None = None) -> list[tuple[int, int]]:
        """Return the places of the leads of a leaf's sentences in earlier leaves, or of all leads of one sentence."""
        known = self._leaves.get(leaf)
        if known is None or not known.leads:
            return []
        return [(leaf - back, of) for led, back, of in known.leads if (back if number is None else led == number)]
