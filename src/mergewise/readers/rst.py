"""reStructuredText: the source is the text; headings and their levels come from docutils.

docutils says which titles there are and how deep they stand; their offsets come from looking for them in the source, in
order. It does not know the roles and directives of Sphinx. Its complaints are dropped, and the outline loses only the titles
inside the body of such a directive. Nothing is included, fetched or run.
"""

from __future__ import annotations

import re
from itertools import accumulate
from typing import Any

from mergewise.readers.builder import Parsed, first_title, one_line
from mergewise.readers.decoding import decode
from mergewise.types import Heading

_ADORNMENT = re.compile(r"([!-/:-@\[-`{-~])\1*\s*")
_ROLE = re.compile(r"(?::[\w:+.-]+:)?`([^`<]+?)(?:\s*<[^>`]*>)?`_{0,2}")
_QUIET = 5  # one more than docutils' highest level of complaint
_SETTINGS = {
    "report_level": _QUIET,
    "halt_level": _QUIET,
    "file_insertion_enabled": False,
    "raw_enabled": False,
    "warning_stream": "",
    "syntax_highlight": "none",
    "_disable_config": True,
}


def read_rst(data: bytes) -> Parsed:
    text = decode(data)
    outline = tuple(_locate(text, _titles(text)))
    return Parsed(text, first_title(outline), outline)


def _titles(text: str) -> list[tuple[int, str, str]]:
    """Level, source and shown text of every section title."""
    from docutils import nodes
    from docutils.frontend import get_default_settings
    from docutils.parsers.rst import Parser
    from docutils.utils import new_document

    parser = Parser()
    settings = get_default_settings(parser)
    vars(settings).update(_SETTINGS)
    document = new_document("", settings)
    parser.parse(text, document)
    titles = (section[0] for section in document.findall(nodes.section))
    return [(_depth(title, nodes.section), title.rawsource, _shown(title)) for title in titles]


def _depth(node: Any, kind: type) -> int:
    depth = 0
    while node := node.parent:
        depth += isinstance(node, kind)
    return depth


def _shown(title: Any) -> str:
    """The title's text. A role that docutils does not know stands in it as source, so the marks of roles are taken off."""
    return one_line(_ROLE.sub(r"\1", title.astext()))


def _locate(text: str, titles: list[tuple[int, str, str]]) -> list[Heading]:
    lines = text.split("\n")
    starts = [0, *accumulate(len(line) + 1 for line in lines)]
    headings, after = [], 0
    for level, source, shown in titles:
        row = _next_title(lines, after, source)
        if row is None:
            continue
        over = row > after and lines[row - 1].rstrip() == lines[row + 1].rstrip()
        headings.append(Heading(level, shown, starts[row - over], starts[row + 1] + len(lines[row + 1].rstrip())))
        after = row + 2
    return headings


def _next_title(lines: list[str], after: int, source: str) -> int | None:
    """The first line from `after` on that is the title `source` and has an underline."""
    for row in range(after, len(lines) - 1):
        if lines[row].strip() == source.strip() and _ADORNMENT.fullmatch(lines[row + 1]):
            return row
    return None
