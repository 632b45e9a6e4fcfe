"""Units: sentences and other pieces of text that stay whole, with exact offsets, and the unit that each needs before it.

A unit is a sentence, a list item with all its lines, a row of a table, or a stretch of code. Some say little alone: a row
without its header, an item without the line that announces its list, code without the sentence above it, the rest of a long
item without its beginning, an answer without its question. Such a unit has a `lead`, which a context shows with it. A short
unit and the units that need it are joined: "Allowed characters:" with the three items below it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby, pairwise
from typing import NamedTuple

from mergewise.text.markup import CODE_DIRECTIVES, DIRECTIVE, readable, says_something
from mergewise.text.sentences import Form, blocks, lines_of, segment, strip_span
from mergewise.text.spans import margin_at
from mergewise.types import Kind, Part

# In characters: the maximum length of an announcement joined with its units, and of an item kept whole, and the length
# above which code is cut between its lines.
SHORT = 320
ITEM = 400
CODE = 400

# Blocks of a table that are searched for its end.
FAR = 400
# The forms of the blocks of a table, and of a run of lines.
_TABLE, _LINES = ("row", "edge"), ("line", "more")
_RUNS = dict.fromkeys(_TABLE, _TABLE) | dict.fromkeys(_LINES, _LINES)

_QUALIFIES = re.compile(
    r"[(\[*_`]*(?:defaults?\b|optional\b|required\b|deprecated\b|(?:allowed|possible|valid|accepted|supported) values\b|"
    r"must be\b|(?:new|added|changed|removed) in\b)",
    re.IGNORECASE,
)
_LABEL = re.compile(r"(?P<mark>\*\*|__)[^*_\n]{1,60}(?P=mark):?")
_FOLLOWING = re.compile(r"\b(?:following|as follows|below)\b", re.IGNORECASE)
# The first column of a table, by its edge.
_FIRST_COLUMN = re.compile(r"[\s+|:]*[-=]+[\s+|:]+|\s*[\u2500-\u257f][\u2500\u2501\u2550]+.")
# A row of a table that is written as a list of lists.
_LIST_ROW = re.compile(
    r"(?P<row>[*-])[ ]+(?P<cell>(?!(?P=row))[*-])[ ][^\n]*\n(?:[ \t]+\w[^\n]*\n){0,20}[ \t]+(?P=cell)[ ]"
)
_FENCES = ("```", "~~~")
_ANNOUNCES = (":", "：", "...", "…")
_ENDS = tuple(".!?:;。！？")
_CLOSING = ")]”\"'*_`"


class TextUnit(NamedTuple):
    """The text `text[start:end]`. `lead` is the number of the unit that it needs before it, within the same stretch."""

    start: int
    end: int
    lead: int | None = None
    kind: Kind = "prose"


def split_units(text: str, language: str = "en", plain: str = "") -> list[TextUnit]:
    """Split a stretch of text without headings into units, in order. Only white space separates them.

    `plain` is the text without mark-up, if it is known.
    """
    walk = _Walk(text, language, plain or readable(text))
    return _join_short(walk.units(), walk.open)


@lru_cache(4096)
def announces(unit: str) -> bool:
    """Return true if a unit says little without the next one: it ends with a colon, or is a header or a label."""
    shown = readable(unit).rstrip().rstrip("*_`")
    return shown.endswith((*_ANNOUNCES, "?", "？")) or unit.startswith("|") or _LABEL.fullmatch(unit) is not None


class _Block(NamedTuple):
    start: int
    end: int
    kind: Form
    indent: int


@dataclass(slots=True)
class _OpenItem:
    """An open list item or definition: its indent and its first unit."""

    indent: int
    unit: int
    is_definition: bool = False


@dataclass(slots=True)
class _Walk:
    """One pass through the blocks of a text, which remembers the units that announce others."""

    text: str
    language: str
    plain: str
    found: list[TextUnit] = field(default_factory=list)
    # Units that say little without the next one.
    open: set[int] = field(default_factory=set)
    # A unit that ends with a colon, until the next one has come.
    _announced_by: int | None = None
    # The indent of a directive that announces deeper text.
    _directive_indent: int | None = None
    # The last unit, if it is a paragraph whose last sentence goes on in the list or table below.
    _unfinished: int | None = None
    # True if a list is open, and the unit that announces the list.
    _listing: bool = False
    _list_of: int | None = None
    _items: list[_OpenItem] = field(default_factory=list)
    # The indent of a literal block, and the unit that announces it.
    _code_of: tuple[int, int | None] | None = None
    # The unit that announces code which begins here: the last one with text, or the lead of code above.
    _above: int | None = None

    def units(self) -> list[TextUnit]:
        stretch = [self._block(*block) for block in blocks(self.text)]
        at = 0
        while at < len(stretch):
            upto = self._region(stretch, at)
            self._take(stretch[at:upto])
            at = upto
        return self.found

    def _block(self, start: int, end: int, kind: Form) -> _Block:
        return _Block(start, end, kind, len(margin_at(self.text, start).expandtabs(4)))

    def _add(self, parts: Iterable[Part], lead: int | None, rest: int | None, kind: Kind) -> None:
        """Add the parts of a block. The first one needs `lead`, the others need `rest`."""
        for start, end in parts:
            if self.text.startswith(_FENCES, start):
                self._above = lead
            elif says_something(self.plain[start:end]):
                self._above = len(self.found)
            self.found.append(TextUnit(start, end, lead, kind))
            lead, kind = rest, "prose" if kind == "entry" else kind

    def _region(self, stretch: Sequence[_Block], at: int) -> int:
        """Return the end of a region: a table, a literal block, or an item with its further paragraphs."""
        first, upto = stretch[at], at + 1
        if self._opens_literal(first):
            indent = self._code_of[0] if self._code_of else 0
            while upto < len(stretch) and stretch[upto].indent > indent:
                upto += 1
        elif alike := _RUNS.get(first.kind):
            # a simple table of reStructuredText has the same edge three times, and may have empty lines
            edge = self.text[first.start : first.end]
            same = [i for i in range(at, min(at + FAR, len(stretch))) if self.text[slice(*stretch[i][:2])] == edge]
            upto = same[2] + 1 if len(same) > 2 and edge[0] == "=" and " " in edge else upto
            while upto < len(stretch) and stretch[upto].kind in alike and self._touch(stretch, upto):
                upto += 1
        elif _LIST_ROW.match(self.text, first.start):
            while upto < len(stretch) and (
                stretch[upto].indent > first.indent or _LIST_ROW.match(self.text, stretch[upto].start)
            ):
                upto += 1
        elif first.kind == "item":
            # Further fields of a short field list, such as the options of a directive.
            while (
                upto < len(stretch)
                and stretch[upto].kind == "item"
                and self.text[first.start] == ":" == self.text[stretch[upto].start]
                and stretch[upto].end - first.start <= ITEM
                and self._touch(stretch, upto)
            ):
                upto += 1
            while (
                upto < len(stretch)
                and stretch[upto].kind in ("prose", "heading")
                and stretch[upto].indent > first.indent
            ):
                upto += 1
        return upto

    def _opens_literal(self, block: _Block) -> bool:
        return self._code_of is not None and block.indent > self._code_of[0]

    def _touch(self, stretch: Sequence[_Block], at: int) -> bool:
        """Return true if there is no empty line before the block."""
        return "\n\n" not in self.text[stretch[at - 1].end : stretch[at].start]

    def _take(self, region: Sequence[_Block]) -> None:
        first, start, end = region[0], region[0].start, region[-1].end
        literal, self._code_of = self._code_of if self._opens_literal(first) else None, None
        if self._directive_indent is not None and first.indent <= self._directive_indent:
            self._announced_by = None
        self._directive_indent = None
        if literal is not None:
            self._code(start, end, literal[1])
        elif first.kind == "code":
            self._code(start, end, self._above)
        elif first.kind in _LINES:
            self._lines(region)
        elif _LIST_ROW.match(self.text, start) or (first.kind in _TABLE and any(b.kind == "row" for b in region)):
            self._close_list()
            rows = _rows(self.text, region)
            header = len(self.found)
            self.open.add(header)
            self._add(rows, self._announcement(), header, "row")
            self._announced_by = None
        elif first.kind == "edge" or not says_something(self.plain[start:end]):
            # it says nothing, but may open a literal block
            directive = DIRECTIVE.match(self.text, start, end)
            opens = directive["name"] in CODE_DIRECTIVES if directive else self.text.endswith("::", start, end)
            if directive:
                self._close_list()
            if opens:
                self._code_of = (first.indent, self._above)
            self._add([(start, end)], None, None, "prose")
        elif first.kind == "item":
            self._item(region)
        else:
            self._paragraph(first)

    # -- the kinds of blocks

    def _code(self, start: int, end: int, announced_by: int | None) -> None:
        """Cut code into pieces of up to CODE characters, each before the last of the least indented lines."""
        if end - start > CODE and (records := self._records(start, end)):
            self._announced_by = announced_by
            self._lines(records)
            return
        text = self.text
        lines = [(a, b) for a, b in _lines(text, start, end) if text[a:b].strip()]
        pieces = []
        first = 0
        for at in range(1, len(lines)):
            if lines[at][1] - lines[first][0] > CODE and at - first > 1:
                margins = [self._block(*strip_span(text, *line), "code").indent for line in lines[first + 1 : at + 1]]
                cut = at - margins[::-1].index(min(margins))
                pieces.append((lines[first][0], lines[cut - 1][1]))
                first = cut
        pieces = [strip_span(text, *piece) for piece in (*pieces, (lines[first][0], end))]
        self._add(pieces, announced_by, announced_by, "code")
        self._announced_by = None

    def _records(self, start: int, end: int) -> list[_Block]:
        """Return the lines of a log, settings or a session in code, with the edges of its fence."""
        text, fenced = self.text, self.text.startswith(_FENCES, start)
        inside = (text.find("\n", start) + 1, text.rfind("\n", start, end)) if fenced else (start, end)
        found = lines_of(text, *strip_span(text, *inside))
        lines = [self._block(a, b, form) for a, b, form in found if form in ("line", "more")]
        if lines:
            lines[0] = lines[0]._replace(start=start)
            lines[-1] = lines[-1]._replace(end=end)
        return lines

    def _paragraphs(self, region: Sequence[_Block]) -> Iterator[_Block]:
        """Yield lines. Further lines of prose, such as those of a definition, are one block."""
        for (kind, _), run in groupby(region, lambda block: block[2:]):
            lines = list(run)
            whole = lines[0]._replace(end=lines[-1].end)
            yield from [whole] if kind == "more" and not lines_of(self.text, *whole[:2]) else lines

    def _lines(self, region: Sequence[_Block]) -> None:
        """Add lines. A deeper line, and one that begins no record, needs the line above it."""
        lead, self._announced_by = self._announced_by, None
        if self._items and region[0].indent > self._items[0].indent:
            lead = self._items[-1].unit if lead is None else lead
        else:
            self._close_list()
        # the depths of the lines above, with their units
        above: list[Part] = []
        asked = False
        for block in self._paragraphs(region):
            depth = 2 * block.indent + (block.kind == "more")
            while above and above[-1][0] >= depth:
                above.pop()
            if above:
                self.open.add(above[-1][1])
            number, of = len(self.found), above[-1][1] if above else lead
            asks = self.text.endswith(("?", "？"), block.start, block.end)
            if asked and not asks:
                # an answer needs its question
                of = number - 1
                self.open.add(of)
            asked = asks
            parts = [(block.start, block.end)] if block.end - block.start <= ITEM else self._sentences(block)
            self._add(parts, of, number, "line")
            above.append((depth, number))

    def _announcement(self) -> int | None:
        """Return the unit that announces a list or table: it ends with a colon, has no end, or says that something follows."""
        above = self._above if self._announced_by is None else self._announced_by
        if above is None or above == self._announced_by:
            return above
        unit = self.found[above]
        if above == self._unfinished:
            self.open.add(above)
            return above
        return above if _FOLLOWING.search(self.plain, unit.start, unit.end) else None

    def _item(self, region: Sequence[_Block]) -> None:
        first = region[0]
        while self._items and self._items[-1].indent >= first.indent:
            self._items.pop()
        if not self._listing or (self._announced_by is not None and not self._items):
            self._list_of = self._announcement()
        self._listing = True
        self._announced_by = None
        lead = self._items[-1].unit if self._items else self._list_of
        number = len(self.found)
        start, end = first.start, region[-1].end
        short = [(start, end)] if end - start <= ITEM else []
        self._add(short or (part for block in region for part in self._sentences(block)), lead, number, "item")
        self._items.append(_OpenItem(first.indent, number))
        self._note_announcement(first.indent, end, number)

    def _paragraph(self, block: _Block) -> None:
        while self._items and self._items[-1].is_definition and self._items[-1].indent >= block.indent:
            self._items.pop()
        inside = self._items and block.indent > self._items[0].indent
        if not inside:
            self._close_list()
        term = _is_definition(self.text, block.start, block.end)
        sentences = [(block.start, block.end)] if term and block.end - block.start <= ITEM else self._sentences(block)
        number = len(self.found)
        lead, self._announced_by = self._announced_by, None
        if lead is None and inside:
            lead = self._items[-1].unit
        if lead is None and self.found:
            # It qualifies the unit above, or is the label of an answer to it.
            above = self.found[-1].lead
            labelled = above is not None and self._is_label(self.found[above].start, self.found[above].end)
            qualifies = _QUALIFIES.match(self.text, block.start) is not None
            if qualifies or (labelled and self._is_label(block.start, block.end)):
                lead = number - 1
        body_of = self._items[-1].unit if inside and self._items[-1].is_definition else None
        self._add(sentences, lead, number if term else body_of, "entry" if term else "prose")
        if term:
            self._items.append(_OpenItem(block.indent, number, is_definition=True))
        last = len(self.found) - 1
        self._unfinished = None if term or _ends(self.plain[self.found[last].start : block.end]) else last
        self._note_announcement(block.indent, block.end, last, whole=len(sentences) == 1)

    def _close_list(self) -> None:
        self._items.clear()
        self._listing, self._list_of = False, None

    def _is_label(self, start: int, end: int) -> bool:
        return _LABEL.fullmatch(self.text, start, end) is not None

    def _note_announcement(self, indent: int, end: int, unit: int, *, whole: bool = False) -> None:
        """Remember a unit that announces the next one."""
        start = self.found[unit].start
        shown = self.plain[start:end].rstrip().rstrip("*_`")
        directive = DIRECTIVE.match(self.text, start, end)
        if directive and directive["name"] in CODE_DIRECTIVES:
            self._code_of = (indent, self._above if self._above != unit else None)
        elif directive or self.text.endswith("::", start, end):
            self._announced_by = unit
            self._directive_indent = indent if directive else None
            self._code_of = None if directive else (indent, unit)
        elif (
            shown.endswith(_ANNOUNCES)
            or (whole and shown.endswith(("?", "？")))
            or self._is_label(start, end)
            or self.text.startswith("#", start)
        ):
            self._announced_by = unit
        if self._announced_by == unit:
            self.open.add(unit)

    def _sentences(self, block: _Block) -> list[Part]:
        """Return the sentences of a block. A sentence that only qualifies the one before it is part of that sentence."""
        parts: list[Part] = []
        for start, end in segment(self.text, block.start, block.end, self.language):
            if parts and _QUALIFIES.match(self.text, start) and end - parts[-1][0] <= ITEM:
                parts[-1] = (parts[-1][0], end)
            else:
                parts.append((start, end))
        return parts


def _rows(text: str, region: Sequence[_Block]) -> list[Part]:
    """Return the rows of a table, the first with the line below it.

    Between the edges of a grid, all lines are one row. So are the lines of a header, and lines with an empty first column.
    """
    if region[0].kind == "item":
        firsts = [at for at, block in enumerate(region) if block.indent <= region[0].indent]
        return [(region[a].start, region[b - 1].end) for a, b in pairwise([*firsts, len(region)])]
    bars = text.startswith("+", region[0].start)
    edges = [e for e in region if e.kind == "edge" and not (bars and text.startswith("|", e.start))]
    grid = bars and (len(edges) > 3 or any(text.find("=", e.start, e.end) > 0 for e in edges))
    first = _FIRST_COLUMN.match(text[text.rfind("\n", 0, edges[0].start) + 1 : edges[0].end]) if edges else None
    starts = {edge.start for edge in edges}
    rows: list[Part] = []
    fresh = True
    in_header = region[0].kind == "edge" and len(edges) > 2
    for block in region:
        if block.start in starts:
            if len(rows) == 1 or (rows and block is region[-1]):
                rows[-1] = (rows[-1][0], block.end)
            fresh, in_header = True, in_header and not rows
            continue
        for line, end in _lines(text, block.start, block.end):
            start, end = strip_span(text, max(line, block.start), end)
            empty = first is not None and not text[line : line + first.end()].strip(" \t|│║┃")
            if rows and not fresh and (grid or in_header or (empty and end - rows[-1][0] <= ITEM)):
                rows[-1] = (rows[-1][0], end)
            else:
                rows.append((start if rows else region[0].start, end))
                fresh = False
    return rows


def _lines(text: str, start: int, end: int) -> Iterator[Part]:
    """Yield the lines of a stretch, each from its own beginning."""
    start = text.rfind("\n", 0, start) + 1
    while start < end:
        stop = text.find("\n", start, end)
        stop = end if stop < 0 else stop
        yield start, stop
        start = stop + 1


def _ends(text: str) -> bool:
    return text.rstrip().rstrip(_CLOSING).endswith(_ENDS)


def _is_definition(text: str, start: int, end: int) -> bool:
    """Return true if the first line is a term: without a full stop, above lines that are deeper or begin with a colon."""
    stop = text.find("\n", start, end)
    if stop < 0 or _ends(text[start:stop]):
        return False
    below = text[stop + 1 : end]
    line = text.rfind("\n", 0, start) + 1
    return len(below) - len(below.lstrip(" \t")) > start - line or below.startswith((": ", ":\t"))


def _join_short(units: Sequence[TextUnit], open_units: Collection[int]) -> list[TextUnit]:
    """Join each open unit with the units after it that need it, if they are short together. The last one gives the kind."""
    joined: list[TextUnit] = []
    # The number of each unit among the joined ones.
    now: list[int] = []
    at = 0
    while at < len(units):
        upto = at + 1
        while at in open_units and upto < len(units) and (lead := units[upto].lead) is not None and lead >= at:
            if units[upto].end - units[at].start > SHORT:
                upto = at + 1
                break
            upto += 1
        lead = units[at].lead
        now += [len(joined)] * (upto - at)
        kind = units[upto - 1].kind
        joined.append(TextUnit(units[at].start, units[upto - 1].end, None if lead is None else now[lead], kind))
        at = upto
    return joined
