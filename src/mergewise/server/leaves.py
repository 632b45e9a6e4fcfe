"""Search for single passages, for the vector-store API and for MCP tools: the best leaves, unmerged."""

from __future__ import annotations

from mergewise.server.questions import CollectionQuery
from mergewise.server.records import Json, JsonDict
from mergewise.server.scoped import Scoped, ScopedService

STRATEGY = "topk"
# large enough that the best leaves are never cut
BUDGET = 32_768


def leaf_parameters(most: int) -> JsonDict:
    return {"k": most, "order": "score"}


async def best_leaves(
    service: ScopedService, collection: Scoped, query: str, most: int, condition: Json | None = None
) -> list[JsonDict]:
    """Return passages as in the native API, best first. Return none for a collection without documents.

    If clients may not use the strategy `topk`, the collection's default strategy is used. Raises the errors of
    `ScopedService.context`.
    """
    if not collection.is_made:
        return []
    options: JsonDict = {"budget": service.config.limits.budget}
    if STRATEGY in collection.strategies():
        options |= {"strategy": STRATEGY, "parameters": leaf_parameters(most)}
    if condition is not None:
        options["where"] = condition
    asked = CollectionQuery(collection.name, query, options)
    passages = (await service.context(asked))["context"]["passages"]
    return sorted(passages, key=lambda passage: -passage["score"])[:most]
