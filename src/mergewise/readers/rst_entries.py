"""Entries of reStructuredText: directives that describe something by its name, such as `.. py:function:: open(file)`.

An entry is a heading below its section, nested by indentation. So its signature stands above each part of its body. Sphinx and
its extensions define hundreds of such directives. Every directive with an argument and a body counts, except those listed here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from mergewise.readers.builder import signature_title
from mergewise.text.markup import CODE_DIRECTIVES, DIRECTIVE
from mergewise.text.spans import indent_of, line_starts
from mergewise.types import Heading

# Directives whose bodies are no text to search for entries.
_VERBATIM = CODE_DIRECTIVES | frozenset(
    "digraph graph graphviz index literalinclude meta plantuml productionlist raw testcleanup testoutput testsetup "
    "toctree".split()
)
# Directives with an argument that is not the name of an entry.
_OTHERS = frozenset(
    "admonition attention audit-event availability caution centered codeauthor compound container contents csv-table "
    "currentmodule danger date default-role deprecated deprecated-removed epigraph error figure footer glossary header "
    "highlight highlights hint hlist ifconfig image impl-detail important include inheritance-diagram list-table module "
    "moduleauthor note only program pull-quote py:currentmodule py:module replace role rst-class rubric sectionauthor seealso "
    "sidebar table tabularcolumns tip title todo topic unicode warning".split()
)
_FAMILIES = re.compile(r"auto|version|(?:\w+:)?namespace")
# A target or a comment.
_SILENT = re.compile(r"\.\.(?:[ \t]+(?![|\[])|\Z)|__[ \t]")
_ESCAPE = re.compile(r"\\(?=\S)|\\\Z")
_MAX_LEVEL = 12


def with_entries(text: str, outline: Sequence[Heading]) -> tuple[Heading, ...]:
    """Return the outline of sections with a heading for each entry.

    A heading without a title marks the text after an entry, which belongs to its section again. Targets directly above a
    section or an entry are part of its heading.
    """
    walk = _EntryWalk(text, {heading.start: heading for heading in outline})
    walk.read()
    return tuple(walk.found)


class _EntryWalk:
    """One pass through the lines of a text."""

    def __init__(self, text: str, sections: Mapping[int, Heading]) -> None:
        self._text = text
        self._lines = text.split("\n")
        self._starts = line_starts(text)
        self._sections = sections
        # the level of the section
        self._level = 0
        # the indents of the open entries, outermost first
        self._open: list[int] = []
        # true after the end of an entry, until other text comes
        self._closed = False
        # the start and indent of the targets, and the names, that belong to the next section or entry
        self._ahead: tuple[int, int] | None = None
        self._names: list[str] = []
        self.found: list[Heading] = []

    def read(self) -> None:
        row = 0
        # the indent of the line above verbatim text
        verbatim: int | None = None
        while row < len(self._lines):
            line, start = self._lines[row], self._starts[row]
            if section := self._sections.get(start):
                self._level = section.level
                self._open.clear()
                self._add(section.level, section.title, section.start, section.end)
                row += self._text.count("\n", start, section.end) + 1
                continue
            row += 1
            code, indent = line.strip(), _indent(line)
            if not code or (verbatim is not None and indent > verbatim):
                continue
            if self._ahead is not None and indent < self._ahead[1]:
                self._ahead = None
            while self._open and self._open[-1] >= indent:
                self._open.pop()
                self._closed = True
            directive = DIRECTIVE.match(code)
            name = directive["name"].lower() if directive else ""
            is_silent = name in ("index", "program") or (not directive and _SILENT.match(code) is not None)
            is_verbatim = name in _VERBATIM or (not directive and (is_silent or code.endswith("::")))
            verbatim = indent if is_verbatim else None
            if directive and not is_verbatim and self._is_entry(name, directive["argument"] or ""):
                row = self._entry(row - 1, indent, indent + directive.start("argument"), directive["argument"])
            elif is_silent:
                self._ahead = self._ahead or (start, indent)
            else:
                self._continue_section(start)

    def _add(self, level: int, title: str, start: int, end: int) -> None:
        """Add a heading, from the targets above it."""
        self.found.append(Heading(level, title, start if self._ahead is None else self._ahead[0], end))
        self._forget()

    def _forget(self) -> None:
        self._ahead, self._closed = None, False
        self._names.clear()

    def _continue_section(self, start: int) -> None:
        if self._closed:
            start = start if self._ahead is None else self._ahead[0]
            self.found.append(Heading(self._next_level(), "", start, start))
        self._forget()

    def _next_level(self) -> int:
        return min(self._level + len(self._open) + 1, _MAX_LEVEL)

    @staticmethod
    def _is_entry(name: str, argument: str) -> bool:
        is_prose = argument.endswith((".", "!", "?", ":")) and "(" not in argument and len(argument.split()) > 3
        return bool(argument) and name not in _OTHERS and not _FAMILIES.match(name) and not is_prose

    def _entry(self, row: int, indent: int, column: int, argument: str) -> int:
        """Add an entry that has a body. Return the row after its names: further names are aligned with the first."""
        start, names, row = self._starts[row], [argument], row + 1
        while row < len(self._lines) and (more := self._lines[row].strip()):
            if _indent(self._lines[row]) != column and not self._lines[row - 1].endswith("\\"):
                break
            names.append(more)
            row += 1
        below = next((at for at in range(row, len(self._lines)) if self._lines[at].strip()), row)
        line = self._lines[below] if below < len(self._lines) else ""
        section = self._sections.get(self._starts[below]) if line else None
        if line and _indent(line) > indent:
            title = signature_title(_ESCAPE.sub("", ", ".join([*self._names, *names])))
            self._add(self._next_level(), title, start, self._starts[row - 1] + len(self._lines[row - 1].rstrip()))
            self._open.append(indent)
        elif (section and argument.lower() in section.title.lower()) or (
            below == row and DIRECTIVE.match(line.strip())
        ):
            self._ahead = self._ahead or (start, indent)
            self._names += names
        else:
            self._continue_section(start)
        return row


def _indent(line: str) -> int:
    return indent_of(line.expandtabs(8))
