"""From a question to its context and its answer: follow-ups resolved, searched in rounds, assembled, merged, answered."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Literal, TypeAlias

from mergewise.defaults import AUTO_BUDGET, AUTO_STOP
from mergewise.designs import MODES, VIEWS, modes, strategies
from mergewise.designs.weave.strategy import evidence_in
from mergewise.errors import MergewiseError, UsageError
from mergewise.generate.mode import Request, Show
from mergewise.history import Turn, standing_alone
from mergewise.models.record import Models
from mergewise.protocols import StoreReader
from mergewise.ranges import BUDGET, OUTPUT, ROUNDS, shown, text, text_or_none, whole
from mergewise.retrieve.hybrid import HybridReader, SearchSettings
from mergewise.rounds import in_rounds
from mergewise.types import Answer, Context, Step, Usage

log = logging.getLogger("mergewise")

Budget: TypeAlias = int | Literal["auto"]
"""Most tokens that a context may hold; "auto" lets weave decide."""

_TOGETHER = 16  # questions that a mode answers in one go: more make a batch no faster, and an error costs them all


@dataclass(frozen=True, slots=True)
class Search:
    """How a context is to be found: the arguments of `Index.context`. Raises UsageError for what cannot be."""

    strategy: str
    budget: Budget
    where: str | None
    parameters: Mapping[str, object] | None
    rounds: int
    then: str | None
    history: Sequence[Turn] = ()

    def __post_init__(self) -> None:
        text("the strategy is", self.strategy)
        text_or_none("the condition is", self.where)
        text_or_none("the strategy that merges is", self.then)
        if not (isinstance(self.budget, str) and self.budget == "auto"):
            object.__setattr__(self, "budget", whole("the budget is", self.budget, BUDGET))
        object.__setattr__(self, "rounds", whole("the number of rounds is", self.rounds, ROUNDS))


@dataclass(frozen=True, slots=True)
class IndexState:
    """What a question is answered from: one state of an index, how it is searched, and the models at hand."""

    store: StoreReader
    settings: SearchSettings
    models: Models

    def for_question(self) -> IndexState:
        """The same with the models of one question."""
        return replace(self, models=self.models.for_question())

    def reader(self, where: str | None) -> HybridReader:
        return HybridReader(self.store, self.models.embedder, VIEWS, where, self.settings, self.models.reranker)


def context(question: str, search: Search, state: IndexState) -> Context:
    """The context of a question. What was searched for instead of a follow-up question stands in its trace."""
    state = state.for_question()
    asked, spent = _standing_alone(question, search, state.models)
    return _after(_assembled(asked, search, state, state.reader(search.where)), question, spent)


def answer(
    question: str, search: Search, state: IndexState, mode: str, max_tokens: int, show: Show | None = None
) -> Answer:
    """The answer in a mode of `MODES`."""
    began = perf_counter()
    request = prepared(question, search, state, mode, max_tokens, show)
    given = replace(modes.answer(mode, request), question=question)
    cited, calls, took = len(given.citations), given.usage.calls, _ms_since(began)
    log.info("answered by %s: %d citations, %d calls, %.0f ms", mode, cited, calls, took)
    return given


def prepared(
    question: str, search: Search, state: IndexState, mode: str, max_tokens: int, show: Show | None = None
) -> Request:
    """All that the mode needs to answer the question: its context is found, nothing is written yet."""
    max_tokens = whole("the most tokens of an answer are", max_tokens, OUTPUT)
    state = state.for_question()
    asked, spent = _standing_alone(question, search, state.models)
    if MODES[mode].reads_context:
        reader = state.reader(search.where)
        found = _assembled(asked, search, state, reader)
        if MODES[mode].reads_evidence and found.evidence is None:
            found = replace(found, evidence=evidence_in(found, reader))
    else:
        found = Context(asked, search.strategy, AUTO_BUDGET if search.budget == "auto" else search.budget, "", 0, ())
    return Request(_after(found, question, spent), state.store.document, state.models, max_tokens, show)


def answer_together(requests: Sequence[Request | Exception], mode: str) -> list[Answer | Exception]:
    """The answers of questions that are prepared, many at once; where a question fails, its error."""
    made: list[Answer | Exception] = []
    for first in range(0, len(requests), _TOGETHER):
        made += _together(requests[first : first + _TOGETHER], mode)
    return made


def _together(requests: Sequence[Request | Exception], mode: str) -> list[Answer | Exception]:
    asked = [request for request in requests if not isinstance(request, Exception)]
    given: list[Answer | Exception] = []
    try:
        given += modes.answer_all(mode, asked)
    except MergewiseError:  # one of them is to blame: each tells for itself
        given = [_answer_or_error(mode, request) for request in asked]
    answers = iter(given)
    return [request if isinstance(request, Exception) else next(answers) for request in requests]


def _answer_or_error(mode: str, request: Request) -> Answer | Exception:
    try:
        return modes.answer(mode, request)
    except MergewiseError as error:
        return error


def _standing_alone(question: str, search: Search, models: Models) -> tuple[str, Usage]:
    if not isinstance(question, str):
        raise UsageError(f"the question is {shown(question)}", "give a text")
    if not question.strip():
        raise UsageError("the question is empty", "ask something")
    asked, spent = standing_alone(question, search.history, models)
    log.debug("asked %r, searching for %r", question, asked)
    return asked, spent


def _after(context: Context, question: str, spent: Usage) -> Context:
    """The context with what became of a follow-up question, and what this cost."""
    told = () if context.question == question else (Step("follow-up", f"searched for: {context.question}"),)
    return (
        replace(context, usage=context.usage + spent, trace=(*told, *context.trace)) if told or spent.calls else context
    )


def _assembled(question: str, search: Search, state: IndexState, reader: HybridReader) -> Context:
    began = perf_counter()
    models = state.models
    budget, parameters = search.budget, search.parameters
    if budget == "auto":
        budget, parameters = AUTO_BUDGET, strategies.stopping(search.strategy, AUTO_STOP, parameters)
    room = budget if search.then is None else strategies.room_for(search.then, budget)

    def assemble(question: str) -> Context:
        return strategies.assemble(search.strategy, question, reader, room, models, parameters)

    found = in_rounds(question, search.rounds, assemble, models, state.store.document)
    if search.then is not None:
        found = strategies.merge_context(search.then, found, budget, models)
    held, took = len(found.passages), _ms_since(began)
    log.info("context by %s: %d passages, %d of %d tokens, %.0f ms", search.strategy, held, found.tokens, budget, took)
    return found


def _ms_since(began: float) -> float:
    return 1000 * (perf_counter() - began)
