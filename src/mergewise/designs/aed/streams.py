"""The streams of a context and of an answer, and what becomes of them where contexts are merged."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from math import exp, fsum

from mergewise.types import Context, Passage, Reading

PASSAGES, TRIPLETS, MEMORY = "passages", "triplets", "memory"
"""Names of streams: two kinds of what was retrieved, and what the model wrote by itself."""


@dataclass(frozen=True, slots=True)
class StreamUnit:
    """A candidate that a stream reads: S_phi(q, u), and the passages of the context that hold it, by their numbers.

    A passage may hold several candidates, and a candidate may stand in several passages.
    """

    utility: float
    passages: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Stream:
    """What one stream of an ensemble reads: its candidates, the most useful first (Eq. 10 of AED-RAG)."""

    name: str
    units: tuple[StreamUnit, ...]
    beta: float = 0.5

    @property
    def passages(self) -> tuple[int, ...]:
        """The numbers of all its passages, each once, those of the most useful candidate first."""
        return tuple(dict.fromkeys(number for unit in self.units for number in unit.passages))

    @property
    def utilities(self) -> tuple[float, ...]:
        return tuple(unit.utility for unit in self.units)

    @property
    def utility(self) -> float:
        """That of all its candidates together, Eq. 11."""
        return utility(self.utilities, self.beta)

    def within(self, numbers: Collection[int]) -> Stream:
        """The stream that reads these passages alone: candidates of which nothing is read have no part in its utility."""
        return replace(self, units=tuple(unit for unit in self.units if any(n in numbers for n in unit.passages)))


@dataclass(frozen=True, slots=True)
class Ensemble(Reading):
    """How a context wants to be decoded: its streams, whether the model's own background is one more, and how tokens are taken.

    `temperature` 0 takes the best token; above it tokens are drawn, by `seed`. With `together` above 0 nothing is decoded apart:
    so many of the passages and the background, the most useful of them, are read in one prompt. With `na` a background of
    "N/A" is read like any other; without, it has no weight.
    """

    streams: tuple[Stream, ...]
    memory: bool = True
    temperature: float = 0.0
    seed: int = 0
    together: int = 0
    na: bool = False

    def after_merge(self, merged: Context, parts: Sequence[Context]) -> Ensemble:
        """The same settings. A stream has the candidates of the parts of which something is left, each in the passages that
        overlap with its own. It is gone where none is.
        """
        names = dict.fromkeys(stream.name for part in parts for stream in streams_of(part))
        streams = (_merged_stream(name, merged, parts) for name in names)
        return replace(self, streams=tuple(stream for stream in streams if stream.units))


@dataclass(frozen=True, slots=True)
class StreamToken:
    """A token of an answer: its text, the stream that gave it most of its probability, how far the streams agreed, in (0, 1],
    and its log-probability in each stream.
    """

    text: str
    stream: str
    agreement: float
    log_probs: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class StreamWeights:
    """What the streams of an answer weighed, by their names, how useful they were, and what each token came from.

    A stream that was left out has the weight 0. There are no tokens where one stream answered alone through a chat model.
    """

    weights: Mapping[str, float]
    utilities: Mapping[str, float]
    tokens: tuple[StreamToken, ...] = ()

    def as_dict(self) -> dict[str, object]:
        return {**asdict(self), "tokens": list(map(asdict, self.tokens))}

    def lines(self, *, by_token: bool) -> list[list[tuple[str, str]]]:
        """A line for each stream, the answer, and how far the streams agreed."""
        lines = [[(self._weight_line(name), name)] for name in self.weights]
        if not self.tokens:
            return lines
        if by_token:
            lines.append([(token.text, token.stream) for token in self.tokens])
        else:
            runs = groupby(self.tokens, key=lambda token: token.stream)
            lines += [[(_run_line(name, list(run)), name)] for name, run in runs]
        least = min(token.agreement for token in self.tokens)
        mean = _mean_agreement(self.tokens)
        return [*lines, [(f"agreement of the streams: {mean:.2f} on average, {least:.2f} at least", "")]]

    def _weight_line(self, name: str) -> str:
        useful = f", utility {self.utilities[name]:.3f}" if name in self.utilities else ", left out"
        return f"stream {name}: weight {self.weights[name]:.3f}{useful}"


def _run_line(name: str, run: Sequence[StreamToken]) -> str:
    return f"  {name}: {''.join(token.text for token in run)!r}, agreement {_mean_agreement(run):.2f}"


def _mean_agreement(tokens: Sequence[StreamToken]) -> float:
    return sum(token.agreement for token in tokens) / len(tokens)


def utility(scores: Sequence[float], beta: float) -> float:
    """U of AED-RAG's Eq. 11; the scores are best first."""
    return sum(beta**j * score for j, score in enumerate(scores))


def weights_of(utilities: Mapping[str, float]) -> dict[str, float]:
    """w = Softmax([U_D, U_T, U_ss]), Eq. 13, over the streams that there are."""
    most = max(utilities.values())
    shares = {name: exp(utility - most) for name, utility in utilities.items()}
    whole = fsum(shares.values())
    return {name: share / whole for name, share in shares.items()}


def one_stream(context: Context, utilities: Sequence[float]) -> Ensemble:
    """A context that another strategy made, as one stream of all its passages; `utilities` are theirs (Eq. 10 and 11)."""
    units = (StreamUnit(value, (number,)) for number, value in enumerate(utilities, 1))
    return Ensemble((Stream(PASSAGES, tuple(sorted(units, key=lambda unit: -unit.utility))),))


def ensemble_of(context: Context) -> Ensemble | None:
    """The ensemble that the context wants to be read as; None where another design made it."""
    return context.reading if isinstance(context.reading, Ensemble) else None


def streams_of(context: Context) -> tuple[Stream, ...]:
    ensemble = ensemble_of(context)
    return () if ensemble is None else ensemble.streams


# -- contexts that are merged


def _merged_stream(name: str, merged: Context, parts: Sequence[Context]) -> Stream:
    beta = next(stream.beta for part in parts for stream in streams_of(part) if stream.name == name)
    return Stream(name, tuple(sorted(_remaining(name, merged, parts), key=lambda unit: -unit.utility)), beta)


def _remaining(name: str, merged: Context, parts: Sequence[Context]) -> Iterator[StreamUnit]:
    """Each candidate of which something is left, in the passages that have it."""
    written = {passage.text for part in parts for passage in part.passages if not passage.verbatim}
    for part in parts:
        for stream in streams_of(part):
            if stream.name == name:
                for unit in stream.units:
                    own = [part.passages[number - 1] for number in unit.passages]
                    numbers = tuple(n for n, one in enumerate(merged.passages, 1) if _shares_text(one, own, written))
                    if numbers:
                        yield StreamUnit(unit.utility, numbers)


def _shares_text(passage: Passage, own: Sequence[Passage], written: Collection[str]) -> bool:
    """Whether it has something of these passages; what was written, such as a set of triplets, is itself or gone."""
    if not passage.verbatim and passage.text in written:
        return any(passage.text == one.text for one in own)
    return any(span.overlaps(other) for span in passage.spans for one in own if one.verbatim for other in one.spans)
