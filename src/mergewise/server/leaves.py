"""Search for single passages, for the vector-store API and for MCP tools: the best leaves, unmerged."""

from __future__ import annotations

from mergewise.server.collection_query import CollectionQuery
from mergewise.server.scoped import Scoped
from mergewise.types import Json, JsonDict

STRATEGY = "topk"


async def best_leaves(collection: Scoped, query: str, most: int, condition: Json | str | None = None) -> list[JsonDict]:
    """Return passages as in the native API, best first. Return none for a collection without documents.

    If clients may not use the strategy `topk`, the collection's default strategy is used. Raises the errors of
    `Questions.context`.
    """
    if not collection.is_made:
        return []
    options: JsonDict = {"budget": collection.questions.limits.budget}
    if STRATEGY in collection.strategies():
        options |= {"strategy": STRATEGY, "parameters": {"k": most, "order": "score"}}
    if condition is not None:
        options["where"] = condition
    context = await collection.questions.context(CollectionQuery(query, options), collection)
    passages = context["context"]["passages"]
    return sorted(passages, key=lambda passage: -passage["score"])[:most]
