"""The bounds of sections of a text: Markdown headings and paragraphs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile

from mergewise.text.keys import short_name
from mergewise.types import Heading

_ATX = re.compile(
    r"^[ ]{0,3}(?P<fence>`{3,}+|~{3,}+)[^\n]*\n(?:.*\n)*?[ ]{0,3}(?P=fence)[`~]*[ \t]*(?:\n|\Z)"
    r"|^[ ]{0,3}(?P<marks>\#{1,6})[ \t]+(?P<title>[^\n]*?)(?:[ \t]+\#+)?[ \t]*(?:\n|\Z)",
    re.MULTILINE,
)
_PARAGRAPH_BREAK = re.compile(r"\n[ \t]*\n\s*")


def markdown_headings(text: str) -> tuple[Heading, ...]:
    """Return the ATX headings (`# ...`) of a text outside its code blocks."""
    return tuple(
        Heading(len(match["marks"]), match["title"], match.start(), match.end())
        for match in _ATX.finditer(text)
        if match["marks"] and match["title"]
    )


def headings_at(outline: Sequence[Heading], position: int) -> tuple[str, ...]:
    """Return the titles of the headings in force at `position`, outermost first. Long titles are cut, as in leaves."""
    path: list[Heading] = []
    for heading in outline:
        if heading.start > position:
            break
        while path and path[-1].level >= heading.level:
            path.pop()
        path.append(heading)
    return tuple(short_name(heading.title) for heading in path if heading.title)


def shared_path(paths: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """Return the headings that all paths begin with."""
    return tuple(titles[0] for titles in takewhile(lambda titles: len(set(titles)) == 1, zip(*paths, strict=False)))


def paragraphs(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """Return consecutive spans that tile `text[start:end]`, each a paragraph with the blank lines after it."""
    starts = [start, *(m.end() for m in _PARAGRAPH_BREAK.finditer(text, start, end) if start < m.end() < end)]
    return list(zip(starts, [*starts[1:], end], strict=True)) if start < end else []
