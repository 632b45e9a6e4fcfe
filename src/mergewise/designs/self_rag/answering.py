"""The mode `self-rag` (Asai et al. 2024, section 3.3): write and grade an answer per passage, and return the best.

    score = exp(mean log-probability of the answer's tokens) + ISREL + ISSUP + w ISUSE

ISREL is the probability of Yes (against No). ISSUP is P(Full) + 0.5 P(Part) over the words Full, Part and None. ISUSE is the
expected value of the grades 1 to 5, which are worth -1, -0.5, 0, 0.5 and 1. If the model does not want documents, it answers
without them. With `closed`, the scores of equal answers are summed, and the best answer of the best group is returned.

With `segments` above 1, a causal model writes an answer sentence by sentence. Each kept answer is continued once from every
passage. Each continuation is graded with this score, and the best `beam` answers are kept. The answer with the highest mean over
its sentences is returned. Each sentence cites its own passage.

Differences from the paper:
- The paper trains a model to write its grades as special tokens. We ask any causal model three questions about each passage, in
  one batch, and read the probabilities of the first tokens of the answer words.
- w is 0.5, as in the paper's text and the default of its code. Its script for short answers uses 1.0.
- To decide whether to retrieve, the paper's code divides log-probabilities. We divide probabilities. The decision is made once,
  not before every sentence.
- A chat model returns the answer and its grades as JSON, in one call per passage. Each grade is then a choice instead of a mean,
  the score has no log-probability term, and an answer is a single segment. Documents are always read, except with `decides`: if
  the endpoint gives log-probabilities of the first token, they decide as those of a causal model do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import accumulate
from math import exp, fsum
from operator import add
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from mergewise.concurrency import check_time, run, together
from mergewise.designs.self_rag.strategy import GradedReading, SelfRAG
from mergewise.errors import ModelError
from mergewise.generate.citations import Claims, Locator
from mergewise.generate.mode import Mode, Need, Request
from mergewise.generate.prompts import SHORT, quoted_source
from mergewise.generate.sources import Source, base_sources
from mergewise.models.decoding import ROWS, Decoded, StreamPrompts, decode
from mergewise.prompting.quoting import code_for, quotation, turn, warning
from mergewise.prompting.replies import json_in, object_schema
from mergewise.protocols import CausalModel, ChatModel, FloatArray, with_options
from mergewise.text.alignment import sentences_at, words
from mergewise.text.sentences import split_sentences
from mergewise.text.spans import one_line
from mergewise.text.terms import content_terms
from mergewise.types import Answer, Citation, Message, Prompts, PromptTemplate, Reply, Step, Usage

_GRADES_TOKENS = 256  # for the JSON around the answer
_WORD_TOKENS = 4
_LOG_PROBS = {"logprobs": True, "top_logprobs": 10}


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


Path: TypeAlias = tuple[GradedAnswer, ...]
"""The graded sentences of an answer."""
Draft: TypeAlias = tuple[Path, GradedAnswer, bool]
"""The answer before a continuation, the continuation, and whether the answer ends with it."""


def graded_value(log_probs: FloatArray, tokens: Mapping[int, float]) -> float:
    """Return the mean value of `tokens`, weighted by their renormalised probabilities. `log_probs`: (vocabulary,), in nats."""
    known = np.asarray([log_probs[token] for token in tokens], np.float64)
    shares = np.exp(known - known.max())
    return float(shares @ np.asarray(list(tokens.values())) / shares.sum())


def best_answer(graded: Sequence[GradedAnswer], weights: SelfRAG) -> tuple[GradedAnswer, float]:
    """Return the best answer and its score. With `closed`, that is the sum of the scores of all equal answers."""
    alike: dict[str, list[GradedAnswer]] = {}
    for number, one in enumerate(graded):
        key = " ".join(words(one.text)) or one.text
        alike.setdefault(key if weights.closed else str(number), []).append(one)
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

    def __init__(self, request: Request, causal: CausalModel[Any], weights: SelfRAG, code: str) -> None:
        self._request, self._causal, self._weights, self._code = request, causal, weights, code
        self._asked = f"Question: {request.context.question}"
        self._limit = max(1, min(request.max_tokens, causal.window // 4))
        self._usage, self._own = request.context.usage, request.models.prompts

    def answer(self, sources: Sequence[Source]) -> Answer:
        (wants,) = self._grade([(turn(self._own.fill(RETRIEVE), [self._asked]), YES)])
        step = Step("retrieve", f"the model wants documents with probability {wants:.2f}", score=wants)
        # The longest prompt about a source must fit, with an answer.
        room = self._causal.window - (1 + self._weights.segments) * self._limit
        longest = (self._with_draft(one, "") for one in sources)
        fitting = [one for one, asked in zip(sources, longest, strict=True) if len(self._causal.prompt(asked)) < room]
        if wants < self._weights.threshold or not fitting:
            (decoded,) = self._decode_rows([self._causal.prompt(turn(self._own.fill(SHORT), [self._asked]))])
            why = "answered alone" if fitting else "no passage fits into the window: answered alone"
            steps = step, Step("alone", why)
            return _cited_answer(self._request, [(decoded.text, ())], self._usage, decoded.complete, steps)
        if self._weights.segments > 1:
            return self._by_beam(fitting, step)
        graded = [one for _, one, _ in self._grade_drafts(self._drafts([((), source) for source in fitting]))]
        return _answer_with_best(self._request, graded, self._weights, self._usage, self._causal.spec, [step])

    def _by_beam(self, sources: Sequence[Source], step: Step) -> Answer:
        """Write the answer sentence by sentence, and keep the best `beam` answers after each."""
        kept: list[Path] = [()]
        ended: list[Path] = []
        for _ in range(self._weights.segments):
            drafts = self._drafts([(path, source) for path in kept for source in sources])
            continued = {path for path, *_ in drafts}
            ended += [path for path in kept if path and path not in continued]
            graded = self._grade_drafts(drafts)
            ended += [(*path, one) for path, one, is_last in graded if is_last]
            going = [(*path, one) for path, one, is_last in graded if not is_last]
            kept = sorted(going, key=self._path_score, reverse=True)[: self._weights.beam]
            if not kept:
                break
        if not (paths := [*ended, *kept]):
            raise ModelError(f"empty answer from {self._causal.spec}", "raise max_tokens, or try another model")
        best = max(paths, key=self._path_score)
        steps = [step, *(_grade_step(one, self._weights) for one in best)]
        steps.append(Step("best", f"of {len(paths)} answers, by {self._causal.spec}", score=self._path_score(best)))
        written = [(one.text, (one.source,)) for one in best]
        return _cited_answer(self._request, written, self._usage, best[-1].complete, tuple(steps))

    def _path_score(self, path: Path) -> float:
        return fsum(one.score(self._weights) for one in path) / len(path)

    def _drafts(self, asked: Sequence[tuple[Path, Source]]) -> list[Draft]:
        """Continue each answer from its passage. A continuation without text is left out."""
        rows = [
            [
                *self._causal.prompt(_with_source(self._own, SOURCED, source, self._code, self._asked)),
                *self._causal.encode("".join(f"{part.text} " for part in path)),
            ]
            for path, source in asked
        ]
        drafts: list[Draft] = []
        for (path, source), decoded in zip(asked, self._decode_rows(rows), strict=True):
            sentences = split_sentences(decoded.text) if self._weights.segments > 1 else []
            end = sentences[0][1] if sentences else len(decoded.text)
            if text := decoded.text[:end].strip():
                is_last = decoded.complete and len(sentences) < 2
                # exp(mean log-probability) of the tokens of the first `end` characters
                starts = accumulate(map(len, decoded.pieces), initial=0)
                values = [
                    p for (p, *_), at in zip(decoded.log_probs, starts, strict=False) if p is not None and at < end
                ]
                likely = exp(fsum(values) / len(values)) if values else 0.0
                draft = GradedAnswer(source, text, likely, 0.0, 0.0, 0.0, decoded.complete)
                drafts.append((path, draft, is_last))
        return drafts

    def _grade_drafts(self, drafts: Sequence[Draft]) -> list[Draft]:
        """Grade each continuation."""
        asked: list[tuple[list[Message], Mapping[str, float]]] = []
        for path, one, _ in drafts:
            whole = quotation("answer", " ".join(part.text for part in (*path, one)), self._code)
            asked += [
                (_with_source(self._own, RELEVANT, one.source, self._code, self._asked), YES),
                (self._with_draft(one.source, one.text), SUPPORTED),
                (turn(f"{self._own.fill(USE)}\n\n{warning()}", [self._asked, whole], self._code), USEFUL),
            ]
        grades = iter(self._grade(asked))
        return [
            (path, one._replace(relevant=next(grades), supported=next(grades), useful=next(grades)), is_last)
            for path, one, is_last in drafts
        ]

    def _with_draft(self, source: Source, draft: str) -> list[Message]:
        return _with_source(self._own, SUPPORT, source, self._code, self._asked, quotation("answer", draft, self._code))

    def _decode_rows(self, rows: Sequence[Sequence[int]]) -> list[Decoded]:
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
    steps: list[Step] = []
    usage, own = request.context.usage, request.models.prompts
    if weights.decides and weights.threshold > 0:
        decision = run(
            with_options(chat, _LOG_PROBS).complete(turn(own.fill(RETRIEVE), [question]), max_tokens=_WORD_TOKENS)
        )
        # the probability of Yes against No as the first token, or None if neither is a candidate
        sums = dict.fromkeys(YES, 0.0)
        for token, log_prob in decision.first.items():
            if (word := token.strip().capitalize()) in sums:
                sums[word] += exp(log_prob)
        total = sum(sums.values())
        wants, usage = (sums["Yes"] / total if total else None), usage + decision.usage
        why = "no log-probabilities" if wants is None else f"the model wants documents with probability {wants:.2f}"
        steps.append(Step("retrieve", why, score=wants))
        if wants is not None and wants < weights.threshold:
            reply = run(chat.complete(turn(own.fill(SHORT), [question]), max_tokens=limit))
            alone = Step("alone", "answered alone")
            return _cited_answer(request, [(reply.text, ())], usage + reply.usage, reply.complete, (*steps, alone))
    asked = [_with_source(own, GRADED, source, code, question) for source in sources]
    replies = run(together(*(chat.complete(one, max_tokens=limit, schema=SCHEMA) for one in asked)))
    usage = reduce(add, (reply.usage for reply in replies), usage)
    read = [_graded_answer(source, reply) for source, reply in zip(sources, replies, strict=True)]
    graded = [one for one in read if one is not None]
    usage += Usage(unread=len(read) - len(graded))
    if not graded:
        raise ModelError(f"no readable answer from {chat.spec}", "raise max_tokens, or try another model")
    return _answer_with_best(request, graded, weights, usage, chat.spec, steps)


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
    return _cited_answer(request, [(best.text, (best.source,))], usage, best.complete, (*steps, *grade_steps, last))


def _grade_step(one: GradedAnswer, weights: SelfRAG) -> Step:
    return Step(
        "grade",
        f"[{one.source.number}] “{one_line(one.text)}”: likely {one.likely:.2f}, relevant {one.relevant:.2f}, "
        f"supported {one.supported:.2f}, useful {one.useful:.2f}",
        tuple(span for span, _ in one.source.parts),
        score=one.score(weights),
    )


def _cited_answer(
    request: Request,
    written: Sequence[tuple[str, Sequence[Source]]],
    usage: Usage,
    complete: bool,
    steps: tuple[Step, ...],
) -> Answer:
    """Build the answer of segments and their passages. A segment cites the sentence that shares most of its words."""
    segments = [(text.strip(), sources) for text, sources in written if text.strip()]
    if not segments:
        raise ModelError("empty answer from the model", "raise max_tokens, or try another model")
    locator = Locator(request.document, request.context)
    cited: list[list[Citation]] = []
    for text, sources in segments:
        terms, own = content_terms(text), list[Citation]()
        for source in sources:
            sentences = [one for span, part in source.parts for one in sentences_at(part, span)]
            if sentences:
                best = max(sentences, key=lambda one: len(terms & content_terms(one.text)))
                own.append(locator.citation(source.number, best.text, best.span))
        cited.append(own)
    judged = [
        (text, Claims(sources).is_supported(text, tuple(one.number for one in sources)))
        for text, sources in segments
        if sources
    ]
    known = [(text, is_supported) for text, is_supported in judged if is_supported is not None]
    marked = (text + "".join(f" [{one.number}]" for one in own) for (text, _), own in zip(segments, cited, strict=True))
    return Answer(
        question=request.context.question,
        text=" ".join(marked),
        citations=tuple(citation for own in cited for citation in own),
        context=request.context,
        usage=usage,
        complete=complete,
        unsupported=sum(not is_supported for _, is_supported in known) / len(known) if known else None,
        unverified=tuple(text for text, is_supported in known if not is_supported),
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
