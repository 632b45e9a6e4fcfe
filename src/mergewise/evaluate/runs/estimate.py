"""Estimates of the costs of a run, from a few questions and without asking the chat model.

Contexts and prompts are real, but a counting model replaces the chat model. Limits of an estimate:

- A mode's further questions depend on real answers. So calls and tokens are those of its first round.
- Each reply counts with its maximum of tokens.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace

from mergewise.evaluate.evaluator import Evaluator
from mergewise.evaluate.methods import MethodCells
from mergewise.evaluate.question_sets import Question
from mergewise.extend import CachedChat, call_key
from mergewise.protocols import ChatModel, Schema, TokenCounter
from mergewise.types import Message, Reply, Usage, frozen

QUESTIONS = 5


class CountingChat:
    """A `ChatModel` that gives a fixed reply and counts the costs of a real one.

    Cached answers and repeated calls cost nothing, because a run keeps every reply.
    """

    def __init__(self, chat: ChatModel, count_tokens: TokenCounter) -> None:
        self.spec, self.identity, self.window = chat.spec, chat.identity, chat.window
        self._chat, self._count_tokens = chat, count_tokens
        self.usage = Usage()
        self._asked: set[bytes] = set()
        # nothing that it wrote is kept
        self.is_estimate = True

    async def complete(
        self, messages: Sequence[Message], *, max_tokens: int = 1024, schema: Schema | None = None
    ) -> Reply:
        if isinstance(self._chat, CachedChat) and self._chat.has(messages, max_tokens=max_tokens, schema=schema):
            return await self._chat.complete(messages, max_tokens=max_tokens, schema=schema)
        spent, key = Usage(), call_key(self.identity, messages, max_tokens, schema)
        if key not in self._asked:
            self._asked.add(key)
            read = sum(self._count_tokens([message.text for message in messages]))
            spent = Usage(1, read, max_tokens, estimated=True)
            self.usage += spent
        return Reply("I do not know.", spent)

    async def stream(self, messages: Sequence[Message], *, max_tokens: int = 1024) -> AsyncIterator[str | Reply]:
        reply = await self.complete(messages, max_tokens=max_tokens)
        yield reply.text
        yield reply


@frozen
class MethodEstimate:
    """The estimated costs of a method's missing rows: calls and tokens of a chat model, and seconds on this machine."""

    method: str
    budget: int
    rows: int
    usage: Usage
    seconds: float
    needs: str = ""


def estimated_costs(
    evaluator: Evaluator, asked: MethodCells, questions: Sequence[Question], missing: Mapping[tuple[str, int], int]
) -> list[MethodEstimate]:
    """Estimate the costs of each method at each budget from the first questions.

    `missing` holds the number of rows to compute. A causal model runs on this machine and costs only time, so it is really asked.
    """
    index = evaluator.index
    models = index.models
    chat = None if models.chat is None else CountingChat(models.chat, models.count_tokens)
    counted = replace(index, _models=replace(models, chat=chat), _loaded=())
    evaluator = Evaluator(counted, evaluator.task, evaluator.asking, utility=evaluator.utility)
    found = []
    if chat is not None and "raptor" in index.manifest.views:
        # the first question writes the summaries of the tree
        counted.context("?", strategy="raptor", budget=16)
        found += [MethodEstimate("view raptor", 0, 0, chat.usage, 0.0)] if chat.usage.calls else []
    for method, budget in asked:
        needs = evaluator.unmet_needs(method)
        if needs:
            found.append(MethodEstimate(method.name, budget, 0, Usage(), 0.0, needs))
            continue
        one = evaluator.method_rows(method, budget)
        before = Usage() if chat is None else chat.usage
        few = questions[:QUESTIONS]
        evaluator.complete([one], few)
        rows = one.rows(few)
        share = missing[method.name, budget] / max(1, len(few))
        spent = Usage() if chat is None else chat.usage
        usage = Usage(
            round(share * (spent.calls - before.calls)),
            round(share * (spent.input_tokens - before.input_tokens)),
            round(share * (spent.output_tokens - before.output_tokens)),
            estimated=True,
        )
        seconds = share * sum((row.query_seconds or 0.0) + (row.answer_seconds or 0.0) for row in rows)
        found.append(MethodEstimate(method.name, budget, missing[method.name, budget], usage, seconds))
    return found
