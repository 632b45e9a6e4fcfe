"""Passages as a model reads them: each below one heading line, with a blank line in between.

    [1] Title › Heading › Subheading
    Text of the passage …
    and a part that does not touch it.

    [2] › › Other subheading
    A passage of the same document. Levels that the line above has too are blank.

    [3] › Food
    Levels that repeat the one above, such as the title, are left out.

    [4] › ›
    Fish is the innermost level here. It is blank because the text begins with it.

Text by a model has `WRITTEN` after its levels. In a text, a backslash stands before what looks like the number of a passage.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from mergewise.text.sections import PATH_MARK, shared_path
from mergewise.types import Passage

SEPARATOR = "\n\n"
WRITTEN = "(written, not quoted)"
# The start of a line of text that looks like the number of a passage, after any kind of line break.
_NUMBER_LIKE = re.compile(r"(?:^|(?<=[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]))([ \t]*)(?=\[\d+\])")


@lru_cache(4096)
def path_levels(title: str, headings: tuple[str, ...]) -> tuple[str, ...]:
    """Return title and headings as a context shows them, without levels that repeat the one above.

    White space is folded, and "›" is ">", so no level can look like two.
    """
    levels: list[str] = []
    for name in filter(None, (title, *headings)):
        level = " ".join(name.replace(PATH_MARK.strip(), ">").split())
        if not levels or level.casefold() != levels[-1].casefold():
            levels.append(level)
    return tuple(levels)


def opens_with(text: str, name: str) -> bool:
    """Check that the text begins with the whole name. Case and white space are ignored."""
    start = " ".join(text[: 2 * len(name) + 2].split()).casefold()
    return start.startswith(name := name.casefold()) and not start[len(name) : len(name) + 1].isalnum()


def shown_levels(title: str, headings: tuple[str, ...], text: str) -> tuple[str, ...]:
    """Return the levels above a text in a context. The innermost one is blank if the text begins with it."""
    levels = path_levels(title, headings)
    return (*levels[:-1], "") if levels and opens_with(text, levels[-1]) else levels


def heading_line(number: int, levels: Sequence[str], written: bool = False) -> str:
    """Return the heading line: the number for citations, the levels, and a mark for text by a model."""
    return " ".join((f"[{number}]", *PATH_MARK.join(levels).split(), *([WRITTEN] if written else ())))


@lru_cache(4096)
def heading_cost_line(title: str, headings: tuple[str, ...], written: bool = False) -> str:
    """Return a full heading line for counting tokens before its number is known. 9 represents any number."""
    return heading_line(9, path_levels(title, headings), written)


@lru_cache(4096)
def heading_parts(levels: tuple[str, ...], written: bool = False) -> tuple[str, ...]:
    """Split a heading line into parts whose tokens add up: the line with blank levels, then each level."""
    return f"{heading_line(9, [''] * len(levels), written)}\n", *(f" {level}" for level in levels)


def blocks(passages: Sequence[Passage]) -> Iterator[str]:
    """Yield each passage as a model reads it: its heading line, and its text with escaped lines that look like a number."""
    above: tuple[str, ...] = ()
    last = None
    for number, passage in enumerate(passages, 1):
        levels = shown_levels(passage.title, passage.headings, passage.text)
        doc_id = passage.spans[0].doc_id if passage.spans else None
        held = len(shared_path([levels[:-1], above])) if doc_id == last else 0
        line = heading_line(number, [*[""] * held, *levels[held:]], not passage.verbatim)
        text = _NUMBER_LIKE.sub(r"\1\\", passage.text)
        yield f"{line}\n{text}"
        above, last = levels, doc_id


def render(passages: Sequence[Passage]) -> str:
    return SEPARATOR.join(blocks(passages))
