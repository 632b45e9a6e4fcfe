"""Output of commands: text or JSON on standard output, progress and errors on standard error.

Names and texts may hold control characters of a terminal. They are made printable on a terminal and in every line on standard
error, and escaped in JSON. A file or a pipe gets texts unchanged, because a context that is passed on must be verbatim.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from mergewise.cli.places import DocumentNames, joined_places
from mergewise.errors import UsageError
from mergewise.extend import escaped_json, heading_path, masked, on_one_line, printable
from mergewise.types import Answer, Citation, Usage, frozen

if TYPE_CHECKING:
    from filelock import FileLock
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment

    from mergewise import Index

# marks around text when colours may be missing
OPENS, CLOSES = "⟦", "⟧"

PIPED_WIDTH = 240


@cache
def console(*, stderr: bool = False) -> Console:
    from rich.console import Console

    # a pipe has no width: trees and tables get a wide one, unless COLUMNS sets it
    fixed = "COLUMNS" in os.environ or (sys.stderr if stderr else sys.stdout).isatty()
    return Console(stderr=stderr, highlight=False, emoji=False, soft_wrap=True, width=None if fixed else PIPED_WIDTH)


def is_plain(*, stderr: bool = False) -> bool:
    """Check that output is plain text for a file or a pipe, which needs no import of rich."""
    return not ((sys.stderr if stderr else sys.stdout).isatty() or "FORCE_COLOR" in os.environ)


def say(text: str = "", style: str | None = None) -> None:
    say_styled((text, style))


def say_styled(*pieces: tuple[str, str | None]) -> None:
    """Print a line of pieces, each with its style."""
    if is_plain():
        sys.stdout.write("".join(text for text, _ in pieces) + "\n")
        return
    from rich.text import Text

    console().print(Text.assemble(*((printable(text), style or "") for text, style in pieces)))


def say_piece(piece: str) -> None:
    """Print a piece of a streamed text immediately."""
    sys.stdout.write(piece if is_plain() else printable(piece))
    sys.stdout.flush()


def say_drawn(drawn: RenderableType) -> None:
    """Print a table or a tree."""
    console().print(_Printable(drawn))


@frozen
class _Printable:
    """A rich object whose texts are made printable."""

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
    """Print a line on standard error, next to the result on standard output."""
    text = on_one_line(masked(text))
    if is_plain(stderr=True):
        sys.stdout.flush()
        sys.stderr.write(f"{text}\n")
    else:
        console(stderr=True).print(text, style=style, markup=False)


INEXACT = (
    "versions, clauses and codes are found by their parts only: run `mergewise check --repair` (up to a million leaves)"
)
"""Remark on an index of an older version, or a very large one."""


def say_waiting(index: Index) -> None:
    """Print how many vectors an index has, if some are missing."""
    if line := waiting_line(index):
        say_aside(line)


def waiting_line(index: Index) -> str:
    vectors = index.vectors()
    if not vectors.waiting:
        return ""
    step = "another process is indexing" if is_indexing(index) else "run `mergewise index` to continue"
    return f"vectors: {vectors.embedded:,} of {vectors.leaves:,} leaves; {step}"


def indexing_lock(index: Index) -> FileLock:
    """Return the lock that `mergewise index` holds from its first to its last change, so that others can tell."""
    from filelock import FileLock

    return FileLock(index.store.directory / ".indexing", timeout=0)


def is_indexing(index: Index) -> bool:
    """Check whether another process indexes now."""
    lock = indexing_lock(index)
    try:
        # a new file would be left in an index that is only read
        with lock if Path(lock.lock_file).exists() else nullcontext():
            return False
    except TimeoutError:
        return True
    except OSError:
        return False


def outdated_line(count: int) -> str:
    """Say how many documents an older version read, if any."""
    documents = "1 document was" if count == 1 else f"{count:,} documents were"
    remedy = "run `mergewise index FOLDER --reread` to read them again"
    return f"{documents} read by an older version: {remedy}" if count else ""


def write_text(
    path: Path, text: str, mode: Literal["a", "w", "x"] = "w", hint: str = "name a file in an existing folder"
) -> None:
    """Write, extend or create a file of the user. Raises UsageError if it cannot be written."""
    try:
        with path.open(mode, encoding="utf-8", errors="replace", newline="") as file:
            file.write(text)
    except OSError as error:
        from mergewise.extend import machine_advice

        raise UsageError(f"cannot write {path}: {error.strerror}", machine_advice(error) or hint) from None


class PrintableFormatter(logging.Formatter):
    """Formatter of log lines that escapes control characters and masks keys."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(masked(super().format(record)))


def say_json(value: object, indent: int | None = 2) -> None:
    """Print JSON with letters of all languages unescaped and control characters escaped; without `indent`, on one line."""
    sys.stdout.write(escaped_json(json.dumps(value, ensure_ascii=False, indent=indent)) + "\n")


def usage_text(usage: Usage, price_in: float, price_out: float) -> str:
    """Describe an estimated cost."""
    money = f", cost at most {usage.cost(price_in, price_out):.2f}" if price_in or price_out else ""
    return f"{usage.calls:,} calls, {usage.input_tokens:,} input tokens, at most {usage.output_tokens:,} output tokens{money}"


def usage_line(answer: Answer, price_in: float, price_out: float) -> str:
    """Describe the cost and the faults of an answer in one line."""
    usage = answer.usage
    about = "~" if usage.estimated else ""
    parts = [
        f"{answer.mode}: {usage.calls} call{'' if usage.calls == 1 else 's'}",
        f"{about}{usage.input_tokens} input tokens, {about}{usage.output_tokens} output tokens",
    ]
    if usage.cached_calls:
        parts.append(f"{'all' if usage.cached_calls == usage.calls else usage.cached_calls} from the cache")
    if price_in or price_out:
        parts.append(f"cost {about}{usage.cost(price_in, price_out):.6f}")
    if usage.unread:
        parts.append(f"{usage.unread} unreadable {'reply' if usage.unread == 1 else 'replies'}")
    if answer.removed_marks:
        parts.append(f"{answer.removed_marks} marks without a source removed")
    if answer.unsupported_extract is not None:
        parts.append(f"{answer.unsupported_extract:.0%} of the extract unsupported")
    if answer.unverified:
        quotes = " ".join(f"“{' '.join(sentence.split())}”" for sentence in answer.unverified)
        parts.append(f"{answer.unsupported or 0:.0%} of the answer unsupported: {quotes}")
    if not answer.complete:
        parts.append("truncated at the token limit")
    return "; ".join(parts)


def citation_lines(citations: Sequence[Citation], names: DocumentNames) -> list[str]:
    """Format the citations, one line per number and heading path: `[1] Animals › Cats  (cats.md:7, 12)`."""
    groups: dict[tuple[int, str], list[Citation]] = {}
    for citation in sorted(citations, key=lambda citation: citation.number):
        path = heading_path(citation.title, citation.headings)
        groups.setdefault((citation.number, path), []).append(citation)
    names.look_up(citation.span.doc_id for citation in citations)
    lines = (f"[{number}] {path}  ({joined_places(group, names)})" for (number, path), group in groups.items())
    return [" ".join(line.split("\n")) for line in lines]
