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
    def rewritten(text: str) -> str:
        for pattern, by in replacements:
            text = re.sub(pattern, by.replace("\\n", "\n"), text, flags=re.MULTILINE)
        return normalize("NFC", text)

    def read(data: bytes) -> Parsed:
        text, pieces, at = decode(data), [], 0
        if not re.search(sign, text, re.MULTILINE):
            return read_plain(data)
        for first, code, last in _code_blocks(text, start, end):
            pieces += [rewritten(text[at:first]), f"\n```\n{code}\n```\n"]
            at = last
        pieces.append(rewritten(text[at:]))
        return parse_markdown(re.sub(r"\n\s*\n", "\n\n", "".join(pieces)).strip())

    return read


def _code_blocks(text: str, start: str, end: str) -> Iterator[tuple[int, str, int]]:
    """Yield start, code and end of each block. No end is searched twice, so that the time is linear."""
    at, unclosed = 0, set()
    for first in re.finditer(rf"{start}.*\n", text, re.MULTILINE):
        mark = first.groupdict().get("mark", "")
        if first.start() < at or mark in unclosed:
            continue
        last = re.compile(end.replace("(?P=mark)", re.escape(mark)), re.MULTILINE).search(text, first.end())
        if last is None:
            unclosed.add(mark)
        else:
            yield first.start(), text[first.end() : last.start()].strip("\n"), (at := last.end())
