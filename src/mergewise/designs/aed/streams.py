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
class Stream:
    """What one stream of an ensemble reads: `passages` of its context, by their numbers, the most useful first.

    `utilities` are those of its candidates, best first (Eq. 10 of AED-RAG), and `utility` is that of all of them (Eq. 11).
    """

    name: str
    passages: tuple[int, ...]
    utilities: tuple[float, ...]
    utility: float

    def passages_of(self, place: int) -> Sequence[int]:
        """The passages of a candidate: its own where each has one, else all."""
        return self.passages[place : place + 1] if len(self.passages) == len(self.utilities) else self.passages


@dataclass(frozen=True, slots=True)
class Ensemble(Reading):
    """How a context wants to be decoded: its streams, whether the model's own background is one more, and how tokens are taken.

    `temperature` 0 takes the best token; above it tokens are drawn, by `seed`. With `together` above 0 nothing is decoded apart:
    so many of the passages and the background, the most useful of them, are read in one prompt. `beta` is that of Eq. 11.
    """

    streams: tuple[Stream, ...]
    memory: bool = True
    temperature: float = 0.0
    seed: int = 0
    together: int = 0
    beta: float = 0.5

    def after_merge(self, merged: Context, parts: Sequence[Context]) -> Ensemble:
        """The same settings. A stream has the passages that overlap with its own in one of the parts, and the utilities of
        those, best first. It is gone where no passage is left of it.
        """
        names = dict.fromkeys(stream.name for part in parts for stream in streams_of(part))
        streams = (_merged_stream(name, merged, parts, self.beta) for name in names)
        return replace(self, streams=tuple(stream for stream in streams if stream.passages))


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
    ranked = sorted(range(len(context.passages)), key=lambda i: -utilities[i])
    best = tuple(utilities[i] for i in ranked)
    ensemble = Ensemble(())
    total = utility(best, ensemble.beta)
    return replace(ensemble, streams=(Stream(PASSAGES, tuple(i + 1 for i in ranked), best, total),))


def ensemble_of(context: Context) -> Ensemble | None:
    """The ensemble that the context wants to be read as; None where another design made it."""
    return context.reading if isinstance(context.reading, Ensemble) else None


def streams_of(context: Context) -> tuple[Stream, ...]:
    ensemble = ensemble_of(context)
    return () if ensemble is None else ensemble.streams


# -- contexts that are merged


def _merged_stream(name: str, merged: Context, parts: Sequence[Context], beta: float) -> Stream:
    found = sorted(_remaining(name, merged, parts), key=lambda pair: -pair[0])
    scores = tuple(score for score, _ in found)
    numbers = tuple(dict.fromkeys(number for _, own in found for number in own))
    return Stream(name, numbers, scores, utility(scores, beta))


def _remaining(name: str, merged: Context, parts: Sequence[Context]) -> Iterator[tuple[float, list[int]]]:
    """The utility of each candidate of which something is left, and the numbers of the passages that have it."""
    written = {passage.text for part in parts for passage in part.passages if not passage.verbatim}
    for part in parts:
        for stream in streams_of(part):
            if stream.name == name:
                for place, score in enumerate(stream.utilities):
                    own = [part.passages[number - 1] for number in stream.passages_of(place)]
                    numbers = [n for n, one in enumerate(merged.passages, 1) if _shares_text(one, own, written)]
                    if numbers:
                        yield score, numbers


def _shares_text(passage: Passage, own: Sequence[Passage], written: Collection[str]) -> bool:
    """Whether it has something of these passages; what was written, such as a set of triplets, is itself or gone."""
    if not passage.verbatim and passage.text in written:
        return any(passage.text == one.text for one in own)
    return any(span.overlaps(other) for span in passage.spans for one in own if one.verbatim for other in one.spans)
