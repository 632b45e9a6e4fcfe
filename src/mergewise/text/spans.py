"""Spans of one text as (start, end) pairs, and its lines, numbered from 1 as in editors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate, groupby
from pathlib import PurePath

from mergewise.types import Context, Part, Span

# Formats whose text is converted from the file, so that its lines differ from those of the file.
CONVERTED = frozenset(
    ".1 .2 .3 .4 .5 .6 .7 .8 .adoc .asciidoc .csv .docx .eml .epub .htm .html .ipynb .json .jsonl .man .mbox .mdx .ndjson .nxml "
    ".odt .org .pdf .pptx .srt .tex .tsv .vtt .xhtml .xlsm .xlsx .xml".split()
)


def one_line(text: str) -> str:
    """Fold the white space of a text, so that it is on one line."""
    return " ".join(text.split())


def texts_at(text: str, parts: Iterable[Part]) -> list[str]:
    """Return the texts of parts."""
    return [text[start:end] for start, end in parts]


def indent_of(text: str) -> int:
    """Count the white space at the beginning of a text."""
    return len(text) - len(text.lstrip())


def margin_at(text: str, offset: int) -> str:
    """Return the white space between the beginning of the line and an offset, or "" if there is other text."""
    before = text[text.rfind("\n", 0, offset) + 1 : offset]
    return before if before.isspace() else ""


def spans_in(doc_id: str, parts: Iterable[Part]) -> tuple[Span, ...]:
    """Return the spans of parts of a document."""
    return tuple(Span(doc_id, start, end) for start, end in parts)


def spans_of(context: Context) -> list[Span]:
    """Return the spans of all passages."""
    return [span for passage in context.passages for span in passage.spans]


def number_ranges(numbers: Sequence[int], to: str = "-") -> str:
    """Write numbers with runs as ranges: "1-4, 7"."""
    # consecutive numbers have the same difference to their position in the list
    runs = [[number for _, number in run] for _, run in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])]
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}{to}{run[-1]}" for run in runs)


def union(parts: Iterable[Part], text: str | None = None) -> list[Part]:
    """Sort the parts and join overlapping or touching ones. No character is lost or repeated.

    Parts of a `text` are also joined if only white space separates them.
    """
    joined: list[Part] = []
    for start, end in sorted(parts):
        if joined and (start <= joined[-1][1] or (text is not None and not text[joined[-1][1] : start].strip())):
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((start, end))
    return joined


def has_lines(doc_id: str) -> bool:
    """Return true if the lines of this document are lines of its source, by the suffix of its id."""
    return PurePath(doc_id).suffix.lower() not in CONVERTED


def line_at(text: str, offset: int) -> int:
    """Return the number of the line at this offset."""
    return text.count("\n", 0, offset) + 1


def line_starts(text: str) -> list[int]:
    """Return the offsets at which lines begin."""
    return list(accumulate((len(line) + 1 for line in text.split("\n")[:-1]), initial=0))
