"""What a run will cost, told from a few questions before anything is asked of a model.

Contexts are assembled and prompts are written as they will be; in place of the chat model stands one that counts. What a mode
asks after a real answer, it may not ask after this one's: calls and tokens are those of a first try. Replies are counted with as
many tokens as they may have.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace

from mergewise.engine import Index
from mergewise.evaluate.evaluator import Asking, Evaluator
from mergewise.evaluate.methods import Method
from mergewise.evaluate.question_sets import Question, QuestionSet
from mergewise.models import CachedChat
from mergewise.protocols import ChatModel, TokenCounter
from mergewise.types import Message, Reply, Usage

QUESTIONS = 5
REPLY = "I do not know."


class CountingChat:
    """A `ChatModel` that answers nothing and counts what it would have cost. Answers that are kept on disk cost nothing."""

    def __init__(self, chat: ChatModel, count_tokens: TokenCounter) -> None:
        self.spec, self.identity, self.window = chat.spec, chat.identity, chat.window
        self._chat, self._count_tokens = chat, count_tokens
        self.usage = Usage()

    async def complete(
        self, messages: Sequence[Message], *, max_tokens: int = 1024, schema: Mapping[str, object] | None = None
    ) -> Reply:
        if isinstance(self._chat, CachedChat) and self._chat.has(messages, max_tokens=max_tokens, schema=schema):
            return await self._chat.complete(messages, max_tokens=max_tokens, schema=schema)
        spent = Usage(1, sum(self._count_tokens([message.text for message in messages])), max_tokens, estimated=True)
        self.usage += spent
        return Reply(REPLY, spent)

    async def stream(self, messages: Sequence[Message], *, max_tokens: int = 1024) -> AsyncIterator[str | Reply]:
        reply = await self.complete(messages, max_tokens=max_tokens)
        yield reply.text
        yield reply


@dataclass(frozen=True, slots=True)
class MethodEstimate:
    """What the missing rows of a method will cost: calls and tokens of a chat model, and seconds on this machine."""

    method: str
    budget: int
    rows: int
    usage: Usage
    seconds: float
    needs: str = ""


def estimated_costs(
    index: Index,
    task: QuestionSet,
    asking: Asking | None,
    asked: Sequence[tuple[Method, int]],
    questions: Sequence[Question],
    missing: Mapping[tuple[str, int], int],
) -> list[MethodEstimate]:
    """For each method at each budget, from the first questions; `missing` says how many rows are to be computed.

    A causal model, which runs on this machine, is asked in earnest: what it costs is time.
    """
    models = index.models
    chat = None if models.chat is None else CountingChat(models.chat, models.count_tokens)
    counted = replace(index, _models=replace(models, chat=chat), _loaded=())
    evaluator = Evaluator(counted, task, asking)
    found = []
    for method, budget in asked:
        needs = evaluator.lacking(method)
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
