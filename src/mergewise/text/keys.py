"""The search key of a leaf: a line with its title and headings, then its text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

_SEPARATORS = re.compile(r"[\W_]+")
_SUFFIX = re.compile(r"\.\w{1,8}$")
PATH_MARK = " › "
# Characters of a title or heading: it stands with every leaf below it.
LONGEST_NAME = 300


def short_name(name: str) -> str:
    """A title or heading, cut where it is longer than any that names something."""
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1].rstrip() + "…"


def heading_path(title: str, headings: Sequence[str]) -> str:
    """Title and headings as one line for people and models, the outermost first; empty ones are left out."""
    return PATH_MARK.join(part for part in (title, *headings) if part)


@lru_cache(4096)
def place_of(doc_id: str) -> str:
    """The words in the names of a file and of the two folders that it lies in: they often say what it is about."""
    names = _SUFFIX.sub("", doc_id).split("/")[-3:]
    return " ".join(word for name in names if (word := _SEPARATORS.sub(" ", name).strip()))


def search_key(title: str, headings: Sequence[str], text: str) -> str:
    """Title, headings and text as one string; `split_key` takes it apart again."""
    return PATH_MARK.join(_flat(part) for part in (title, *headings)) + "\n" + text


def split_key(key: str) -> tuple[str, tuple[str, ...], str]:
    """Title, headings and text of a search key; white space in titles is folded, "›" in them is ">"."""
    line, _, text = key.partition("\n")
    title, *headings = line.split(PATH_MARK)
    return title, tuple(headings), text


def _flat(part: str) -> str:
    return " ".join(part.replace("›", ">").split())
