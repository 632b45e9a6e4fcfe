"""Markdown: the source is the text; headings come from a CommonMark parser.

Headings inside quotes and list items do not divide the document, and are left out of the outline. The terms of a definition list
(`Term` above `:   definition`) head their definitions; a short entry is a unit instead. Front matter (YAML between
`---`, TOML between `+++`) or a header block gives title and metadata, and stays in the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from mergewise.readers.builder import SHORT_ENTRY, GrowingOutline, Parsed, one_line
from mergewise.readers.decoding import decode
from mergewise.readers.front_matter import field_units, header_pairs, title_in, toml_block, toml_pairs, yaml_pairs
from mergewise.readers.metadata import metadata_from
from mergewise.readers.titles import title_among
from mergewise.text.sentences import strip_span
from mergewise.text.spans import line_starts
from mergewise.types import DocumentUnit

if TYPE_CHECKING:
    from markdown_it.token import Token

_TEXTS = frozenset({"text", "text_special", "code_inline", "image"})
# `# Title {#anchor .class}`, as many site generators write.
_DEFINITION = re.compile(r"^[ \t]*[:~][ \t]+(?=\S)", re.MULTILINE)
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
    outline = _Outline(text, title_in(pairs), lambda source: _plain(inline.parseInline(source, references)))
    outline.add_all(tokens)
    headings, units = tuple(outline.headings), (*field_units(text), *outline.units)
    return Parsed(text, title_in(pairs) or title_among(headings), headings, metadata=metadata_from(pairs), units=units)


class _Outline(GrowingOutline):
    """The headings of a text and the terms of its definition lists. A short entry of a list is a unit instead."""

    def __init__(self, text: str, title: str, plain: Callable[[str], str]) -> None:
        super().__init__(title)
        self.units: list[DocumentUnit] = []
        self._text = text
        self._plain = plain
        self._starts = [*line_starts(text), len(text)]

    def add_all(self, tokens: Sequence[Token]) -> None:
        # the level of the entry that is open, or 0
        entry = 0
        for place, token in enumerate(tokens):
            if token.type == "heading_open" and token.level == 0 and token.map:
                span = strip_span(self._text, *(self._starts[line] for line in token.map))
                self.add(int(token.tag[1:]), _ATTRIBUTES.sub("", self._plain(tokens[place + 1].content)), *span)
            elif token.type == "dt_open" and token.level == 1:
                self.end(entry)
                entry = self._add_entry(tokens, place)
            elif token.type == "dl_close" and token.level == 0:
                self.end(entry)
            elif token.level == 0 and token.map and token.nesting >= 0:
                self.resume(self._starts[token.map[0]])

    def _add_entry(self, tokens: Sequence[Token], place: int) -> int:
        """Add an entry as a heading, and return its level. Add a short one as a unit, and return 0."""
        term = tokens[place + 1].content
        after_term = (tokens[i] for i in range(place + 3, len(tokens)))
        body = list(takewhile(lambda token: token.level > 1 or token.type[:2] == "dd", after_term))
        # the parser gives wrong lines of a definition itself, so those of its content count
        lines = [token.map for token in body if token.map and token.type != "dd_open"]
        if not lines or term.startswith((":", "~")):
            return 0
        first, start = self._starts[(tokens[place].map or lines[0])[0]], self._starts[lines[0][0]]
        end = self._starts[max(after for _, after in lines)]
        if end - start > SHORT_ENTRY or sum(token.level == 2 and token.nesting >= 0 for token in body) > 1:
            mark = _DEFINITION.match(self._text, start)
            self.add(self.level + 1, self._plain(term), first, mark.end() if mark else start)
            return self.level
        self.resume(first)
        self.units.append((*strip_span(self._text, first, end), "entry"))
        return 0


def _plain(tokens: list[Token]) -> str:
    children = (child for token in tokens for child in token.children or ())
    texts = (" " if c.type in ("softbreak", "hardbreak") else c.content if c.type in _TEXTS else "" for c in children)
    return one_line("".join(texts))
