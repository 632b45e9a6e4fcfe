"""Questions to a collection: admission, assembly and answer, as events that each API sends in its own format.

A question is a `CollectionQuery`, to a collection as a token sees it. `Questions.events` yields these events:

- `started` {id, snapshot}, after admission
- `context` {Context}, before a model writes
- `delta` {text}, any number of pieces that together are the `answer`
- `citations` {citations: [...]}
- `done` {Answer without context}

`Questions.answer` and `Questions.context` return the whole at once. All of them raise the errors of `mergewise.errors`, and
`HTTPProblem` if the server itself refuses the question.

Only the assembly of a context takes a slot. While a model writes, the question waits in its own thread and holds no slot.
Contexts are cached until the index changes. Identical questions at the same time share one assembly. Both hold for the questions
of one token, so that the time of an answer does not tell what others asked.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing, nullcontext
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from operator import attrgetter
from time import perf_counter
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import mergewise as mw
from mergewise.errors import UsageError
from mergewise.extend import comparison_fragment, in_thread, milliseconds, other_spans, span_json, stages
from mergewise.protocols import takes_options
from mergewise.server.admission import ConcurrencyLimiter
from mergewise.server.answers import AnswerForms, page_address
from mergewise.server.collection_query import CollectionQuery, QuestionEvent
from mergewise.server.logs import request_fields
from mergewise.server.problems import HTTPProblem, invalid, problem_json, problem_of, refusal
from mergewise.server.scoped import Scoped
from mergewise.server.shared_work import Shared, SharedWork
from mergewise.types import Context, Json, JsonDict, Location, ReplyOptions, Span, frozen

if TYPE_CHECKING:
    from mergewise import PreparedAnswer


class Assembly(NamedTuple):
    """An assembled context with its JSON.

    `prepared` continues to the answer. `answer` is set if no model writes it. Times are in seconds.
    """

    context: Context
    form: Json
    prepared: PreparedAnswer | None = None
    answer: Json | None = None
    queued: float = 0.0
    seconds: float = 0.0
    stages: Mapping[str, float] = MappingProxyType({})

    def note(self, clock: _Clock) -> None:
        """Add the strategy, the budget, the tokens and the milliseconds of each stage to the log line of the request."""
        context, fields = self.context, request_fields()
        fields |= {"strategy": context.strategy, "budget": context.budget, "tokens": context.tokens}
        fields |= {f"{name.removeprefix('mergewise.')}_ms": round(took, 1) for name, took in self.stages.items()}
        fields |= {name: took for name, took in clock.timings().items() if took is not None}

    @property
    def size(self) -> int:
        """Approximate size in bytes."""
        context = self.context
        texts = len(context.text) + sum(len(passage.text) for passage in context.passages)
        return 4 * texts + 2000 * (len(context.passages) + len(context.trace) + len(context.evidence or ()))


@dataclass(slots=True)
class _Clock:
    """The times of one question, for its answer."""

    began: float = field(default_factory=perf_counter)
    queued: float = 0.0
    assembled: float = 0.0
    first_token: float | None = None

    def elapsed(self) -> float:
        return perf_counter() - self.began

    def note_assembly(self, assembly: Assembly, was_done: bool) -> None:
        """Set the times of the assembly. A question that joins a running assembly waits for only a part of its queue time."""
        elapsed = self.elapsed()
        self.queued = 0.0 if was_done else min(assembly.queued, elapsed)
        self.assembled = elapsed - self.queued

    def timings(self) -> dict[str, float | None]:
        seconds = {
            "queue_ms": self.queued,
            "assemble_ms": self.assembled,
            "first_token_ms": self.first_token,
            "total_ms": self.elapsed(),
        }
        return {name: None if value is None else milliseconds(value) for name, value in seconds.items()}


@frozen
class _OpenQuestion:
    """A question with its collection's defaults, and the index with the chat model."""

    collection: Scoped
    index: mw.Index
    question: CollectionQuery

    def forms(self, locations: Mapping[Span, Location]) -> AnswerForms:
        return AnswerForms(locations, self.collection.url, self.collection)


class Questions:
    """The questions of one worker. Bound to the event loop that creates it."""

    def __init__(self, admission: ConcurrencyLimiter) -> None:
        self._admission, self.limits, self._metrics = admission, admission.limits, admission.metrics
        limits = self.limits
        self._assemblies = SharedWork[Assembly](limits.cached_contexts, limits.cached_bytes, attrgetter("size"))

    async def events(
        self, question: CollectionQuery, collection: Scoped, *, streamed: bool = True
    ) -> AsyncGenerator[QuestionEvent, None]:
        """Yield the events of a question, the first after its admission. A refusal is raised before any event.

        Unless `streamed`, the answer comes in one piece. Closing the generator cancels the work.
        """
        clock = _Clock()
        asked = await self._open(question, collection)
        _ignored_options(asked, asked.question.options.get("mode"))
        # a model may write the answer
        mode = mw.MODES.get(asked.question.options.get("mode") or "")
        has_place = asked.index.chat is not None and (mode is None or mode.needs is not mw.designs.NO_MODEL)
        with self._admission.place() if has_place else nullcontext():
            id = f"ans_{secrets.token_hex(12)}"
            shared = self._join(asked, answers=True, has_place=has_place)
            async with shared as assembling:
                yield QuestionEvent("started", {"id": id, "snapshot": asked.index.snapshot})
                assembly = await assembling
            clock.note_assembly(assembly, shared.was_done)
            ignored = _ignored_options(asked, assembly.prepared.mode if assembly.prepared else None)
            if asked.question.reply.is_json and not assembly.context.passages:
                raise HTTPProblem(404, "nothing-found", "nothing relevant was found in the documents", "ask for text")
            yield QuestionEvent("context", assembly.form)
            done = assembly.answer
            if done is None:
                async with aclosing(self._stream_answer(asked, assembly, clock, streamed)) as pieces:
                    async for piece in pieces:
                        if isinstance(piece, str):
                            yield QuestionEvent("delta", {"text": piece})
                        else:
                            done = piece
            elif done["answer"]:
                yield QuestionEvent("delta", {"text": done["answer"]})
            assert done is not None
            yield QuestionEvent("citations", {"citations": done["citations"]})
            assembly.note(clock)
            frame: JsonDict = {"timings": clock.timings(), "indexing": collection.indexing()}
            if ignored:
                frame["ignored"] = ignored
            yield QuestionEvent("done", {"id": id, **done, **frame})

    async def answer(self, question: CollectionQuery, collection: Scoped) -> JsonDict:
        """Return the whole answer, with its context."""
        bodies: dict[str, Json] = {}
        async with aclosing(self.events(question, collection, streamed=False)) as events:
            async for event in events:
                bodies[event.name] = event.data
        return {**bodies["done"], "context": bodies["context"]}

    async def context(self, question: CollectionQuery, collection: Scoped) -> JsonDict:
        """Assemble the context of a question: {id, question, context, timings, indexing}."""
        clock = _Clock()
        assembly, was_done = await self._assembly_of(question, collection)
        clock.note_assembly(assembly, was_done)
        assembly.note(clock)
        timings = clock.timings()
        del timings["first_token_ms"]
        return {
            "id": f"ctx_{secrets.token_hex(12)}",
            "question": question.question,
            "context": assembly.form,
            "timings": timings,
            "indexing": collection.indexing(),
        }

    async def compare(self, questions: Sequence[CollectionQuery], collection: Scoped) -> JsonDict:
        """Compare contexts: {question, runs, html}, each run {index, context, only, ms}.

        `only` lists the spans that no other context has. A failed run is {index, problem}, and the other runs go on. `html` is
        present if the questions include it.
        """
        runs: list[Assembly | HTTPProblem] = []
        for question in questions:
            # concurrent runs would fill the queue
            try:
                runs.append((await self._assembly_of(question, collection))[0])
            except mw.MergewiseError as error:
                runs.append(problem := problem_of(error))
                if problem.status == 429:
                    raise
        assemblies = [run for run in runs if isinstance(run, Assembly)]
        others = iter(other_spans([assembly.context for assembly in assemblies]))
        bodies: list[JsonDict] = []
        for number, run in enumerate(runs):
            if isinstance(run, HTTPProblem):
                bodies.append({"index": number, "problem": problem_json(run, "")})
                continue
            own = next(others)
            spans = dict.fromkeys(span for passage in run.context.passages for span in passage.spans)
            only = [span_json(piece) for span in spans for piece, alone in own.pieces(span) if alone]
            bodies.append({"index": number, "context": run.form, "only": only, "ms": milliseconds(run.seconds)})
        whole = {"question": questions[0].question, "runs": bodies}
        if "html" not in questions[0].include:
            return whole

        def draw() -> str:
            timed = [(collection.without_hidden_steps(one.context), one.seconds) for one in assemblies]
            return comparison_fragment(timed, document=collection.find_document, address=page_address(collection.url))

        return {**whole, "html": await in_thread(draw)}

    async def _assembly_of(self, question: CollectionQuery, collection: Scoped) -> tuple[Assembly, bool]:
        """Assemble the context of a question. Return the assembly, and True if it was cached."""
        shared = self._join(await self._open(question, collection), answers=False)
        async with shared as assembling:
            return await assembling, shared.was_done

    async def _open(self, question: CollectionQuery, collection: Scoped) -> _OpenQuestion:
        """Check the question and open its index. Raises HTTPProblem 422 for an invalid question."""
        if not question.question.strip():
            raise invalid("/question", "empty question", "send the text of a question")
        defaults = dict(collection.record.defaults)
        chat = defaults.pop("chat", None)
        question = replace(question, options={**defaults, **question.options}, chat=question.chat or chat)
        for name in ("strategy", "merge_with"):
            if spec := question.options.get(name):
                collection.check_strategy(spec, name)
        for name in ("budget", "rounds", "max_tokens"):
            value, most = question.options.get(name), getattr(self.limits, name)
            if isinstance(value, int) and value > most:
                raise invalid(f"/{name}", f"invalid {name}: {value} (this server allows up to {most})", "use less")
        index = collection.open_index(question.chat)
        if index is None:
            # the first question opens the index, which blocks
            index = await in_thread(collection.with_chat, question.chat)
        if question.snapshot is not None:
            await in_thread(collection.await_snapshot, question.snapshot)
        return _OpenQuestion(collection, index, question)

    def _join(self, asked: _OpenQuestion, *, answers: bool, has_place: bool = False) -> Shared[Assembly]:
        """Return the cached assembly, the one in progress or a new one. Raises HTTPProblem 429 if the server is busy."""
        # contexts do not depend on the options of the reply
        question = replace(asked.question, reply=ReplyOptions(), snapshot=None)
        record, token, options = asked.collection.record, asked.collection.token, asdict(question)
        options |= {"include": sorted(asked.question.include)}
        whole = [token.id, token.filter, record.name, record.created, id(asked.index), options, answers]
        same = json.dumps(whole, sort_keys=True, default=str)
        work = partial(self._assemble, asked, answers)
        shared = self._assemblies.join(
            f"{asked.index.snapshot} {same}", lambda: self._admission.enter(same, has_place).start(work)
        )
        if shared.was_done:
            self._metrics.cache_hits.inc()
        return shared

    def _assemble(self, asked: _OpenQuestion, answers: bool, queued: float) -> Assembly:
        """Assemble the context in a thread that holds a slot. If no model writes the answer, compose the answer too."""
        began, index, question = perf_counter(), asked.index, asked.question
        writes = answers and index.chat is not None
        seconds = self.limits.first_token_seconds if writes else self.limits.context_seconds
        query = question.query(asked.collection.token.filter, seconds)
        try:
            with stages() as spent:
                prepared = index.prepare(query) if answers else None
                context = index.context(query) if prepared is None else prepared.context
            locations = index.locations(context) if prepared is None else prepared.locations()
        except UsageError as error:
            # for a token with a filter, the hint may list metadata keys of hidden documents
            raise error if asked.collection.token.filter is None else UsageError(error.message) from None
        forms, answer = asked.forms(locations), None
        if prepared is not None and mw.MODES[prepared.mode].needs is mw.designs.NO_MODEL:
            answer = forms.answer(prepared.answer(deadline=seconds), question.include)
        took = perf_counter() - began
        self._metrics.assembly.labels(question.options.get("strategy", "default").partition("(")[0]).observe(took)
        return Assembly(context, forms.context(context, question.include), prepared, answer, queued, took, spent)

    async def _stream_answer(
        self, asked: _OpenQuestion, assembly: Assembly, clock: _Clock, streamed: bool
    ) -> AsyncGenerator[str | Json, None]:
        """Yield the pieces of the answer as the model writes them, then the whole answer as JSON.

        Raises TimeoutError if no piece comes in time.
        """
        pieces: asyncio.Queue[str] = asyncio.Queue()
        work = partial(self._write_answer, asked, assembly, pieces, streamed)
        task = asyncio.ensure_future(self._admission.wait(work))
        # an empty piece marks the end
        task.add_done_callback(lambda _: pieces.put_nowait(""))
        try:
            while True:
                limits, is_first = self.limits, clock.first_token is None
                most = limits.first_token_seconds if is_first else limits.answer_seconds
                async with asyncio.timeout(max(0.0, most - clock.elapsed())):
                    piece = await pieces.get()
                if is_first:
                    clock.first_token = clock.elapsed()
                    self._metrics.first_token.observe(clock.first_token)
                # all waiting pieces as one
                while piece and not pieces.empty():
                    more = pieces.get_nowait()
                    if not more:
                        pieces.put_nowait(more)
                        break
                    piece += more
                if not piece:
                    break
                yield piece
            yield task.result()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def _write_answer(
        self, asked: _OpenQuestion, assembly: Assembly, pieces: asyncio.Queue[str], streamed: bool
    ) -> JsonDict:
        """Write the answer in a thread of its own. The answer's text is always the text that was streamed."""
        prepared = assembly.prepared
        assert prepared is not None
        shown: list[str] = []

        def add(piece: str) -> None:
            if piece:
                shown.append(piece)
                self._admission.loop.call_soon_threadsafe(pieces.put_nowait, piece)

        reply = asked.question.reply
        answer = prepared.answer(add if streamed else None, deadline=self.limits.answer_seconds, reply=reply)
        streamed_text = "".join(shown)
        if answer.text.startswith(streamed_text):
            add(answer.text[len(streamed_text) :])
        else:
            # a mode chose another final text than the one that the model wrote, but streamed text cannot be taken back
            answer = replace(answer, text=streamed_text)
        usage = answer.usage.paid
        self._metrics.tokens.labels("input").inc(usage.input_tokens)
        self._metrics.tokens.labels("output").inc(usage.output_tokens)
        return asked.forms(prepared.locations()).answer(answer, asked.question.include)


def _ignored_options(asked: _OpenQuestion, mode: str | None) -> list[str]:
    """List the options of the reply that have no effect in this mode, which may be unknown, with this chat model.

    Raises HTTPProblem 400 if the format of the answer is among them.
    """
    reply, chat = asked.question.reply, asked.index.chat
    known = mw.MODES.get(mode or "")
    writes = chat is not None and (known is None or known.takes_reply_options)
    ignored = [] if writes and chat is not None and takes_options(chat) else [*reply.sampling]
    if "response_format" in ignored:
        detail = "unsupported response_format: no chat model with a JSON mode answers here"
        raise refusal(detail, "response_format", "ask for text, or name another model")
    unread = {"instructions": reply.instructions, "message beside the question": reply.message}
    return ignored if writes else [*ignored, *(name for name, text in unread.items() if text)]
