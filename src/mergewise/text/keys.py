"""The searched form of a leaf: a line that says where it stands, then its text."""

from __future__ import annotations

from collections.abc import Sequence

PATH_MARK = " › "


def heading_path(title: str, headings: Sequence[str]) -> str:
    """Where a text stands, for people and models: title and headings from the outermost in; empty ones are left out."""
    return PATH_MARK.join(part for part in (title, *headings) if part)


def search_key(title: str, headings: Sequence[str], text: str) -> str:
    """One string that holds title, headings and text, and from which `split_key` gets them back."""
    return PATH_MARK.join(_flat(part) for part in (title, *headings)) + "\n" + text


def split_key(key: str) -> tuple[str, tuple[str, ...], str]:
    """Title, headings and text of a search key; white space in titles is folded, "›" in them is ">"."""
    line, _, text = key.partition("\n")
    title, *headings = line.split(PATH_MARK)
    return title, tuple(headings), text


def _flat(part: str) -> str:
    return " ".join(part.replace("›", ">").split())
