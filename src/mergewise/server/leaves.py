"""Search for single passages, as vector stores and programs with tools want it: the best leaves, each as it stands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mergewise.server.collections import Collection
from mergewise.server.questions import CollectionQuery, Questions
from mergewise.server.records import Token

STRATEGY = "topk"
# more than the best leaves take; what is found is not cut
BUDGET = 32_768


def leaf_parameters(most: int) -> dict[str, Any]:
    return {"k": most, "order": "score"}


async def best_leaves(
    questions: Questions,
    collection: Collection,
    token: Token,
    query: str,
    most: int,
    condition: Mapping[str, Any] | None = None,
) -> list[dict[str, Any]]:
    """Passages of the native API, best first; none of a collection that has no documents yet.

    Where clients may not name the strategy for this, the collection's own finds them. Raises what `Questions.context` raises.
    """
    if not collection.is_made:
        return []
    options: dict[str, Any] = {"budget": questions.limits.budget}
    if STRATEGY in collection.strategies():
        options |= {"strategy": STRATEGY, "parameters": leaf_parameters(most)}
    if condition:
        options["where"] = condition
    asked = CollectionQuery(collection.name, query, options)
    passages = (await questions.context(asked, token))["context"]["passages"]
    return sorted(passages, key=lambda passage: -passage["score"])[:most]
