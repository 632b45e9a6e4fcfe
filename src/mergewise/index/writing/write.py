"""Writing about documents by a chat model, with concurrent calls for windows of text. Each answer is cached when it arrives.

- Windows of a document are sized so that prompt and answer fit into the model's context window. Segment numbers are those of the
  document in every window.
- If an answer is cut off at its token limit, its complete records count, and two further calls ask about the halves of the
  uncovered segments. The same happens with a window that the endpoint rejects as too long.
- The adapter retries a call (`models.endpoint`), with growing random pauses or the pause of Retry-After. A permanent failure ends
  only its document, which keeps its items and is marked incomplete. After `PATIENCE` failures in a row, the run ends.
- The model's cache keeps every answer under a hash of model, parameters and prompt. So no call is repeated, even after a kill.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Generic, NamedTuple, TypeAlias

import pyarrow.compute as pc

from mergewise.concurrency import run
from mergewise.errors import InputRefused, ModelError, UsageError
from mergewise.index.windows import windows
from mergewise.index.writing.calls import cost_of_calls
from mergewise.index.writing.task import Item, Policy, Rejected, WritingRequest, WritingSource, WritingTask, Written
from mergewise.log import log
from mergewise.models.record import Models, chat_of
from mergewise.prompting.records import records_in
from mergewise.protocols import StoreReader
from mergewise.store.tables import Table
from mergewise.store.views import Estimate, OnShare, ViewRows, Writing
from mergewise.types import DocumentRows, JsonDict, Message

AT_ONCE = 8
"""Number of concurrent calls. The adapter of an endpoint may allow fewer."""
PATIENCE = 3
"""Number of permanent failures in a row after which the run ends."""
ROOM = 0.85
"""Usable share of the model's window, because our counter differs from the model's tokenizer."""
LEAST_OUTPUT = 512
"""Minimum token limit of an answer."""
SLACK = 3.0
"""Token limit of an answer as a multiple of its expected size."""

_NO_REASON = ("duplicate", "cut off")
LONGEST_REASON = 300
"""Maximum characters of a stored failure."""


def write(
    sources: Sequence[WritingSource],
    task: WritingTask[Item],
    policy: Policy,
    models: Models,
    on_share: OnShare | None = None,
) -> list[Written[Item]]:
    """Let the chat model write about each document. The expected cost is logged first.

    Raises:
        ModelError: if the endpoint is down. Earlier answers are in the model's cache.
    """
    writing = _WritingRun(sources, task, policy, models, on_share)
    cost = writing.cost()
    if cost.usage.calls:
        cached = f" ({cost.kept} more are cached)" if cost.kept else ""
        log.warning(
            "%s",
            f"{task.name} of {cost.documents} documents by {writing.chat.spec}: {cost.usage.calls} calls{cached}, about "
            f"{cost.usage.input_tokens} input tokens and {cost.usage.output_tokens} output tokens",
        )
    return run(writing.all())


def estimate(sources: Sequence[WritingSource], task: WritingTask[Item], policy: Policy, models: Models) -> Estimate:
    """Estimate the cost of all first attempts. Further attempts are not included."""
    return _WritingRun(sources, task, policy, models).cost()


def written_by_chat(
    setting: str,
    value: str,
    build: Callable[[Sequence[DocumentRows], Any, Models, OnShare], Sequence[ViewRows]],
    estimate: Callable[[Sequence[DocumentRows], Any, Models], Estimate],
    table: Table | None = None,
) -> JsonDict:
    """Return the fields of a `View` whose rows a chat model writes if a setting has a value.

    The rows of `table` tell which documents are incomplete.
    """

    def unfinished(reader: StoreReader) -> list[str]:
        if table is None:
            return []
        rows = reader.whole(table.name, ["doc_id", "failure"])
        return rows.filter(pc.not_equal(rows["failure"], ""))["doc_id"].to_pylist()  # type: ignore[no-any-return]

    writing = Writing(lambda settings: bool(getattr(settings, setting) == value), build, estimate, unfinished)
    return {"build": build, "with_chat": {setting: value}, "writing": writing}


# -- calls


_Key: TypeAlias = tuple[str | int, ...]


class _ChatCall(NamedTuple):
    request: WritingRequest
    messages: list[Message]
    max_tokens: int

    @property
    def key(self) -> _Key:
        """The identity of a call: its messages and token limit."""
        return (*(message.text for message in self.messages), self.max_tokens)


class _Plan(NamedTuple):
    """The calls of a document's first attempt, and the maximum tokens of text in a call about it."""

    source: WritingSource
    capacity: int
    calls: list[_ChatCall]


# -- a run


class _WritingRun(Generic[Item]):
    """A run of concurrent calls about documents. `on_progress` gets the share of the work done since its last call."""

    def __init__(
        self,
        sources: Sequence[WritingSource],
        task: WritingTask[Item],
        policy: Policy,
        models: Models,
        on_progress: OnShare | None = None,
    ) -> None:
        self.task, self.policy, self.chat = task, policy, chat_of(models, task.name)
        self._count_tokens, self._on_progress = models.count_tokens, on_progress
        self.plans = [self._plan(source) for source in sources]
        self._total = sum(segment.tokens for source in sources for segment in source.segments)
        self._gate = asyncio.Semaphore(AT_ONCE)
        # permanent failures in a row
        self._failures = 0
        self._down: ModelError | None = None
        # segments that progress has counted, by document
        self._counted: dict[str, set[int]] = {}

    # -- windows and calls

    def _plan(self, source: WritingSource) -> _Plan:
        """Plan calls for all segments, in overlapping windows."""
        if not source.segments:
            return _Plan(source, self.policy.window, [])
        everything = [segment.number for segment in source.segments]
        size = self._capacity(source)
        ranges = windows([segment.tokens for segment in source.segments], size, min(self.policy.overlap, size // 2))
        shown = [tuple(everything[a:b]) for a, b in ranges]
        return _Plan(source, size, [self._call(WritingRequest(source, numbers, numbers)) for numbers in shown])

    def _call(self, request: WritingRequest) -> _ChatCall:
        limit = max(LEAST_OUTPUT, int(SLACK * self.task.output(request)))
        return _ChatCall(request, self.task.prompt(request), min(limit, max(LEAST_OUTPUT, self.chat.window // 2)))

    def cost(self) -> Estimate:
        """Return the cost of all first attempts."""
        total = Estimate()
        seen: set[_Key] = set()
        for plan in self.plans:
            fresh = {call.key: call for call in plan.calls if call.key not in seen}
            seen |= fresh.keys()
            calls = [(call.messages, call.max_tokens, self.task.output(call.request)) for call in fresh.values()]
            total += cost_of_calls(calls, self.chat, self._count_tokens, schema=self.task.schema).of_documents(1)
        return total

    def _capacity(self, source: WritingSource) -> int:
        """Return the maximum tokens of text in one call, so that the prompt and a long answer fit into the model's window."""
        one = WritingRequest(source, (0,), (0,))
        shown = source.segments[0].tokens
        around = sum(self._count_tokens([message.text for message in self.task.prompt(one)])) - shown
        each = 1 + SLACK * self.task.output(one) / max(1, shown)
        room = ROOM * self.chat.window - around - LEAST_OUTPUT
        if room < LEAST_OUTPUT:
            raise UsageError(
                f"window of {self.chat.spec} too small to write {self.task.name}: {self.chat.window} tokens",
                "name another model, or set the window of this one: MERGEWISE_WINDOW",
            )
        return max(1, min(self.policy.window, int(room / each)))

    # -- answers

    async def all(self) -> list[Written[Item]]:
        """Write about all documents. If the endpoint is down, no further call begins, and running calls are awaited."""
        written = await asyncio.gather(*map(self._document, self.plans))
        if self._down is not None:
            raise ModelError(self._down.message, f"{self._down.hint}; run it again: finished answers are cached")
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
            log.warning("incomplete %s of %s: %s", self.task.name, source.id, growing.failure)
        return growing

    async def _all_answers(self, plan: _Plan, growing: Written[Item]) -> list[Item]:
        """Ask by the policy "rest": further attempts ask about uncovered segments, and all items are joined."""
        items: list[Item] = []
        calls = plan.calls
        for attempt in range(1, self.policy.attempts + 1):
            if not calls:
                break
            answers = await asyncio.gather(*(self._ask(call, growing) for call in calls))
            items = self._deduplicate([items, *answers], growing, counted=True)
            if self._is_enough(items, plan.source, growing):
                break
            reasons = tuple(sorted(kind for kind, count in growing.rejects.items() if count and kind not in _NO_REASON))
            covered, source = self._covered_segments(items), plan.source
            left = [segment.number for segment in source.segments if segment.number not in covered]
            ranges = windows([source.tokens(_with_previous([n])) for n in left], plan.capacity, 0)
            rest = (_request(source, left[a:b], attempt + 1, again=True) for a, b in ranges)
            calls = [self._call(replace(request, rejected=reasons)) for request in rest]
        return items

    async def _best_answers(self, plan: _Plan, growing: Written[Item]) -> list[Item]:
        """Ask by the paper's policy "again": repeat the calls for windows with too little coverage, and take the best answers.

        If each window has enough coverage but the document does not, the calls of all incomplete windows are repeated.
        """
        numbers = [call.request.asked for call in plan.calls]
        best: list[list[Item]] = [[] for _ in numbers]
        items: list[Item] = []
        due = list(range(len(numbers)))
        for attempt in range(1, self.policy.attempts + 1):
            calls = [plan.calls[i] for i in due]
            if attempt > 1:
                calls = [self._call(replace(call.request, attempt=attempt, again=True)) for call in calls]
            answers = await asyncio.gather(*(self._ask(call, growing) for call in calls))
            for i, answer in zip(due, answers, strict=True):
                best[i] = max(best[i], answer, key=lambda some: self._share(some, numbers[i]))
            items = self._deduplicate(best, growing)
            if not numbers or self._is_enough(items, plan.source, growing):
                break
            covered = self._covered_segments(items)
            incomplete = [i for i, asked in enumerate(numbers) if not covered.issuperset(asked)]
            below = [i for i in incomplete if self._share(best[i], numbers[i]) < self.policy.coverage]
            due = below or incomplete
        growing.rejects["duplicate"] += sum(map(len, best)) - len(items)
        return items

    def _is_enough(self, items: Sequence[Item], source: WritingSource, growing: Written[Item]) -> bool:
        share = self._share(items, [segment.number for segment in source.segments])
        growing.coverages += (share,)
        return bool(growing.failure) or share >= self.policy.coverage

    def _share(self, items: Iterable[Item], numbers: Sequence[int]) -> float:
        """Return the share of segments that items are about."""
        covered = self._covered_segments(items)
        return sum(number in covered for number in numbers) / len(numbers)

    def _covered_segments(self, items: Iterable[Item]) -> set[int]:
        return {number for item in items for number in self.task.paragraphs(item)}

    def _deduplicate(
        self, answers: Iterable[Sequence[Item]], growing: Written[Item], *, counted: bool = False
    ) -> list[Item]:
        """Return all items without repeated ones."""
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

    async def _ask(self, call: _ChatCall, growing: Written[Item]) -> list[Item]:
        """Return the items of a call's answer. If it was too long, also ask the halves."""
        request = call.request
        async with self._gate:
            if self._down is not None:
                return []
            try:
                reply = await self.chat.complete(call.messages, max_tokens=call.max_tokens, schema=self.task.schema)
            except InputRefused as error:
                if len(request.asked) == 1:
                    growing.failure = growing.failure or _one_line(error)
                    return []
                reply = None
            except ModelError as error:
                growing.failure = growing.failure or _one_line(error)
                self._failures += 1
                if self._failures >= PATIENCE:
                    self._down = self._down or error
                return []
            self._failures = 0
        if reply is None:
            return await self._ask_halves(request, request.asked, growing)
        growing.usage += reply.usage
        items = self._items(reply.text, request, growing, cut=not reply.complete)
        if not reply.complete:
            covered = self._covered_segments(items)
            items += await self._ask_halves(request, [n for n in request.asked if n not in covered], growing)
        self._advance(request.source, request.asked)
        return items

    async def _ask_halves(self, request: WritingRequest, left: Sequence[int], growing: Written[Item]) -> list[Item]:
        """Ask about the rest of a window in two calls. A single segment is not asked again."""
        if len(request.asked) == 1 or not left:
            return []
        half = -(-len(left) // 2)
        parts = [part for part in (left[:half], left[half:]) if part]
        requests = [_request(request.source, part, request.attempt, again=request.again) for part in parts]
        answers = await asyncio.gather(*(self._ask(self._call(part), growing) for part in requests))
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

    # -- progress

    def _advance(self, source: WritingSource, numbers: Sequence[int]) -> None:
        """Count segments once, with their first answer or the end of their document."""
        if self._on_progress is None or not self._total:
            return
        counted = self._counted.setdefault(source.id, set())
        fresh = [number for number in numbers if number not in counted]
        counted.update(fresh)
        self._on_progress(source.tokens(fresh) / self._total)


def _one_line(error: ModelError) -> str:
    line = " ".join(error.message.split())
    return line if len(line) <= LONGEST_REASON else line[: LONGEST_REASON - 1] + "…"


def _with_previous(numbers: Sequence[int]) -> list[int]:
    """Add the segment before each, to which its pronouns may refer."""
    return sorted({shown for number in numbers for shown in (max(0, number - 1), number)})


def _request(source: WritingSource, asked: Sequence[int], attempt: int, *, again: bool = False) -> WritingRequest:
    return WritingRequest(source, tuple(_with_previous(asked)), tuple(asked), attempt, again)
