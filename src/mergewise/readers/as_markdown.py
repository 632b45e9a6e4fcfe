"""Lighter formats, read as Markdown: AsciiDoc, Org, LaTeX, manual pages, MDX and subtitles.

`markups.toml` has the patterns of each format: of its code blocks, which become fenced blocks, and replacements for the text
between them. Headings, lists, links and paragraphs come out right. Includes, macros and conditions are not carried out, and
tables stay lines.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator
from importlib.resources import files
from unicodedata import normalize

from mergewise.readers.builder import Parsed
from mergewise.readers.decoding import decode
from mergewise.readers.front_matter import read_plain
from mergewise.readers.markdown import parse_markdown


def markup_readers() -> Iterator[tuple[str, Callable[[bytes], Parsed]]]:
    """Yield each suffix with its reader."""
    table = tomllib.loads((files("mergewise.readers") / "markups.toml").read_text(encoding="utf-8"))
    for markup in table["format"]:
        reader = _reader(markup["start"], markup["end"], markup.get("sign", ""), markup["replacements"])
        yield from ((suffix, reader) for suffix in markup["suffixes"].split())


def _reader(start: str, end: str, sign: str, replacements: list[tuple[str, str]]) -> Callable[[bytes], Parsed]:
    # an unclosed block goes to the end of the file, so that no end is searched twice
    block = re.compile(rf"{start}.*\n(?P<code>(?s:.*?))(?:{end}|\Z)", re.MULTILINE)
    patterns = [(re.compile(pattern, re.MULTILINE), by.replace("\\n", "\n")) for pattern, by in replacements]

    def rewritten(text: str) -> str:
        for pattern, by in patterns:
            text = pattern.sub(by, text)
        return normalize("NFC", text)

    def read(data: bytes) -> Parsed:
        text, pieces, at = decode(data), [], 0
        if not re.search(sign, text, re.MULTILINE):
            return read_plain(data)
        for code in block.finditer(text):
            pieces += [rewritten(text[at : code.start()]), "\n```\n", code["code"].strip("\n"), "\n```\n"]
            at = code.end()
        pieces.append(rewritten(text[at:]))
        return parse_markdown(re.sub(r"\n\s*\n", "\n\n", "".join(pieces)).strip())

    return read
