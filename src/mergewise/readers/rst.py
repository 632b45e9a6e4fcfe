"""reStructuredText: the source is the text; headings and their levels come from docutils.

docutils finds the titles of sections, their depths and their lines. It does not know the roles of Sphinx, and its complaints are
dropped. It does not see directives, so nothing is included, fetched or run. Entries such as `.. py:function::` are headings too
(`rst_entries`). A header block, as in PEPs, or the field list at the top gives title and metadata.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from mergewise.readers.builder import Parsed, one_line
from mergewise.readers.decoding import decode
from mergewise.readers.front_matter import Pairs, header_pairs, title_in
from mergewise.readers.metadata import field_value, metadata_from
from mergewise.readers.rst_entries import with_entries
from mergewise.readers.titles import title_among
from mergewise.text.spans import line_starts
from mergewise.types import Heading

# ends of lines for docutils, not for us
_OTHER_ENDS = dict.fromkeys(map(ord, "\x1c\x1d\x1e\x85\u2028\u2029"), " ")
_ROLE = re.compile(r"(?::[\w:+.-]+:)?`([^`<]+?)(?:\s*<[^>`]*>)?`_{0,2}")
# Directives, comments, targets, footnotes and substitutions, with their bodies: no section can be inside.
_EXPLICIT = re.compile(
    r"^(?P<margin>[ \t]*)\.\.(?=\s|\Z)[^\n]*(?:\n(?:(?P=margin)[ \t]+\S[^\n]*|[ \t]*(?=\n|\Z)))*+", re.MULTILINE
)
# Characters of a paragraph whose markup is parsed.
_MAX_MARKED = 1_000
# above docutils' highest level of complaint
_QUIET = 5
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
    # docutils needs up to a millisecond for each directive and substitution
    short = _EXPLICIT.sub(lambda match: "\n" * match[0].count("\n"), text)
    document = _document(short.translate(_OTHER_ENDS))
    outline = tuple(_headings(text, document))
    pairs = header_pairs(text) or _fields(document)
    title = title_in(pairs) or title_among(outline)
    return Parsed(text, title, with_entries(text, outline), metadata=metadata_from(pairs))


def _document(text: str) -> Any:
    """Parse the text into docutils' tree."""
    from docutils import nodes
    from docutils.frontend import get_default_settings
    from docutils.parsers.rst import Parser
    from docutils.parsers.rst.states import Inliner
    from docutils.utils import new_document

    inliner = Inliner()
    parse_markup = inliner.parse

    def parse_short(text: str, *context: Any) -> Any:
        # docutils searches each open mark to the end of its paragraph (quadratic)
        return parse_markup(text, *context) if len(text) <= _MAX_MARKED else ([nodes.Text(text)], [])

    inliner.parse = parse_short
    parser = Parser(inliner=inliner)
    settings = get_default_settings(parser)
    vars(settings).update(_SETTINGS)
    document = new_document("", settings)
    parser.parse(text, document)
    return document


def _headings(text: str, document: Any) -> Iterator[Heading]:
    """Yield a heading for each section. docutils counts lines from 1, and notes the line below the title."""
    from docutils import nodes

    lines, starts, after = text.split("\n"), line_starts(text), 0
    for section in document.findall(nodes.section):
        title, level, around = section[0], 1, section
        while around := around.parent:
            level += isinstance(around, nodes.section)
        row = title.line - 2
        over = row > after and lines[row - 1].rstrip() == lines[row + 1].rstrip()
        # docutils leaves unknown roles in the title as source: remove their marks
        shown = one_line(_ROLE.sub(r"\1", title.astext()))
        yield Heading(level, shown, starts[row - over], starts[row + 1] + len(lines[row + 1].rstrip()))
        after = row + 2


def _fields(document: Any) -> Pairs:
    """Return the field list at the top, which may follow titles and comments."""
    from docutils import nodes

    silent = (nodes.Invisible, nodes.system_message, nodes.raw)
    body = (node for node in document.findall(nodes.Body) if not isinstance(node, silent))
    top = next(body, None)
    pairs: Pairs = []
    for name, value in (field for field in (top or ()) if isinstance(top, nodes.field_list) and len(field) == 2):
        items = [one_line(item.astext()) for item in value.findall(nodes.list_item)]
        text = ", ".join(items) or one_line(value.astext()).strip("$")
        pairs.append((name.astext(), field_value(name.astext(), text)))
    return pairs
