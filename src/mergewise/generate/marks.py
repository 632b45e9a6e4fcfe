"""Marks in a model's text: numbers of sources in brackets, read from a text that may arrive in pieces.

- A mark has one number, a list or a range: [3], [1, 2], [1-3]. It may be nested in more brackets, and use full-width brackets
  and digits, words for a source, and forms that models learned elsewhere: [Source 3], [^3], 【3†source】. It is written back as
  one bracket per valid number.
- Numbers without a source are removed and counted. The invalid part of a range counts once.
- A mark that a document contains itself is text: `escape_marks` writes a backslash before it, as Markdown does. In a model's
  text, a mark counts as the document's own if a source has it after the same words.
- Code between backticks is unchanged, and so are years and dates that are not the number of a source: [1984], [1914-1918],
  [2024-05-01].

The reader scans each character a bounded number of times, however the text is split: text that it holds back is joined with the
next pieces only when they decide its meaning.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

from mergewise.types import Part

_OPENING, _CLOSING = "[【［", "]】］"
_BRACKETS = re.escape(_OPENING + _CLOSING)
_DASH = "‐‑–—−-"
# the possible start of code or of a mark, or a backslash and the character that it escapes
_NEXT = re.compile(rf"\\[\\{re.escape(_OPENING)}]|[`{re.escape(_OPENING)}]")
# what a mark may contain beside numbers: words for a source, the sign of a footnote, and a note after a dagger
_WORDS = (
    "sources source src documents document docs doc citations citation cite references reference refs ref passages passage "
    "excerpts excerpt context quellen quelle dokument fuente 来源 文档"
).split()
_BETWEEN = rf"\d\s,;、，；{_DASH}"
_FILLING = rf"(?i:{'|'.join(_WORDS)}) ?[:：#_]?|\^|†[^{_BRACKETS}\\\n`]*"
_FILLED = re.compile(_FILLING)
# the beginning of a word at the end of the text
_UNFINISHED = "|".join(rf"(?i:{word[:n]})\Z" for word in _WORDS for n in range(len(word) - 1, 0, -1))
# a bracket, something that a mark may contain, or a character that no mark contains
_STEP = re.compile(rf"(?P<filling>{_UNFINISHED}|{_FILLING})|[^{_BETWEEN}]")
_CODE_END = re.compile(r"[`\n]")
_FENCE = "```"
_ITEM = re.compile(rf"(?P<sign>[{_DASH}])?(?P<first>\d+)(?:\s*[{_DASH}]\s*(?P<last>\d+))?")
_YEAR = r"(?:1[4-9]|20)[0-9][0-9](?:-[0-9][0-9]){0,2}"
_YEARS = re.compile(rf"\s*{_YEAR}(?:\s*[,;–—-]\s*{_YEAR})*\s*")
_WITHIN = rf"(?:{_FILLING}|[{_BETWEEN}])*+"
_CLOSED = f"[{re.escape(_CLOSING)}]"
# A year or 0 is no mark, unless it is nested in other brackets.
_OWN = re.compile(
    rf"(?<!\\)(?P<escapes>(?:\\\\)*)"
    rf"(?=[{re.escape(_OPENING)}](?!(?:{_YEARS.pattern}|0){_CLOSED}(?!{_WITHIN}{_CLOSED}))"
    rf"(?:{_FILLING}|(?!\d)[{_BETWEEN}])*+\d{_WITHIN}{_CLOSED})"
)
# characters before a mark that a source must have too, and the fewest of them
_BEFORE, _FEWEST = 24, 8
_DIGITS = 9
"""Maximum digits of a valid number."""


class MarkedText(NamedTuple):
    """A piece of text without marks, or a rewritten mark with its valid `numbers` and the count of `removed` ones."""

    text: str
    numbers: tuple[int, ...] = ()
    removed: int = 0


class MarkReader:
    """Reader of a text that arrives in pieces. It holds back text that may become a mark or code until that is decided."""

    def __init__(self, known: Collection[int], sources: Iterable[str]) -> None:
        self._known = frozenset(known)
        self._sources = [_plain_words(source) for source in sources]
        # the last words that were shown
        self._before = ""
        self._held: list[str] = []
        # returns True if more text does not decide the meaning of the held text
        self._open: Callable[[str], bool] | None = None
        self._fenced = False
        self._out: list[MarkedText] = []

    def add(self, text: str) -> list[MarkedText]:
        """Add a piece, and return the pieces that are decided by it."""
        self._held.append(text)
        return [] if self._open is not None and self._open(text) else self._settle(last=False)

    def end(self) -> list[MarkedText]:
        """Return the text that was held back."""
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
                closing = text.find(_FENCE, at)
                if closing >= 0:
                    self._fenced = False
                    end = closing + len(_FENCE)
                    self._show(text[at:end])
                    at = end
                else:
                    end = len(text) if last else at + len(text[at:].rstrip("`"))
                    self._show(text[at:end])
                    self._hold(text[end:], None)
                    at = len(text)
            elif (match := _NEXT.search(text, at)) and match[0][0] == "\\":
                self._show(text[at : match.end()])
                at = match.end()
            elif match:
                read = self._code if match[0] == "`" else self._mark
                at = read(text, at, match.start(), last)
            else:
                # Text without marks. A backslash at its end is held back, and spaces, which an invalid mark is removed with.
                before = len(text) - 1 if text.endswith("\\") else _before_spaces(text, at, len(text))
                end = len(text) if last else before
                self._show(text[at:end])
                self._hold(text[end:], lambda more: not more.strip(" \t"))
                at = len(text)

    def _show(self, text: str) -> None:
        if text:
            self._add(MarkedText(text))

    def _add(self, piece: MarkedText) -> None:
        self._out.append(piece)
        if self._sources:
            self._before = (self._before + piece.text)[-2 * _BEFORE :]

    def _hold(self, text: str, still_open: Callable[[str], bool] | None) -> None:
        if text:
            self._held, self._open = [text], still_open

    def _code(self, text: str, at: int, tick: int, last: bool) -> int:
        """Read a fence, or code that ends on its line. A backtick without another one on its line is text."""
        self._show(text[at:tick])
        if text.startswith(_FENCE, tick):
            self._fenced = True
            self._show(_FENCE)
            return tick + len(_FENCE)
        closing = _CODE_END.search(text, tick + 1)
        if not last and (closing is None or tick + 2 == len(text)):
            # one or two backticks may become a fence
            self._hold(text[tick:], None if len(text) - tick <= 2 else lambda more: not _CODE_END.search(more))
            return len(text)
        end = closing.end() if closing and closing[0] == "`" else tick + 1
        self._show(text[tick:end])
        return end

    def _mark(self, text: str, at: int, opening: int, last: bool) -> int:
        """Read nested brackets as one mark, so that removing the inner one cannot leave a new mark."""
        spaces = _before_spaces(text, at, opening)
        self._show(text[at:spaces])
        depth, unfinished = 0, ""

        def end_of_mark(text: str, at: int = 0) -> re.Match[str] | None:
            """Return the step that closes the outermost bracket, or that no mark contains. None: the text is too short."""
            nonlocal depth, unfinished
            unfinished = ""
            for step in _STEP.finditer(text, at):
                depth += (step[0] in _OPENING) - (step[0] in _CLOSING)
                if step["filling"]:
                    # a word may go on in the next piece, and so does a note
                    unfinished = "†" if step[0][0] == "†" else step[0]
                    unfinished *= step.end() == len(text)
                elif depth == 0 or step[0] not in _OPENING + _CLOSING:
                    return step
            return None

        end = end_of_mark(text, opening)
        if end and depth == 0:
            self._add(self._group(text[spaces:opening], text[opening : end.end()]))
            return end.end()
        if end:
            self._read_unclosed(text[spaces : end.start()])
            return end.start()

        if last:
            self._read_unclosed(text[spaces:])
        else:
            self._hold(text[spaces:], lambda more: end_of_mark(unfinished + more) is None)
        return len(text)

    def _read_unclosed(self, run: str) -> None:
        """Read brackets whose first one is never closed. Closed brackets inside may be marks."""
        at = 0
        for start, end in _closed_brackets(run):
            spaces = _before_spaces(run, at, start)
            self._show(run[at:spaces])
            self._add(self._group(run[spaces:start], run[start:end]))
            at = end
        self._show(run[at:])

    def _group(self, spaces: str, group: str) -> MarkedText:
        # a source has this mark after the same words
        before = _plain_words(self._before)[-_BEFORE:]
        copied = _plain_words(before + spaces + group)
        if len(before) >= _FEWEST and any(copied in source for source in self._sources):
            return MarkedText(spaces + escape_marks(group))
        plain = _FILLED.sub(" ", group)
        items = list(_ITEM.finditer(plain))
        named: dict[int, None] = {}
        removed = 0
        for item in items:
            if item["sign"] or max(len(item["first"]), len(item["last"] or "")) > _DIGITS:
                removed += 1
                continue
            # The sources of a number or range. It may also have numbers without a source.
            first, last = int(item["first"]), int(item["last"] or item["first"])
            numbers = [first] if first == last and first in self._known else []
            if first < last:
                numbers = sorted(n for n in self._known if first <= n <= last)
            named |= dict.fromkeys(numbers)
            removed += len(numbers) <= last - first or first > last
        if not items or (not named and _YEARS.fullmatch(plain[1:-1])):
            return MarkedText(spaces + group)
        return MarkedText(spaces * bool(named) + "".join(f"[{n}]" for n in named), tuple(named), removed)


def _plain_words(text: str) -> str:
    """Return the text on one line and without escapes."""
    return " ".join(text.replace("\\", "").split())


def _closed_brackets(run: str) -> list[Part]:
    """Return the outermost closed brackets, in order."""
    open_at: list[int] = []
    groups: list[Part] = []
    for step in _STEP.finditer(run):
        if step[0] in _OPENING:
            open_at.append(step.start())
        elif step[0] in _CLOSING and open_at:
            start = open_at.pop()
            while groups and groups[-1][0] > start:
                groups.pop()
            groups.append((start, step.end()))
    return groups


def _before_spaces(text: str, start: int, end: int) -> int:
    return start + len(text[start:end].rstrip(" \t"))


def escape_marks(text: str) -> str:
    """Write a backslash before each bracket of a document that reads like a mark, so that it is shown as text."""
    return _OWN.sub(r"\g<escapes>\\", text)


def marked_texts(text: str, known: Collection[int], sources: Iterable[str] = ()) -> list[MarkedText]:
    """Split a complete text into pieces of text and marks. `sources` are the texts that it may quote."""
    reader = MarkReader(known, sources)
    return [*reader.add(text), *reader.end()]


def without_unknown(text: str, known: Collection[int]) -> tuple[str, int]:
    """Remove numbers of marks that are not `known`, and return the text and their count."""
    pieces = marked_texts(text, known)
    return "".join(piece.text for piece in pieces), sum(piece.removed for piece in pieces)


class MarkFilter:
    """`without_unknown` for a text that arrives in pieces. It also strips white space at both ends."""

    def __init__(self, known: Collection[int], show: Callable[[str], None], sources: Iterable[str] = ()) -> None:
        self._reader = MarkReader(known, sources)
        self._show = show
        self._begun = False
        # white space is shown when more text follows
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
