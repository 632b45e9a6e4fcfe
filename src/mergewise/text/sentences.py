"""Sentences with exact offsets.

One regular expression first cuts the text into blocks that a sentence never crosses (paragraphs, list items, table rows,
headings, code blocks). Paragraphs of records, one a line, are cut into lines. Prose blocks are segmented by `sentencex`. Its
wrong splits after a title, an initial or a reference word ("Dr. Who", "Fig. 3") are joined again here.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, pairwise
from typing import Any, Literal, TypeAlias

import sentencex

from mergewise.types import Part

Form: TypeAlias = Literal["prose", "item", "heading", "row", "edge", "code", "line", "more"]
"""What a block of text is. `edge` is a rule, or a line of a drawn table without text; `more` a line that belongs to the one
above; `code` is in fences."""

_FENCE = re.compile(r"[ \t]*(`{3,}+|~{3,}+)")
_FENCED_CODE = re.compile(r"[ \t]*(?P<code>`{3,}+|~{3,}+)[^\n]*\n(?:.*\n)*?[ \t]*(?P=code)[`~]*[ \t]*(?:\n|\Z)")
# The mark of an item, a field of reStructuredText or an option; or the whole of another block.
_BLOCK = re.compile(
    r"""
      (?P<blank>[ \t]*\n)
    | (?P<item>[ \t]*(?:(?:[-*+•‣◦]|\(?\d{1,3}[.)]|\(?[a-zA-Z][.)]|\#\.)[ \t]+(?=\S)|[-•‣◦](?=[ \t]*\n[ \t]+\S)
        |:[^\W\d_][^:`\n]{0,60}:(?=[ \t]+\S)|--?\w[^\s,]*(?:,?[ ][^\s,]+){0,4}[ ]{2,}(?=\S)))
    | (?P<row>[ \t]*(?:\||\+[-=]{2})[^\n]*(?:\n|\Z))
    | (?P<heading>(?:[ \t]*\#{1,6}(?:[ \t][^\n]*)?(?:\n|\Z))+)                       # also comments
    | (?P<rule>(?![-=]+\+)[=\-~^"'`#*+_.:]{4,}[ \t]*(?:\n|\Z))
    """,
    re.VERBOSE,
)
_NO_TEXT = re.compile(r"[=\-~^\"'`#*+_.:|\s]+")

# A line that begins a record: with a time, the level of a log, a prompt, or a key or label before its value.
_RECORD = re.compile(
    r"""
      (?P<log>[\[(<"']{0,2}(?:\d{2,4}[-/.:]\d\d?[-/.:T]|\d\d?:\d\d|\d{1,3}(?:\.\d{1,3}){3}|
        (?:Mon|Tue|Wed|Thu|Fri|Sat|Sun|Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[ ,]{1,3}[\dA-Z])
        |[\[(<]?(?:TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|CRIT(?:ICAL)?|FATAL|SEVERE)\b)
    | (?P<prompt>(?:\$|>>>|In[ ]\[\d+\]:|[\w.-]+@[\w.-]+[:~/\w.-]{0,60}[$\#]|(?:PS[ ])?[A-Z]:\\[^>\n]{0,99}>)[ ])
    | (?P<key>\[[^\]\n]{1,60}\]:?[ ]
      |[^\s=:,;(){}<>]+(?:[ \t]*=(?!=)|:(?=\s|\Z)|(?:[ ][^\s=:,;(){}<>]+){1,3}[ \t]*(?:=(?!=)|:[ \t])))
    """,
    re.VERBOSE,
)
# A line of a drawn table between its header and its rows, or around them.
_EDGE = re.compile(r"[+|:\s]*[-=]{2,}(?:[+|:\s]+[-=]{2,})+[+|:\s]*|\s*[\u2500-\u257f][\s\u2500-\u257f]{2,}")
# The share of the lines of a paragraph that must look like records.
_MOST = 0.6
# Source code has calls and definitions. A pattern that begins with one character is found quickly.
_CALL = re.compile(r"\((?<=\w\()")
_DEFINITION = re.compile(r"[ \t]*(?:class|const|def|from|func|function|import|let|return)\b")

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
_STOPS = ".!?:,。！？，"
# Characters of lines that are too short for wrapped prose.
_NARROW = 40
# What separates the fields of a line, as in a CSV file or in columns.
_SEPARATOR = re.compile(r"[,;|](?=\S)|\S(?:\t|[ ]{3,})\S")
_CONTENT = re.compile(r"\S(?:.*\S)?")
_LINE = re.compile(r"(?<=\n)[ \t]*\S")
_WORDED = re.compile(r"\w")
_DIGITS = re.compile(r"\d+")
_CLAUSE = re.compile(r"[;:,、，；：)\]—–]\s+|[、，；：]|\n")
_WORD = re.compile(r"\s+")

# In characters: the maximum input of `sentencex`, the end of an input that is segmented again with the text after it,
# and the end of a sentence to examine.
_WINDOW, _AHEAD, _TAIL = 2000, 200, 24
# A window without an end of a sentence is cut here. No sentence is so long, and the time grows with its square.
_LONGEST_WINDOW = 4 * _WINDOW
MAX_CHARS_PER_TOKEN = 12


def split_sentences(text: str, language: str = "en") -> list[Part]:
    """Split a text into sentences, as (start, end) character offsets in order.

    Sentences are not empty, have no white space at their ends, and are separated only by white space. A code block in
    fences is one sentence, and so are a heading, a table row and a line of a log.
    """
    parts = (segment(text, a, b, language) if form in ("prose", "item") else [(a, b)] for a, b, form in blocks(text))
    return list(chain.from_iterable(parts))


def blocks(text: str) -> Iterator[tuple[int, int, Form]]:
    """Yield blocks with their form in order, without white space at their ends."""
    open_from, is_item = 0, False
    for match in _marks(text):
        start, end = match.span()
        form: Any = match.lastgroup
        if form == "rule" and open_from < start:
            # The underline of a heading: title and line are one block.
            start, form = max(open_from, text.rfind("\n", 0, start - 1) + 1), "heading"
        if open_from < start:
            yield from _paragraph(text, open_from, start, is_item)
        is_item = form == "item"
        open_from = start if is_item else end
        if not is_item and form != "blank":
            span = strip_span(text, start, end)
            yield (*span, "edge" if form != "code" and _NO_TEXT.fullmatch(text, *span) else form)
    yield from _paragraph(text, open_from, len(text), is_item)


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


def _paragraph(text: str, start: int, end: int, is_item: bool) -> Iterator[tuple[int, int, Form]]:
    start, end = strip_span(text, start, end)
    if is_item:
        # an item ends above a line with a smaller margin
        margin = start - text.rfind("\n", 0, start) - 1
        cut = next((m.start() for m in _LINE.finditer(text, start, end) if len(m[0]) <= margin), end)
        yield (*strip_span(text, start, cut), "item")
        start, end = strip_span(text, cut, end)
    if start < end:
        yield from lines_of(text, start, end) or [(start, end, "prose")]


def lines_of(text: str, start: int, end: int) -> list[tuple[int, int, Form]]:
    """Return the lines of a paragraph of records or of a drawn table, or nothing for prose and source code.

    Records begin alike: with a time, a key, or the same word. Lines without full stops that end early are records, too.
    A line without the beginning of a record has the form "more".
    """
    if text.find("\n", start, end) < 0:
        return []
    begin = text.rfind("\n", 0, start) + 1
    block = text[begin:end]
    rows = block.split("\n")
    drawn = ("--" in block or "==" in block or not block.isascii()) and any(map(_EDGE.fullmatch, rows))
    first = _RECORD.match(text, start)
    # most paragraphs are short, or their first sentence goes on in lower case
    if not drawn and first is None:
        goes_on = text[start].isupper() and 4 * sum(row.lstrip()[:1].islower() for row in rows) >= len(rows)
        if len(rows) < 3 or (goes_on and _SEPARATOR.search(rows[0].strip()) is None):
            return []
    leading = first.lastgroup if first else None
    if not drawn and leading not in ("log", "prompt"):
        calls = 10 * len(_CALL.findall(block))
        if calls > len(rows) or calls + 10 * sum(map(bool, map(_DEFINITION.match, rows))) > len(rows):
            return []
    lines = [match.span() for match in _CONTENT.finditer(text, start, end)]
    if drawn:
        edges = {a for a, b in lines if _EDGE.fullmatch(text, a, b)}
        # the header is above the first edge or below it
        top = max(0, [a in edges for a, _ in lines].index(True) - 1)
        above: list[tuple[int, int, Form]] = [(lines[0][0], lines[top - 1][1], "prose")] if top else []
        return [*above, *((a, b, "edge" if a in edges else "row") for a, b in lines[top:])]
    marks = {a: match.lastgroup for a, _ in lines if (match := _RECORD.match(text, a))}
    margins = {a: a - text.rfind("\n", 0, a) for a, _ in lines}
    worded = [(a, b) for a, b in lines if _WORDED.search(text, a, b)] or lines
    heads: list[tuple[int, int]] = []
    # a head with a body has the form of its body
    for own in (worded, worded[1:] or worded):
        if len(heads) < 2:
            heads = [(a, b) for a, b in own if margins[a] <= margins[own[0][0]]]
    begins = {a for a, mark in marks.items() if mark == leading != "key"}
    if len(begins) > (leading != "prompt"):
        pass
    elif sum(a in marks for a, _ in heads) >= max(2, _MOST * len(heads)):
        begins = set(marks)
    else:
        # sentences among the lines go on in lower case
        small = {a for a, _ in heads if text[a].islower()}
        begins = {a for a, _ in heads} - (small if 3 * len(small) < len(heads) else set())
        most = max(3, _MOST * len(heads))
        fields, rows_alike = Counter(len(_SEPARATOR.findall(text, a, b)) for a, b in heads).most_common(1)[0]
        columns = fields > 0 and rows_alike >= most
        numbered = [_DIGITS.search(text, a, b) is not None for a, b in lines]
        if columns and not numbered[0] and sum(numbered) >= most:
            # the first line names the columns
            return [(a, b, "row") for a, b in lines]
        # lines that begin with the same word, apart from numbers
        words = Counter(_DIGITS.sub("0", text[a:b].split(None, 1)[0]) for a, b in heads)
        if not columns and max(words.values()) < most and not _is_ragged(text, heads):
            return []
    return [(a, b, "line" if a in begins else "more") for a, b in lines]


def _is_ragged(text: str, lines: Sequence[Part]) -> bool:
    """Return true if most lines end early: without a full stop, where the next word would have had room."""
    longest = sorted(b - a for a, b in lines)[-1 - len(lines) // 4]
    early = (
        text[b - 1] not in _STOPS
        and (b - a + 1 + len(text[c:d].split(None, 1)[0]) <= longest or (longest < _NARROW and text[a:d].isascii()))
        for (a, b), (c, d) in pairwise(lines)
    )
    return len(lines) > 2 and sum(early) >= _MOST * (len(lines) - 1)


def strip_span(text: str, start: int, end: int) -> Part:
    """Return the span without the white space at its ends. For a blank span, start == end."""
    core = text[start:end].rstrip()
    if not core:
        return start, start
    end = start + len(core)
    return (end - len(core.lstrip()) if core[0].isspace() else start), end


def segment(text: str, start: int, end: int, language: str) -> list[Part]:
    block = text[start:end]
    if len(block) < 3:
        return [(start, end)]
    spans: list[Part] = []
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
        parts: list[Part] = []
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


def split_long(text: str, start: int, end: int, limit: int, measure: Callable[[str], int]) -> list[Part]:
    """Cut `text[start:end]` into consecutive pieces of at most `limit` by `measure`, at bounds of clauses or words if possible.

    The pieces tile the span. A word is cut only if it alone exceeds the limit.
    """
    pieces: list[Part] = []
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
