"""The trace of a strategy for people: each step with its sentences, then the best candidates that were left out. Also the
weights of an answer's streams.
"""

from __future__ import annotations

from collections.abc import Sequence

from mergewise.cli.output import is_plain, say, say_styled
from mergewise.cli.places import Locations, place
from mergewise.types import Answer, Cause, Quoter, Span, Step, frozen

LEFT_OUT = {Cause.LEFT: 5, Cause.SKIP: 3, Cause.DROP: 3}
"""Causes of steps that selected nothing, each with the number of its best steps to show."""
SHOWN_SPANS = 4
COLOURS = ("green", "cyan", "magenta", "yellow", "blue", "red")


def say_trace(steps: Sequence[Step], places: Locations) -> None:
    """Print all steps that selected text, and the best steps that left text out."""
    quotes = Quotes(places)
    places.names.look_up(span.doc_id for step in steps for span in step.inputs)
    say()
    for step in steps:
        if step.cause not in LEFT_OUT:
            _say_step(step, quotes)
    for cause in LEFT_OUT:
        own = [step for step in steps if step.cause is cause]
        for step in sorted(own, key=lambda step: 0.0 if step.score is None else -step.score)[: LEFT_OUT[cause]]:
            _say_step(step, quotes)
        if (more := len(own) - LEFT_OUT[cause]) > 0:
            say(f"{cause}: {more} more {'did not fit' if cause is Cause.SKIP else 'were left out'}", style="dim")


def say_streams(answer: Answer) -> None:
    """Print the weights of an answer's streams, and the answer in their colours, or token by token without colours."""
    if answer.streams is None:
        return
    colours = {name: COLOURS[i % len(COLOURS)] for i, name in enumerate(answer.streams.weights)}
    say()
    for line in answer.streams.lines(by_token=not is_plain()):
        say_styled(*((text, colours.get(name, "dim")) for text, name in line))


def _say_step(step: Step, quotes: Quotes) -> None:
    lines = None if step.note is None else step.note.lines(step, quotes)
    if lines is None:
        score = f"  score {step.score:.3f}" if step.score is not None else ""
        head = f"{step.action}: {step.reason}{score}"
        lines = [head, *(f"    {quotes.quote(span)}" for span in step.inputs[:SHOWN_SPANS])]
        if len(step.inputs) > SHOWN_SPANS:
            lines.append(f"    and {len(step.inputs) - SHOWN_SPANS} more")
        if step.output and step.output not in step.inputs:
            lines.append(f"    → {quotes.quote(step.output)}")
    for line in lines:
        say(line, style="dim")


@frozen
class Quotes(Quoter):
    """Quoter that names spans by their places in files."""

    places: Locations

    def where(self, spans: Sequence[Span]) -> str:
        return self.places.of(spans)

    def quote(self, span: Span) -> str:
        return f"{place(self.places.citation(span), self.places.names)}  {self.places.quote(span)}".rstrip()
