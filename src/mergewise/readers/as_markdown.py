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

# characters of a code block; longer ones are read as text, so that the search for an end stays short
_MAX_CODE = 20_000


def markup_readers() -> Iterator[tuple[str, Callable[[bytes], Parsed]]]:
    """Yield each suffix with its reader."""
    table = tomllib.loads((files("mergewise.readers") / "markups.toml").read_text(encoding="utf-8"))
    for markup in table["format"]:
        reader = _reader(markup["start"], markup["end"], markup.get("sign", ""), markup["replacements"])
        yield from ((suffix, reader) for suffix in markup["suffixes"].split())


def _reader(start: str, end: str, sign: str, replacements: list[tuple[str, str]]) -> Callable[[bytes], Parsed]:
    block = rf"{start}.*\n(?P<code>(?s:.{{0,{_MAX_CODE}}}?)){end}"

    def rewritten(text: str) -> str:
        for pattern, by in replacements:
            text = re.sub(pattern, by.replace("\\n", "\n"), text, flags=re.MULTILINE)
        return normalize("NFC", text)

    def read(data: bytes) -> Parsed:
        text, pieces, at = decode(data), [], 0
        if not re.search(sign, text, re.MULTILINE):
            return read_plain(data)
        for match in re.finditer(block, text, re.MULTILINE):
            pieces += [rewritten(text[at : match.start()]), f"\n```\n{match['code'].strip(chr(10))}\n```\n"]
            at = match.end()
        pieces.append(rewritten(text[at:]))
        return parse_markdown(re.sub(r"\n\s*\n", "\n\n", "".join(pieces)).strip())

    return read
