"""The whole context, the row LC of the papers: all documents of the question, in order, up to the budget.

The surplus is cut out of the middle, as in LongBench: half of the budget is filled from the beginning of the first document,
half from the end of the last. LongBench cuts between two tokens. Here a leaf is taken whole or by its first sentences. Nothing
is searched: `where` selects the documents.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

from mergewise.assemble.budget import pack
from mergewise.assemble.fragments import Candidate, fragment_of
from mergewise.models.record import Models
from mergewise.protocols import IndexReader
from mergewise.ranges import SHARE, CheckedFields
from mergewise.types import Cause, Context, Leaf, Span, Step, frozen

# Documents to read in one call.
_AT_ONCE = 16
_WHOLE = 1 << 62


@frozen
class Full(CheckedFields):
    beginning: Annotated[
        float, SHARE, "share of the budget filled from the beginning; the rest is filled from the end"
    ] = 0.5


def assemble(question: str, reader: IndexReader, budget: int, models: Models, parameters: Full) -> Context:
    documents, beginning = reader.documents(), parameters.beginning
    ends = _leaves(documents, reader, 1), _leaves(documents, reader, -1)
    tokens, taken, seen = [0, 0], list[tuple[int, Leaf]](), set[int]()
    while sum(tokens) <= budget:
        # The next leaf is from the end that lacks more of its share.
        side = int(tokens[0] * (1 - beginning) > tokens[1] * beginning or not beginning)
        place, leaf = next(ends[side], (0, None))
        if leaf is None or leaf.id in seen:
            break
        seen.add(leaf.id)
        tokens[side] += models.count_tokens([leaf.text])[0]
        taken.append((place, leaf))
    spans = tuple(leaf.span for _, leaf in taken)
    trace = [
        Step("read", f"{len(taken)} leaves, from both ends of {len(documents)} documents", spans, cause=Cause.SEARCH)
    ]
    candidates = [Candidate((fragment_of([leaf]),), 1 - place / len(documents)) for place, leaf in taken]
    return pack(question, candidates, budget, models, "document", trace, last="end")


def _leaves(documents: Sequence[str], reader: IndexReader, step: int) -> Iterator[tuple[int, Leaf]]:
    """Yield all leaves with sentences, forward or backward."""
    places = range(len(documents))[::step]
    for first in range(0, len(places), _AT_ONCE):
        some = places[first : first + _AT_ONCE]
        by_place = {documents[place]: place for place in some}
        leaves = reader.leaves(reader.leaves_under([Span(documents[place], 0, _WHOLE) for place in sorted(some)]))
        for leaf in list(leaves.values())[::step]:
            if leaf.sentences:
                yield by_place[leaf.doc_id], leaf
