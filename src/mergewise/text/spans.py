"""Spans of one text as (start, end) pairs; and its lines, numbered from 1 as editors do."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate
from pathlib import PurePath
from typing import TypeAlias

Part: TypeAlias = tuple[int, int]

# Formats whose text is made from the file: a line of it is no line of the file.
CONVERTED = frozenset(
    ".csv .docx .eml .epub .htm .html .ipynb .json .jsonl .mbox .ndjson .nxml .odt .pdf .pptx .tsv .xhtml .xlsx .xml".split()
)


def union(parts: Iterable[Part], text: str | None = None) -> list[Part]:
    """The parts in order, with those that overlap or touch made one: no character is lost, and none comes twice.

    Parts of a `text` also join where only white space lies between them.
    """
    joined: list[Part] = []
    for start, end in sorted(parts):
        touches = joined and (start <= joined[-1][1] or (text is not None and not text[joined[-1][1] : start].strip()))
        if touches:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((start, end))
    return joined


def has_lines(doc_id: str) -> bool:
    """Whether lines of this document are lines of its source, by the suffix of its id."""
    return PurePath(doc_id).suffix.lower() not in CONVERTED


def line_at(text: str, offset: int) -> int:
    """The number of the line that holds this offset."""
    return text.count("\n", 0, offset) + 1


def line_starts(text: str) -> list[int]:
    """The offsets at which lines begin."""
    return list(accumulate((len(line) + 1 for line in text.split("\n")[:-1]), initial=0))
