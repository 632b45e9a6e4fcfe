"""What each stream of a question reads: its passages as far as they fit, or the background that the model wrote."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from mergewise.designs.aed.ensemble import prompts
from mergewise.designs.aed.streams import MEMORY, Ensemble, Stream, weights_of
from mergewise.generate.mode import Request
from mergewise.generate.sources import Source, base_sources
from mergewise.prompting.quoting import code_for
from mergewise.types import Message, Step

TOGETHER = "together"

Measure = Callable[[Sequence[Message]], int]
"""Tokens of a prompt."""


@dataclass(frozen=True, slots=True)
class StreamPrompt:
    """A stream as a prompt: its name, what it reads, and the sources that stand in it."""

    name: str
    messages: list[Message]
    sources: tuple[Source, ...] = ()


@dataclass(slots=True)
class StreamedQuestion:
    """A question on its way to an answer: its streams, their utilities, and the weights of those that are run."""

    request: Request
    ensemble: Ensemble
    readings: list[StreamPrompt] = field(default_factory=list)
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
        if self.ensemble.together:
            self._read_together(list(numbered.values()), background, code, room, measure)
            return
        for stream in self.ensemble.streams:
            sources = [numbered[number] for number in stream.passages]
            self._add(stream, sources_that_fit(self.text, sources, code, room, measure), len(sources), code)
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
        self.readings.append(StreamPrompt(stream.name, prompts.answer(self.text, sources, code), tuple(sources)))
        self.utilities[stream.name] = stream.within([source.number for source in sources]).utility

    def _read_together(
        self, sources: Sequence[Source], background: str | None, code: str, room: int, measure: Measure
    ) -> None:
        """One prompt of the most useful passages, with the background among them where it is one of these (GainRAG)."""
        worth = dict(self._worth())
        best = sorted(sources, key=lambda source: -worth.get(source.number, source.score))
        ranked: list[Source | str] = [*best]
        utility = None if background is None else self._utility(background)
        if background is not None and utility is not None:
            ranked.insert(sum(worth.get(source.number, source.score) >= utility for source in best), background)
        kept = ranked[: self.ensemble.together]
        while len(kept) > 1 and measure(prompts.answer_from_all(self.text, kept, code)) > room:
            kept.pop()
        if len(kept) < min(len(ranked), self.ensemble.together):
            self.steps.append(Step("skip", "not all of the most useful passages fit into the window"))
        shown = tuple(source for source in kept if isinstance(source, Source))
        self.readings.append(StreamPrompt(TOGETHER, prompts.answer_from_all(self.text, kept, code), shown))
        self.weights[TOGETHER] = 1.0
        read = [worth.get(source.number, source.score) for source in shown]
        if utility is not None and background in kept:
            read.append(utility)
        self.utilities[TOGETHER] = max(read, default=0.0)

    def _worth(self) -> Iterator[tuple[int, float]]:
        """The utility of each passage; of several candidates in one the best one's, which comes last."""
        for stream in self.ensemble.streams:
            for unit in reversed(stream.units):
                yield from ((number, unit.utility) for number in unit.passages)

    def _utility(self, background: str) -> float | None:
        """S_phi(q, d_ss), Eq. 12; None where the model knows nothing, unless that is to be read, too."""
        if prompts.knows_nothing(background) and not (self.ensemble.na and background.strip()):
            self.steps.append(Step("background", "N/A: the model knows nothing, and its stream has no weight"))
            return None
        (utility,) = self.request.models.utilities.utilities(self.text, [background])
        self.steps.append(Step("background", " ".join(background.split()), score=utility))
        return utility

    def _remember(self, background: str, code: str) -> None:
        """The self-sufficiency passage, with its utility, or with no weight."""
        utility = self._utility(background)
        if utility is None:
            self.weights[MEMORY] = 0.0
            return
        self.readings.append(StreamPrompt(MEMORY, prompts.answer_from_background(self.text, background, code)))
        self.utilities[MEMORY] = utility


def sources_that_fit(question: str, sources: Sequence[Source], code: str, room: int, measure: Measure) -> list[Source]:
    """The first sources that fit together; the last of a stream are the least useful."""
    kept = list(sources)
    while kept and measure(prompts.answer(question, kept, code)) > room:
        kept.pop()
    return kept
