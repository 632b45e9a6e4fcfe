"""The search key of a leaf: a line with its title and headings, then its text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

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
