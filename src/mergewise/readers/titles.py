"""The title of a document that declares none, and declared titles that are none."""

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
# Characters of a heading that may be generic, with its number and its spaces.
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
    """Whether it names a part that any document may have, such as "1. Introduction", and so says nothing of this one."""
    return (
        len(title) <= _LONGEST and _NUMBER.sub("", " ".join(title.split()), count=1).casefold().rstrip(".:") in _NAMES
    )


def is_numbered(title: str) -> bool:
    """Whether it begins with a number as parts have it, such as "5.1 Results"."""
    return _NUMBER.match(title) is not None


def real_title(declared: str) -> str:
    """The title that a file declares in its properties; empty where a program put it there."""
    title = " ".join(declared.split())
    return "" if _RUBBISH.fullmatch(title) else title


def title_among(outline: Sequence[Heading]) -> str:
    """The heading that is the document's title: empty where all headings name its parts.

    It is the only heading of the highest level, which must be the first heading where that level is not 1; or the first of
    several of level 1, unless it is numbered as a part.
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
