"""Merge(C_(t-1), Retrieve(q_t)) of MacRAG A.9: two contexts become one on spans, within one budget.

Scores of different questions cannot be compared, but ranks can: pieces of the old and the new context are taken alternately,
each context's best first, while they fit. A stretch of text that both hold is taken once. The n-th piece taken gets the score
1 / n, so that the next round has the pieces in the same order.

Only verbatim passages can be merged on spans. A strategy whose passages a model wrote cannot be used in several rounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest

from mergewise.assemble.shared.budget import Models, pack
from mergewise.assemble.shared.fragments import Candidate, Fragment
from mergewise.assemble.shared.streams import with_streams_of
from mergewise.errors import UsageError
from mergewise.types import Context, Passage, Step


def merge(old: Context, new: Context, models: Models) -> Context:
    """Merge(C_{t-1}, Retrieve(q_t)): within the budget of `old`, for its question."""
    pieces = in_turn(_pieces(old), _pieces(new))
    ranked = [replace(piece, score=1 / turn) for turn, piece in enumerate(pieces, 1)]
    step = Step("round", new.question, tuple(span for passage in new.passages for span in passage.spans))
    merged = pack(old.question, ranked, old.budget, models, "document", [*old.trace, step])
    merged = replace(merged, strategy=old.strategy, usage=old.usage + new.usage)
    return with_streams_of(merged, [old, new])


def in_turn(old: Sequence[Candidate], new: Sequence[Candidate]) -> Iterator[Candidate]:
    for pair in zip_longest(old, new):
        yield from (piece for piece in pair if piece is not None)


def _pieces(context: Context) -> list[Candidate]:
    """The stretches of the context, those of the best passage first."""
    ranked = sorted(context.passages, key=lambda p: -p.score)
    return [Candidate((fragment,), p.score) for p in ranked for fragment in _fragments(p, context.strategy)]


def _fragments(passage: Passage, strategy: str) -> Iterator[Fragment]:
    if not passage.verbatim:
        raise UsageError(
            f"{strategy} writes passages of its own, which several rounds cannot merge",
            "use one round, or a strategy that quotes",
        )
    for span, text in passage.parts():
        yield Fragment(span.doc_id, passage.title, passage.headings, span.start, span.end, span.start, text)
