"""Correctness and faithfulness of the answers of a run, judged by a chat model.

    correct     1 if the answer says the same as a gold answer, in whatever words
    faithful    the share of the answer's claims that its context supports

A correct answer may be unfaithful: the model knew it. Each answer is judged in two calls, and the prompts are our own. Judges are
models, and models err: so the report has the agreement of `correct` with exact match, and Cohen's kappa (1960), which is 0 for
agreement by chance. Answers that found nothing are left out. Replies are cached in the run folder, so none is paid for twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from mergewise import Progress, concurrency, count_tokens
from mergewise.evaluate.metrics import mean
from mergewise.evaluate.runs.run_folder import Run
from mergewise.evaluate.runs.run_row import RunRow
from mergewise.extend import CachedChat, code_for, json_in, object_schema, quotation, turn, warning
from mergewise.protocols import ChatModel
from mergewise.types import JsonDict, Message, Usage, frozen

FOLDER = "judge"
"""Folder of the cached replies, in the run folder."""
AT_ONCE = 8
CORRECT = """\
Somebody answered a question. Decide whether the answer is correct: it must say the same as one of the gold answers. Other words,
more detail and another spelling do not matter. An answer is not correct if it contradicts the gold answer, leaves out a part that
the question asks for, or offers several answers. Judge by the gold answers and not by what you know.

Answer with JSON: {"correct": true} or {"correct": false}"""
FAITHFUL = """\
Somebody answered a question from a text. List each claim of the answer, and decide for each whether the text supports it: the
text says it, or it follows from the text without any other knowledge. Whether a claim is true does not matter.

Answer with JSON: {"claims": [{"claim": "...", "supported": true}]}"""
_CLAIM = object_schema({"claim": {"type": "string"}, "supported": {"type": "boolean"}})
OPTIONS: Mapping[str, JsonDict] = {
    "correct": {"max_tokens": 64, "schema": object_schema({"correct": {"type": "boolean"}})},
    "faithful": {"max_tokens": 512, "schema": object_schema({"claims": {"type": "array", "items": _CLAIM}})},
}
"""Options of the requests of each measure."""


class JudgeRequest(NamedTuple):
    """A prompt about the answer of a row. `measure` is a key of `OPTIONS`."""

    row: RunRow
    measure: str
    messages: Sequence[Message]


@frozen
class JudgedMethod:
    """The verdicts on the answers of a method. Scores are None if no answer was judged by them.

    Attributes:
        method: the method.
        budget: its token budget.
        answers: number of answers that were judged for correctness.
        correct: mean of `correct`.
        em: mean exact match of the same answers.
        agreement: share of answers where `correct` equals exact match.
        kappa: Cohen's kappa of both, or None if one of them is constant.
        faithful: mean of `faithful`.
        unread: number of replies without a verdict.
    """

    method: str
    budget: int
    answers: int
    correct: float | None
    em: float | None
    agreement: float | None
    kappa: float | None
    faithful: float | None
    unread: int


def judge_requests(run: Run) -> list[JudgeRequest]:
    """Return the prompts about all answers of a finished run. Raises UsageError if the run has no texts."""
    asked = {(one.name, q.id): q for one in run.plan.sets for q in run.set_questions(one.name)}
    requests = []
    for row in run.run_rows():
        if not row.prediction or row.error:
            continue
        question = asked[row.set, row.question]
        texts = [run.passage_text(row.set, passage) for passage in row.passages]
        code = code_for([question.text, row.prediction, *question.answers, *texts])
        said = [f"Question: {question.text}", quotation("answer", row.prediction, code)]
        if question.has_answers:
            gold = quotation("gold answers", "\n".join(question.answers), code)
            messages = turn(f"{CORRECT}\n\n{warning()}", [said[0], gold, said[1]], code)
            requests.append(JudgeRequest(row, "correct", messages))
        if texts:
            text = quotation("text", "\n\n".join(texts), code)
            requests.append(JudgeRequest(row, "faithful", turn(f"{FAITHFUL}\n\n{warning()}", [text, *said], code)))
    return requests


def judge_cost(requests: Sequence[JudgeRequest], chat: CachedChat) -> Usage:
    """Estimate the calls and tokens of the requests that have no cached reply. Output tokens are the maximum."""
    new = [one for one in requests if not chat.has(one.messages, **OPTIONS[one.measure])]
    tokens = count_tokens([message.text for one in new for message in one.messages])
    return Usage(len(new), sum(tokens), sum(OPTIONS[one.measure]["max_tokens"] for one in new))


def judged_methods(requests: Sequence[JudgeRequest], chat: ChatModel, progress: Progress | None) -> list[JudgedMethod]:
    """Ask the chat model, and return the verdicts by method and budget. Raises ModelError if the model fails."""
    verdicts: list[float | None] = []
    for first in range(0, len(requests), AT_ONCE):
        asked = (chat.complete(one.messages, **OPTIONS[one.measure]) for one in requests[first : first + AT_ONCE])
        for reply in concurrency.run(concurrency.together(*asked)):
            verdicts.append(verdict_of(requests[len(verdicts)].measure, reply.text))
        if progress is not None:
            progress(len(verdicts), len(requests), "verdicts")
    groups: dict[tuple[str, int], list[tuple[str, float | None, float | None]]] = {}
    for request, verdict in zip(requests, verdicts, strict=True):
        row = request.row
        groups.setdefault((row.method, row.budget), []).append((request.measure, verdict, row.scores.get("em")))
    found = []
    for (method, budget), own in groups.items():
        pairs = [(v, em) for measure, v, em in own if measure == "correct" and v is not None and em is not None]
        judged, exact = [verdict for verdict, _ in pairs], [em for _, em in pairs]
        faithful = [verdict for measure, verdict, _ in own if measure == "faithful" and verdict is not None]
        found.append(
            JudgedMethod(
                method,
                budget,
                answers=len(pairs),
                correct=mean(judged) if pairs else None,
                em=mean(exact) if pairs else None,
                agreement=mean([float(a == b) for a, b in pairs]) if pairs else None,
                kappa=kappa(judged, exact),
                faithful=mean(faithful) if faithful else None,
                unread=sum(verdict is None for _, verdict, _ in own),
            )
        )
    return found


def verdict_of(measure: str, text: str) -> float | None:
    """Parse a reply. Returns None if it has no verdict, or an answer has no claims."""
    raw = json_in(text)
    if not isinstance(raw, dict):
        return None
    if measure == "correct":
        return float(raw["correct"]) if isinstance(raw.get("correct"), bool) else None
    claims = raw.get("claims")
    supported = [one.get("supported") for one in claims if isinstance(one, dict)] if isinstance(claims, list) else []
    known = [one for one in supported if isinstance(one, bool)]
    return sum(known) / len(known) if known else None


def kappa(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Return Cohen's kappa of two sequences of 0 and 1: (p_o - p_e) / (1 - p_e). Returns None if p_e is 1."""
    observed = mean([float(a == b) for a, b in zip(first, second, strict=True)])
    p, q = mean(first), mean(second)
    by_chance = p * q + (1 - p) * (1 - q)
    return (observed - by_chance) / (1 - by_chance) if first and by_chance < 1 else None
