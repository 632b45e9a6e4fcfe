"""Source code and configuration: the file is the text, and its definitions are the headings.

Python is parsed by `ast`, other languages line by line (`definitions`). A heading is a definition's head, including parameters
and defaults. A comment directly above a definition belongs to it: the heading takes the place of the mark that opens the comment.
Parsers for all these languages would need a download at run time (tree-sitter's packs), or would find names but
not their nesting (Pygments).
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from mergewise.readers import definitions as d
from mergewise.readers.builder import Parsed, one_line, signature_title
from mergewise.readers.decoding import decode
from mergewise.text.spans import line_starts
from mergewise.types import Heading

# Characters of a module. `ast` needs a hundred times the memory of its text.
_MAX_PARSED = 5_000_000
_MAX_LEVEL = 6
_ENDS = re.compile(r"(?:\s|=>|[{:;(\\,])+\Z")
_COMMENT = re.compile(r"\s\#\s[^\n]*")
_DECORATORS = re.compile(r"\A(?:[ \t]*@[^\n]*\n)+")
_LITERAL = re.compile(r"(?<!\\)\"(?:\\.|[^\"\\\n])*\"|(?<!\\)'(?:\\.|[^'\\\n])*'|\#[^\n]*")

# level, start and end of a definition's head
Block = tuple[int, int, int]


def reader_of(language: d.Language) -> Callable[[bytes], Parsed]:
    is_python = ".py" in language.suffixes.split()

    def read_source(data: bytes) -> Parsed:
        text = decode(data)
        blocks = _python(text) if is_python else None
        blocks = _nested_blocks(text, language) if blocks is None else blocks
        headings: list[Heading] = []
        for level, start, end in blocks:
            head = _COMMENT.sub("", _DECORATORS.sub("", text[start:end]))
            if title := signature_title(_ENDS.sub("", one_line(head))):
                headings.append(Heading(min(level, _MAX_LEVEL), title, start, end))
        if not is_python:
            headings = list(_with_comments(text, headings, language.comment))
        return Parsed(text, outline=tuple(headings))

    return read_source


def _with_comments(text: str, headings: Iterable[Heading], comment: re.Pattern[str]) -> Iterator[Heading]:
    """Move each heading to the mark that opens the comment directly above it, if there is one."""
    # a heading begins with the annotations, or below them
    marks = {end: match.span("mark") for match in comment.finditer(text) for end in match.span("annotations")}
    end = 0
    for heading in headings:
        start, after = marks.get(text.rfind("\n", 0, heading.start) + 1, (-1, 0))
        end, is_own = heading.end, start >= end
        yield replace(heading, start=start, end=after) if is_own else heading


def _nested_blocks(text: str, language: d.Language) -> list[Block]:
    """Return definitions with their levels. A definition is inside the one before it if it is indented further."""
    stack: list[int] = []
    blocks = []
    for definition in d.definitions(text, language):
        while stack and stack[-1] >= definition.indent:
            stack.pop()
        stack.append(definition.indent)
        blocks.append((len(stack), definition.start, definition.end))
    return blocks


# --- Python ------------------------------------------------------------------------------------------------------


def _python(text: str) -> list[Block] | None:
    """Return the classes and functions of a module, or None if it is not valid in this version of Python."""
    if len(text) > _MAX_PARSED:
        return None
    try:
        with warnings.catch_warnings(action="ignore"):
            tree = ast.parse(text)
        return list(_definitions(tree, 1, _SourceOffsets(text)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


class _SourceOffsets:
    """Offsets in a text by line and column. `ast` counts columns in bytes of UTF-8."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._lines = text.split("\n")
        self._starts = line_starts(text)

    def offset(self, line: int, column: int) -> int:
        row = self._lines[line - 1]
        return self._starts[line - 1] + (column if row.isascii() else len(row.encode()[:column].decode()))


def _definitions(node: ast.AST, level: int, offsets: _SourceOffsets) -> Iterator[Block]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield level, *_head(child, offsets)
            yield from _definitions(child, level + 1, offsets)
        elif isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            yield from _definitions(child, level, offsets)


def _head(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, offsets: _SourceOffsets) -> tuple[int, int]:
    """Return the start of the first decorator and the end at the colon before the body."""
    define = offsets.offset(node.lineno, node.col_offset)
    first = node.decorator_list[0] if node.decorator_list else None
    start = define if first is None else offsets.text.rindex("@", 0, offsets.offset(first.lineno, first.col_offset))
    body = offsets.offset(node.body[0].lineno, node.body[0].col_offset)
    return start, define + _colon(offsets.text[define:body]) + 1


def _colon(head: str) -> int:
    """Return the offset of the colon that ends a head: the first one outside brackets, strings and comments."""
    colon = d.outside(_LITERAL.sub(lambda match: " " * len(match[0]), head), 0, ":")
    return len(head.rstrip()) - 1 if colon < 0 else colon
