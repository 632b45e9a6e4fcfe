"""The evaluator: runs methods on one question set, and judges, times and stores each context and answer.

Questions are processed in blocks of `together`:

1. Contexts are found one after another, by searches that all methods share.
2. A mode that decodes batches answers a block in one batch. Any other mode answers its questions concurrently.

The seconds of a batch are divided evenly among its answers. For the latency of a single question use `together=1`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from hashlib import blake2b
from time import perf_counter
from typing import Any

from mergewise import MODES, AnswerQuery, Index, Models, Progress, Query
from mergewise.errors import MissingExtra, UsageError
from mergewise.evaluate.answers import prediction_of, score_answer
from mergewise.evaluate.citing import score_citations
from mergewise.evaluate.judged import PROBES, ContextJudge
from mergewise.evaluate.methods import Method, mode_of, stored_settings, unmet_needs
from mergewise.evaluate.question_sets import Question, QuestionSet
from mergewise.evaluate.ranking import ranked_documents
from mergewise.evaluate.runs.digests import digest, question_digest
from mergewise.evaluate.runs.row_store import RowStore
from mergewise.evaluate.runs.run_row import RankedDocument, RowKey, RunRow, passages_of
from mergewise.evaluate.searches import SearchMemory, SharedState, shared_state
from mergewise.extend import (
    MAX_TOKENS,
    STRATEGY,
    CachedChat,
    Decoded,
    IndexSource,
    Request,
    answer_together,
    context,
    each,
    modes,
    preferred_mode,
    prepare_request,
    resolve,
    search_settings,
)
from mergewise.protocols import ChatModel, Reranker
from mergewise.types import Answer, Context, Json, frozen


@frozen
class Asking:
    """Options of answering. A `temperature` of None keeps the model's default."""

    max_tokens: int = MAX_TOKENS
    together: int = 1
    temperature: float | None = None


@dataclass(slots=True)
class MethodRows:
    """The known rows of one method at one budget, and the errors of failed questions. `mode` is None for contexts only."""

    task: QuestionSet
    method: Method
    budget: int
    repeat: int
    mode: str | None
    spec: str
    store: RowStore
    failures: dict[str, Exception] = field(default_factory=dict)

    def key(self, question: Question) -> RowKey:
        asked = question_digest(question, with_gold=self.mode is None)
        return RowKey(self.task.name, question.id, asked, self.method.name, self.spec, self.budget, self.repeat)

    def missing(self, questions: Sequence[Question]) -> list[Question]:
        return [question for question in questions if self.key(question) not in self.store]

    def rows(self, questions: Sequence[Question]) -> list[RunRow]:
        """Return the known rows of these questions, including failed ones."""
        return [self.store.known[key] for key in map(self.key, questions) if key in self.store.known]

    def score_again(self, questions: Sequence[Question]) -> None:
        """Score the known answers against the current gold."""
        known = [(question, self.store.known.get(self.key(question))) for question in questions]
        scored = [(row, _scores(row, question)) for question, row in known if row and row.prediction is not None]
        self.store.add([replace(row, scores=scores) for row, scores in scored if scores != row.scores])


def _scores(row: RunRow, question: Question) -> Mapping[str, float | None]:
    """Return the row's context scores, and its answer scores against the current gold."""
    scores: Mapping[str, float | None] = asdict(score_answer(row.prediction or "", question.answers))
    return {**row.scores, **(scores if question.has_answers else dict.fromkeys(scores))}


@dataclass(eq=False)
class Evaluator:
    """An evaluation of methods on one index and its questions. Without `asking` only contexts are judged.

    The index's reranker and the `utility` predictor are the judges of methods (`methods.Judge`). `backgrounds` caches the
    passages that the causal model writes from memory, so that all methods share them. The seconds of later methods then exclude
    the writing.
    """

    index: Index
    task: QuestionSet
    asking: Asking | None = None
    store: RowStore = field(default_factory=RowStore)
    backgrounds: MutableMapping[str, Decoded] | None = None
    utility: Reranker | None = None
    _searches: SearchMemory = field(default_factory=SearchMemory, init=False)

    @cached_property
    def documents(self) -> str:
        """The digest of the index's documents."""
        return documents_digest(self.index)

    @cached_property
    def _judge(self) -> ContextJudge:
        return ContextJudge(self.index, self.task.questions)

    def unmet_needs(self, method: Method) -> str:
        """Describe what the method needs and lacks here. Return an empty text if it can run."""
        models = self._models(method, self.index.models)
        if self.asking is not None and method.mode not in (None, *MODES):
            # raises the error for an unknown mode
            modes.mode_for(method.mode, models)
        try:
            views = {name: state.settings for name, state in self.index.manifest.views.items()}
            return unmet_needs(method, views, models, self.asking is not None)
        except MissingExtra as error:
            return f"needs {error}"

    def judge_of(self, method: Method) -> str:
        """Return the spec of the reranker or predictor that judges for the method, or an empty text without one."""
        reranker = self._models(method, self.index.models).reranker
        return "" if reranker is None else reranker.spec

    def method_rows(self, method: Method, budget: int, repeat: int = 0) -> MethodRows:
        """Return the known rows of a method. Raises UsageError if the method is invalid, or lacks a model or a view."""
        if needs := self.unmet_needs(method):
            raise UsageError(f"{method.name} {needs}", "leave the method out, or provide the missing parts")
        mode = None
        if self.asking is not None and not method.probe:
            preferred = preferred_mode(method.strategy) if method.mode is None else ""
            mode = modes.mode_for(mode_of(method, self.index.models), self.index.models, preferred)
        return MethodRows(self.task, method, budget, repeat, mode, digest(self.settings(method, mode)), self.store)

    def complete(
        self, asked: Sequence[MethodRows], questions: Sequence[Question], progress: Progress | None = None
    ) -> None:
        """Compute the missing rows. A failed question has its error in `failures`, and the next call asks it again.

        In blocks of several questions, methods of the same mode share batches.
        """
        for one in asked:
            one.score_again(questions)
        missing = {id(one): {question.id for question in one.missing(questions)} for one in asked}
        done, total = len(questions) * len(asked) - sum(map(len, missing.values())), len(questions) * len(asked)
        size = 1 if self.asking is None else self.asking.together
        if done < total:
            # load the models with a first question, so that no method's time includes the loading
            self.index.context(questions[0].text, strategy=STRATEGY, budget=1)
        groups: dict[object, list[MethodRows]] = {}
        for one in asked:
            groups.setdefault(id(one) if size == 1 else one.mode, []).append(one)
        for first in range(0, len(questions), size):
            block = questions[first : first + size]
            state = shared_state(self.index.state(), self._searches)
            unwritten: list[RunRow] = []
            for group in groups.values():
                batch = [(one, question) for question in block for one in group if question.id in missing[id(one)]]
                if not batch:
                    continue
                rows = self._context_rows(batch, state) if group[0].mode is None else self._answer_rows(batch, state)
                unwritten += rows
                if any(row.calls for row in rows):
                    # store paid answers before the next paid call
                    self.store.add(unwritten)
                    unwritten = []
                done += len(batch)
                if progress is not None:
                    progress(done, total, f"{self.task.name} {batch[-1][0].method.name} {batch[-1][0].budget}")
            self.store.add(unwritten)
            self._searches.forget()

    def _context_rows(self, batch: Sequence[tuple[MethodRows, Question]], state: SharedState) -> list[RunRow]:
        rows = []
        for one, question in batch:
            own = self._state(one, state)
            seconds = _timer(self._searches)
            try:
                found = context(Query(question.text, **_options(one, question)), own)
                scores = PROBES[one.method.probe](question, own) if one.method.probe else {}
            except Exception as error:
                rows.append(_failed_row(one, question, error))
            else:
                row = self._row(one, question, found, seconds())
                rows.append(replace(row, scores={**row.scores, **scores}))
        return rows

    def _answer_rows(self, batch: Sequence[tuple[MethodRows, Question]], state: SharedState) -> list[RunRow]:
        """Answer a batch of questions, by methods of the same mode."""
        mode = batch[0][0].mode
        assert mode is not None
        requests, spent = [], []
        for one, question in batch:
            own = self._state(one, state)
            seconds = _timer(self._searches)
            requests.append(self._request(one, question, own))
            spent.append(seconds())
        ready = perf_counter()
        answers: Sequence[Answer | Exception]
        if MODES[mode].answer_all is not None:
            answers = answer_together(requests, mode)
        else:
            valid = [request for request in requests if not isinstance(request, Exception)]
            found = iter(each(partial(modes.answer, mode), valid, 1 if self.asking is None else self.asking.together))
            answers = [request if isinstance(request, Exception) else next(found) for request in requests]
        share = (perf_counter() - ready) / len(batch)
        rows = []
        for (one, question), answer, took in zip(batch, answers, spent, strict=True):
            if isinstance(answer, Exception):
                rows.append(_failed_row(one, question, answer))
                continue
            row = self._row(one, question, answer.context, took)
            # an answer from the cache takes no time
            is_cached = answer.usage.cached_calls > answer.context.usage.cached_calls
            row = replace(
                row,
                mode=mode,
                prediction=prediction_of(answer),
                refused=not answer.found,
                sure=answer.found and answer.sure,
                weights={} if answer.streams is None else dict(answer.streams.weights),
                calls=answer.usage.calls,
                input_tokens=answer.usage.input_tokens,
                output_tokens=answer.usage.output_tokens,
                together=len(batch),
                answer_seconds=None if is_cached else round(share, 6),
            )
            scores = {**_scores(row, question), **score_citations(answer.citations, question)}
            if self.index.chat is not None:
                paid = answer.usage.paid
                scores |= {f"paid_{name}": getattr(paid, name) for name in ("calls", "input_tokens", "output_tokens")}
            rows.append(replace(row, scores=scores))
        return rows

    def _row(self, one: MethodRows, question: Question, found: Context, seconds: tuple[float, float]) -> RunRow:
        one.failures.pop(question.id, None)
        judged = self._judge.judge(question, found)
        return RunRow(
            **one.key(question)._asdict(),
            tokens=found.tokens,
            passages=passages_of(found),
            ranking=tuple(RankedDocument(*one) for one in ranked_documents(found)),
            found=judged.found,
            lost=judged.lost,
            calls=found.usage.calls,
            input_tokens=found.usage.input_tokens,
            output_tokens=found.usage.output_tokens,
            search_seconds=round(seconds[0], 6),
            assembly_seconds=None if found.usage.cached_calls else round(seconds[1], 6),
            scores=judged.scores,
            judge=self.judge_of(one.method),
        )

    def _request(self, one: MethodRows, question: Question, state: SharedState) -> Request | Exception:
        assert one.mode is not None and self.asking is not None
        try:
            query = AnswerQuery(question.text, max_tokens=self.asking.max_tokens, **_options(one, question))
            return replace(prepare_request(query, state, one.mode), backgrounds=self.backgrounds)
        except Exception as error:
            return error

    def _state(self, one: MethodRows, state: SharedState) -> SharedState:
        """Return the state with the method's models and search settings."""
        settings = search_settings(one.method.search, standing=state.settings)
        return replace(state, models=self._models(one.method, state.models, one.repeat), settings=settings)

    def _models(self, method: Method, models: Models, repeat: int = 0) -> Models:
        """Return the method's models, with its judge as the reranker."""
        asking = self.asking
        models = replace(method.with_judge(models, self.utility), weights=method.weights or models.weights)
        if asking is not None and (repeat or asking.temperature is not None):
            chat = models.chat
            # a model that cannot sample stays unchanged
            if (model := sampling_model(chat)) is not None:
                sampled: ChatModel = model.drawing(asking.temperature, repeat)
                cached = CachedChat(sampled, chat.directory) if isinstance(chat, CachedChat) else sampled
                models = replace(models, chat=cached)
        return models

    def settings(self, method: Method, mode: str | None) -> Json:
        """Return everything that a row depends on except its question, budget and repeat."""
        models = self._models(method, self.index.models)
        chat = models.chat
        judges = {"causal": models.causal, "reranker": models.reranker, "scorer": models.scorer}
        strategy, parameters = resolve(method.strategy)
        manifest = self.index.manifest
        # a parameter named after a view, such as `triplets`, switches that view on
        views = [*strategy.views, *method.views]
        views += [view for view in manifest.views if getattr(parameters, f"{view}s", False)]
        # an estimate reads other rows than the method
        asked = stored_settings(replace(method, is_written=True).view_settings())
        own = {view: {k: v for k, v in one.items() if k != "prompt"} for view, one in asked.items()}
        second: Any = models.second_source
        if second is not None:
            # a function has an own value in each process
            second = documents_digest(second.index) if isinstance(second, IndexSource) else repr(second)
        return {
            "set": self.task.name,
            "strategy": method.strategy,
            **({"probe": method.probe} if method.probe else {}),
            "parameters": asdict(parameters),
            "mode": mode,
            "max_tokens": None if mode is None or self.asking is None else self.asking.max_tokens,
            "chat": None if chat is None else chat.identity,
            **{role: None if model is None else model.spec for role, model in judges.items()},
            "judge": models.utilities.spec,
            "search": asdict(search_settings(method.search, standing=self.index.search_settings)),
            **({"weights": dict(models.weights)} if models.weights else {}),
            **({"prompts": prompts} if (prompts := models.prompts.digests()) else {}),
            "embedder": manifest.embedder,
            "views": {
                name: {**state.settings, **own.get(name, {})}
                for name, state in manifest.views.items()
                if name in ("leaf", *views)
            },
            "documents": self.documents,
            **({} if second is None else {"second source": second}),
        }


def documents_digest(index: Index) -> str:
    hashed = blake2b(digest_size=8)
    for known in sorted(index.store.reader().known_documents(), key=lambda known: known.id):
        hashed.update(f"{known.id}\0{known.digest}\0".encode("utf-8", "replace"))
    return hashed.hexdigest()


def _failed_row(one: MethodRows, question: Question, error: Exception) -> RunRow:
    one.failures[question.id] = error
    return RunRow(**one.key(question)._asdict(), mode=one.mode, error=str(error) or type(error).__name__)


def _timer(searches: SearchMemory) -> Callable[[], tuple[float, float]]:
    """Return a function that returns the seconds of searches and of assembly since now.

    It charges a method for each search as if no other method had made it before.
    """
    began, spent, charged = perf_counter(), searches.spent, searches.charged

    def seconds() -> tuple[float, float]:
        took = perf_counter() - began
        return searches.charged - charged, max(0.0, took - (searches.spent - spent))

    return seconds


def _options(one: MethodRows, question: Question) -> dict[str, Any]:
    return {"strategy": one.method.strategy, "budget": one.budget, "where": question.where}


def sampling_model(chat: ChatModel | None) -> Any:
    """Return the model, without its cache, if it can sample its answers."""
    inner = chat.chat if isinstance(chat, CachedChat) else chat
    return inner if hasattr(inner, "drawing") else None
