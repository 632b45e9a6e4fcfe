"""Sections of a text: Markdown headings and paragraphs, and titles and headings as the first line of a leaf's search key."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import takewhile

from mergewise.types import Document, Heading, Leaf, Part

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


def outline_of(document: Document) -> tuple[Heading, ...]:
    """Return the headings of a document, or those in its Markdown."""
    return markdown_headings(document.text) if document.outline is None else document.outline


def headings_at(outline: Sequence[Heading], position: int) -> tuple[str, ...]:
    """Return the titles of the headings in force at `position`, outermost first. Long titles are cut, as in leaves."""
    return tuple(short_name(heading.title) for heading in path_at(outline, position) if heading.title)


def path_at(outline: Sequence[Heading], position: int) -> list[Heading]:
    """Return the headings in force at `position`, outermost first."""
    path: list[Heading] = []
    for heading in outline:
        if heading.start > position:
            break
        while path and path[-1].level >= heading.level:
            path.pop()
        path.append(heading)
    return path


def shared_path(paths: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """Return the headings that all paths begin with."""
    return tuple(titles[0] for titles in takewhile(lambda titles: len(set(titles)) == 1, zip(*paths, strict=False)))


def shared_headings(leaves: Iterable[Leaf]) -> tuple[str, ...]:
    """Return the outer headings that all leaves have."""
    return shared_path([leaf.headings for leaf in leaves])


def paragraphs(text: str, start: int, end: int) -> list[Part]:
    """Return consecutive spans that tile `text[start:end]`, each a paragraph with the blank lines after it."""
    starts = [start, *(m.end() for m in _PARAGRAPH_BREAK.finditer(text, start, end) if start < m.end() < end)]
    return list(zip(starts, [*starts[1:], end], strict=True)) if start < end else []


# -- the search key of a leaf: a line with its title and headings, then its text

_SEPARATORS = re.compile(r"[\W_]+")
_SUFFIX = re.compile(r"\.\w{1,8}$")
PATH_MARK = " › "
# Maximum characters of a title or heading, which is repeated in every leaf below it.
LONGEST_NAME = 300


def short_name(name: str) -> str:
    """Return a title or heading, cut at `LONGEST_NAME` characters."""
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1].rstrip() + "…"


def heading_path(title: str, headings: Sequence[str]) -> str:
    """Join title and headings into one line for people and models, outermost first. Empty ones are left out."""
    return PATH_MARK.join(part for part in (title, *headings) if part)


@lru_cache(4096)
def place_of(doc_id: str) -> str:
    """Return the words in the names of a file and its two folders, which often describe the content."""
    names = _SUFFIX.sub("", doc_id).split("/")[-3:]
    return " ".join(word for name in names if (word := _SEPARATORS.sub(" ", name).strip()))


def search_key(title: str, headings: Sequence[str], text: str) -> str:
    """Join title, headings and text into one string. `split_key` reverses it."""
    return PATH_MARK.join(" ".join(part.replace("›", ">").split()) for part in (title, *headings)) + "\n" + text


def split_key(key: str) -> tuple[str, tuple[str, ...], str]:
    """Split a search key into title, headings and text. White space in titles is folded, and "›" in them is ">"."""
    line, _, text = key.partition("\n")
    title, *headings = line.split(PATH_MARK)
    return title, tuple(headings), text
