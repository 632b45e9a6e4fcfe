"""The streams of a context and of an answer, and how streams are merged along with contexts."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import groupby
from math import exp, fsum

from mergewise.types import Context, Passage, Reading, frozen

PASSAGES, TRIPLETS, MEMORY = "passages", "triplets", "memory"
"""Names of streams: two kinds of retrieved text, and the background that the model writes."""


@frozen
class StreamUnit:
    """A candidate of a stream: its utility S_phi(q, u), and the numbers of the context's passages that hold it.

    A passage may hold several candidates, and a candidate may be spread over several passages.
    """

    utility: float
    passages: tuple[int, ...]


@frozen
class Stream:
    """The candidates of a stream, the most useful first (Eq. 10 of AED-RAG)."""

    name: str
    units: tuple[StreamUnit, ...]
    beta: float = 0.5

    @property
    def passages(self) -> tuple[int, ...]:
        """Distinct numbers of the stream's passages, in the order of its candidates."""
        return tuple(dict.fromkeys(number for unit in self.units for number in unit.passages))

    @property
    def utilities(self) -> tuple[float, ...]:
        return tuple(unit.utility for unit in self.units)

    @property
    def utility(self) -> float:
        """Joint utility of all candidates, Eq. 11."""
        return utility(self.utilities, self.beta)

    def within(self, numbers: Collection[int]) -> Stream:
        """Restrict the stream to the candidates with text in these passages. The others no longer count for its utility."""
        return replace(self, units=tuple(unit for unit in self.units if any(n in numbers for n in unit.passages)))


@frozen
class Ensemble(Reading):
    """The decoding settings of a context: its streams, and whether to add the model's own background (`memory`).

    If `together` is above 0, the streams are not decoded separately: one prompt has the `together` most useful of the passages
    and the background. With `na`, a background of "N/A" is read like any other. Otherwise it has no weight.
    """

    streams: tuple[Stream, ...]
    memory: bool = True
    together: int = 0
    na: bool = False

    def after_merge(self, merged: Context, parts: Sequence[Context]) -> Ensemble:
        """Return the same settings, with streams for the merged context.

        A stream keeps the candidates of all parts that still have text in the merged passages. A stream without candidates is
        dropped.
        """
        written = {passage.text for part in parts for passage in part.passages if not passage.verbatim}
        betas: dict[str, float] = {}
        units: dict[str, list[StreamUnit]] = {}
        known = ((part, part.reading.streams) for part in parts if isinstance(part.reading, Ensemble))
        for part, stream in ((part, stream) for part, streams in known for stream in streams):
            betas.setdefault(stream.name, stream.beta)
            for unit in stream.units:
                own = [part.passages[number - 1] for number in unit.passages]
                numbers = tuple(n for n, one in enumerate(merged.passages, 1) if _shares_text(one, own, written))
                if numbers:
                    units.setdefault(stream.name, []).append(StreamUnit(unit.utility, numbers))
        streams = (
            Stream(name, tuple(sorted(units[name], key=lambda unit: -unit.utility)), beta)
            for name, beta in betas.items()
            if name in units
        )
        return replace(self, streams=tuple(streams))


@frozen
class StreamToken:
    """A token of an answer.

    Attributes:
        text: Text of the token.
        stream: The stream that contributed most of its probability.
        agreement: Agreement of the streams, in (0, 1].
        log_probs: Log-probability of the token in each stream.
    """

    text: str
    stream: str
    agreement: float
    log_probs: Mapping[str, float]


@frozen
class StreamWeights:
    """Weights and utilities of an answer's streams by name, and the streams of each token.

    A skipped stream has the weight 0. `tokens` is empty if a chat model answered from a single stream.
    """

    weights: Mapping[str, float]
    utilities: Mapping[str, float]
    tokens: tuple[StreamToken, ...] = ()

    def as_dict(self) -> dict[str, object]:
        return {**asdict(self), "tokens": list(map(asdict, self.tokens))}

    def lines(self, *, by_token: bool) -> list[list[tuple[str, str]]]:
        """Format a line per stream, the answer, and the agreement of the streams.

        Args:
            by_token: Show single tokens instead of runs of tokens from the same stream.
        """
        lines = []
        for name, weight in self.weights.items():
            useful = f"utility {self.utilities[name]:.3f}" if name in self.utilities else "skipped"
            lines.append([(f"stream {name}: weight {weight:.3f}, {useful}", name)])
        if not self.tokens:
            return lines
        if by_token:
            lines.append([(token.text, token.stream) for token in self.tokens])
        else:
            runs = groupby(self.tokens, key=lambda token: token.stream)
            for name, grouped in runs:
                run = list(grouped)
                text = "".join(token.text for token in run)
                lines.append([(f"  {name}: {text!r}, agreement {_mean_agreement(run):.2f}", name)])
        least = min(token.agreement for token in self.tokens)
        mean = _mean_agreement(self.tokens)
        return [*lines, [(f"agreement of the streams: mean {mean:.2f}, minimum {least:.2f}", "")]]


def _mean_agreement(tokens: Sequence[StreamToken]) -> float:
    return sum(token.agreement for token in tokens) / len(tokens)


def utility(scores: Sequence[float], beta: float) -> float:
    """Return U of AED-RAG's Eq. 11, for scores in descending order."""
    return sum(beta**j * score for j, score in enumerate(scores))


def weights_of(utilities: Mapping[str, float]) -> dict[str, float]:
    """Return w = Softmax([U_D, U_T, U_ss]), Eq. 13, over the available streams."""
    most = max(utilities.values())
    shares = {name: exp(utility - most) for name, utility in utilities.items()}
    whole = fsum(shares.values())
    return {name: share / whole for name, share in shares.items()}


def one_stream(context: Context, utilities: Sequence[float]) -> Ensemble:
    """Return a stream of all passages of a context from another strategy, with their `utilities` (Eq. 10 and 11)."""
    units = (StreamUnit(value, (number,)) for number, value in enumerate(utilities, 1))
    return Ensemble((Stream(PASSAGES, tuple(sorted(units, key=lambda unit: -unit.utility))),))


def ensemble_of(context: Context) -> Ensemble | None:
    """Return the ensemble of the context, or None if another design assembled it."""
    return context.reading if isinstance(context.reading, Ensemble) else None


# -- merging contexts


def _shares_text(passage: Passage, own: Sequence[Passage], written: Collection[str]) -> bool:
    """Check whether a passage has text of `own`. A written passage, such as a triplet set, must be identical."""
    if not passage.verbatim and passage.text in written:
        return any(passage.text == one.text for one in own)
    return any(span.overlaps(other) for span in passage.spans for one in own if one.verbatim for other in one.spans)
