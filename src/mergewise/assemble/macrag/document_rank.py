"""Documents ranked by a chat model: the "LLM-based ranker" of MacRAG section 3.2.4."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from mergewise.assemble.shared.budget import Models
from mergewise.concurrency import run
from mergewise.errors import UsageError
from mergewise.types import Message, Usage

SCHEMA: Mapping[str, object] = {
    "type": "object",
    "properties": {"ranking": {"type": "array", "items": {"type": "integer"}}},
    "required": ["ranking"],
    "additionalProperties": False,
}
INSTRUCTIONS = """You order documents by how much they help to answer a question. Each document is shown by a number and an
excerpt. Answer in JSON, as {"ranking": [numbers]}: the number of every document once, the most helpful first."""


def by_chat(question: str, excerpts: Mapping[str, str], models: Models) -> tuple[dict[str, float], Usage]:
    """r(q, d) in (0, 1], by rank: the model's order, then those that it did not name, in the order given.

    Numbers that name nothing, or something twice, are left out.
    """
    if models.chat is None:
        raise UsageError("documents=llm needs a chat model", "name one: --chat openai:MODEL")
    ids = list(excerpts)
    shown = "\n\n".join(f"[{number}]\n{excerpts[doc].strip()}" for number, doc in enumerate(ids, 1))
    messages = [Message("system", INSTRUCTIONS), Message("user", f"Question: {question}\n\n{shown}")]
    reply = run(models.chat.complete(messages, max_tokens=16 * len(ids) + 64, schema=SCHEMA))
    named = [ids[number - 1] for number in _numbers(reply.text) if 1 <= number <= len(ids)]
    order = list(dict.fromkeys([*named, *ids]))
    return {doc: 1 - rank / len(order) for rank, doc in enumerate(order)}, reply.usage


def _numbers(text: str) -> list[int]:
    try:
        found: Any = json.loads(text[text.index("{") : text.rindex("}") + 1])["ranking"]
        return [number for number in found if isinstance(number, int) and not isinstance(number, bool)]
    except (ValueError, KeyError, TypeError):
        return []
