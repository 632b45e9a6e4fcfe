"""What each stream of a question reads: its passages as far as they fit, or the background that the model wrote."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from mergewise.generate.ensemble import prompts
from mergewise.generate.ensemble.weighing import MEMORY, weights_of
from mergewise.generate.mode import Request
from mergewise.generate.sources import Source, base_sources
from mergewise.prompting.quoting import code_for
from mergewise.types import Ensemble, Message, Step, Stream

Measure = Callable[[Sequence[Message]], int]
"""Tokens of a prompt."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A stream as a prompt: its name, what it reads, and the sources that stand in it."""

    name: str
    messages: list[Message]
    sources: tuple[Source, ...] = ()


@dataclass(slots=True)
class Question:
    """A question on its way to an answer: its streams, their utilities, and the weights of those that are run."""

    request: Request
    ensemble: Ensemble
    readings: list[Reading] = field(default_factory=list)
    utilities: dict[str, float] = field(default_factory=dict)
    weights: dict[str, float] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)

    @property
    def text(self) -> str:
        return self.request.context.question

    @property
    def sources(self) -> list[Source]:
        """All sources of all streams, each once, by their numbers."""
        known = {source.number: source for reading in self.readings for source in reading.sources}
        return [known[number] for number in sorted(known)]

    def read(self, background: str | None, room: int, measure: Measure) -> None:
        """Make the streams, and weigh them. `background` is None where the memory is no stream."""
        request = self.request
        code = code_for([self.text, request.context.text, background or ""])
        numbered = {source.number: source for source in base_sources(request.context, request.document)}
        for stream in self.ensemble.streams:
            sources = [numbered[number] for number in stream.passages]
            self._add(stream, fitting(self.text, sources, code, room, measure), len(sources), code)
        if background is not None:
            self._remember(background, code)
        if self.utilities:
            self.weights |= weights_of(self.utilities)

    def _add(self, stream: Stream, sources: Sequence[Source], given: int, code: str) -> None:
        if len(sources) < given:
            reason = f"{given - len(sources)} passages of the stream {stream.name} do not fit into the window"
            self.steps.append(Step("skip", reason))
        if not sources:
            self.weights[stream.name] = 0.0
            return
        self.readings.append(Reading(stream.name, prompts.answer(self.text, sources, code), tuple(sources)))
        self.utilities[stream.name] = stream.utility

    def _remember(self, background: str, code: str) -> None:
        """The self-sufficiency passage, with its utility (Eq. 12). A stream that says N/A has no weight."""
        if prompts.knows_nothing(background):
            self.weights[MEMORY] = 0.0
            self.steps.append(Step("background", "N/A: the model knows nothing, and its stream has no weight"))
            return
        assert self.request.predictor is not None
        (utility,) = self.request.predictor.utilities(self.text, [background])
        self.steps.append(Step("background", " ".join(background.split()), score=utility))
        self.readings.append(Reading(MEMORY, prompts.answer_from_background(self.text, background, code)))
        self.utilities[MEMORY] = utility


def fitting(question: str, sources: Sequence[Source], code: str, room: int, measure: Measure) -> list[Source]:
    """The first sources that fit together; the last of a stream are the least useful."""
    kept = list(sources)
    while kept and measure(prompts.answer(question, kept, code)) > room:
        kept.pop()
    return kept
