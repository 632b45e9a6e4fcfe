"""The prompt of each stream of a question: the passages that fit, or the background that the model wrote."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from mergewise.designs.aed.ensemble import prompts
from mergewise.designs.aed.ensemble.prompts import Written
from mergewise.designs.aed.streams import MEMORY, Ensemble, weights_of
from mergewise.errors import UsageError
from mergewise.generate.mode import Request
from mergewise.generate.sources import Source, base_sources
from mergewise.prompting.quoting import code_for
from mergewise.text.spans import one_line
from mergewise.types import Message, Step, Usage

if TYPE_CHECKING:
    from mergewise.protocols import CausalModel, ChatModel

Text = TypeVar("Text", Source, Source | str)

TOGETHER = "together"
# share of the window to keep free, since a chat model counts tokens by another tokenizer
_MARGIN = 0.05


class ModelWindow(NamedTuple):
    """The window of the model `spec`: tokens for a prompt (`room`, counted by `measure`) and for an answer (`limit`).

    An answer gets at most a quarter of the window.
    """

    spec: str
    room: int
    limit: int
    measure: Callable[[Sequence[Message]], int]

    @classmethod
    def of_causal(cls, causal: CausalModel, max_tokens: int) -> ModelWindow:
        limit = max(1, min(max_tokens, causal.window // 4))
        return cls(causal.spec, causal.window - limit, limit, lambda messages: len(causal.prompt(messages)))

    @classmethod
    def of_chat(cls, chat: ChatModel, request: Request) -> ModelWindow:
        def measure(messages: Sequence[Message]) -> int:
            return sum(request.models.count_tokens([message.text for message in messages]))

        limit = max(1, min(request.max_tokens, chat.window // 4))
        return cls(chat.spec, int(chat.window * (1 - _MARGIN)) - limit, limit, measure)


class StreamPrompt(NamedTuple):
    """The prompt of a stream, with the stream's name and the sources in the prompt."""

    name: str
    messages: list[Message]
    sources: tuple[Source, ...] = ()


@dataclass(slots=True)
class StreamedQuestion:
    """The state of a question: its prompts, the utilities and weights of its streams, trace steps, and usage."""

    request: Request
    ensemble: Ensemble
    window: ModelWindow
    readings: list[StreamPrompt] = field(default_factory=list)
    utilities: dict[str, float] = field(default_factory=dict)
    weights: dict[str, float] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    spent: Usage = field(default_factory=Usage)

    @property
    def text(self) -> str:
        return self.request.context.question

    @property
    def sources(self) -> list[Source]:
        """Distinct sources of all streams, by number."""
        known = {source.number: source for reading in self.readings for source in reading.sources}
        return [known[number] for number in sorted(known)]

    def read(self, background: str | None) -> None:
        """Build and weight the streams. `background` is None without a stream of the model's own background."""
        request = self.request
        code = code_for([self.text, request.context.text, background or ""])
        numbered = {source.number: source for source in base_sources(request.context, request.document)}
        if self.ensemble.together:
            self._read_together(list(numbered.values()), background, code)
            return
        for stream in self.ensemble.streams:
            sources = [numbered[number] for number in stream.passages]
            kept = self.texts_that_fit(sources, code)
            if len(kept) < len(sources):
                reason = f"{len(sources) - len(kept)} passages of the stream {stream.name} do not fit into the window"
                self.steps.append(Step("skip", reason))
            if not kept:
                self.weights[stream.name] = 0.0
                continue
            self.readings.append(StreamPrompt(stream.name, self.prompt(kept, code), tuple(kept)))
            self.utilities[stream.name] = stream.within([source.number for source in kept]).utility
        # The self-sufficiency passage is a stream, or has weight 0 if the model knows nothing.
        utility = None if background is None else self._background_utility(background)
        if background is not None and utility is not None:
            self.readings.append(StreamPrompt(MEMORY, self.prompt([background], code)))
            self.utilities[MEMORY] = utility
        elif background is not None:
            self.weights[MEMORY] = 0.0
        if self.utilities:
            self.weights |= weights_of(self.utilities)
        self.check_readings()

    def check_readings(self) -> None:
        """Raise UsageError if no stream has anything to read."""
        if not self.readings:
            problem = f"no passage fits into the window of {self.window.spec}, and no background is available"
            raise UsageError(problem, "lower --budget or max_tokens")

    def read_alone(self, reading: StreamPrompt) -> None:
        """Use this prompt only."""
        self.readings, self.weights = [reading], {reading.name: 1.0}

    def prompt(self, texts: Sequence[Text], code: str, written: Written = "background") -> list[Message]:
        """Return the prompt of an answer from the texts."""
        return prompts.answer(self.text, texts, code, self.request.models.prompts, written)

    def texts_that_fit(self, texts: Sequence[Text], code: str, least: int = 0) -> list[Text]:
        """Drop texts from the end until the prompt fits. Return at least `least` of them."""
        kept = list(texts)
        while len(kept) > least and self.window.measure(self.prompt(kept, code)) > self.window.room:
            kept.pop()
        return kept

    def _read_together(self, sources: Sequence[Source], background: str | None, code: str) -> None:
        """Build a single prompt of the most useful texts. The background competes with the passages (GainRAG)."""
        # The utility of each passage. The best of several candidates in a passage comes last.
        worth = {
            number: unit.utility
            for stream in self.ensemble.streams
            for unit in reversed(stream.units)
            for number in unit.passages
        }
        best = sorted(sources, key=lambda source: -worth.get(source.number, source.score))
        ranked: list[Source | str] = [*best]
        utility = None if background is None else self._background_utility(background)
        if background is not None and utility is not None:
            ranked.insert(sum(worth.get(source.number, source.score) >= utility for source in best), background)
        wanted = ranked[: self.ensemble.together]
        kept = self.texts_that_fit(wanted, code, least=1)
        if len(kept) < len(wanted):
            self.steps.append(Step("skip", "some of the most useful passages do not fit into the window"))
        shown = tuple(source for source in kept if isinstance(source, Source))
        self.readings.append(StreamPrompt(TOGETHER, self.prompt(kept, code), shown))
        self.weights[TOGETHER] = 1.0
        read = [worth.get(source.number, source.score) for source in shown]
        if utility is not None and background in kept:
            read.append(utility)
        self.utilities[TOGETHER] = max(read, default=0.0)

    def _background_utility(self, background: str) -> float | None:
        """Return S_phi(q, d_ss), Eq. 12, or None if the model knows nothing and `na` is off."""
        if prompts.knows_nothing(background) and not (self.ensemble.na and background.strip()):
            self.steps.append(Step("background", "N/A: the model knows nothing, so its stream has no weight"))
            return None
        (utility,) = self.request.models.utilities.utilities(self.text, [background])
        self.steps.append(Step("background", one_line(background), score=utility))
        return utility
