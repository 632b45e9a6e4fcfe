"""Ranking of documents by a chat model: the "LLM-based ranker" of MacRAG section 3.2.4."""

from __future__ import annotations

from collections.abc import Mapping

from mergewise.concurrency import run
from mergewise.errors import UsageError
from mergewise.models.record import Models
from mergewise.prompting.quoting import code_for, quotation, turn, warning
from mergewise.prompting.replies import json_in, object_schema
from mergewise.types import Usage

SCHEMA = object_schema({"ranking": {"type": "array", "items": {"type": "integer"}}})
INSTRUCTIONS = """You order documents by how much they help to answer a question. Each document is shown by a number and an
excerpt. Answer in JSON, as {"ranking": [numbers]}: the number of every document once, the most helpful first.

"""


def by_chat(question: str, excerpts: Mapping[str, str], models: Models) -> tuple[dict[str, float], Usage]:
    """Return r(q, d) in (0, 1] by rank: the documents that the model listed, in its order, then the others in the order given.

    Unknown and repeated numbers in the answer are skipped.
    """
    if models.chat is None:
        raise UsageError("documents=llm needs a chat model", "name one: --chat openai:MODEL")
    ids = list(excerpts)
    code = code_for([question, *excerpts.values()])
    shown = [quotation(f"document [{number}]", excerpts[doc].strip(), code) for number, doc in enumerate(ids, 1)]
    messages = turn(INSTRUCTIONS + warning(code, "excerpts"), [f"Question: {question}", *shown])
    reply = run(models.chat.complete(messages, max_tokens=16 * len(ids) + 64, schema=SCHEMA))
    named = [ids[number - 1] for number in _ranking(reply.text) if 1 <= number <= len(ids)]
    order = list(dict.fromkeys([*named, *ids]))
    usage = reply.usage if named else reply.usage + Usage(unread=1)
    return {doc: 1 - rank / len(order) for rank, doc in enumerate(order)}, usage


def _ranking(answer: str) -> list[int]:
    value = json_in(answer)
    ranking = value.get("ranking") if isinstance(value, dict) else None
    numbers = ranking if isinstance(ranking, list) else []
    return [number for number in numbers if isinstance(number, int) and not isinstance(number, bool)]
