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
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, TypeAlias

import pyarrow.compute as pc

from mergewise.concurrency import run
from mergewise.errors import InputRefused, ModelError, UsageError
from mergewise.index.windows import windows
from mergewise.index.writing.calls import chat_of
from mergewise.index.writing.task import Item, Policy, Rejected, WritingRequest, WritingSource, WritingTask, Written
from mergewise.models.record import Models
from mergewise.prompting.records import records_in
from mergewise.protocols import ChatModel, KeepsReplies, StoreReader, TokenCounter
from mergewise.store.tables import Table
from mergewise.store.views import Estimate, OnShare, ViewRows, Writing
from mergewise.types import DocumentRows, Message, Reply, Usage

log = logging.getLogger("mergewise")

AT_ONCE = 8  # calls; the adapter of an endpoint may allow fewer
PATIENCE = 3  # calls that fail for good one after the other
ROOM = 0.85  # share of the model's window that is planned with: its tokenizer is not the one that counts
LEAST_OUTPUT = 512  # tokens that any answer may have
SLACK = 3.0  # an answer may be so much longer than what is expected of it

_NO_REASON = ("duplicate", "cut off")
LONGEST_REASON = 300  # characters of a failure that are kept


def write(
    sources: Sequence[WritingSource],
    task: WritingTask[Item],
    policy: Policy,
    models: Models,
    on_share: OnShare | None = None,
) -> list[Written[Item]]:
    """What the chat model writes about each of the documents. Says what it will cost before it starts.

    Raises ModelError where the endpoint is down; the answers that came before are in the model's cache.
    """
    planner = _Planner(task, policy, chat_of(models, task.name), models.count_tokens)
    plans = [planner.plan(source) for source in sources]
    cost = planner.cost(plans)
    if cost.usage.calls:
        log.warning("%s", cost_line(cost, task.name, planner.chat.spec))
    return run(_WritingRun(planner, plans, on_share).all())


def cost_line(cost: Estimate, what: str, spec: str) -> str:
    """An estimate as a line for people."""
    kept = f", {cost.kept} more are answered already" if cost.kept else ""
    return (
        f"{what} of {cost.documents} documents by {spec}: {cost.usage.calls} calls{kept}, about "
        f"{cost.usage.input_tokens} tokens to read and {cost.usage.output_tokens} to write"
    )


def estimate(sources: Sequence[WritingSource], task: WritingTask[Item], policy: Policy, models: Models) -> Estimate:
    """What the first attempts cost. Further attempts are not foreseen."""
    planner = _Planner(task, policy, chat_of(models, task.name), models.count_tokens)
    return planner.cost(planner.plan(source) for source in sources)


def written_by_chat(
    setting: str,
    value: str,
    build: Callable[[Sequence[DocumentRows], Any, Models, OnShare], Sequence[ViewRows]],
    estimate: Callable[[Sequence[DocumentRows], Any, Models], Estimate],
    table: Table | None = None,
) -> dict[str, Any]:
    """Return the fields of a `View` whose rows a chat model writes if this setting has this value.

    The rows of `table` say which documents are not complete.
    """
    writing = Writing(lambda settings: bool(getattr(settings, setting) == value), build, estimate)
    if table is not None:
        writing = replace(writing, unfinished=partial(unfinished_documents, table=table.name))
    return {"build": build, "with_chat": {setting: value}, "writing": writing}


def unfinished_documents(reader: StoreReader, table: str) -> list[str]:
    """The documents for which calls failed, as the rows of this table say it."""
    rows = reader.whole(table, ["doc_id", "failure"])
    return rows.filter(pc.not_equal(rows["failure"], ""))["doc_id"].to_pylist()  # type: ignore[no-any-return]


# -- calls


_Key: TypeAlias = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class _Call:
    request: WritingRequest
    messages: list[Message]
    max_tokens: int

    @property
    def key(self) -> _Key:
        """What makes two calls the same."""
        return (*(message.text for message in self.messages), self.max_tokens)


@dataclass(frozen=True, slots=True)
class _Plan:
    """The calls of a document's first attempt, and the tokens of text that any call about it may show."""

    source: WritingSource
    capacity: int
    calls: list[_Call]


@dataclass(frozen=True, slots=True)
class _Planner(Generic[Item]):
    """Lays windows over documents and puts each call into words, once."""

    task: WritingTask[Item]
    policy: Policy
    chat: ChatModel
    count_tokens: TokenCounter

    def plan(self, source: WritingSource) -> _Plan:
        """All segments, in overlapping windows."""
        if not source.segments:
            return _Plan(source, self.policy.window, [])
        everything = [segment.number for segment in source.segments]
        size = self._capacity(source)
        ranges = windows([segment.tokens for segment in source.segments], size, min(self.policy.overlap, size // 2))
        shown = [tuple(everything[a:b]) for a, b in ranges]
        return _Plan(source, size, [self.call(WritingRequest(source, numbers, numbers)) for numbers in shown])

    def call(self, request: WritingRequest) -> _Call:
        limit = max(LEAST_OUTPUT, int(SLACK * self.task.output(request)))
        return _Call(request, self.task.prompt(request), min(limit, max(LEAST_OUTPUT, self.chat.window // 2)))

    def cost(self, plans: Iterable[_Plan]) -> Estimate:
        total = Estimate()
        seen: set[_Key] = set()
        for plan in plans:
            fresh = {call.key: call for call in plan.calls if call.key not in seen}
            seen |= fresh.keys()
            due = [call for call in fresh.values() if not self._is_kept(call)]
            read = sum(self.count_tokens([message.text for call in due for message in call.messages]))
            output = sum(self.task.output(call.request) for call in due)
            total += Estimate(int(bool(due)), Usage(len(due), read, output), len(fresh) - len(due))
        return total

    def _is_kept(self, call: _Call) -> bool:
        return isinstance(self.chat, KeepsReplies) and self.chat.has(
            call.messages, max_tokens=call.max_tokens, schema=self.task.schema
        )

    def _capacity(self, source: WritingSource) -> int:
        """Tokens of text in one call, such that the prompt around them and a long answer to them fit into the model's window."""
        one = WritingRequest(source, (0,), (0,))
        shown = source.segments[0].tokens
        around = sum(self.count_tokens([message.text for message in self.task.prompt(one)])) - shown
        each = 1 + SLACK * self.task.output(one) / max(1, shown)
        room = ROOM * self.chat.window - around - LEAST_OUTPUT
        if room < LEAST_OUTPUT:
            raise UsageError(
                f"{self.chat.spec} takes {self.chat.window} tokens at once, too few to write {self.task.name}",
                "name another model, or say what this one takes: MERGEWISE_WINDOW",
            )
        return max(1, min(self.policy.window, int(room / each)))


# -- a run


class _WritingRun(Generic[Item]):
    """Calls about documents, side by side. `on_progress` gets the share of the work that is through since it was called last."""

    def __init__(
        self, planner: _Planner[Item], plans: Sequence[_Plan], on_progress: Callable[[float], None] | None
    ) -> None:
        self.planner, self.plans = planner, plans
        self.task, self.policy, self.chat = planner.task, planner.policy, planner.chat
        self._on_progress = on_progress
        self._total = sum(segment.tokens for plan in plans for segment in plan.source.segments)
        self._gate = asyncio.Semaphore(AT_ONCE)
        self._failures = 0  # one after the other
        self._down: ModelError | None = None
        self._under_way: dict[_Key, asyncio.Future[Reply]] = {}
        self._counted: dict[str, set[int]] = {}  # segments of documents that progress has counted

    async def all(self) -> list[Written[Item]]:
        """After the endpoint is taken to be down no call is begun; those on their way are waited for, and kept."""
        written = await asyncio.gather(*map(self._document, self.plans))
        if self._down is not None:
            raise ModelError(self._down.message, f"{self._down.hint}; what was answered is kept: run it again")
        return written

    async def _document(self, plan: _Plan) -> Written[Item]:
        growing: Written[Item] = Written()
        source = plan.source
        try:
            answers = self._best_answers if self.policy.again else self._all_answers
            growing.items = tuple(await answers(plan, growing))
        finally:
            self._advance(source, [segment.number for segment in source.segments])
        if growing.failure:
            log.warning("%s of %s are not complete: %s", self.task.name, source.id, growing.failure)
        return growing

    async def _all_answers(self, plan: _Plan, growing: Written[Item]) -> list[Item]:
        """Policy "rest": further attempts ask about what nothing covers, and everything that came is joined."""
        items: list[Item] = []
        calls = plan.calls
        for attempt in range(1, self.policy.attempts + 1):
            if not calls:
                break
            answers = await asyncio.gather(*(self._ask(call, growing) for call in calls))
            items = self._without_repeats([items, *answers], growing, counted=True)
            if self._is_enough(items, plan.source, growing):
                break
            reasons = tuple(sorted(kind for kind, count in growing.rejects.items() if count and kind not in _NO_REASON))
            rest = self._about_the_rest(items, plan, attempt + 1)
            calls = [self.planner.call(replace(request, rejected=reasons)) for request in rest]
        return items

    async def _best_answers(self, plan: _Plan, growing: Written[Item]) -> list[Item]:
        """Policy "again", the paper's: windows of which too little is covered are asked once more, and the best answer counts.

        Windows may each be covered as far as is asked, and the document not: then all that lack something are due.
        """
        numbers = [call.request.asked for call in plan.calls]
        best: list[list[Item]] = [[] for _ in numbers]
        items: list[Item] = []
        due = list(range(len(numbers)))
        for attempt in range(1, self.policy.attempts + 1):
            calls = [plan.calls[i] for i in due]
            if attempt > 1:
                calls = [self.planner.call(replace(call.request, attempt=attempt, again=True)) for call in calls]
            answers = await asyncio.gather(*(self._ask(call, growing) for call in calls))
            for i, answer in zip(due, answers, strict=True):
                best[i] = max(best[i], answer, key=lambda some: self._share(some, numbers[i]))
            items = self._without_repeats(best, growing)
            if not numbers or self._is_enough(items, plan.source, growing):
                break
            covered = self._covered_segments(items)
            lacking = [i for i, asked in enumerate(numbers) if not covered.issuperset(asked)]
            below = [i for i in lacking if self._share(best[i], numbers[i]) < self.policy.coverage]
            due = below or lacking
        growing.rejects["duplicate"] += sum(map(len, best)) - len(items)
        return items

    def _is_enough(self, items: Sequence[Item], source: WritingSource, growing: Written[Item]) -> bool:
        share = self._share(items, [segment.number for segment in source.segments])
        growing.coverages += (share,)
        return bool(growing.failure) or share >= self.policy.coverage

    def _share(self, items: Iterable[Item], numbers: Sequence[int]) -> float:
        """How many of these segments some item is about, as a share."""
        covered = self._covered_segments(items)
        return sum(number in covered for number in numbers) / len(numbers)

    def _covered_segments(self, items: Iterable[Item]) -> set[int]:
        return {number for item in items for number in self.task.paragraphs(item)}

    def _about_the_rest(self, items: Sequence[Item], plan: _Plan, attempt: int) -> list[WritingRequest]:
        covered = self._covered_segments(items)
        left = [segment.number for segment in plan.source.segments if segment.number not in covered]
        ranges = windows([plan.source.tokens(_with_the_one_before([n])) for n in left], plan.capacity, 0)
        return [_request(plan.source, left[a:b], attempt, again=True) for a, b in ranges]

    def _without_repeats(
        self, answers: Iterable[Sequence[Item]], growing: Written[Item], *, counted: bool = False
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

    async def _ask(self, call: _Call, growing: Written[Item]) -> list[Item]:
        """The items of the answer; where it was too long, those of its halves too."""
        request = call.request
        async with self._gate:
            if self._down is not None:
                return []
            try:
                reply = await self._reply(call)
            except InputRefused as error:
                if len(request.asked) == 1:
                    growing.failure = growing.failure or _one_line(error)
                    return []
                reply = None
            except ModelError as error:
                self._note_failure(error, growing)
                return []
            self._failures = 0
        if reply is None:
            return await self._halves(request, request.asked, growing)
        growing.usage += reply.usage
        items = self._items(reply.text, request, growing, cut=not reply.complete)
        if not reply.complete:
            covered = self._covered_segments(items)
            items += await self._halves(request, [n for n in request.asked if n not in covered], growing)
        self._advance(request.source, request.asked)
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

    async def _halves(self, request: WritingRequest, left: Sequence[int], growing: Written[Item]) -> list[Item]:
        """What is left of a window, in two calls. A segment alone is not asked about again."""
        if len(request.asked) == 1 or not left:
            return []
        half = -(-len(left) // 2)
        parts = [part for part in (left[:half], left[half:]) if part]
        requests = [_request(request.source, part, request.attempt, again=request.again) for part in parts]
        answers = await asyncio.gather(*(self._ask(self.planner.call(part), growing) for part in requests))
        return [item for answer in answers for item in answer]

    def _items(self, text: str, request: WritingRequest, growing: Written[Item], *, cut: bool) -> list[Item]:
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

    def _note_failure(self, error: ModelError, growing: Written[Item]) -> None:
        growing.failure = growing.failure or _one_line(error)
        self._failures += 1
        if self._failures >= PATIENCE:
            self._down = self._down or error

    # -- how far it is

    def _advance(self, source: WritingSource, numbers: Sequence[int]) -> None:
        """Segments count once, when the first answer about them is there, or their document is through."""
        if self._on_progress is None or not self._total:
            return
        counted = self._counted.setdefault(source.id, set())
        fresh = [number for number in numbers if number not in counted]
        counted.update(fresh)
        self._on_progress(source.tokens(fresh) / self._total)


def _one_line(error: ModelError) -> str:
    line = " ".join(error.message.split())
    return line if len(line) <= LONGEST_REASON else line[: LONGEST_REASON - 1] + "…"


def _with_the_one_before(numbers: Sequence[int]) -> list[int]:
    """A segment is shown with the one before it, in which its pronouns may have what they stand for."""
    return sorted({shown for number in numbers for shown in (max(0, number - 1), number)})


def _request(source: WritingSource, asked: Sequence[int], attempt: int, *, again: bool = False) -> WritingRequest:
    return WritingRequest(source, tuple(_with_the_one_before(asked)), tuple(asked), attempt, again)
