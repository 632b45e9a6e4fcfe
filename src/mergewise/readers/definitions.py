"""Find definitions in languages without a parser here: by keywords, and by the shape of a function's head.

Exact for conventionally formatted code. Comments and strings are blanked first. Every pattern takes time linear in the line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

# Characters of a line. A longer line was written by a program.
MAX_LINE = 2_000
_MAX_HEAD_LINES = 12

_MODIFIERS = (
    r"(?:(?:public|private|protected|internal|static|final|abstract|sealed|virtual|override|async|partial|readonly|export|"
    r"default|declare|extern|inline|unsafe|open|data|const|pub(?:\([a-z ]*\))?|typedef|@\w+)\s+)*"
)
_NO_NAMES = frozenset(
    "if for while switch catch return else do try throw new delete case await yield sizeof typeof using lock foreach assert "
    "super this elif not and or function match when defined until synchronized import require".split()
)
_BEFORE_NAME = re.compile(r"[\w\s:<>,*&\[\]?.@~#$]*")
_NAME = re.compile(r"([\w$#~][\w$:~]*)\s*(?:<[\w\s,.?&\[\]]*>\s*)?\Z")
_ARROW = re.compile(
    r"(?:export\s+)?(?:default\s+)?(?:const|let|var)\s+[\w$]+\s*(?::[^=]*)?=\s*(?:async\s+)?(?:function\b|[\w$]+\s*=>|\(.*=>)"
)
_TYPED = re.compile(r"[ \t]*(?::[^\n]*)?\s?\{")
# A string never begins with an escaped quote. Otherwise the search would start again from every quote of a line (quadratic).
STRINGS = r'(?<!\\)"(?:\\.|[^"\\\n])*"|(?<!\\)\'(?:\\.|[^\'\\\n])*\''
_SLASHED = re.compile(rf"{STRINGS}|`(?:\\.|[^`\\])*(?:`|\Z)|//[^\n]*|/\*(?:.*?\*/|.*\Z)", re.DOTALL)
_HASHED = re.compile(rf"{STRINGS}|(?<!\S)\#[^\n]*")
_DASHED = re.compile(r"'[^']*(?:'|\Z)|--[^\n]*|/\*(?:.*?\*/|.*\Z)", re.DOTALL)
# A comment with the lines of annotations below it, up to the line of a definition.
_ANNOTATIONS = r"(?P<annotations>(?:[ \t]*(?:@|\#?\[)[^\n]*\n)*)"
_SLASHED_COMMENT = re.compile(
    r"^[ \t]*(?P<mark>//+|/\*(?!\*/)\**)(?:(?<=/)[^\n]*\n(?:[ \t]*//[^\n]*\n)*|(?<=\*)(?:(?!\*/).)*+(?:\*/[ \t]*\n?|\Z))"
    + _ANNOTATIONS,
    re.DOTALL | re.MULTILINE,
)
_LINE_COMMENT = re.compile(
    r"^[ \t]*(?P<mark>\#+(?!!)|--+)[^\n]*\n(?:[ \t]*(?:\#|--)[^\n]*\n)*(?P<annotations>)", re.MULTILINE
)


def _begins(words: str) -> re.Pattern[str]:
    return re.compile(rf"{_MODIFIERS}(?:{words})")


@dataclass(frozen=True, slots=True)
class Language:
    """Patterns of definitions in files of these suffixes.

    A definition matches `keyword`, or with `heads` also `type name(parameters) {`.
    """

    suffixes: str
    keyword: re.Pattern[str]
    blanked: re.Pattern[str] | None = _SLASHED
    heads: bool = False
    # `type name(parameters);` at the margin
    prototypes: bool = False
    arrows: bool = False
    # marks that end a keyword's head before its line ends
    bodies: tuple[str, ...] = ("{", "=>")
    # comments above definitions
    comment: re.Pattern[str] = _SLASHED_COMMENT


SCRIPT = Language(
    ".cjs .js .jsx .mjs .ts .tsx",
    _begins(r"function\b\s*\*?\s*[\w$]+|(?:class|interface|enum|namespace|module)\s+[\w$.]+|type\s+[\w$]+[^=]*="),
    heads=True,
    arrows=True,
)
JAVA = Language(
    ".cs .java", _begins(r"(?:class|interface|enum|record|struct|namespace|@interface)\s+[\w.]+"), heads=True
)
C = Language(
    ".c .cc .cpp .h .hpp",
    re.compile(
        r"(?:typedef\s+)?(?:template\s*<[^>]*>\s*)?(?:class|struct|union|namespace|enum(?:\s+class)?)\s+[\w:]+[^;()=]*\Z"
        r"|\#\s*define\s+\w+\("
    ),
    heads=True,
    prototypes=True,
)
GO = Language(".go", re.compile(r"func\b|type\s+\w"))
RUST = Language(
    ".rs",
    re.compile(
        r"(?:pub(?:\([a-z ]*\))?\s+)?(?:(?:default|const|async|unsafe|extern)\s+)*"
        r"(?:(?:fn|struct|enum|trait|union|mod|type)\s+\w|macro_rules!|impl\b)"
    ),
)
KOTLIN = Language(".kt", _begins(r"(?:suspend\s+|override\s+)*fun\b|(?:class|interface|object)\s+\w"))
PHP = Language(".php", _begins(r"function\s+&?\w|(?:class|interface|trait|enum|namespace)\s+[\w\\]"))
RUBY = Language(".rb", re.compile(r"(?:class|module|def)\s+\S"), _HASHED, comment=_LINE_COMMENT)
PYTHON = Language(".py .pyi", re.compile(r"(?:async\s+)?(?:def|class)\s+\w"), _HASHED)
SHELL = Language(".bash .sh", re.compile(r"function\s+[\w:.-]+|[\w:.-]+\s*\(\)"), _HASHED, comment=_LINE_COMMENT)
SQL = Language(
    ".sql",
    re.compile(
        r"create\s+(?:or\s+replace\s+)?(?:(?:temp|temporary|unique|materialized|external)\s+)*"
        r"(?:table|view|index|function|procedure|trigger|type|schema|sequence)\b",
        re.IGNORECASE,
    ),
    _DASHED,
    bodies=("(",),
    comment=_LINE_COMMENT,
)
INI = Language(".cfg .ini .toml", re.compile(r"\[{1,2}[^\[\]]+\]{1,2}\s*(?:[#;].*)?\Z"), None, comment=_LINE_COMMENT)
YAML = Language(".yaml .yml", re.compile(r"[\w\"'./-][^#]*:\s*(?:#.*)?\Z"), None, comment=_LINE_COMMENT)


_LANGUAGES = (SCRIPT, JAVA, C, GO, RUST, KOTLIN, PHP, RUBY, PYTHON, SHELL, SQL, INI, YAML)
LANGUAGES = {suffix: language for language in _LANGUAGES for suffix in language.suffixes.split()}


@dataclass(frozen=True, slots=True)
class DefinitionHead:
    """`text[start:end]` is the head of a definition, indented by `indent`."""

    start: int
    end: int
    indent: int


def definitions(text: str, language: Language) -> Iterator[DefinitionHead]:
    if language.blanked is not None:
        text = language.blanked.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    lines = text.split("\n")
    start, taken, before = 0, -1, ""
    for row, line in enumerate(lines):
        code = line.strip()
        if row > taken and code and len(line) <= MAX_LINE:
            indent = len(line) - len(line.lstrip())
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
    if language is YAML:
        return (len(code), 0) if indent == 0 and language.keyword.match(code) else (0, 0)
    if language.keyword.match(code) or (language.arrows and _ARROW.match(code)):
        return _keyword_head(lines, row, code, indent, language.bodies)
    return _function(lines, row, indent, language) if language.heads and "(" in code else (0, 0)


def _keyword_head(lines: list[str], row: int, code: str, indent: int, bodies: tuple[str, ...]) -> tuple[int, int]:
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
    end = _opening(head, close + 1)
    # in languages without mandatory semicolons, a call may look like a head
    if language.arrows and not _TYPED.fullmatch(head, close + 1, end):
        return 0, 0
    declared = language.prototypes and indent == 0 and words and head[end : end + 1] == ";"
    if not head[:end].endswith("{") and not declared:
        return 0, 0
    head = head[:end].rstrip()
    return len(head), head.count("\n")


def _opening(head: str, start: int) -> int:
    """Return the end of the head whose parameters end at `start`: after the brace of its body, or before the next statement."""
    depth = 0
    for place in range(start, len(head)):
        sign = head[place]
        depth += (sign == "(") - (sign == ")")
        if depth < 0 or sign in ";}" or (sign == "=" and not depth):
            return place
        if sign == "{" and not depth:
            return place + 1
    return start


def _closing(head: str, start: int) -> int:
    """Return the offset of the bracket that closes the one at `start`, or -1 if a body or statement begins before it."""
    depth = 0
    for place in range(start, len(head)):
        sign = head[place]
        depth += (sign == "(") - (sign == ")")
        if depth == 0:
            return place
        if sign == ";" or head.startswith("=>", place):
            return -1
    return -1
