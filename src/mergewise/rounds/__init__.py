"""Several rounds of search for one question within one budget: iterative retrieval (MacRAG A.9).

C_1 = Retrieve(q), then C_t = Merge(C_(t-1), Retrieve(q_t)) until nothing is left to ask. `next_question` finds q_t, and `merge`
is Merge. Rounds differ from hops: `weave` follows names from section to section within one round.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from mergewise.generate.sources import DocumentLookup
from mergewise.models.record import Models
from mergewise.rounds.merge import merge
from mergewise.rounds.next_question import next_question
from mergewise.types import Context

__all__ = ["in_rounds"]


def in_rounds(
    question: str, rounds: int, assemble: Callable[[str], Context], models: Models, document: DocumentLookup
) -> Context:
    """Return C_T of MacRAG A.9 for T up to `rounds`. `assemble(q_t)` is Retrieve(q_t), the context of one question."""
    context, asked = assemble(question), [question]
    while len(asked) < rounds:
        wanted, spent = next_question(question, asked, context, models, document)
        context = replace(context, usage=context.usage + spent)
        if wanted is None:
            break
        asked.append(wanted)
        context = merge(context, assemble(wanted), models)
    return context
