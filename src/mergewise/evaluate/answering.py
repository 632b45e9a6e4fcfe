"""Methods answer the questions of a set: in batches, timed, kept, scored.

A batch is `together` questions. Their contexts are found one after the other; then a mode that decodes many questions at once
answers them in one go, and any other mode several at the same time. Seconds of a batch are shared among its questions: for the
seconds of one question alone ask one at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache, partial
from hashlib import blake2b
from pathlib import Path
from time import perf_counter
from typing import Any, TypeAlias

from mergewise.asking import Search, answer_together, prepare_request
from mergewise.designs import MODES, modes, strategies
from mergewise.engine import Index
from mergewise.errors import UsageError
from mergewise.evaluate.answers import AnswerScore, prediction_of, score_answer
from mergewise.evaluate.judged import ContextJudge, JudgedContext
from mergewise.evaluate.kept import AnswerFile, KeptAnswer
from mergewise.evaluate.methods import Method
from mergewise.evaluate.rows import AnswerRow, EvaluationRow, QuestionRow, mean_row
from mergewise.evaluate.tasks import Question, Task, clusters
from mergewise.generate.mode import Request
from mergewise.models.decoding import Decoded
from mergewise.models.record import Models
from mergewise.protocols import Reranker
from mergewise.twins import each
from mergewise.types import Answer

Progress: TypeAlias = Callable[[int, int, str], None]


@dataclass(frozen=True, slots=True)
class Asking:
    """How answers are asked for. `reranker` and `utility` are what methods are judged by (`methods.Judge`); where one of them is
    None, the index's own reranker is, or what stands in for one. `directory` is where answers are kept.
    """

    max_tokens: int
    together: int = 1
    reranker: Reranker | None = None
    utility: Reranker | None = None
    directory: Path | None = None


@dataclass(slots=True)
class MethodAnswers:
    """The answers of one method at one budget: what there is of them, and why a question has none."""

    task: Task
    method: Method
    budget: int
    kept: AnswerFile
    mode: str
    failures: dict[str, Exception] = field(default_factory=dict)

    def missing(self, questions: Sequence[Question]) -> list[Question]:
        return [question for question in questions if question not in self.kept]

    def scores(self, questions: Sequence[Question]) -> list[AnswerScore]:
        """A question that failed has no answer, and scores what no answer does."""
        said = (self.kept[question].prediction if question in self.kept else "" for question in questions)
        return [score_answer(one, question.answers) for one, question in zip(said, questions, strict=True)]

    def rows(self, questions: Sequence[Question]) -> list[QuestionRow]:
        """A row for each question, of those that failed with the error."""
        scores = zip(questions, clusters(questions), self.scores(questions), strict=True)
        return [self._row(question, cluster, score) for question, cluster, score in scores]

    def _row(self, question: Question, cluster: int, score: AnswerScore) -> QuestionRow:
        row = QuestionRow(self.task.name, self.method.name, self.budget, question, cluster)
        if question not in self.kept:
            return replace(row, error=str(self.failures.get(question.id, "not answered")))
        one = self.kept[question]
        scores: Mapping[str, float | None] = asdict(score)
        return replace(
            row,
            context=one.context(question),
            query_ms=1000 * (one.seconds - one.answer_seconds),
            answers=AnswerRow(
                mode=self.mode,
                prediction=one.prediction,
                refused=not one.found,
                sure=one.sure,
                **(scores if question.has_answers else dict.fromkeys(scores)),
                input_tokens=one.input_tokens,
                output_tokens=one.output_tokens,
                seconds=one.seconds,
                answer_seconds=one.answer_seconds,
            ),
        )

    def row(self, questions: Sequence[Question]) -> EvaluationRow:
        """Means over the questions; costs and contexts are those of the questions that did not fail."""
        return mean_row(self.rows(questions))


class Answering:
    """One index and its questions. What the causal model wrote by itself is kept in `backgrounds`, if that is given: then it
    is written once for all methods, and the seconds of those that come later are too few.
    """

    def __init__(
        self, index: Index, task: Task, asking: Asking, backgrounds: MutableMapping[str, Decoded] | None = None
    ) -> None:
        self.index = index
        self.task = task
        self.asking = asking
        self._backgrounds = backgrounds
        self._index_identity = cache(self._read_index_identity)
        self._judge = cache(partial(ContextJudge, index, task.questions))

    def kept_answers(self, method: Method, budget: int) -> MethodAnswers:
        """What is kept of a method's answers. Raises UsageError where the method cannot be, or lacks a model or a view."""
        preferred = strategies.preferred_mode(method.strategy) if method.mode is None else ""
        mode = modes.mode_for(method.mode, self.index.models, preferred)
        strategy, _ = strategies.resolve(method.strategy)
        for view in (*strategy.views, *method.views):
            if view not in self.index.manifest.views:
                raise UsageError(f"this index has no {view} view", f"index with --views leaf,{view}")
        run = self._run(method, mode, budget)
        return MethodAnswers(self.task, method, budget, AnswerFile(self.asking.directory, run), mode)

    def complete(
        self, asked: Sequence[MethodAnswers], questions: Sequence[Question], progress: Progress | None = None
    ) -> None:
        """Answer what is missing. Methods of one mode are answered in the same batches.

        A question that fails has its error in `failures`; it is not kept, so that the next call asks it again.
        """
        missing = [(one, question) for question in questions for one in asked if question not in one.kept]
        done, total = len(questions) * len(asked) - len(missing), len(questions) * len(asked)
        for mode in dict.fromkeys(one.mode for one in asked):
            left = [(one, question) for one, question in missing if one.mode == mode]
            size = self.asking.together * sum(one.mode == mode for one in asked)
            for first in range(0, len(left), size):
                batch = left[first : first + size]
                self._answer(mode, batch)
                done += len(batch)
                if progress is not None:
                    progress(done, total, f"{self.task.name} {batch[-1][0].method.name}")

    def _answer(self, mode: str, batch: Sequence[tuple[MethodAnswers, Question]]) -> None:
        requests, found = [], []
        for one, question in batch:
            started = perf_counter()
            requests.append(self._request(one, question))
            found.append(perf_counter() - started)
        ready = perf_counter()
        answers = self._answers(mode, requests)
        share = (perf_counter() - ready) / len(batch)
        for (one, question), answer, seconds in zip(batch, answers, found, strict=True):
            if isinstance(answer, Exception):
                one.failures[question.id] = answer
                continue
            one.failures.pop(question.id, None)
            judged = self._judge().judge(question, answer.context)
            one.kept.add(question, _kept_answer(answer, judged, seconds + share, share, len(batch)))

    def _request(self, one: MethodAnswers, question: Question) -> Request | Exception:
        search = Search(one.method.strategy, one.budget, question.where, None, 1, None)
        try:
            state = self.index.state()
            state = replace(state, models=self._models(one.method, state.models))
            request = prepare_request(question.text, search, state, one.mode, self.asking.max_tokens)
        except Exception as error:
            return error
        return replace(request, backgrounds=self._backgrounds)

    def _answers(self, mode: str, requests: Sequence[Request | Exception]) -> list[Answer | Exception]:
        if MODES[mode].answer_all is not None:
            return answer_together(requests, mode)
        ready = [request for request in requests if not isinstance(request, Exception)]
        answers = iter(each(partial(modes.answer, mode), ready, self.asking.together))
        return [request if isinstance(request, Exception) else next(answers) for request in requests]

    def _models(self, method: Method, models: Models) -> Models:
        """The models of the method, as if its judge had been named by --reranker: what is scored is what a user gets."""
        if method.judge == "given":
            return models
        judge = {"none": None, "reranker": self.asking.reranker, "utility": self.asking.utility}[method.judge]
        own = models.reranker if method.judge != "none" else None
        return replace(models, reranker=judge or own)

    def _run(self, method: Method, mode: str, budget: int) -> Mapping[str, Any]:
        """All that an answer depends on but its question."""
        models = self._models(method, self.index.models)
        causal, chat = models.causal, models.chat
        return {
            "dataset": self.task.name,
            "strategy": method.strategy,
            "parameters": asdict(strategies.resolve(method.strategy)[1]),
            "mode": mode,
            "budget": budget,
            "max_tokens": self.asking.max_tokens,
            "chat": None if chat is None else chat.identity,
            "causal": None if causal is None else causal.spec,
            "reranker": None if models.reranker is None else models.reranker.spec,
            "judge": models.utilities.spec,
            "search": asdict(self.index.search_settings),
            **({"prompts": own} if (own := models.prompts.digests()) else {}),
            **self._index_identity(),
        }

    def _read_index_identity(self) -> Mapping[str, Any]:
        digest = blake2b(digest_size=8)
        for known in sorted(self.index.store.reader().known_documents(), key=lambda known: known.id):
            digest.update(f"{known.id}\0{known.digest}\0".encode("utf-8", "replace"))
        manifest = self.index.manifest
        views = {name: dict(state.settings) for name, state in manifest.views.items()}
        return {"embedder": manifest.embedder, "views": views, "documents": digest.hexdigest()}


def evaluate_answers(
    answering: Answering,
    methods: Sequence[Method],
    budgets: Sequence[int],
    questions: Sequence[Question],
    progress: Progress | None = None,
) -> Iterator[list[QuestionRow]]:
    """For each method and budget, as soon as they are known, the rows of all questions; those that failed have an error.

    Raises UsageError where there are no questions, and the error of the first question where all of a method's failed.
    """
    if not questions:
        raise UsageError(f"{answering.task.name} has no questions to be answered", "use --half all")
    asked = [answering.kept_answers(method, budget) for method in methods for budget in budgets]
    for one in asked:
        answering.complete([one], questions, progress)
        if len(one.failures) == len(questions):
            raise next(iter(one.failures.values()))
        yield one.rows(questions)


def _kept_answer(
    answer: Answer, judged: JudgedContext, seconds: float, answer_seconds: float, together: int
) -> KeptAnswer:
    return KeptAnswer(
        prediction=prediction_of(answer),
        found=answer.found,
        sure=answer.found and answer.sure,
        input_tokens=answer.usage.input_tokens,
        output_tokens=answer.usage.output_tokens,
        calls=answer.usage.calls,
        seconds=round(seconds, 4),
        answer_seconds=round(answer_seconds, 4),
        together=together,
        context_tokens=judged.tokens,
        context_answer=judged.answer,
        context_evidence=judged.evidence,
        context_all=judged.all,
        context_density=judged.density,
        context_found=judged.found,
        context_lost=judged.lost,
        context_ranked=judged.ranked,
        weights={} if answer.streams is None else dict(answer.streams.weights),
    )
