"""A chat model writes about documents: window by window, side by side, each answer kept as it arrives.

- Windows of a document are laid so that question and answer fit into the model's own window. Numbers of segments are those of the
  document in every window.
- An answer that ended at its limit of tokens keeps its whole records, and what they do not cover is asked in two halves. So is
  what an endpoint refuses as too long.
- Retries of a call, with growing pauses of random length or the one that Retry-After asks for, are the adapter's own
  (`models.endpoint`). A call that fails for good ends its document, and no other: what came before is kept, and the document is
  marked. After `PATIENCE` failed calls one after the other, the endpoint is taken to be down, and the run ends.
- The model's cache keeps every answer under a hash of model, parameters and prompt, which holds the text: whatever came is not
  asked again, after a kill neither.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeAlias

from mergewise.concurrency import run
from mergewise.errors import InputRefused, ModelError, UsageError
from mergewise.index.windows import windows
from mergewise.index.writing.task import Item, Policy, Rejected, Request, Source, Task, Written
from mergewise.prompting.records import records_in
from mergewise.protocols import ChatModel, KeepsReplies, TokenCounter
from mergewise.store.views import Estimate
from mergewise.types import Message, Reply, Usage

log = logging.getLogger("mergewise")

AT_ONCE = 8  # calls; the adapter of an endpoint may allow fewer
PATIENCE = 3  # calls that fail for good one after the other
ROOM = 0.85  # share of the model's window that is planned with: its tokenizer is not the one that counts
LEAST_OUTPUT = 512  # tokens that any answer may have
SLACK = 3.0  # an answer may be so much longer than what is expected of it

_NO_REASON = ("duplicate", "cut off")
LONGEST_REASON = 300  # characters of a failure that are kept

Told = Callable[[float], None]
"""Told the share of the work that is through since it was told last."""


def write(
    sources: Sequence[Source],
    task: Task[Item],
    policy: Policy,
    chat: ChatModel,
    count_tokens: TokenCounter,
    told: Told | None = None,
) -> list[Written[Item]]:
    """What the model writes about each of the documents. Says what it will cost before it starts.

    Raises ModelError where the endpoint is down; the answers that came before are in the model's cache.
    """
    cost = estimate(sources, task, policy, chat, count_tokens)
    if cost.usage.calls:
        log.warning("%s", said(cost, task.name, chat.spec))
    return run(_Run(task, policy, chat, count_tokens, sources, told).all())


def said(cost: Estimate, what: str, spec: str) -> str:
    """An estimate as a line for people."""
    kept = f", {cost.kept} more are answered already" if cost.kept else ""
    return (
        f"{what} of {cost.documents} documents by {spec}: {cost.usage.calls} calls{kept}, about "
        f"{cost.usage.input_tokens} tokens to read and {cost.usage.output_tokens} to write"
    )


def estimate(
    sources: Sequence[Source], task: Task[Item], policy: Policy, chat: ChatModel, count_tokens: TokenCounter
) -> Estimate:
    """What the first attempts cost. Further attempts are not foreseen."""
    total = Estimate()
    seen: set[_Key] = set()
    for source in sources:
        calls = [_call(task, request, chat) for request in _first(source, task, policy, chat, count_tokens)]
        fresh = {call.key: call for call in calls if call.key not in seen}
        seen |= fresh.keys()
        due = [call for call in fresh.values() if not _is_kept(call, task, chat)]
        read = sum(count_tokens([message.text for call in due for message in call.messages]))
        written = sum(task.output(call.request) for call in due)
        total += Estimate(int(bool(due)), Usage(len(due), read, written), len(fresh) - len(due))
    return total


# -- calls


_Key: TypeAlias = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class _Call:
    request: Request
    messages: list[Message]
    max_tokens: int

    @property
    def key(self) -> _Key:
        """What makes two calls the same."""
        return (*(message.text for message in self.messages), self.max_tokens)


def _call(task: Task[Item], request: Request, chat: ChatModel) -> _Call:
    limit = max(LEAST_OUTPUT, int(SLACK * task.output(request)))
    return _Call(request, task.prompt(request), min(limit, max(LEAST_OUTPUT, chat.window // 2)))


def _is_kept(call: _Call, task: Task[Item], chat: ChatModel) -> bool:
    return isinstance(chat, KeepsReplies) and chat.has(call.messages, max_tokens=call.max_tokens, schema=task.schema)


def _first(
    source: Source, task: Task[Item], policy: Policy, chat: ChatModel, count_tokens: TokenCounter
) -> list[Request]:
    """The calls of the first attempt: all segments, in overlapping windows."""
    everything = [segment.number for segment in source.segments]
    size = _capacity(source, task, policy, chat, count_tokens)
    ranges = windows([segment.tokens for segment in source.segments], size, min(policy.overlap, size // 2))
    return [Request(source, tuple(everything[a:b]), tuple(everything[a:b])) for a, b in ranges]


def _capacity(source: Source, task: Task[Item], policy: Policy, chat: ChatModel, count_tokens: TokenCounter) -> int:
    """Tokens of text in one call, such that the prompt around them and a long answer to them fit into the model's window."""
    if not source.segments:
        return policy.window
    one = Request(source, (0,), (0,))
    shown = source.segments[0].tokens
    around = sum(count_tokens([message.text for message in task.prompt(one)])) - shown
    each = 1 + SLACK * task.output(one) / max(1, shown)
    room = ROOM * chat.window - around - LEAST_OUTPUT
    if room < LEAST_OUTPUT:
        raise UsageError(
            f"{chat.spec} takes {chat.window} tokens at once, too few to write {task.name}",
            "name another model, or say what this one takes: MERGEWISE_WINDOW",
        )
    return max(1, min(policy.window, int(room / each)))


# -- a run


@dataclass(slots=True)
class _Growing(Generic[Item]):
    """What has come of one document so far."""

    rejects: Counter[str] = field(default_factory=Counter)
    coverages: list[float] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    failure: str = ""


class _Run(Generic[Item]):
    """Calls about documents, side by side."""

    def __init__(
        self,
        task: Task[Item],
        policy: Policy,
        chat: ChatModel,
        count_tokens: TokenCounter,
        sources: Sequence[Source],
        told: Told | None,
    ) -> None:
        self.task, self.policy, self.chat, self.count_tokens, self.sources = task, policy, chat, count_tokens, sources
        self._told = told
        self._total = sum(segment.tokens for source in sources for segment in source.segments)
        self._gate = asyncio.Semaphore(AT_ONCE)
        self._failures = 0  # one after the other
        self._down: ModelError | None = None
        self._under_way: dict[_Key, asyncio.Future[Reply]] = {}
        self._counted: dict[str, set[int]] = {}  # segments of documents that progress has counted

    async def all(self) -> list[Written[Item]]:
        """After the endpoint is taken to be down no call is begun; those on their way are waited for, and kept."""
        written = await asyncio.gather(*map(self._document, self.sources))
        if self._down is not None:
            raise ModelError(self._down.message, f"{self._down.hint}; what was answered is kept: run it again")
        return written

    async def _document(self, source: Source) -> Written[Item]:
        growing: _Growing[Item] = _Growing()
        requests = _first(source, self.task, self.policy, self.chat, self.count_tokens) if source.segments else []
        try:
            items = await (self._best(requests, growing) if self.policy.again else self._joined(requests, growing))
        finally:
            self._tell(source, [segment.number for segment in source.segments])
        if growing.failure:
            log.warning("%s of %s are not complete: %s", self.task.name, source.id, growing.failure)
        return Written(tuple(items), growing.rejects, tuple(growing.coverages), growing.usage, growing.failure)

    async def _joined(self, requests: Sequence[Request], growing: _Growing[Item]) -> list[Item]:
        """Policy "rest": further attempts ask about what nothing covers, and everything that came is joined."""
        items: list[Item] = []
        for attempt in range(1, self.policy.attempts + 1):
            if not requests:
                break
            answers = await asyncio.gather(*(self._ask(request, growing) for request in requests))
            items = self._united([items, *answers], growing, counted=True)
            if self._is_enough(items, requests[0].source, growing):
                break
            reasons = tuple(sorted(kind for kind, count in growing.rejects.items() if count and kind not in _NO_REASON))
            rest = self._about_the_rest(items, requests[0].source, attempt + 1)
            requests = [replace(request, rejected=reasons) for request in rest]
        return items

    async def _best(self, requests: Sequence[Request], growing: _Growing[Item]) -> list[Item]:
        """Policy "again", the paper's: windows of which too little is covered are asked once more, and the best answer counts."""
        best: list[list[Item]] = [[] for _ in requests]
        items: list[Item] = []
        due = list(range(len(requests)))
        for attempt in range(1, self.policy.attempts + 1):
            asked = [replace(requests[i], attempt=attempt, again=attempt > 1) for i in due]
            answers = await asyncio.gather(*(self._ask(request, growing) for request in asked))
            for i, answer in zip(due, answers, strict=True):
                best[i] = max(best[i], answer, key=lambda some: self._share(some, requests[i].asked))
            items = self._united(best, growing)
            if not requests or self._is_enough(items, requests[0].source, growing):
                break
            due = [i for i in due if self._share(best[i], requests[i].asked) < self.policy.coverage]
        growing.rejects["duplicate"] += sum(map(len, best)) - len(items)
        return items

    def _is_enough(self, items: Sequence[Item], source: Source, growing: _Growing[Item]) -> bool:
        share = self._share(items, [segment.number for segment in source.segments])
        growing.coverages.append(share)
        return bool(growing.failure) or share >= self.policy.coverage

    def _share(self, items: Iterable[Item], numbers: Sequence[int]) -> float:
        """How many of these segments some item is about, as a share."""
        covered = self._covered(items)
        return sum(number in covered for number in numbers) / len(numbers)

    def _covered(self, items: Iterable[Item]) -> set[int]:
        return {number for item in items for number in self.task.paragraphs(item)}

    def _about_the_rest(self, items: Sequence[Item], source: Source, attempt: int) -> list[Request]:
        covered = self._covered(items)
        left = [segment.number for segment in source.segments if segment.number not in covered]
        size = _capacity(source, self.task, self.policy, self.chat, self.count_tokens)
        ranges = windows([source.tokens(_with_the_one_before([n])) for n in left], size, 0)
        return [_request(source, left[a:b], attempt, again=True) for a, b in ranges]

    def _united(
        self, answers: Iterable[Sequence[Item]], growing: _Growing[Item], *, counted: bool = False
    ) -> list[Item]:
        """All items, without those that say what another one says."""
        items: list[Item] = []
        about: dict[int, list[Item]] = defaultdict(list)
        for item in (item for answer in answers for item in answer):
            numbers = self.task.paragraphs(item)
            if any(self.task.repeats(item, other) for number in numbers for other in about[number]):
                growing.rejects["duplicate"] += counted
                continue
            items.append(item)
            for number in numbers:
                about[number].append(item)
        return items

    # -- one call

    async def _ask(self, request: Request, growing: _Growing[Item]) -> list[Item]:
        """The items of the answer; where it was too long, those of its halves too."""
        call = _call(self.task, request, self.chat)
        async with self._gate:
            if self._down is not None:
                return []
            try:
                reply = await self._reply(call)
            except InputRefused as error:
                if len(request.asked) == 1:
                    growing.failure = growing.failure or _in_a_line(error)
                    return []
                reply = None
            except ModelError as error:
                self._failed(error, growing)
                return []
            self._failures = 0
        if reply is None:
            return await self._halves(request, request.asked, growing)
        growing.usage += reply.usage
        items = self._items(reply.text, request, growing, cut=not reply.complete)
        if not reply.complete:
            covered = self._covered(items)
            items += await self._halves(request, [n for n in request.asked if n not in covered], growing)
        self._tell(request.source, request.asked)
        return items

    async def _reply(self, call: _Call) -> Reply:
        """The answer. Of calls that are the same, as documents that share a text have them, one is made, and paid for."""
        if call.key in self._under_way:
            return replace(await self._under_way[call.key], usage=Usage())
        reply = self.chat.complete(call.messages, max_tokens=call.max_tokens, schema=self.task.schema)
        self._under_way[call.key] = asyncio.ensure_future(reply)
        try:
            return await self._under_way[call.key]
        finally:
            del self._under_way[call.key]

    async def _halves(self, request: Request, left: Sequence[int], growing: _Growing[Item]) -> list[Item]:
        """What is left of a window, in two calls. A segment alone is not asked about again."""
        if len(request.asked) == 1 or not left:
            return []
        half = -(-len(left) // 2)
        parts = [part for part in (left[:half], left[half:]) if part]
        requests = [_request(request.source, part, request.attempt, again=request.again) for part in parts]
        answers = await asyncio.gather(*(self._ask(part, growing) for part in requests))
        return [item for answer in answers for item in answer]

    def _items(self, text: str, request: Request, growing: _Growing[Item], *, cut: bool) -> list[Item]:
        records = records_in(text, self.task.fields)
        items: list[Item] = []
        if not records.items:
            growing.rejects["nothing to read"] += 1
        growing.rejects["cut off"] += cut or records.cut
        for record in records.items:
            try:
                if not isinstance(record, dict):
                    raise Rejected("not an object")
                items.append(self.task.item(record, request))
            except Rejected as reject:
                growing.rejects[str(reject)] += 1
        return items

    def _failed(self, error: ModelError, growing: _Growing[Item]) -> None:
        growing.failure = growing.failure or _in_a_line(error)
        self._failures += 1
        if self._failures >= PATIENCE:
            self._down = self._down or error

    # -- how far it is

    def _tell(self, source: Source, numbers: Sequence[int]) -> None:
        """Segments count once, when the first answer about them is there, or their document is through."""
        if self._told is None or not self._total:
            return
        counted = self._counted.setdefault(source.id, set())
        fresh = [number for number in numbers if number not in counted]
        counted.update(fresh)
        self._told(source.tokens(fresh) / self._total)


def _in_a_line(error: ModelError) -> str:
    line = " ".join(error.message.split())
    return line if len(line) <= LONGEST_REASON else line[: LONGEST_REASON - 1] + "…"


def _with_the_one_before(numbers: Sequence[int]) -> list[int]:
    """A segment is shown with the one before it, in which its pronouns may have what they stand for."""
    return sorted({shown for number in numbers for shown in (max(0, number - 1), number)})


def _request(source: Source, asked: Sequence[int], attempt: int, *, again: bool = False) -> Request:
    return Request(source, tuple(_with_the_one_before(asked)), tuple(asked), attempt, again)
