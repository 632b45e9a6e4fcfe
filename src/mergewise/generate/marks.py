"""Marks in what a model writes: the numbers of sources in brackets, read from a text that may arrive in pieces.

A mark holds one number, a list or a range: [3], [1, 2], [1-3], also [1][2] inside further brackets, and full-width brackets
and digits. It is written back as one bracket for each number that a source has. What names no source is taken out and
counted: every number, and of a range the part without sources once. Code between backticks is left alone, and so are years
and dates that no source has as its number: [1984], [1914-1918], [2024-05-01].

Every character is looked at a bounded number of times, however the text is cut into pieces: what is held back at the end is
joined with what follows only when this decides what it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

_OPENING, _CLOSING = "[【［", "]】］"
_BRACKETS = re.escape(_OPENING + _CLOSING)
_DASH = "‐‑–—−-"
_NEXT = re.compile(rf"[`{re.escape(_OPENING)}]")  # where code or a mark may begin
_STEP = re.compile(rf"[{_BRACKETS}]|[^\d\s,;、，；{_DASH}]")  # a bracket, or what stands in no mark
_CODE_END = re.compile(r"[`\n]")
_FENCE = "```"
_ITEM = re.compile(rf"(?P<sign>[{_DASH}])?(?P<first>\d+)(?:\s*[{_DASH}]\s*(?P<last>\d+))?")
_YEAR = r"(?:1[4-9]|20)[0-9][0-9](?:-[0-9][0-9]){0,2}"
_YEARS = re.compile(rf"\s*{_YEAR}(?:\s*[,;–—-]\s*{_YEAR})*\s*")
_DIGITS = 9  # of a number; a longer one names nothing


@dataclass(frozen=True, slots=True)
class MarkedText:
    """A piece of text without marks, or a mark as it is shown: the `numbers` in it, and how many were `removed`."""

    text: str
    numbers: tuple[int, ...] = ()
    removed: int = 0


class MarkReader:
    """Reads a text that arrives in pieces. What may still become a mark or code is held back until this is decided."""

    def __init__(self, known: Collection[int]) -> None:
        self._known = frozenset(known)
        self._held: list[str] = []
        self._open: Callable[[str], bool] | None = None  # whether more text leaves it open what the held text is
        self._fenced = False
        self._out: list[MarkedText] = []

    def add(self, text: str) -> list[MarkedText]:
        """What is settled by this text."""
        self._held.append(text)
        return [] if self._open is not None and self._open(text) else self._settle(last=False)

    def end(self) -> list[MarkedText]:
        """What was held back."""
        return self._settle(last=True)

    def _settle(self, last: bool) -> list[MarkedText]:
        text = "".join(self._held)
        self._held, self._open, self._out = [], None, []
        self._read(text, last)
        return self._out

    def _read(self, text: str, last: bool) -> None:
        at = 0
        while at < len(text):
            if self._fenced:
                at = self._in_fence(text, at, last)
            elif match := _NEXT.search(text, at):
                read = self._code if match[0] == "`" else self._mark
                at = read(text, at, match.start(), last)
            else:
                at = self._plain(text, at, last)

    def _show(self, text: str) -> None:
        if text:
            self._out.append(MarkedText(text))

    def _hold(self, text: str, still_open: Callable[[str], bool] | None) -> None:
        if text:
            self._held, self._open = [text], still_open

    def _plain(self, text: str, at: int, last: bool) -> int:
        """To the end; the spaces there are held back, since they go with a mark that names nothing."""
        end = len(text) if last else _before_spaces(text, at, len(text))
        self._show(text[at:end])
        self._hold(text[end:], lambda more: not more.strip(" \t"))
        return len(text)

    def _in_fence(self, text: str, at: int, last: bool) -> int:
        closing = text.find(_FENCE, at)
        if closing >= 0:
            self._fenced = False
            self._show(text[at : closing + len(_FENCE)])
            return closing + len(_FENCE)
        end = len(text) if last else at + len(text[at:].rstrip("`"))
        self._show(text[at:end])
        self._hold(text[end:], None)
        return len(text)

    def _code(self, text: str, at: int, tick: int, last: bool) -> int:
        """A fence, or code that ends on its line; a backtick without another one on its line is text."""
        self._show(text[at:tick])
        if text.startswith(_FENCE, tick):
            self._fenced = True
            self._show(_FENCE)
            return tick + len(_FENCE)
        closing = _CODE_END.search(text, tick + 1)
        if not last and (closing is None or tick + 2 == len(text)):
            ticks = len(text) - tick <= 2  # one or two, which may become a fence
            self._hold(text[tick:], None if ticks else lambda more: not _CODE_END.search(more))
            return len(text)
        end = closing.end() if closing and closing[0] == "`" else tick + 1
        self._show(text[tick:end])
        return end

    def _mark(self, text: str, at: int, opening: int, last: bool) -> int:
        """Brackets that hold each other are one mark: what is left of them must not become one that nobody has read."""
        spaces = _before_spaces(text, at, opening)
        self._show(text[at:spaces])
        depth = 0
        for step in _STEP.finditer(text, opening):
            depth += _deeper(step[0])
            if step[0] not in _OPENING + _CLOSING:
                self._read_unclosed(text[spaces : step.start()])
                return step.start()
            if depth == 0:
                self._out.append(self._group(text[spaces:opening], text[opening : step.end()]))
                return step.end()
        if last:
            self._read_unclosed(text[spaces:])
        else:
            self._hold(text[spaces:], _still_open(depth))
        return len(text)

    def _read_unclosed(self, run: str) -> None:
        """Brackets of which the first is never closed; those within it that are closed may be marks."""
        at = 0
        for start, end in _closed_brackets(run):
            spaces = _before_spaces(run, at, start)
            self._show(run[at:spaces])
            self._out.append(self._group(run[spaces:start], run[start:end]))
            at = end
        self._show(run[at:])

    def _group(self, spaces: str, group: str) -> MarkedText:
        items = list(_ITEM.finditer(group))
        named: dict[int, None] = {}
        removed = 0
        for item in items:
            numbers, lacks = self._sources_named(item)
            named |= dict.fromkeys(numbers)
            removed += lacks
        if not items or (not named and _YEARS.fullmatch(group[1:-1])):
            return MarkedText(spaces + group)
        return MarkedText(spaces * bool(named) + "".join(f"[{n}]" for n in named), tuple(named), removed)

    def _sources_named(self, item: re.Match[str]) -> tuple[list[int], bool]:
        """The sources that a number or range names, and whether it also names something that is none."""
        if item["sign"] or max(len(item["first"]), len(item["last"] or "")) > _DIGITS:
            return [], True
        first, last = int(item["first"]), int(item["last"] or item["first"])
        named = [first] if first == last and first in self._known else []
        if first < last:
            named = sorted(n for n in self._known if first <= n <= last)
        return named, len(named) <= last - first or first > last


def _still_open(depth: int) -> Callable[[str], bool]:
    """Whether the brackets of a text that arrives in pieces stay open, `depth` of which are."""

    def stays_open(text: str) -> bool:
        nonlocal depth
        for step in _STEP.finditer(text):
            depth += _deeper(step[0])
            if depth == 0 or step[0] not in _OPENING + _CLOSING:
                return False
        return True

    return stays_open


def _deeper(character: str) -> int:
    return (character in _OPENING) - (character in _CLOSING)


def _closed_brackets(run: str) -> list[tuple[int, int]]:
    """The outermost brackets that are closed, in order."""
    open_at: list[int] = []
    groups: list[tuple[int, int]] = []
    for step in _STEP.finditer(run):
        if step[0] in _OPENING:
            open_at.append(step.start())
        elif open_at:
            start = open_at.pop()
            while groups and groups[-1][0] > start:
                groups.pop()
            groups.append((start, step.end()))
    return groups


def _before_spaces(text: str, start: int, end: int) -> int:
    return start + len(text[start:end].rstrip(" \t"))


def marked_texts(text: str, known: Collection[int]) -> list[MarkedText]:
    """A whole text in its pieces."""
    reader = MarkReader(known)
    return [*reader.add(text), *reader.end()]


def without_unknown(text: str, known: Collection[int]) -> tuple[str, int]:
    """The text without the numbers in its marks that are not `known`, and how many these were."""
    pieces = marked_texts(text, known)
    return "".join(piece.text for piece in pieces), sum(piece.removed for piece in pieces)


class MarkFilter:
    """`without_unknown` for a text that arrives in pieces, without the white space at its beginning and at its end."""

    def __init__(self, known: Collection[int], show: Callable[[str], None]) -> None:
        self._reader = MarkReader(known)
        self._show = show
        self._begun = False
        # white space, which is shown once more comes
        self._spaces: list[str] = []

    def add(self, piece: str) -> None:
        self._pass_on(self._reader.add(piece))

    def end(self) -> None:
        self._pass_on(self._reader.end())

    def _pass_on(self, pieces: Sequence[MarkedText]) -> None:
        self._spaces.append("".join(piece.text for piece in pieces))
        if not self._spaces[-1].strip():
            return
        text = "".join(self._spaces) if self._begun else self._spaces[-1].lstrip()
        shown = text.rstrip()
        self._spaces, self._begun = [text[len(shown) :]], True
        self._show(shown)
