"""Find definitions in languages without a parser here: by keywords, and by the shape of a function's head.

`languages.toml` has the patterns of each language. They are exact for conventionally formatted code, and take time linear in the
line. Comments and strings are blanked first.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Sequence
from importlib.resources import files

from mergewise.text.spans import indent_of
from mergewise.types import frozen

# Characters of a line. A longer line was written by a program.
MAX_LINE = 2_000
_MAX_HEAD_LINES = 12

_NO_NAMES = frozenset(
    "if for while switch catch return else do try throw new delete case await yield sizeof typeof using lock foreach assert "
    "super this elif not and or function match when defined until synchronized import require".split()
)
_BEFORE_NAME = re.compile(r"[\w\s:<>,*&\[\]?.@~#$]*")
_NAME = re.compile(r"([\w$#~][\w$:~]*)\s*(?:<[\w\s,.?&\[\]]*>\s*)?\Z")
_ARROW = re.compile(
    r"(?:export\s+)?(?:default\s+)?(?:const|let|var)\s+[\w$]+\s*(?::[^=]*)?=\s*(?:async\s+)?(?:function\b|[\w$]+\s*=>|\(.*=>)"
)
_BODY = re.compile(";|=>")
_TYPED = re.compile(r"[ \t]*(?::[^\n]*)?\s?\{")


@frozen
class Language:
    """Patterns of definitions in files of these suffixes, as `languages.toml` describes them."""

    suffixes: str
    keyword: re.Pattern[str]
    blanked: re.Pattern[str]
    comment: re.Pattern[str]
    heads: bool = False
    prototypes: bool = False
    arrows: bool = False
    margin: bool = False
    bodies: Sequence[str] = ("{", "=>")


def _languages() -> Iterator[tuple[str, Language]]:
    """Yield each suffix with its language."""
    table = tomllib.loads((files("mergewise.readers") / "languages.toml").read_text(encoding="utf-8"))
    patterns = table["patterns"]
    for one in table["language"]:
        written = {"keyword": one["keyword"].replace("{modifiers}", patterns["modifiers"])}
        for name, usual in (("blanked", "slashed"), ("comment", "slashes")):
            written[name] = patterns[one.get(name, usual)]
        language = Language(**one | {name: re.compile(pattern) for name, pattern in written.items()})
        yield from dict.fromkeys(language.suffixes.split(), language).items()


LANGUAGES = dict(_languages())


@frozen
class DefinitionHead:
    """`text[start:end]` is the head of a definition, indented by `indent`."""

    start: int
    end: int
    indent: int


def definitions(text: str, language: Language) -> Iterator[DefinitionHead]:
    text = language.blanked.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    lines = text.split("\n")
    start, taken, before = 0, -1, ""
    for row, line in enumerate(lines):
        code = line.strip()
        if row > taken and code and len(line) <= MAX_LINE:
            indent = indent_of(line)
            # the initializers of members begin with these marks
            goes_on = language.prototypes and (code[0] in ":," or before.endswith(","))
            length, rows = (0, 0) if goes_on else _head(lines, row, code, indent, language)
            if length:
                yield DefinitionHead(start + indent, start + indent + length, len(line[:indent].expandtabs(4)))
                taken = row + rows
        before = code or before
        start += len(line) + 1


def _head(lines: list[str], row: int, code: str, indent: int, language: Language) -> tuple[int, int]:
    """Return the length of the head that begins in this row, and the number of its further rows. 0 without a head."""
    if language.margin:
        return (len(code), 0) if indent == 0 and language.keyword.match(code) else (0, 0)
    if language.keyword.match(code) or (language.arrows and _ARROW.match(code)):
        return _keyword_head(lines, row, code, indent, language.bodies)
    return _function(lines, row, indent, language) if language.heads and "(" in code else (0, 0)


def _keyword_head(lines: list[str], row: int, code: str, indent: int, bodies: Sequence[str]) -> tuple[int, int]:
    """Measure a head that begins with a keyword: one line, or the lines up to the end of its parameters."""
    if code.count("(") <= code.count(")") or "(" in bodies:
        # up to the mark that opens the body
        ends = (len(before) + len(mark) for before, mark, after in map(code.partition, bodies) if after.strip())
        return next(ends, len(code)), 0
    head = _head_lines(lines, row, indent)
    close = _closing(head, head.index("("))
    if close < 0:
        return len(code), 0
    end = close + 1 + len(head[close + 1 :].partition("\n")[0].rstrip())
    return end, head.count("\n", 0, end)


def _head_lines(lines: list[str], row: int, indent: int) -> str:
    return "\n".join(lines[row : row + _MAX_HEAD_LINES])[indent : indent + MAX_LINE]


def _closing(head: str, start: int) -> int:
    """Return the offset of the bracket that closes the one at `start`, or -1 if a body or statement begins before it."""
    close = outside(head, start + 1, ")")
    return -1 if _BODY.search(head, start, close) else close


def _function(lines: list[str], row: int, indent: int, language: Language) -> tuple[int, int]:
    head = _head_lines(lines, row, indent)
    before = head.partition("(")[0]
    name = _NAME.search(before)
    if name is None or not _BEFORE_NAME.fullmatch(before) or not _NO_NAMES.isdisjoint(re.findall(r"\w+", before)):
        return 0, 0
    words = len(before[: name.start()].split())
    close = _closing(head, len(before))
    if close < 0 or (language.arrows and words > 2):
        return 0, 0
    # after the brace of the body, or before the next statement
    end = outside(head, close + 1, ");}={")
    end = close + 1 if end < 0 else end + (head[end] == "{")
    # in languages without mandatory semicolons, a call may look like a head
    if language.arrows and not _TYPED.fullmatch(head, close + 1, end):
        return 0, 0
    declared = language.prototypes and indent == 0 and words and head[end : end + 1] == ";"
    if not head[:end].endswith("{") and not declared:
        return 0, 0
    head = head[:end].rstrip()
    return len(head), head.count("\n")


def outside(text: str, start: int, stops: str) -> int:
    """Return the offset of the first of `stops` at or after `start` that is outside brackets, or -1."""
    depth = 0
    for place in range(start, len(text)):
        sign = text[place]
        if depth <= 0 and sign in stops:
            return place
        depth += (sign in "([{") - (sign in ")]}")
    return -1
