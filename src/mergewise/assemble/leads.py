"""What leaves need from leaves before them: the header of a table that goes on, the line that announced a list."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from mergewise.assemble.fragments import Candidate, Fragment, fragment_of, split_runs
from mergewise.assemble.sentences import fragment_at
from mergewise.protocols import IndexReader
from mergewise.types import Leaf, LeafSentences

ROUNDS = 3  # how often leaves are read: a row's header, what announces the table, and what announces that


class Antecedents:
    """The leads of some leaves, and of what these need in turn."""

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
        """Return the leaves after the sentences that they need; leaves that touch are one fragment."""
        runs = split_runs(leaves, lambda left, right: left.end == right.start)
        before = self.before([leaf.id for leaf in leaves])
        return Candidate((*before, *map(fragment_of, runs)), score, instead)

    def before(self, ids: Collection[int]) -> tuple[Fragment, ...]:
        """The sentences outside of these leaves that theirs need, in the order of the document."""
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
        """The places of the leads of a leaf's sentences in leaves before it, or of all leads of one sentence."""
        known = self._leaves.get(leaf)
        if known is None or not known.leads:
            return []
        return [(leaf - back, of) for led, back, of in known.leads if (back if number is None else led == number)]
