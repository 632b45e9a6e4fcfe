"""The mode `self-rag` (Asai et al. 2024, section 3.3): write and grade an answer per passage, and return the best.

    score = exp(mean log-probability of the answer's tokens) + ISREL + ISSUP + w ISUSE

ISREL is the probability of Yes (against No). ISSUP is P(Full) + 0.5 P(Part) over the words Full, Part and None. ISUSE is the
expected value of the grades 1 to 5, which are worth -1, -0.5, 0, 0.5 and 1. If the model does not want documents, it answers
without them. With `closed`, the scores of equal answers are summed, and the best answer of the best group is returned.

Differences from the paper:
- The paper trains a model to write its grades as special tokens. We ask any causal model three questions about each passage, in
  one batch, and read the probabilities of the first tokens of the answer words.
- w is 0.5, as in the paper's text and the default of its code. Its script for short answers uses 1.0.
- To decide whether to retrieve, the paper's code divides log-probabilities. We divide probabilities. The decision is made once,
  and an answer is a single segment: the paper's beam search over sentences is for long answers.
- A chat model returns the answer and its grades as JSON, in one call per passage. Each grade is then a choice instead of a mean,
  and the score has no log-probability term. Documents are always read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import accumulate
from math import exp, fsum
from operator import add
from typing import Any, NamedTuple

import numpy as np

from mergewise.concurrency import check_time, run, together
from mergewise.designs.self_rag.strategy import GradedReading, SelfRAG
from mergewise.errors import ModelError
from mergewise.generate.citations import Claims, Locator
from mergewise.generate.mode import Mode, Need, Request
from mergewise.generate.prompts import SHORT, quoted_source
from mergewise.generate.sources import Source, base_sources
from mergewise.grouping import group_by
from mergewise.models.decoding import ROWS, Decoded, StreamPrompts, decode
from mergewise.prompting.quoting import code_for, quotation, turn, warning
from mergewise.prompting.replies import json_in, object_schema
from mergewise.protocols import CausalModel, ChatModel, FloatArray, TokenRows
from mergewise.text.alignment import sentences_at, words
from mergewise.text.spans import one_line
from mergewise.text.terms import content_terms
from mergewise.types import Answer, Citation, Message, Prompts, PromptTemplate, Reply, Step, Usage

_GRADES_TOKENS = 256  # for the JSON around the answer


class GradedAnswer(NamedTuple):
    """An answer from one passage. `likely` is exp(mean log-probability), or 0 if that is unknown."""

    source: Source
    text: str
    likely: float
    relevant: float
    supported: float
    useful: float
    complete: bool = True

    def score(self, weights: SelfRAG) -> float:
        grades = weights.relevance * self.relevant + weights.support * self.supported + weights.use * self.useful
        return self.likely + grades


def graded_value(log_probs: FloatArray, tokens: Mapping[int, float]) -> float:
    """Return the mean value of `tokens`, weighted by their renormalised probabilities. `log_probs`: (vocabulary,), in nats."""
    known = np.asarray([log_probs[token] for token in tokens], np.float64)
    shares = np.exp(known - known.max())
    return float(shares @ np.asarray(list(tokens.values())) / shares.sum())


def best_answer(graded: Sequence[GradedAnswer], weights: SelfRAG) -> tuple[GradedAnswer, float]:
    """Return the best answer and its score. With `closed`, that is the sum of the scores of all equal answers."""
    alike = group_by(graded, lambda one: (" ".join(words(one.text)) or one.text) if weights.closed else id(one))
    sums = {key: fsum(one.score(weights) for one in own) for key, own in alike.items()}
    best = max(sums, key=lambda key: sums[key])
    return max(alike[best], key=lambda one: one.score(weights)), sums[best]


def _answer(request: Request, model: Any) -> Answer:
    reading = request.context.reading
    weights = reading.parameters if isinstance(reading, GradedReading) else SelfRAG()
    sources = base_sources(request.context, request.document)
    code = code_for([request.context.question, request.context.text])
    causal = request.models.causal
    if causal is not None:
        return _Causal(request, causal, weights, code).answer(sources)
    return _by_chat(request, model, weights, sources, code)


# -- by a causal model


class _Causal:
    """The calls to a causal model for one answer."""

    def __init__(self, request: Request, causal: CausalModel, weights: SelfRAG, code: str) -> None:
        self._request, self._causal, self._weights, self._code = request, causal, weights, code
        self._asked = f"Question: {request.context.question}"
        self._limit = max(1, min(request.max_tokens, causal.window // 4))
        self._usage, self._own = request.context.usage, request.models.prompts

    def answer(self, sources: Sequence[Source]) -> Answer:
        (wants,) = self._grade([(turn(self._own.fill(RETRIEVE), [self._asked]), YES)])
        step = Step("retrieve", f"the model wants documents with probability {wants:.2f}", score=wants)
        # The longest prompt about a source must fit, with an answer.
        room = self._causal.window - 2 * self._limit
        longest = (self._with_draft(one, "") for one in sources)
        fitting = [one for one, asked in zip(sources, longest, strict=True) if len(self._causal.prompt(asked)) < room]
        if wants < self._weights.threshold or not fitting:
            (decoded,) = self._decode_rows([self._causal.prompt(turn(self._own.fill(SHORT), [self._asked]))])
            why = "answered alone" if fitting else "no passage fits into the window: answered alone"
            steps = step, Step("alone", why)
            return _cited_answer(self._request, decoded.text, None, self._usage, decoded.complete, steps)
        graded = self._graded(fitting)
        return _answer_with_best(self._request, graded, self._weights, self._usage, self._causal.spec, [step])

    def _graded(self, sources: Sequence[Source]) -> list[GradedAnswer]:
        """Write an answer from each passage, and grade it. An answer without text is left out."""
        rows = [self._causal.prompt(_with_source(self._own, SOURCED, one, self._code, self._asked)) for one in sources]
        drafts: list[tuple[Source, str, Decoded]] = []
        asked: list[tuple[list[Message], Mapping[str, float]]] = []
        for source, decoded in zip(sources, self._decode_rows(rows), strict=True):
            if text := decoded.text.strip():
                drafts.append((source, text, decoded))
                whole = quotation("answer", text, self._code)
                asked += [
                    (_with_source(self._own, RELEVANT, source, self._code, self._asked), YES),
                    (self._with_draft(source, text), SUPPORTED),
                    (turn(f"{self._own.fill(USE)}\n\n{warning()}", [self._asked, whole], self._code), USEFUL),
                ]
        grades = iter(self._grade(asked))
        graded = []
        for source, text, decoded in drafts:
            # without the tokens behind the text
            starts = accumulate(map(len, decoded.pieces), initial=0)
            own = zip(decoded.log_probs, starts, strict=False)
            values = [p for (p, *_), at in own if p is not None and at < len(decoded.text)]
            likely = exp(fsum(values) / len(values)) if values else 0.0
            relevant, supported, useful = next(grades), next(grades), next(grades)
            graded.append(GradedAnswer(source, text, likely, relevant, supported, useful, decoded.complete))
        return graded

    def _with_draft(self, source: Source, draft: str) -> list[Message]:
        return _with_source(self._own, SUPPORT, source, self._code, self._asked, quotation("answer", draft, self._code))

    def _decode_rows(self, rows: TokenRows) -> list[Decoded]:
        made = decode(self._causal, [StreamPrompts((row,), (1.0,)) for row in rows], max_tokens=self._limit)
        self._usage += Usage(len(made), sum(one.input_tokens for one in made), sum(len(one.tokens) for one in made))
        return made

    def _grade(self, asked: Sequence[tuple[list[Message], Mapping[str, float]]]) -> list[float]:
        """Return the graded value of each prompt, in batches of `ROWS`."""
        values: list[float] = []
        for first in range(0, len(asked), ROWS):
            check_time()
            part = asked[first : first + ROWS]
            rows = [self._causal.prompt(messages) for messages, _ in part]
            self._usage += Usage(len(rows), sum(map(len, rows)), len(rows))
            for row, (_, counts) in zip(self._causal.start(rows).log_probs, part, strict=True):
                tokens = {token: value for word, value in counts.items() for token in self._causal.encode(word)[:1]}
                if len(tokens) < len(counts):
                    raise ModelError(
                        f"grades share a first token in {self._causal.spec}: {', '.join(counts)}", "try another model"
                    )
                values.append(graded_value(row, tokens))
        return values


# -- by a chat model


def _by_chat(request: Request, chat: ChatModel, weights: SelfRAG, sources: Sequence[Source], code: str) -> Answer:
    question, limit = (
        f"Question: {request.context.question}",
        max(1, min(request.max_tokens + _GRADES_TOKENS, chat.window // 4)),
    )
    own = request.models.prompts
    asked = [_with_source(own, GRADED, source, code, question) for source in sources]
    replies = run(together(*(chat.complete(one, max_tokens=limit, schema=SCHEMA) for one in asked)))
    usage = reduce(add, (reply.usage for reply in replies), request.context.usage)
    read = [_graded_answer(source, reply) for source, reply in zip(sources, replies, strict=True)]
    graded = [one for one in read if one is not None]
    usage += Usage(unread=len(read) - len(graded))
    if not graded:
        raise ModelError(f"no readable answer from {chat.spec}", "raise max_tokens, or try another model")
    return _answer_with_best(request, graded, weights, usage, chat.spec, [])


def _graded_answer(source: Source, reply: Reply) -> GradedAnswer | None:
    """Parse the answer and its grades. Return None if the reply is invalid."""
    raw = json_in(reply.text)
    if not isinstance(raw, dict) or not isinstance(raw.get("answer"), str) or not raw["answer"].strip():
        return None
    relevant, support, useful = raw.get("relevant"), str(raw.get("support")).capitalize(), str(raw.get("useful"))
    if not isinstance(relevant, bool) or support not in SUPPORTED or useful not in USEFUL:
        return None
    grades = float(relevant), SUPPORTED[support], USEFUL[useful]
    return GradedAnswer(source, raw["answer"].strip(), 0.0, *grades, reply.complete)


# -- the answer


def _answer_with_best(
    request: Request, graded: Sequence[GradedAnswer], weights: SelfRAG, usage: Usage, spec: str, steps: Sequence[Step]
) -> Answer:
    if not graded:
        raise ModelError(f"empty answer from {spec}", "raise max_tokens, or try another model")
    best, score = best_answer(graded, weights)
    grade_steps = [_grade_step(one, weights) for one in graded]
    last = Step("best", f"[{best.source.number}], by {spec}", score=score)
    return _cited_answer(request, best.text, best.source, usage, best.complete, (*steps, *grade_steps, last))


def _grade_step(one: GradedAnswer, weights: SelfRAG) -> Step:
    return Step(
        "grade",
        f"[{one.source.number}] “{one_line(one.text)}”: likely {one.likely:.2f}, relevant {one.relevant:.2f}, "
        f"supported {one.supported:.2f}, useful {one.useful:.2f}",
        tuple(span for span, _ in one.source.parts),
        score=one.score(weights),
    )


def _cited_answer(
    request: Request, written: str, source: Source | None, usage: Usage, complete: bool, steps: tuple[Step, ...]
) -> Answer:
    """Build the answer. It cites the sentence of its passage that shares most of its words."""
    text = written.strip()
    if not text:
        raise ModelError("empty answer from the model", "raise max_tokens, or try another model")
    citations: tuple[Citation, ...] = ()
    is_supported = None
    if source is not None:
        terms = content_terms(text)
        sentences = [one for span, part in source.parts for one in sentences_at(part, span)]
        if sentences:
            best = max(sentences, key=lambda one: len(terms & content_terms(one.text)))
            locator = Locator(request.document, request.context)
            citations = (locator.citation(source.number, best.text, best.span),)
        is_supported = Claims([source]).is_supported(text, (source.number,))
    return Answer(
        question=request.context.question,
        text=text + "".join(f" [{one.number}]" for one in citations),
        citations=citations,
        context=request.context,
        usage=usage,
        complete=complete,
        unsupported=None if is_supported is None else float(not is_supported),
        unverified=(text,) if is_supported is False else (),
        trace=steps,
    )


_READER: Need[Any] = Need(
    "chat",
    lambda models: models.causal or models.chat,
    "a causal model (next-token probabilities) or a chat model",
    "pass --chat hf:PATH, or --chat openai:MODEL for grades as JSON",
)

MODES = {"self-rag": Mode(_answer, "the best answer over all passages, by the model's own grades", _READER)}


# -- prompts that replace the reflection tokens (Table 1), in our own words.
# The model answers each with a word from a short list. The words of a list differ in their first token.

YES = {"Yes": 1.0, "No": 0.0}
SUPPORTED = {"Full": 1.0, "Part": 0.5, "None": 0.0}
USEFUL = {"1": -1.0, "2": -0.5, "3": 0.0, "4": 0.5, "5": 1.0}
"""Answer words of each prompt and their values: the critique scores of section 3.3."""

SOURCED = PromptTemplate(
    "short-from-source",
    "answers in a few words from one passage (Self-RAG)",
    """\
Answer the question at the end in as few words as it needs: a name, a date, a number, or a short phrase. Go by the source.
Write nothing else.""",
)
RETRIEVE = PromptTemplate(
    "retrieve",
    "decides whether documents would help (Self-RAG)",
    "Would documents help you to answer the question? Write Yes or No, and nothing else.",
)
RELEVANT = PromptTemplate(
    "relevant",
    "decides whether a passage helps (Self-RAG)",
    "Does the source say something that helps to answer the question? Write Yes or No, and nothing else.",
)
SUPPORT = PromptTemplate(
    "supported",
    "grades how much of an answer a passage supports (Self-RAG)",
    """\
How much of the answer does the source support? Write Full where it says all of it, Part where it says some of it, None where it
says nothing of it; and nothing else.""",
)
USE = PromptTemplate(
    "useful",
    "grades an answer (Self-RAG)",
    """\
How useful is the answer to somebody who asks the question? Write a number from 1 (no answer to it) to 5 (a full and fitting
answer), and nothing else.""",
)
GRADED = PromptTemplate(
    "graded",
    "answers from one passage and grades the answer, as JSON (Self-RAG with a chat model)",
    """\
Answer the question at the end in as few words as it needs: a name, a date, a number, or a short phrase. Go by the source. Then
judge: whether the source helps to answer it (relevant), how much of your answer the source supports (support: full, part or
none), and how useful your answer is (useful: from 1, no answer to it, to 5, a full and fitting answer).
Answer with JSON: {"answer": "...", "relevant": true, "support": "full", "useful": 5}""",
)
PROMPTS = {one.name: one for one in (SOURCED, RETRIEVE, RELEVANT, SUPPORT, USE, GRADED)}

SCHEMA = object_schema(
    {
        "answer": {"type": "string"},
        "relevant": {"type": "boolean"},
        "support": {"type": "string", "enum": ["full", "part", "none"]},
        "useful": {"type": "integer", "enum": [1, 2, 3, 4, 5]},
    }
)


def _with_source(own: Prompts, task: PromptTemplate, source: Source, code: str, *texts: str) -> list[Message]:
    return turn(f"{own.fill(task)}\n\n{warning()}", [quoted_source(source, code), *texts], code)
