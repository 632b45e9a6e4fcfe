"""An answer of several streams on a terminal: its tokens in the colour of the stream that each came from."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from mergewise.cli.output import is_plain, say, say_styled
from mergewise.types import Answer, StreamToken

COLOURS = ("green", "cyan", "magenta", "yellow", "blue", "red")


def say_streams(answer: Answer) -> None:
    """The streams with their weights, and the answer by stream; where there are no colours, a line for each run of tokens."""
    streams = answer.streams
    if streams is None:
        return
    colours = {name: COLOURS[i % len(COLOURS)] for i, name in enumerate(streams.weights)}
    say()
    for name, weight in streams.weights.items():
        useful = f", utility {streams.utilities[name]:.3f}" if name in streams.utilities else ", left out"
        say(f"stream {name}: weight {weight:.3f}{useful}", style=colours[name])
    if not streams.tokens:
        return
    if is_plain():
        for name, run in groupby(streams.tokens, key=lambda token: token.stream):
            _say_run(name, list(run))
    else:
        say_styled(*((token.text, colours[token.stream]) for token in streams.tokens))
    agreement = [token.agreement for token in streams.tokens]
    mean, least = sum(agreement) / len(agreement), min(agreement)
    say(f"agreement of the streams: {mean:.2f} on average, {least:.2f} at least", style="dim")


def _say_run(name: str, tokens: Sequence[StreamToken]) -> None:
    agreement = sum(token.agreement for token in tokens) / len(tokens)
    say(f"  {name}: {''.join(token.text for token in tokens)!r}, agreement {agreement:.2f}")
