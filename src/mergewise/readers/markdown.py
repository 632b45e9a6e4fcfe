"""Markdown: the source is the text; headings come from a CommonMark parser.

Headings inside quotes and list items do not divide the document, and are no part of the outline. Of front matter only
`key: value` lines with a scalar value become metadata; anything else is just text.
"""

from __future__ import annotations

import re
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

from mergewise.readers.builder import Parsed, first_title, one_line
from mergewise.readers.decoding import decode
from mergewise.types import Heading, MetadataValue

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_SCALAR = re.compile(r"^([A-Za-z][\w-]*):[ \t]+([^\s\[{|>&*!#].*?)\s*$", re.MULTILINE)
_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?")
_ATTRIBUTES = re.compile(r"\s*\{:?\s*[#.][^{}]*\}\s*$")  # `# Title {#anchor .class}`, as many site generators write


def read_markdown(data: bytes) -> Parsed:
    from markdown_it import MarkdownIt
    from mdit_py_plugins.front_matter import front_matter_plugin

    text = decode(data)
    blocks = MarkdownIt("commonmark").use(front_matter_plugin).disable("inline")
    inline = MarkdownIt("commonmark")
    references: dict[str, Any] = {}
    tokens = blocks.parse(text, references)
    outline = tuple(_headings(text, tokens, inline, references))
    metadata = _front_matter(tokens)
    title = str(metadata.pop("title", "")) or first_title(outline)
    return Parsed(text, title, outline, metadata=metadata)


def _headings(text: str, tokens: list[Token], inline: MarkdownIt, references: dict[str, Any]) -> list[Heading]:
    starts = [0, *accumulate(len(line) + 1 for line in text.split("\n"))]
    headings = []
    for opening, content in pairwise(tokens):
        if opening.type == "heading_open" and opening.level == 0 and opening.map:
            first, after = opening.map
            start, end = starts[first], min(starts[after], len(text))
            raw = text[start:end]
            start, end = start + len(raw) - len(raw.lstrip()), start + len(raw.rstrip())
            title = _ATTRIBUTES.sub("", _plain(inline.parseInline(content.content, references)))
            if title:
                headings.append(Heading(int(opening.tag[1:]), title, start, end))
    return headings


def _plain(tokens: list[Token]) -> str:
    children = [child for token in tokens for child in token.children or ()]
    return one_line("".join(" " if child.type in ("softbreak", "hardbreak") else _shown(child) for child in children))


def _shown(token: Token) -> str:
    return token.content if token.type in ("text", "text_special", "code_inline", "image") else ""


def _front_matter(tokens: list[Token]) -> dict[str, MetadataValue]:
    source = tokens[0].content if tokens and tokens[0].type == "front_matter" else ""
    return {key: _scalar(value) for key, value in _SCALAR.findall(source)}


def _scalar(value: str) -> MetadataValue:
    if value[0] in "\"'" and value[-1] == value[0] and len(value) > 1:
        return value[1:-1]
    if value in ("true", "false"):
        return value == "true"
    if match := _NUMBER.fullmatch(value):
        return float(value) if match[2] else int(value)
    return value
