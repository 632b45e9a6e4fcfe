"""A chat model that points at evidence (`weave(select=point)`) against weave's own scores: evidence held, and cost.

The model is called once or twice per question for all budgets: its prompt does not depend on them, and its answers are cached.
An interrupted run resumes, and failed calls are repeated.

An oracle in place of the model shows the upper limit. It knows the gold and points at the gold sentences in its prompt. `oracle`
never asks for more; `oracle+search` also names the section of the first gold sentence missing from its prompt. `random` points at
five random sentences and shows the cost of the worst model. The figures of these three are not results.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from statistics import mean, median
from time import perf_counter

from mergewise.engine import Index
from mergewise.evaluate.metrics import score_context
from mergewise.evaluate.question_sets import Question, QuestionSet
from mergewise.evaluate.run import Split, chosen_questions
from mergewise.evaluate.words import normalise
from mergewise.models import load_chat
from mergewise.models.cache import CachedChat
from mergewise.models.tokens import count_tokens
from mergewise.protocols import ChatModel
from mergewise.text.sentences import split_sentences
from mergewise.types import Context, Message, Reply, Usage

ORACLES = {
    "oracle": "it knows the gold and shows the upper limit",
    "oracle+search": "it knows the gold and its section, and shows the upper limit",
    "random": "it points at random sentences",
}
DRAWN = 5  # sentences chosen by `random`
BUDGETS = (128, 384, 640)
FEW = 8  # characters up to which a gold sentence is ignored


class Oracle:
    """A `ChatModel` that knows the gold of the question `asked`. As `random` it ignores the gold."""

    window = 1_000_000

    def __init__(self, spec: str, task: QuestionSet) -> None:
        self.spec = self.identity = spec
        self.asked: Question | None = None
        self._texts = {document.id: document for document in task.documents}

    async def complete(
        self, messages: Sequence[Message], *, max_tokens: int = 1024, schema: Mapping[str, object] | None = None
    ) -> Reply:
        lines = [normalise(line) for line in messages[1].text.splitlines() if line.partition(".")[0].isdigit()]
        needed: list[int] = []
        missing = ""
        if self.spec == "random":
            drawn = Random(messages[1].text).sample(range(1, len(lines) + 1), min(DRAWN, len(lines)))
            return Reply(json.dumps({"needed": " ".join(map(str, drawn)), "missing": ""}), Usage(1))
        for span, text in (self.asked.evidence or ()) if self.asked else ():
            pieces = [normalise(text[start:end]) for start, end in split_sentences(text)]
            pieces = [piece for piece in pieces if len(piece) >= FEW] or [normalise(text)]
            found = [n for n, line in enumerate(lines, 1) if any(piece in line for piece in pieces)]
            needed += found
            missing = missing or ("" if found else self._heading(span.doc_id, span.start))
        wanted = {"missing": missing if self.spec == "oracle+search" else ""}
        properties = (schema or {}).get("properties")
        last = isinstance(properties, Mapping) and "missing" not in properties
        answer = {"needed": " ".join(map(str, dict.fromkeys(needed)))} | ({} if last else wanted)
        return Reply(json.dumps(answer), Usage(1))

    def _heading(self, doc_id: str, at: int) -> str:
        """Return the last heading before this place, or the title."""
        document = self._texts[doc_id]
        headings = [line for line in document.text[:at].splitlines() if line.startswith("#")]
        return headings[-1].strip("# ") if headings else document.title

    def stream(self, messages: Sequence[Message], *, max_tokens: int = 1024) -> object:
        raise NotImplementedError


class Counting:
    """A `ChatModel` that counts calls and tokens with the shipped vocabulary, also for cached answers."""

    def __init__(self, chat: ChatModel) -> None:
        self.chat = chat
        self.spec, self.identity, self.window = chat.spec, chat.identity, chat.window
        self.usage = Usage()

    async def complete(
        self, messages: Sequence[Message], *, max_tokens: int = 1024, schema: Mapping[str, object] | None = None
    ) -> Reply:
        read = sum(count_tokens([message.text for message in messages]))
        self.usage += Usage(1, read)
        reply = await self.chat.complete(messages, max_tokens=max_tokens, schema=schema)
        self.usage += Usage(0, 0, count_tokens([reply.text])[0] if reply.text else 0)
        return reply

    def stream(self, messages: Sequence[Message], *, max_tokens: int = 1024) -> object:
        return self.chat.stream(messages, max_tokens=max_tokens)


def model_of(spec: str, task: QuestionSet, cache: Path, timeout: float) -> ChatModel | Oracle:
    """Return an oracle, or a model with cached answers. An endpoint gets `timeout` seconds and one request at a time."""
    if spec in ORACLES:
        return Oracle(spec, task)
    if spec.startswith("openai:"):
        from mergewise.models.openai_chat import OpenAIChat

        own: ChatModel | None = OpenAIChat(spec.partition(":")[2], timeout=timeout, concurrency=1, retries=1)
    else:
        own = load_chat(spec)
    if own is None:
        sys.exit(f"invalid chat model: {spec} (expected a model or one of {', '.join(ORACLES)})")
    return CachedChat(own, cache / "answers")


@dataclass(slots=True)
class Held:
    """Evidence in the contexts of one strategy by budget, and the work of its model by question."""

    all: dict[int, list[float]] = field(default_factory=lambda: {budget: [] for budget in BUDGETS})
    evidence: dict[int, list[float]] = field(default_factory=lambda: {budget: [] for budget in BUDGETS})
    usage: list[Usage] = field(default_factory=list)
    pointed: list[int] = field(default_factory=list)
    failed: int = 0
    undecided: int = 0
    searched: int = 0
    seconds: list[float] = field(default_factory=list)

    def add(self, question: Question, context: Context) -> None:
        score = score_context(question, context.text, context.tokens, count_tokens)
        self.all[context.budget].append(score.all or 0.0)
        self.evidence[context.budget].append(score.evidence or 0.0)

    def record_notes(self, context: Context) -> None:
        """Record the notes of the trace on the model."""
        notes = [step.note.as_dict() for step in context.trace if step.note is not None and step.note.kind == "point"]
        self.pointed.append(max((int(str(note["pointed"])) for note in notes), default=0))
        problems = [str(note["problem"]) for note in notes]
        self.failed += any("failed" in problem for problem in problems)
        self.undecided += any(problem and "failed" not in problem for problem in problems)
        self.searched += any(note["round"] == 2 for note in notes)

    def row(self, name: str) -> str:
        cells = [f"{mean(self.evidence[b]):.3f}/{mean(self.all[b]):.3f}" for b in BUDGETS]
        # The first strategy makes the calls. The others get the same answers from the cache.
        if self.usage:
            total = sum(self.usage, Usage())
            count = len(self.usage)
            cells += [f"{total.calls / count:.2f}", f"{total.input_tokens / count:.0f}"]
            cells += [f"{total.output_tokens / count:.0f}", f"{median(self.pointed):.0f}"]
            cells += [f"{self.searched}", f"{self.failed}", f"{self.undecided}", f"{median(self.seconds):.1f}"]
        else:
            cells += ["-"] * 8
        return f"| {name} | " + " | ".join(cells) + " |"


def point(
    tasks: Iterable[tuple[QuestionSet, Index]], spec: str, cache: Path, split: Split, limit: int, options: str
) -> None:
    """Print a Markdown table with a row per set and strategy. Report progress on standard error every ten questions."""
    timeout = 600.0
    odds, first = spec, f"{spec}, first"
    strategies = {
        "weave": "weave",
        odds: f"weave(select=point{options})",
        first: f"weave(select=point, first=yes{options})",
    }
    print(f"evidence/all at {', '.join(map(str, BUDGETS))} tokens, split {split}, at most {limit} questions a set")
    if spec in ORACLES:
        print(f"{spec} is an oracle, not a model: {ORACLES[spec]}")
    print(
        "| | "
        + " | ".join(map(str, BUDGETS))
        + " | calls | read | written | pointed | searched | failed | undecided | s |"
    )
    print("|" + " --- |" * (len(BUDGETS) + 9))
    for task, index in tasks:
        chat = model_of(spec, task, cache, timeout)
        counting = Counting(chat)  # type: ignore[arg-type]
        index._models = replace(index._models, chat=counting)  # type: ignore[arg-type]
        held = {name: Held() for name in strategies}
        for number, question in enumerate(chosen_questions(task, split, limit), 1):
            if isinstance(chat, Oracle):
                chat.asked = question
            for name, strategy in strategies.items():
                for budget in BUDGETS:
                    counting.usage, began = Usage(), perf_counter()
                    context = index.context(question.text, strategy=strategy, budget=budget)
                    held[name].add(question, context)
                    if budget == BUDGETS[0] and name == odds:
                        held[name].usage.append(counting.usage)
                        held[name].seconds.append(perf_counter() - began)
                        held[name].record_notes(context)
            if number % 10 == 0:
                print(f"{task.name}, {number}: {held[odds].row(odds)}", file=sys.stderr, flush=True)
        for name in strategies:
            print(held[name].row(f"{task.name} {name}"), flush=True)
