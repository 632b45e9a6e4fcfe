"""Sentences with exact offsets.

One regular expression first cuts the text into blocks that a sentence never crosses (paragraphs, list items, table rows,
headings, code blocks). Prose blocks are then segmented by `sentencex`. Its wrong splits after a title, an initial or a
reference word ("Dr. Who", "Fig. 3") are joined again here.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from itertools import chain

import sentencex

_FENCE = re.compile(r"[ \t]*(`{3,}+|~{3,}+)")
_FENCED_CODE = re.compile(r"[ \t]*(?P<fence>`{3,}+|~{3,}+)[^\n]*\n(?:.*\n)*?[ \t]*(?P=fence)[`~]*[ \t]*(?:\n|\Z)")
# The beginning of a block, or the whole of a block other than prose: a table row, a heading, a rule.
_BLOCK = re.compile(
    r"""
      ^(?P<blank>[ \t]*\n)                                                        # a blank line
    | ^[ \t]*(?:[-*+•‣◦]|\(?\d{1,3}[.)]|\(?[a-zA-Z][.)])[ \t]+(?=\S)              # a list item
    | ^[ \t]*:[^\W\d_][^:`\n]{0,60}:(?=[ \t]+\S)                                # a field of reStructuredText
    | ^[ \t]*--?\w[^\s,]*(?:,?[ ][^\s,]+){0,4}[ ]{2,}(?=\S)                       # an option with its description
    | ^[ \t]*\|[^\n]*(?:\n|\Z)                                                    # a table row
    | ^\#{1,6}[ \t][^\n]*(?:\n|\Z)                                                # a Markdown heading
    | ^(?P<rule>[=\-~^"'`#*+_.:]{4,}[ \t]*(?:\n|\Z))                              # an underline, a rule, a grid table's edge
    """,
    re.MULTILINE | re.VERBOSE,
)

# Inline code, roles and addresses are never cut.
_UNBROKEN = re.compile(r"``[^`]{1,500}``|`[^`]{1,500}`|\w{2,20}://[!-~]+")
# A dotted name or a version goes on after its dot: `logging.StreamHandler`, `3.4.Final`.
_DOTTED = re.compile(r"\w\.\w+\.\Z")
_NAME_AFTER_DOT = re.compile(r"[A-Za-z]\w*?(?:(?<=[a-z])[A-Z]|[\d_(]|\.\w)")

# Words that end in a full stop within a sentence. With the lookahead, only the last word is compared with the list.
_LEANS_ON = re.compile(
    r"[\s(\[“\"'](?=[A-Za-z.]{1,6}\.\s*$)"
    r"(?:[A-Z]|Dr|Mr|Mrs|Ms|Prof|Rev|Gen|Col|Capt|Lt|Sgt|Gov|Sen|Rep|Hon|St|Mt|Ft|Fig|Figs|Eq|Eqs|Sec|Ch|"
    r"No|Nos|Vol|pp|p|ed|eds|al|cf|vs|v|ca|approx|dept|est|e\.g|i\.e|viz)\.[\s]*$"
)
_ITEM_MARK = re.compile(r"\(?(?:\d{1,3}|[a-zA-Z])[.)]\Z")
_BRACKET_END = re.compile(r"[.!?][)\]](\s+)(?=[A-Z])")
_CLOSING = re.compile(r"[)\]}”’\"'.!?:;,]+")
_INITIAL = re.compile(r"(?:^|[\s(\[“\"'.])[A-Z]\.\s*$")
_CONTINUES = re.compile(r"[A-Z0-9(\[]")
_NAME_PART = re.compile(r"[A-Z](?:\.|[a-z])")
_STARTERS = frozenset(
    "A An The This That These Those He She It They We You I In On At By For From With As If When While After Before "
    "But And Or So However There Here His Her Its Their Our My Your".split()
)
_CLAUSE = re.compile(r"[;:,、，；：)\]—–]\s+|[、，；：]|\n")
_WORD = re.compile(r"\s+")

# In characters: the maximum input of `sentencex`, the end of an input that is segmented again with the text after it,
# and the end of a sentence to examine.
_WINDOW, _AHEAD, _TAIL = 2000, 200, 24
# A window without an end of a sentence is cut here. No sentence is so long, and the time grows with its square.
_LONGEST_WINDOW = 4 * _WINDOW
MAX_CHARS_PER_TOKEN = 12


def split_sentences(text: str, language: str = "en") -> list[tuple[int, int]]:
    """Split a text into sentences, as (start, end) character offsets in order.

    Sentences are not empty, have no white space at their ends, and are separated only by white space. A code block is one
    sentence, and so are a heading and a table row.
    """
    parts = (segment(text, a, b, language) if is_prose else [(a, b)] for a, b, is_prose in blocks(text))
    return list(chain.from_iterable(parts))


def blocks(text: str) -> Iterator[tuple[int, int, bool]]:
    """Yield blocks as (start, end, is_prose) in order, without white space at their ends. Only prose is segmented."""
    open_from = 0
    for match in _marks(text):
        start, end = match.span()
        is_rule = match.lastgroup == "rule"
        if is_rule:
            # The underline of a heading: title and line are one block.
            start = max(open_from, text.rfind("\n", 0, max(start - 1, 0)) + 1) if open_from < start else start
        if open_from < start:
            yield from _block(text, open_from, start, True)
        if match.lastgroup == "blank":
            open_from = end
        elif is_rule or end == len(text) or text[end - 1] == "\n":
            # A separate block: code, a table row, a heading.
            yield from _block(text, start, end, False)
            open_from = end
        else:
            open_from = start
    yield from _block(text, open_from, len(text), True)


def _marks(text: str) -> Iterator[re.Match[str]]:
    """Yield code in fences and the matches of `_BLOCK`, from left to right, searched only at the beginnings of lines."""
    at = 0
    unclosed: dict[str, int] = {}  # the length of the shortest unclosed fence of each sign
    while at < len(text):
        opening, code = _FENCE.match(text, at), None
        if opening and len(opening[1]) < unclosed.get(opening[1][0], len(text)):
            code = _FENCED_CODE.match(text, at)
            if code is None:
                unclosed[opening[1][0]] = len(opening[1])
        if match := code or _BLOCK.match(text, at):
            yield match
            at = match.end()
            if text[at - 1] == "\n":
                continue
        at = text.find("\n", at) + 1
        if not at:
            return


def _block(text: str, start: int, end: int, is_prose: bool) -> Iterator[tuple[int, int, bool]]:
    start, end = strip_span(text, start, end)
    if start < end:
        yield start, end, is_prose


def strip_span(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the span without the white space at its ends. For a blank span, start == end."""
    core = text[start:end].rstrip()
    if not core:
        return start, start
    end = start + len(core)
    return (end - len(core.lstrip()) if core[0].isspace() else start), end


def segment(text: str, start: int, end: int, language: str) -> list[tuple[int, int]]:
    block = text[start:end]
    if len(block) < 3:
        return [(start, end)]
    spans: list[tuple[int, int]] = []
    # The bounds of the previous sentence.
    first = last = start
    at = start
    unbroken = [m.span() for m in _UNBROKEN.finditer(text, start, end)] if "`" in block or "://" in block else []
    for piece in _pieces(block, language):
        core = piece.strip()
        if core:
            begins = at if piece[0] == core[0] else at + piece.index(core[0])
            ends = begins + len(core)
            if (
                spans
                and (
                    # "1." is the mark of its item, not a sentence.
                    (first == start and _ITEM_MARK.match(text, start, last))
                    or _CLOSING.fullmatch(core)
                    or (
                        text[last - 1] == "."
                        and _was_split_wrongly(" " + text[max(first, begins - _TAIL) : begins], core)
                    )
                    # The dot is inside a name or a version number.
                    or (
                        last == begins
                        and text[last - 1] == "."
                        and (
                            _DOTTED.search(text[max(begins - 40, 0) : begins]) is not None
                            or _NAME_AFTER_DOT.match(text, begins) is not None
                        )
                    )
                    or any(a < begins < b for a, b in unbroken)
                )
            ):
                begins = first
                spans.pop()
            first, last = begins, ends
            spans.append((first, last))
        at += len(piece)
    if ")" in block or "]" in block:
        # A sentence in brackets ends at its bracket: "(It did.) Next." are two.
        parts: list[tuple[int, int]] = []
        for first, last in spans:
            for match in _BRACKET_END.finditer(text, max(first - 1, 0), last):
                parts.append((first, match.start(1)))
                first = match.end(1)
            parts.append((first, last))
        return parts
    return spans


def _pieces(block: str, language: str) -> Iterator[str]:
    """Yield the sentences that `sentencex` finds in the block, window by window.

    Its time grows with the square of the non-ASCII marks, such as "。". A piece that ends within the last characters of a window
    is segmented again with the text after it. A window without an earlier piece is doubled, up to a limit.
    """
    at, window = 0, _WINDOW
    while len(block) - at > window:
        found = list(sentencex.segment(language, block[at : at + window]))
        left = window
        while found and left > window - _AHEAD:
            left -= len(found.pop())
        if window >= _LONGEST_WINDOW and not found:
            cut = block.rfind(" ", at + window // 2, at + window) + 1 or at + window
            yield block[at:cut]
            at, window = cut, _WINDOW
            continue
        yield from found
        at, window = at + left, _WINDOW if found else 2 * window
    yield from sentencex.segment(language, block[at:])


def _was_split_wrongly(tail: str, after: str) -> bool:
    """Return true if `after` belongs to the sentence before it. `tail` is the end of that sentence after a space."""
    if not _CONTINUES.match(after) or not _LEANS_ON.search(tail):
        return False
    # A single capital ends a sentence as often as it begins a name: "vitamin C. The" against "J. R. Tolkien".
    return not _INITIAL.search(tail) or (bool(_NAME_PART.match(after)) and after.split(maxsplit=1)[0] not in _STARTERS)


def split_long(text: str, start: int, end: int, limit: int, measure: Callable[[str], int]) -> list[tuple[int, int]]:
    """Cut `text[start:end]` into consecutive pieces of at most `limit` by `measure`, at bounds of clauses or words if possible.

    The pieces tile the span. A word is cut only if it alone exceeds the limit.
    """
    pieces: list[tuple[int, int]] = []
    pending = [(start, end)]
    while pending:
        left, right = pending.pop()
        size = right - left
        # A run without a space counts as one unknown token, so characters are bounded too.
        if size <= 1 or (size <= limit * MAX_CHARS_PER_TOKEN and measure(text[left:right]) <= limit):
            pieces.append((left, right))
            continue
        middle = _middle_bound(text, left, right)
        pending += [(middle, right), (left, middle)]
    return pieces


def _middle_bound(text: str, left: int, right: int) -> int:
    """Return the clause bound nearest to the middle, within the middle half, else the word bound, else the middle itself."""
    middle, quarter = (left + right) // 2, (right - left) // 4
    for pattern in (_CLAUSE, _WORD):
        bounds = [m.end() for m in pattern.finditer(text, middle - quarter, min(middle + quarter, right))]
        bounds = [bound for bound in bounds if left < bound < right]
        if bounds:
            at = bisect_right(bounds, middle)
            return min(bounds[max(0, at - 1) : at + 1], key=lambda bound: abs(bound - middle))
    return middle
