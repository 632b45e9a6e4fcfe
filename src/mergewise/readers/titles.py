"""Titles of documents that declare none, and declared titles that are unusable."""

from __future__ import annotations

import re
from collections.abc import Sequence

from mergewise.types import Heading

_GENERIC = """
    abstract|summary|contents|table of contents|toc|introduction|intro|preface|foreword|overview|index|changelog|changes|notes|
    acknowledgements|acknowledgments|motivation|background|rationale|specification|references|bibliography|appendix|
    copyright|license|readme|note|warning|navigation|menu|status of this memo|
    zusammenfassung|inhalt|inhaltsverzeichnis|einleitung|einführung|vorwort|überblick|literatur|
    résumé|sommaire|table des matières|avant-propos|préface|
    resumen|índice|contenido|introducción|prólogo|sommario|introduzione|resumo|introdução|
    摘要|目录|目錄|引言|前言|简介|概要|目次|はじめに|序文
"""
_NAMES = frozenset(name.strip() for name in _GENERIC.replace("\n", " ").split("|"))
_NUMBER = re.compile(r"(?:\d+(?:\.\d+)*[.):]?|[IVX]+[.)]|§\s*\d+)\s+(?=\S)")
# characters of a generic heading, including its number and spaces
_LONGEST = 200
_RUBBISH = re.compile(
    r"microsoft (?:word|powerpoint|excel) - .*|(?:powerpoint|word|microsoft word) (?:presentation|document)"
    r"|(?:untitled|unbenannt|sans titre|sin título|no title|none|null|default|template|title)[\s\-_]*\d*"
    r"|(?:document|dokument|documento|presentation|präsentation|présentation|book|mappe|classeur|slide|page|layout|doc)"
    r"[\s\-_]*\d*"
    r"|.*\.(?:docx?|dotx?|pptx?|xlsx?|od[tps]|pdf|ps|dvi|tex|indd|qxd|qxp|pmd|fm|rtf|wpd|pages|html?|txt)|[\W\d_]*",
    re.IGNORECASE,
)


def is_generic(title: str) -> bool:
    """Tell whether the title names a part of any document, such as "1. Introduction"."""
    return (
        len(title) <= _LONGEST and _NUMBER.sub("", " ".join(title.split()), count=1).casefold().rstrip(".:") in _NAMES
    )


def is_numbered(title: str) -> bool:
    """Tell whether the title begins with a part's number, such as "5.1 Results"."""
    return _NUMBER.match(title) is not None


def real_title(declared: str) -> str:
    """Return the title in a file's properties, or an empty string if a program has put it there."""
    title = " ".join(declared.split())
    return "" if _RUBBISH.fullmatch(title) else title


def title_among(outline: Sequence[Heading]) -> str:
    """Return the heading that is the document's title, or an empty string if all headings name its parts.

    This is the only heading of the highest level, if it is also the first heading or that level is 1. With several headings of
    level 1, it is the first of them, unless it has a part's number.
    """
    if not outline:
        return ""
    highest = min(heading.level for heading in outline)
    top = [heading for heading in outline if heading.level == highest]
    title = top[0].title
    if is_generic(title):
        return ""
    if len(top) == 1:
        return title if highest == 1 or top[0] is outline[0] else ""
    return "" if highest > 1 or is_numbered(title) else title
