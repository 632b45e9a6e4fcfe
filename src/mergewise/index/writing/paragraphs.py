"""How a prompt shows the segments of a document: as numbered paragraphs, each below its tag [Paragraph N]."""

from __future__ import annotations

import re
from collections.abc import Sequence

from mergewise.index.writing.task import Request

_TAG = re.compile(r"\[(?=\s*paragraph\b)", re.IGNORECASE)


def shown_paragraphs(request: Request) -> str:
    """The segments that a call shows, by the numbers that they have in their document."""
    return "\n\n".join(f"[Paragraph {n}]\n{blunted(request.source.of(n))}" for n in request.shown)


def blunted(text: str) -> str:
    """The text without what could be taken for a tag of ours."""
    return _TAG.sub("(", text)


def named(numbers: Sequence[int]) -> str:
    """Numbers of paragraphs, runs as "3 to 7"."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    said = ", ".join(str(a) if a == b else f"{a} to {b}" for a, b in runs)
    return f"paragraph {said}" if len(numbers) == 1 else f"paragraphs {said}"
