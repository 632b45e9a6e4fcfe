"""Merge(C_(t-1), Retrieve(q_t)) of MacRAG A.9: two contexts become one on spans, within one budget.

Scores of different questions are not comparable, but ranks are. So pieces of the old and the new context are taken in turn
while they fit, best first in each context. Text that both hold is taken once. The n-th piece taken gets the score 1 / n, so
that the next round sees the pieces in the same order.

Only verbatim passages can be merged on spans. Sets of triplets accompany the passages that they were extracted from. They are
kept whole, each once, within their share of the budget. Strategies whose passages are written by a model do not support several
rounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import TypeVar

from mergewise.assemble.budget import pack
from mergewise.assemble.fragments import Candidate, Fragment
from mergewise.errors import UsageError
from mergewise.models.record import Models
from mergewise.text.blocks import SEPARATOR, render
from mergewise.types import Context, Passage, Step

Piece = TypeVar("Piece")

# Share of the budget for sets of triplets.
SETS_SHARE = 0.4


def merge(old: Context, new: Context, models: Models) -> Context:
    """Return Merge(C_{t-1}, Retrieve(q_t)), within the budget of `old` and for its question."""
    ranked = [replace(piece, score=1 / turn) for turn, piece in enumerate(in_turn(_pieces(old), _pieces(new)), 1)]
    step = Step("round", new.question, tuple(span for passage in new.passages for span in passage.spans))
    # The sets of triplets of both contexts, best first and in turn, that fit into `SETS_SHARE` of the budget.
    both = [[p for p in context.passages if _is_triplet_set(p, context)] for context in (old, new)]
    kept: dict[str, Passage] = {}
    left = SETS_SHARE * old.budget
    for one in in_turn(*both):
        cost = models.count_tokens([render([one]) + SEPARATOR])[0]
        if one.text not in kept and cost <= left:
            kept[one.text], left = one, left - cost
    sets = list(kept.values())
    room = old.budget - sum(models.count_tokens([render([one]) + SEPARATOR for one in sets]) if sets else ())
    merged = pack(old.question, ranked, room, models, "document", [*old.trace, step])
    merged = _with_sets(merged, sets, old.budget, models)
    return replace(merged, strategy=old.strategy, usage=old.usage + new.usage).merged_from([old, new])


def _with_sets(context: Context, sets: list[Passage], budget: int, models: Models) -> Context:
    """Append these sets to the context. Drop sets from the end until the rendered text fits the budget."""
    for count in range(len(sets), 0, -1):
        passages = (*context.passages, *sets[:count])
        text = render(passages)
        tokens = models.count_tokens([text])[0]
        if tokens <= budget:
            return replace(context, budget=budget, passages=passages, text=text, tokens=tokens)
    return replace(context, budget=budget)


def _is_triplet_set(passage: Passage, context: Context) -> bool:
    return context.reading is not None and not passage.verbatim


def in_turn(old: Sequence[Piece], new: Sequence[Piece]) -> Iterator[Piece]:
    return (piece for pair in zip_longest(old, new) for piece in pair if piece is not None)


def _pieces(context: Context) -> list[Candidate]:
    """Return the context's stretches of text as candidates, those of the best passage first."""
    ranked = sorted((p for p in context.passages if not _is_triplet_set(p, context)), key=lambda p: -p.score)
    return [Candidate((fragment,), p.score) for p in ranked for fragment in _fragments(p, context.strategy)]


def _fragments(passage: Passage, strategy: str) -> Iterator[Fragment]:
    if not passage.verbatim:
        problem = f"{strategy} writes its own passages, which cannot be merged over several rounds"
        raise UsageError(problem, "use one round, or a strategy that quotes the documents")
    for span, text in passage.parts():
        yield Fragment(span.doc_id, passage.title, passage.headings, span.start, span.end, span.start, text)
