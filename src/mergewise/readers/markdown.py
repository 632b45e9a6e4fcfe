"""Markdown: the source is the text; headings come from a CommonMark parser.

Headings inside quotes and list items do not divide the document, and are left out of the outline. Front matter (YAML between
`---`, TOML between `+++`) or a header block gives title and metadata, and stays in the text.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from mergewise.readers.builder import Parsed, one_line
from mergewise.readers.decoding import decode
from mergewise.readers.front_matter import header_pairs, title_in, toml_block, toml_pairs, yaml_pairs
from mergewise.readers.metadata import metadata_from
from mergewise.readers.titles import title_among
from mergewise.text.spans import line_starts
from mergewise.types import Heading

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_TEXTS = frozenset({"text", "text_special", "code_inline", "image"})
# `# Title {#anchor .class}`, as many site generators write.
_ATTRIBUTES = re.compile(r"\s*\{:?\s*[#.][^{}]*\}\s*$")


def read_markdown(data: bytes) -> Parsed:
    return parse_markdown(decode(data))


def parse_markdown(text: str) -> Parsed:
    from markdown_it import MarkdownIt
    from mdit_py_plugins.front_matter import front_matter_plugin

    blocks = MarkdownIt("commonmark").use(front_matter_plugin).disable("inline")
    inline = MarkdownIt("commonmark")
    references: dict[str, Any] = {}
    toml, skipped = toml_block(text)
    # front matter is replaced by empty lines, so that line numbers stay valid
    tokens = blocks.parse("\n" * text.count("\n", 0, skipped) + text[skipped:], references)
    outline = tuple(_headings(text, tokens, inline, references))
    yaml = yaml_pairs(tokens[0].content) if tokens and tokens[0].type == "front_matter" else []
    pairs = toml_pairs(toml) if toml else yaml or header_pairs(text)
    return Parsed(text, title_in(pairs) or title_among(outline), outline, metadata=metadata_from(pairs))


def _headings(text: str, tokens: list[Token], inline: MarkdownIt, references: dict[str, Any]) -> list[Heading]:
    starts = [*line_starts(text), len(text)]
    headings = []
    for opening, content in pairwise(tokens):
        if opening.type == "heading_open" and opening.level == 0 and opening.map:
            first, after = opening.map
            start, end = starts[first], starts[after]
            raw = text[start:end]
            start, end = start + len(raw) - len(raw.lstrip()), start + len(raw.rstrip())
            title = _ATTRIBUTES.sub("", _plain(inline.parseInline(content.content, references)))
            if title:
                headings.append(Heading(int(opening.tag[1:]), title, start, end))
    return headings


def _plain(tokens: list[Token]) -> str:
    children = (child for token in tokens for child in token.children or ())
    texts = (" " if c.type in ("softbreak", "hardbreak") else c.content if c.type in _TEXTS else "" for c in children)
    return one_line("".join(texts))
