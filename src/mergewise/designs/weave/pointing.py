"""select=point: a chat model points at the candidates that the question needs, in one call, or in two if something is missing.

The model reads the question and the most relevant candidates as numbered sentences. It answers with the numbers of the needed
sentences, the most needed first, and with a search for missing facts. That search runs once, and the model then chooses again
among its first choice and the new candidates.

The model's order is combined with weave's scores as evidence about a sentence, like its other features: it multiplies the odds
that the sentence is needed by `trust` over its place in the order. The selection under the budget is unchanged. So the
sentences that the model put first mostly come first, forgotten ones can still be selected, and wrong ones have to overcome
weave's own doubt. The parameter `first` is the alternative: pointed sentences first, and weave fills the rest. Pointers of
known quality were simulated on first halves of four sets. The mean of *all* at 128 tokens, by odds and by `first` (weave alone:
0.47): nine of ten gold sentences and one wrong one 0.62 and 0.71, seven of ten and three wrong ones 0.51 and 0.19, five random
ones 0.40 and 0.01. At 640 tokens they differ by 0.02 at most.

If the model fails, or chooses nothing or everything, weave's own scores decide, and the trace notes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import accumulate
from typing import ClassVar, NamedTuple

from mergewise import concurrency
from mergewise.assemble.fragments import SectionKey
from mergewise.assemble.pointing import ReplyForm, Unusable, ask, number_tokens, numbered_lines, numbers_of, value_in
from mergewise.designs.weave.evidence import Candidates, SentencePool, by_score, judge
from mergewise.designs.weave.parameters import Weave
from mergewise.designs.weave.selection import needed_by
from mergewise.errors import ModelError
from mergewise.models.record import Models
from mergewise.prompting.quoting import code_for, quotation, turn, warning
from mergewise.prompting.replies import object_schema
from mergewise.protocols import ChatModel, FloatArray
from mergewise.text.spans import one_line
from mergewise.types import Message, Note, Prompts, PromptTemplate, Step, Usage, frozen

LEAST = 2  # minimum candidates for a call
WINDOW_SHARE = 0.95  # of the model's window that is filled, since its tokens may differ from ours


@frozen
class PointNote(Note):
    """One round: sentences shown, sentences pointed at, the search for missing facts, and the reason of a failure."""

    kind: ClassVar[str] = "point"

    round: int
    shown: int
    pointed: int = 0
    missing: str = ""
    calls: int = 0
    problem: str = ""

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


@frozen
class Pointed:
    """The candidates that the model pointed at, the most needed first, and the usage.

    `found` maps candidates of the second search to the probability that they are needed for the missing fact.
    """

    needed: tuple[int, ...] = ()
    usage: Usage = field(default_factory=Usage)
    found: Mapping[int, float] = field(default_factory=dict)

    def raise_relevance(self, relevance: FloatArray, trust: float) -> FloatArray:
        """Return the probabilities after pointing: the odds of the n-th of the `needed` times `trust` / n, never lowered."""
        raised = relevance.copy()
        for place, i in enumerate(self.needed, 1):
            before, factor = max(float(relevance[i]), self.found.get(i, 0.0)), max(1.0, trust / place)
            raised[i] = factor * before / (1 - before + factor * before)
        return raised


Search = Callable[[str], Candidates]
"""A function that returns the candidates of another question, in the same index and under the same condition."""


def point(
    candidates: Candidates, search: Search, chat: ChatModel, models: Models, parameters: Weave, trace: list[Step]
) -> tuple[Candidates, Pointed]:
    """Let the model point at candidates. Returns the candidates with those of the second round."""
    pool = candidates.pool
    pointer = _Pointer(pool, chat, models, parameters, trace)
    first = pointer.ask(1, pointer.selectable(by_score(candidates.relevance))[: parameters.shown])
    chosen, wanted = Pointed(first.needed, pointer.usage), first.missing
    if not wanted or _search_key(wanted) == _search_key(pool.asked.text):
        return candidates, chosen
    try:
        other = search(wanted)
    except ModelError as error:
        trace.append(Step("point", f"the search for “{wanted}” failed: {error.message}; the first choice is kept"))
        return candidates, chosen
    # The best candidates of the search are added, with their needed sentences.
    best, sentences = other.best(2 * parameters.shown), other.pool.sentences
    bundles = needed_by(other.pool, best, parameters.previous)
    needed = dict.fromkeys(j for i in best if i in bundles for j in (i, *bundles[i]))
    pool.add({leaf.id: leaf for i in needed if (leaf := sentences[i].leaf)}.values())
    places = [(sentences[i], float(other.relevance[i])) for i in best if i in bundles]
    here = [(pool.at(place.leaf.id, place.number), relevance) for place, relevance in places]
    candidates = judge(pool, candidates.signals)
    found = {i: relevance for i, relevance in here if i is not None}
    room = parameters.shown - len(first.needed)
    fresh = [i for i in pointer.selectable(list(found)) if i not in pointer.seen][:room]
    spans = tuple(pool.sentences[i].span for i in fresh)
    trace.append(Step("round", wanted, spans) if fresh else Step("point", f"nothing new was found for “{wanted}”"))
    if not fresh:
        return candidates, chosen
    second = pointer.ask(2, [*first.needed, *fresh])
    return candidates, Pointed(tuple(dict.fromkeys((*second.needed, *first.needed))), pointer.usage, found)


@dataclass(slots=True)
class _Pointer:
    """The questions to a model about the candidates of one question. `seen` are the candidates shown so far."""

    pool: SentencePool
    chat: ChatModel
    models: Models
    parameters: Weave
    trace: list[Step]
    usage: Usage = field(default_factory=Usage)
    seen: set[int] = field(default_factory=set)

    def selectable(self, best: Sequence[int]) -> list[int]:
        """Return the candidates that can be selected, since everything that they need is known."""
        among = best[: self.parameters.shown + len(self.seen)]
        known = needed_by(self.pool, among, self.parameters.previous)
        return [i for i in among if i in known]

    def ask(self, round: int, best: Sequence[int]) -> NeededSentences:
        """Return the model's choice among these candidates, by their own numbers, or an empty choice if the model fails."""
        # The first candidates whose lines fit into the model's window with the task and the answer.
        frame = [message.text for message in messages(self.pool.asked.text, (), self.models.prompts, last=False)]
        counts = self.models.count_tokens([*frame, *(self._lines([i])[0] for i in best)])
        room = int(WINDOW_SHARE * self.chat.window) - form(len(best), last=False).tokens - sum(counts[: len(frame)])
        filled = accumulate(tokens + 1 for tokens in counts[len(frame) :])
        shown = [i for i, tokens in zip(best, filled, strict=True) if tokens <= room]
        # In reading order: by sections, that of the best candidate first, and within a section by position.
        sentences = self.pool.sentences
        rank: dict[SectionKey, int] = {}
        for i in shown:
            rank.setdefault(sentences[i].section, len(rank))
        shown.sort(key=lambda i: (rank[sentences[i].section], sentences[i].sentence.start))
        self.seen.update(shown)
        needed: tuple[int, ...] = ()
        usage, missing, problem = Usage(), "", "too few sentences to choose among"
        if len(shown) >= LEAST:
            asked = messages(self.pool.asked.text, self._lines(shown), self.models.prompts, last=round > 1)
            try:
                choice, usage = concurrency.run(ask(self.chat, asked, form(len(shown), last=round > 1)))
                needed = tuple(shown[number - 1] for number in choice.needed)
                problem = "" if needed else "the model pointed at nothing"
                if len(needed) == len(shown):
                    needed, problem = (), "the model pointed at everything"
                missing = "" if round > 1 else choice.missing
            except Unusable as error:
                usage, problem = error.usage, f"the model failed: {error.message}"
        self.usage += usage
        note = PointNote(round, len(shown), len(needed), missing, usage.calls, problem)
        reason = problem or f"{len(needed)} of {len(shown)} sentences are needed, in this order"
        reason += f"; asked for next: “{missing}”" if missing else ""
        reason += "; weave's own scores decide" if problem and round == 1 and not missing else ""
        self.trace.append(Step("point", reason, tuple(sentences[i].span for i in needed), note=note))
        return NeededSentences(needed, missing)

    def _lines(self, shown: Sequence[int]) -> list[str]:
        """Return the numbered sentences. Needed sentences that are not shown come before them in square brackets."""
        sentences, known = self.pool.sentences, set(shown)
        texts = []
        for candidate in shown:
            needed = self.pool.bundle(candidate, previous=self.parameters.previous) or ()
            leads = " ".join(sentences[i].text for i in needed if i not in known)
            text = sentences[candidate].text
            texts.append((sentences[candidate].fragment, f"[{leads}] {text}" if leads else text))
        return list(numbered_lines(texts))


def _search_key(text: str) -> str:
    return one_line(text.casefold()).rstrip("?.! ")


LONGEST_SEARCH = 300  # characters of the next search; a longer text is cut off
_SEARCH_TOKENS = 96  # maximum tokens of the search in an answer
_NOTHING = {"", "none", "nothing", "null", "no", "n/a", "na", "-"}

_NUMBERS = {"type": "string", "description": "numbers of sentences, the most needed first, such as 12 3 40"}
_SEARCH = {"type": "string", "description": "what to search for next; empty where nothing is missing"}
POINT = PromptTemplate(
    "point",
    "chooses the sentences that a question needs (weave with select=point); `$form` says how to answer",
    """\
You choose evidence. A question is to be answered from sentences of documents. They are numbered, and the first of each \
section has its title and headings in brackets. Say which of them a reader needs to answer the question, the most needed \
first: those that state the answer, and those that give a step on the way to it, such as who or what the question \
means without naming it. Leave out what merely speaks of the same things, and what another one says already. \
Mostly two to six are enough. $form""",
    needs=("form",),
)
PROMPTS = {POINT.name: POINT}
_FIRST = (
    'Answer with JSON alone: {"needed":"12 3 40","missing":""} for sentences 12, 3 and 40, "needed":"" if none helps. If a '
    'fact that the answer needs stands in none of the sentences, "missing" is one short search for it, by the names that the '
    "sentences give; else it stays empty. Do not answer the question."
)
_LAST = (
    'Answer with JSON alone: {"needed":"12 3 40"} for sentences 12, 3 and 40, "needed":"" if none helps. '
    "Do not answer the question."
)


class NeededSentences(NamedTuple):
    """The numbers of the needed sentences, the most needed first, and the next search, or ""."""

    needed: tuple[int, ...]
    missing: str = ""


def messages(question: str, lines: Sequence[str], own: Prompts, *, last: bool) -> list[Message]:
    """Return the messages with the question and the numbered sentences. The `last` round asks for no further search."""
    shown = "\n".join(lines)
    code = code_for([question, shown])
    task = own.fill(POINT, form=_LAST if last else _FIRST)
    task += f"\n\n{warning('sentences')}"
    return turn(task, [f"Question: {question}", quotation("sentences", shown, code)], code)


def form(count: int, *, last: bool) -> ReplyForm[NeededSentences]:
    """Return the form of the answer for a choice among `count` sentences."""
    properties = {"needed": _NUMBERS} if last else {"needed": _NUMBERS, "missing": _SEARCH}
    written = ",".join(f'"{name}":"..."' for name in properties)
    shape = f'{{{written}}}, "needed" with numbers from 1 to {count}'
    tokens = number_tokens(count) + (0 if last else _SEARCH_TOKENS)
    return ReplyForm(object_schema(properties), shape, tokens, lambda answer: choice_in(answer, count))


def choice_in(answer: str, count: int) -> NeededSentences | str:
    """Return the choice in an answer, or a text that describes the problem. Bare numbers are a choice with nothing missing."""
    value = value_in(answer)
    if isinstance(value, dict):
        if not {"needed"} <= set(value) <= {"needed", "missing"}:
            return 'it is no object with the keys "needed" and "missing"'
        numbers, missing = value["needed"], value.get("missing") or ""
    else:
        numbers, missing = value, ""
    if not isinstance(missing, str):
        return '"missing" is no text'
    found = numbers_of(numbers, count)
    return found if isinstance(found, str) else NeededSentences(tuple(found), searchable(missing))


def searchable(missing: str) -> str:
    """Return the missing fact as a search of one line, or "" if the text says that nothing is missing."""
    line = " ".join(missing.encode("utf-8", "replace").decode().replace("\0", " ").split())[:LONGEST_SEARCH]
    plain = line.strip(" .`_*\"'").casefold()
    return line if plain not in _NOTHING and any(map(str.isalnum, plain)) else ""
