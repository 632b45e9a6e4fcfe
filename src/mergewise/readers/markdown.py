"""Markdown: the source is the text; headings come from a CommonMark parser.

Headings inside quotes and list items do not divide the document, and are left out of the outline. The terms of a definition list
(`Term` above `:   definition`) head their definitions; a short entry is a unit instead. Front matter (YAML between
`---`, TOML between `+++`) or a header block gives title and metadata, and stays in the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from mergewise.readers.builder import OpenHeadings, Parsed, one_line
from mergewise.readers.decoding import decode
from mergewise.readers.front_matter import header_pairs, title_in, toml_block, toml_pairs, yaml_pairs
from mergewise.readers.metadata import metadata_from
from mergewise.readers.titles import title_among
from mergewise.text.sentences import strip_span
from mergewise.text.spans import line_starts
from mergewise.types import Heading

if TYPE_CHECKING:
    from markdown_it.token import Token

_TEXTS = frozenset({"text", "text_special", "code_inline", "image"})
# `# Title {#anchor .class}`, as many site generators write.
_DEFINITION = re.compile(r"^[ \t]*[:~][ \t]+(?=\S)", re.MULTILINE)
_AROUND = frozenset("blockquote_open blockquote_close list_item_open list_item_close".split())
# characters of an entry that is a unit
_SHORT_ENTRY = 240
_ATTRIBUTES = re.compile(r"\s*\{:?\s*[#.][^{}]*\}\s*$")


def read_markdown(data: bytes) -> Parsed:
    return parse_markdown(decode(data))


def parse_markdown(text: str) -> Parsed:
    from markdown_it import MarkdownIt
    from mdit_py_plugins.deflist import deflist_plugin
    from mdit_py_plugins.front_matter import front_matter_plugin

    blocks = MarkdownIt("commonmark").use(front_matter_plugin).disable("inline")
    if _DEFINITION.search(text):
        blocks.use(deflist_plugin)
    inline = MarkdownIt("commonmark")
    references: dict[str, Any] = {}
    toml, skipped = toml_block(text)
    # front matter is replaced by empty lines, so that line numbers stay valid
    tokens = blocks.parse("\n" * text.count("\n", 0, skipped) + text[skipped:], references)
    yaml = yaml_pairs(tokens[0].content) if tokens and tokens[0].type == "front_matter" else []
    pairs = toml_pairs(toml) if toml else yaml or header_pairs(text)
    outline = _Outline(text, title_in(pairs))
    outline.walk(tokens, lambda source: _plain(inline.parseInline(source, references)))
    title = title_in(pairs) or title_among(outline.headings)
    return Parsed(text, title, tuple(outline.headings), metadata=metadata_from(pairs), units=tuple(outline.units))


class _Outline:
    """The headings of a text and the terms of its definition lists. A short entry of a list is a unit instead."""

    def __init__(self, text: str, title: str) -> None:
        self.headings: list[Heading] = []
        self.units: list[tuple[int, int]] = []
        self._text = text
        self._starts = [*line_starts(text), len(text)]
        self._open = OpenHeadings(title)

    def walk(self, tokens: Sequence[Token], plain: Callable[[str], str]) -> None:
        # number of open quotes and lists
        around = 0
        # levels of the entries that are headings, one for each open definition list
        entries: list[int] = []
        for place, token in enumerate(tokens):
            kind = token.type
            if kind in _AROUND:
                around += token.nesting
            if kind == "heading_open" and token.level == 0 and token.map:
                self._add(int(token.tag[1:]), _ATTRIBUTES.sub("", plain(tokens[place + 1].content)), *token.map)
            elif kind == "dl_open" and not around:
                entries.append(0)
            elif kind == "dl_close" and not around:
                self._end(entries.pop())
            elif kind == "dt_open" and not around and tokens[place - 1].type != "dt_close":
                self._end(entries[-1])
                entries[-1] = self._entry(tokens[place : _entry_end(tokens, place)], plain)
            elif token.map and token.nesting >= 0:
                self._resume(self._starts[token.map[0]])

    def _entry(self, tokens: Sequence[Token], plain: Callable[[str], str]) -> int:
        """Add an entry as a heading, and return its level. Add a short one as a unit, and return 0."""
        opening, term, _, *body = tokens
        blocks = [token for token in body if token.level == opening.level + 1 and token.nesting >= 0]
        # the parser gives wrong lines of a definition itself, so those of its content count
        lines = [token.map for token in body if token.map and token.type != "dd_open"]
        if not lines or term.content.startswith((":", "~")):
            return 0
        first, start = (self._starts[line] for line in ((opening.map or lines[0])[0], lines[0][0]))
        end = self._starts[max(after for _, after in lines)]
        if len(blocks) == 1 and end - start <= _SHORT_ENTRY:
            self._resume(first)
            self.units.append(strip_span(self._text, first, end))
            return 0
        mark = _DEFINITION.match(self._text, start)
        heading = Heading(self._open.level + 1, plain(term.content), first, mark.end() if mark else start)
        if heading.title:
            self.headings.append(self._open.add(heading))
        return heading.level

    def _end(self, level: int) -> None:
        if level:
            self._open.end(level)

    def _resume(self, start: int) -> None:
        if resumed := self._open.resume(start):
            self.headings.append(resumed)

    def _add(self, level: int, title: str, first: int, after: int) -> None:
        span = strip_span(self._text, self._starts[first], self._starts[after])
        if title:
            self.headings.append(self._open.add(Heading(level, title, *span)))


def _entry_end(tokens: Sequence[Token], place: int) -> int:
    """Return the place after an entry of a definition list: of the next term after a definition, or of the list's end."""
    level = tokens[place].level
    place += 1
    while tokens[place].type != "dl_close" or tokens[place].level >= level:
        if tokens[place].type == "dt_open" and tokens[place].level == level and tokens[place - 1].type == "dd_close":
            break
        place += 1
    return place


def _plain(tokens: list[Token]) -> str:
    children = (child for token in tokens for child in token.children or ())
    texts = (" " if c.type in ("softbreak", "hardbreak") else c.content if c.type in _TEXTS else "" for c in children)
    return one_line("".join(texts))
