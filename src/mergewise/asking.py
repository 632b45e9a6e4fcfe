"""Answer a question: resolve follow-ups, search in rounds, assemble and merge the context, write the answer."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import field, replace
from time import perf_counter

from mergewise.async_api import AnswerStream, AsyncAnswerStream, as_async, as_stream
from mergewise.concurrency import check_time, deadline_in
from mergewise.defaults import AUTO_BUDGET, AUTO_PRICE, DEFAULT_BUDGET
from mergewise.designs import MODES, VIEWS, modes, strategies
from mergewise.designs.weave.quotable import evidence_in
from mergewise.errors import MergewiseError, UsageError
from mergewise.generate.citations import locations
from mergewise.generate.mode import Request, Show
from mergewise.history import standalone_question
from mergewise.log import log
from mergewise.models.record import Models
from mergewise.protocols import StoreReader
from mergewise.query import AnswerQuery, Budget, Query
from mergewise.ranges import SECONDS, Ceilings, number, short_repr
from mergewise.retrieve.hybrid import HybridReader, ReaderArguments, SearchSettings, absent_names
from mergewise.store.filters import condition_text
from mergewise.text.languages import ENGLISH, UNKNOWN, likely_language, neutral_lengths
from mergewise.text.spans import spans_of
from mergewise.tracing import span, traced_texts
from mergewise.types import Answer, Cause, Context, Location, ReplyOptions, Span, Step, Usage, Where, frozen

# A token counter that does not know a script counts its bytes. The budget grows at most by this factor.
_MAX_BUDGET_FACTOR = 6

# Questions of one batch. A larger batch is not faster, and an error fails all of it.
_BATCH_SIZE = 16


@frozen
class IndexState:
    """Everything that a question needs: one state of an index, the settings of its search, and the models."""

    store: StoreReader
    settings: SearchSettings
    models: Models
    ceilings: Ceilings | None = None

    def for_question(self) -> IndexState:
        """Return a copy with the models of one question."""
        return replace(self, models=self.models.for_question())

    def reader(self, where: Where | None, counted: Where | None = None) -> HybridReader:
        return HybridReader(*self.arguments(where, counted))

    def arguments(self, where: Where | None, counted: Where | None) -> ReaderArguments:
        """Return the arguments of `HybridReader`, without the kind of search."""
        condition = condition_text(where, self.store.metadata_kinds)
        counts = condition_text(counted, self.store.metadata_kinds)
        return self.store, self.models.embedder, VIEWS, condition, self.settings, self.models.reranker, counts


@frozen
class PreparedAnswer:
    """A question with its context, ready to be answered. Made by `Index.prepare`.

    It keeps the documents of the context's passages, but not the index. So later changes of the index do not change the answer.
    """

    question: str
    # a mode of `MODES`
    mode: str
    request: Request = field(repr=False)
    # the mode that the strategy would rather use
    preferred: str = ""

    @property
    def context(self) -> Context:
        return self.request.context

    def answer(
        self, show: Show | None = None, *, deadline: float | None = None, reply: ReplyOptions | None = None
    ) -> Answer:
        """Write the answer, as `Index.ask` does.

        Args:
            show: Callback for the pieces of the answer as they arrive.
            deadline: Time limit in seconds.
            reply: Options of the text that a chat model writes, for modes with `takes_reply_options`.

        Raises:
            UsageError: for an invalid deadline.
            DeadlineExceeded: if the deadline passes.
            ModelError: if the model fails for good, or returns an empty answer.
        """
        began = perf_counter()
        seconds = None if deadline is None else number("deadline", deadline, float, SECONDS)
        request = replace(self.request, show=show or self.request.show, reply=reply or self.request.reply)
        with deadline_in(seconds), span("mergewise.answer", {"mergewise.mode": self.mode}):
            answer = replace(modes.answer(self.mode, request), question=self.question)
        cited, calls, took = len(answer.citations), answer.usage.calls, 1000 * (perf_counter() - began)
        log.info("answered by %s: %d citations, %d calls, %.0f ms", self.mode, cited, calls, took)
        return answer.instead_of_mode(self.preferred)

    def locations(self) -> dict[Span, Location]:
        """Return the pages, lines and headings of the context's spans, as `Index.locations` does."""
        return locations(self.context, self.request.document)

    def detached(self, store: StoreReader) -> PreparedAnswer:
        """Return a copy that holds the documents of its passages instead of the store."""
        spans = spans_of(self.context)
        spans += [one.span for one in self.context.evidence or ()]
        texts = store.texts(list(dict.fromkeys(span.doc_id for span in spans)))
        return replace(self, request=replace(self.request, document=texts.get))

    aanswer = as_async(answer, waits=True)
    answer_stream = as_stream(answer, AnswerStream)
    aanswer_stream = as_stream(answer, AsyncAnswerStream)


def context(query: Query, state: IndexState) -> Context:
    """Find the context of a question. The trace shows the query that replaced a follow-up question."""
    state = state.for_question()
    reader = state.reader(query.where, query.counted)
    asked, spent = _searched_question(query, state.models)
    context = _assemble_context(asked, query, state, reader)
    return _with_question(context, query.question, spent, state)


def prepare_request(query: AnswerQuery, state: IndexState, mode: str) -> Request:
    """Find the context of a question, and return everything that the mode needs to answer it."""
    state = state.for_question()
    reader = state.reader(query.where, query.counted)
    asked, spent = _searched_question(query, state.models)
    if MODES[mode].reads_context:
        context = _assemble_context(asked, query, state, reader)
        if MODES[mode].reads_evidence and context.evidence is None:
            context = replace(context, evidence=evidence_in(context, reader))
    else:
        context = Context(asked, query.strategy, _most_tokens(asked, query.budget, state, ()), "", 0, ())
    context = _with_question(context, query.question, spent, state)
    where = condition_text(query.where, state.store.metadata_kinds)
    absent = absent_names(context, state.store, where) if MODES[mode].reads_evidence else ()
    return Request(context, state.store.document, state.models, query.max_tokens, absent=absent)


def answer_together(requests: Sequence[Request | Exception], mode: str) -> list[Answer | Exception]:
    """Answer requests in batches. A failed question gives its error."""
    answers: list[Answer | Exception] = []
    for first in range(0, len(requests), _BATCH_SIZE):
        batch = requests[first : first + _BATCH_SIZE]
        ready = [request for request in batch if not isinstance(request, Exception)]
        answered: list[Answer | Exception] = []
        try:
            answered += modes.answer_all(mode, ready)
        except MergewiseError:
            # one request failed: answer each alone to find it
            for request in ready:
                try:
                    answered.append(modes.answer(mode, request))
                except MergewiseError as error:
                    answered.append(error)
        left = iter(answered)
        answers += [request if isinstance(request, Exception) else next(left) for request in batch]
    return answers


def _searched_question(query: Query, models: Models) -> tuple[str, Usage]:
    question = query.question
    if not isinstance(question, str):
        raise UsageError(f"invalid question: {short_repr(question)}", "give a text")
    if not question.strip():
        raise UsageError("the question is empty", "ask a question")
    asked, spent = standalone_question(question, query.history, models)
    log.debug("asked %r, searching for %r", question, asked)
    return asked, spent


def _with_question(context: Context, question: str, spent: Usage, state: IndexState) -> Context:
    """Add the index state, the resolved follow-up question and its cost to the context."""
    context = replace(context, snapshot=state.store.snapshot)
    steps = () if context.question == question else (Step("follow-up", f"searched for: {context.question}"),)
    if not steps and not spent.calls:
        return context
    return replace(context, usage=context.usage + spent, trace=(*steps, *context.trace))


def _assemble_context(question: str, query: Query, state: IndexState, reader: HybridReader) -> Context:
    began = perf_counter()
    with span("mergewise.context", {"mergewise.strategy": query.strategy, **traced_texts(question=question)}) as note:
        models = state.models
        if state.ceilings is not None:
            strategies.check_within(state.ceilings, query.strategy, query.parameters)
            if query.merge_with is not None:
                strategies.check_within(state.ceilings, query.merge_with)
        budget, parameters = _most_tokens(question, query.budget, state, reader.languages(question)), query.parameters
        if query.budget == "auto":
            parameters = strategies.stopping(query.strategy, AUTO_PRICE, parameters)
        room = budget if query.merge_with is None else strategies.room_for(query.merge_with, budget)

        def assemble(question: str) -> Context:
            return strategies.assemble(query.strategy, question, reader, room, models, parameters)

        if query.rounds == 1:
            context = assemble(question)
        else:
            from mergewise.rounds import in_rounds

            context = in_rounds(question, query.rounds, assemble, models, state.store.document)
        if query.merge_with is not None:
            context = strategies.merge_context(query.merge_with, context, budget, models)
        if waiting := len(state.store.unembedded()):
            reason = f"{waiting} leaves have no vectors yet: found only by words"
            step = Step("vectors", reason, cause=Cause.MISSING)
            context = replace(context, trace=(step, *context.trace))
        held = [language for language in state.store.languages() if language != UNKNOWN]
        if held and (own := likely_language(question)) not in (UNKNOWN, *held):
            step = Step("languages", f"the question is in {own}, the documents are in {', '.join(sorted(held))}")
            context = replace(context, trace=(step, *context.trace))
        if gaps := state.store.gaps:
            context = replace(context, trace=(Step("shards", gaps, cause=Cause.MISSING), *context.trace))
        check_time()
        passages, tokens, took = len(context.passages), context.tokens, 1000 * (perf_counter() - began)
        note({"mergewise.budget": budget, "mergewise.tokens": tokens, "mergewise.passages": passages})
        log.info("context by %s: %d passages, %d of %d tokens, %.0f ms", query.strategy, passages, tokens, budget, took)
        return context


def _most_tokens(question: str, budget: Budget, state: IndexState, languages: Collection[str]) -> int:
    """Return the budget in tokens. The question shows how many tokens text of its language takes."""
    if isinstance(budget, int):
        return budget
    english = AUTO_BUDGET if budget == "auto" else DEFAULT_BUDGET
    if ENGLISH in languages or not languages:
        return english
    tokens, alike = state.models.count_tokens([question])[0], neutral_lengths([question])[0]
    return min(max(english, english * tokens // max(1, alike)), _MAX_BUDGET_FACTOR * english)
