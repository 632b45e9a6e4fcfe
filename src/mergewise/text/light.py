"""Display of the light mark-up of Markdown and reStructuredText: code, emphasis, and the flow of lines.

Nothing is converted to HTML, and no offset changes: styles are ranges of the text itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from textwrap import dedent, indent
from typing import Literal, NamedTuple, TypeAlias

from mergewise.text.markup import CODE_DIRECTIVES, DIRECTIVE, TAG, readable
from mergewise.text.sentences import Form, blocks
from mergewise.text.spans import indent_of
from mergewise.types import Part

StyleName: TypeAlias = Literal["code", "strong", "em", "mark"]
"""`mark` is mark-up that a screen hides: asterisks, backticks, the target of a link."""

# Code between fences, and below a line that announces it the text with at least the margin of its first line.
_CODE = re.compile(
    r"^ {0,3}(?P<fence>`{3,}|~{3})(?!~)[^`\n]*\n.*?^ {0,3}(?P=fence)[`~]*[ \t]*$"
    rf"|^(?:(?![ \t]*\.\. )[^\n]*::|[ \t]*\.\. (?:{'|'.join(sorted(CODE_DIRECTIVES))})::[^\n]*(?:\n[ \t]+:[\w-]+:[^\n]*)*)"
    r"\n(?:[ \t]*\n)+"
    r"(?P<indented>(?P<margin>[ \t]{3,})\S[^\n]*(?:\n|\Z)(?:(?P=margin)[^\n]*(?:\n|\Z)|[ \t]*\n)*)",
    re.DOTALL | re.MULTILINE,
)
_CODE_HINT = re.compile("```|~~~|::")
_LINE_OF_TAG = rf"[ ]{{0,3}}{TAG}[ \t]*(?:\n|\Z)"
_INLINE = re.compile(
    r"""
      (?P<role>:(?:[\w.+-]{1,40}:){1,2}`[~!]?)(?P<of_role>[^`<\n]{1,200}?)(?P<role_end>(?:\s?<[^>`\n]{0,500}>)?`)
    | (?P<ticks>(?<!`)`{1,2}(?!`))(?P<code>[^`\n]{1,500}?)(?P<ticks_end>(?:\s?<[^>`\n]{1,500}>)?(?P=ticks)(?!`)_{0,2}(?!\w))
    | (?P<link>(?<![\\!])\[)(?P<of_link>[^\]\[\n]{1,300})(?P<link_end>\]\([^)\s]{0,500}(?:\ "[^"\n]{0,200}")?\))
    | (?P<bold>(?<![\w*\\])\*\*(?=[^\s*]))(?P<strong>[^*\n]{1,300}?)(?P<bold_end>(?<=\S)\*\*(?!\*))
    | (?P<star>(?<![\w*\\])\*(?=[^\s*]))(?P<em>[^*\n]{1,300}?)(?P<star_end>(?<=\S)\*(?![\w*]))
    | (?P<hidden>\\(?=\[\d{1,3}\])|^"""
    rf"{_LINE_OF_TAG})",
    re.VERBOSE | re.MULTILINE,
)
# Names of the groups for the opening mark, the styled text and the closing mark, and the style.
_PARTS: tuple[tuple[str, str, str, StyleName | None], ...] = (
    ("role", "of_role", "role_end", "code"),
    ("ticks", "code", "ticks_end", "code"),
    ("link", "of_link", "link_end", None),
    ("bold", "strong", "bold_end", "strong"),
    ("star", "em", "star_end", "em"),
)
_FENCE = re.compile(r"^ {0,3}(?:`{3,}|~{3,})[^\n]*(?:\n|\Z)", re.MULTILINE)
ITEM_MARK = r"(?:[-*+•‣◦]|\(?\d{1,3}[.)]|\(?[a-zA-Z][.)]|\#\.)\s"
ITEM = re.compile(rf"\s*{ITEM_MARK}")
MARGIN = 4 * " "
_MAX_BODY = 20_000  # characters above a line in which its directive is searched
_BY_MARGIN = re.compile(rf"^(?:{MARGIN}(?! *{ITEM_MARK})[^\n]*(?:\n|\Z))+", re.MULTILINE)
_GAP_BEFORE_END = re.compile(r"[ ]{2,}(?=[.,;:!?)\]](?!\w))")
_GAP = re.compile(r"(?<=\S)[ ]{2,}")


class InlineStyle(NamedTuple):
    start: int
    end: int
    name: StyleName


# The same documents are quoted from question to question.
@lru_cache(32)
def code_in(text: str) -> tuple[Part, ...]:
    """Return the ranges of code, by the marks of Markdown and RST."""
    found = []
    at = 0
    # Every piece of code begins at a line with a hint, and most lines have none.
    while hint := _CODE_HINT.search(text, at):
        match = _CODE.match(text, text.rfind("\n", 0, hint.start()) + 1)
        at = hint.end()
        if match is not None:
            found.append(match.span("indented" if match["indented"] else 0))
            at = max(at, match.end())
    return tuple(found)


def styles_in(text: str, code: Sequence[Part]) -> list[InlineStyle]:
    """Return the styled ranges of a text, in order. In code, only the fences are styled. Links and emphasis may be nested."""
    fences = (match.span() for start, end in code for match in _FENCE.finditer(text, start, end))
    styles = [InlineStyle(start, end, "mark") for start, end in fences]
    at = 0
    for start, end in (*code, (len(text), len(text))):
        styles += _inline(text, at, start)
        at = end
    return sorted(styles)


def _inline(text: str, start: int, end: int) -> Iterator[InlineStyle]:
    """Yield the styles between two offsets."""
    for match in _INLINE.finditer(text, start, end):
        if match["hidden"]:
            yield InlineStyle(*match.span(), "mark")
            continue
        opens, inside, closes, name = next(part for part in _PARTS if match[part[0]] is not None)
        yield InlineStyle(*match.span(opens), "mark")
        yield InlineStyle(*match.span(closes), "mark")
        if name is not None:
            yield InlineStyle(*match.span(inside), name)
        if name != "code":
            yield from _inline(text, *match.span(inside))


def cuts_code(text: str, code: Sequence[Part], at: int) -> bool:
    """Return true if code continues at this offset: without its fences, some of it is before the offset and some after."""
    return any(
        start < at < end and all(_FENCE.sub("", part).strip() for part in (text[start:at], text[at:end]))
        for start, end in code
    )


def body_margin(text: str, line: int) -> int:
    """Return the indentation of the line at an offset if it is in the body of a directive that shows no code, else 0."""
    above, below = text[max(0, line - _MAX_BODY) : line].split("\n"), text[line : line + _MAX_BODY]
    margin = indent_of(below)
    head = next((one.strip() for one in reversed(above) if one.strip() and indent_of(one) < margin), "")
    directive = DIRECTIVE.match(head)
    return margin if directive and directive["name"] not in CODE_DIRECTIVES else 0


def laid_out(text: str, code: Sequence[Part] = (), margin: int = 0) -> str:
    """Lay out a text without mark-up: a paragraph or list item on one line, rows and records unchanged, code indented by four.

    `code` are the ranges of code in the text. Lines indented by four below a blank line count as code too, beyond `margin`.
    """
    lines: list[str] = []
    block: list[str] = []  # consecutive lines of code
    forms: dict[int, Form] = {start: form for start, _, form in blocks(text)}
    blank, goes_on = True, False  # the last line was blank, or prose that the next one may continue
    at = 0

    def end_block() -> None:
        lines.extend(indent(dedent("\n".join(block)), MARGIN).splitlines())
        block.clear()

    for raw, plain in zip(text.split("\n"), readable(text).split("\n"), strict=True):
        start, at = at, at + len(raw) + 1
        if not raw.strip():
            blank, goes_on = True, False
            continue
        form = forms.get(start + indent_of(raw), "prose")
        if margin and not raw[:margin].strip():
            raw, plain = raw[margin:], plain[margin:]
        item = form == "item"
        by_margin = raw.startswith((MARGIN, "\t")) and (
            bool(block) or (blank and not item and not (lines and ITEM.match(lines[-1])))
        )
        if by_margin or any(first <= start < last for first, last in code):
            if not _FENCE.match(raw):
                block.append(raw.rstrip())
            blank = goes_on = False
            continue
        end_block()
        blank = False
        shown = _GAP.sub(" ", _GAP_BEFORE_END.sub("", plain.rstrip()))
        row = form not in ("prose", "item")
        if not shown.strip() or re.fullmatch(TAG, shown.strip()):
            goes_on = False
        elif goes_on and not item and not row:
            lines[-1] += " " + shown.strip()
        else:
            lines.append(shown if item else shown.strip())
            goes_on = not row
    end_block()
    return "\n".join(lines)


def code_by_margin(text: str) -> tuple[Part, ...]:
    """Return the ranges of code in the output of `laid_out`, within its quotation: indented lines, except list items."""
    spans = (match.span() for match in _BY_MARGIN.finditer(text))
    return tuple((start, end if (close := text.find("” [", start, end)) < 0 else close) for start, end in spans)
