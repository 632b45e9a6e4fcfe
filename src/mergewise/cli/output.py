"""What commands print: text for people, or JSON, on standard output; progress and errors on standard error.

Names and texts may hold what steers a terminal. Whatever is drawn on one, and every line on standard error, is made printable; a
file or a pipe gets texts as they are, since a context that is passed on must be verbatim. JSON says the same in escapes.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from mergewise.cli.places import DocumentNames, joined_places
from mergewise.redaction import masked
from mergewise.text.keys import heading_path
from mergewise.text.printable import escaped_json, on_one_line, printable
from mergewise.types import Answer, Citation, VectorCount

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment

# around marked text, where colours may be missing
OPENS, CLOSES = "⟦", "⟧"

PIPED_WIDTH = 240


@cache
def console(*, stderr: bool = False) -> Console:
    from rich.console import Console

    # a pipe has no width: what is drawn as a tree or a table gets enough, unless COLUMNS says otherwise
    fixed = "COLUMNS" in os.environ or (sys.stderr if stderr else sys.stdout).isatty()
    return Console(stderr=stderr, highlight=False, emoji=False, soft_wrap=True, width=None if fixed else PIPED_WIDTH)


def is_plain(*, stderr: bool = False) -> bool:
    """Whether nothing is drawn: a file or a pipe gets the text as it is, and rich need not be imported for it."""
    return not ((sys.stderr if stderr else sys.stdout).isatty() or "FORCE_COLOR" in os.environ)


def say(text: str = "", style: str | None = None) -> None:
    say_styled((text, style))


def say_styled(*pieces: tuple[str, str | None]) -> None:
    """One line of pieces, each with its style."""
    if is_plain():
        sys.stdout.write("".join(text for text, _ in pieces) + "\n")
        return
    from rich.text import Text

    console().print(Text.assemble(*((printable(text), style or "") for text, style in pieces)))


def say_piece(piece: str) -> None:
    """A piece of a text that arrives bit by bit, at once."""
    sys.stdout.write(piece if is_plain() else printable(piece))
    sys.stdout.flush()


def say_drawn(drawn: RenderableType) -> None:
    """A table or a tree."""
    console().print(_Printable(drawn))


@dataclass(frozen=True, slots=True)
class _Printable:
    """Something that rich draws, with its texts made printable."""

    drawn: RenderableType

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        from rich.segment import Segment

        for segment in console.render(self.drawn, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)


def say_error(message: str, hint: str = "") -> None:
    say_aside(f"mergewise: {message}", "bold red")
    if hint:
        say_aside(f"  {hint}", None)


def say_warning(message: str) -> None:
    say_aside(f"mergewise: {message}", "yellow")


def say_aside(text: str, style: str | None = "dim") -> None:
    """A line on standard error, beside what was asked for."""
    text = on_one_line(masked(text))
    if is_plain(stderr=True):
        sys.stdout.flush()
        sys.stderr.write(f"{text}\n")
    else:
        console(stderr=True).print(text, style=style, markup=False)


def say_waiting(vectors: VectorCount) -> None:
    """How far the vectors of an index are, where some are still to come; nothing for an index of text alone."""
    if line := waiting_line(vectors):
        say_aside(line)


def waiting_line(vectors: VectorCount) -> str:
    if not vectors.waiting:
        return ""
    return f"vectors: {vectors.embedded:,} of {vectors.leaves:,} leaves; `mergewise index` goes on with them"


class PrintableFormatter(logging.Formatter):
    """Lines of a log without what steers a terminal, and without keys."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(masked(super().format(record)))


def say_json(value: object, indent: int | None = 2) -> None:
    """JSON in which letters stand as they are, and what steers a terminal as an escape; without `indent` on one line."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    sys.stdout.write(escaped_json(text) + "\n")


def usage_line(answer: Answer, price_in: float, price_out: float) -> str:
    """One line on what the answer cost and on what was wrong with it."""
    usage = answer.usage
    about = "~" if usage.estimated else ""
    parts = [
        f"{answer.mode}: {usage.calls} call{'' if usage.calls == 1 else 's'}",
        f"{about}{usage.input_tokens} tokens read, {about}{usage.output_tokens} written",
    ]
    if price_in or price_out:
        parts.append(f"cost {about}{usage.cost(price_in, price_out):.6f}")
    if usage.unread:
        parts.append(f"{usage.unread} {'reply' if usage.unread == 1 else 'replies'} that could not be read")
    if answer.removed_marks:
        parts.append(f"{answer.removed_marks} marks that named nothing removed")
    if answer.unsupported_extract is not None:
        parts.append(f"{answer.unsupported_extract:.0%} of the extract unsupported")
    if answer.unverified:
        quotes = " ".join(f"“{' '.join(sentence.split())}”" for sentence in answer.unverified)
        parts.append(f"{answer.unsupported or 0:.0%} of the answer unsupported: {quotes}")
    if not answer.complete:
        parts.append("cut at the limit of tokens")
    return "; ".join(parts)


def citation_lines(citations: Sequence[Citation], names: DocumentNames) -> list[str]:
    """A line for each number and heading path, by number: `[1] Animals › Cats  (cats.md:7, 12)`."""
    groups: dict[tuple[int, str], list[Citation]] = {}
    for citation in sorted(citations, key=lambda citation: citation.number):
        path = heading_path(citation.title, citation.headings)
        groups.setdefault((citation.number, path), []).append(citation)
    names.look_up(citation.span.doc_id for citation in citations)
    lines = (f"[{number}] {path}  ({joined_places(group, names)})" for (number, path), group in groups.items())
    return [" ".join(line.split("\n")) for line in lines]
