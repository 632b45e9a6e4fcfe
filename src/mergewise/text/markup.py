"""The readable part of a text, without the mark-up of Markdown, reStructuredText and HTML tags.

Mark-up is replaced by spaces, so offsets in the readable text are offsets in the text itself.
"""

from __future__ import annotations

import re
from functools import lru_cache

from mergewise.text.spans import indent_of

_TAGS = (
    "a|abbr|b|big|blockquote|br|button|center|code|dd|details|div|dl|dt|em|figcaption|figure|font|h[1-6]|hr|i|iframe|img|input|"
    "ins|kbd|li|mark|nobr|ol|p|picture|pre|s|samp|section|small|source|span|strike|strong|style|sub|summary|sup|svg|table|tbody|"
    "td|tfoot|th|thead|tr|tt|u|ul|var|video"
)
# The alternative text and the target of an image end at another image, and the target of a link at another link. So no
# text is scanned twice in vain.
_ALT = r"[^\]\n!]*+(?:!(?!\[)[^\]\n!]*+)*+"
_IMAGE = r"[^)\n!]*+(?:!(?!\[)[^)\n!]*+)*+"
_TARGET = r"[^)\s\]]*+(?:\](?!\()[^)\s\]]*+)*+"
# An address or a path: the line of a link target has no other words.
_PLACE = r"(?:\w+:/*(?=[\w.])|[./#]|[\w-]+[./]\w)[^\s<>]*"
TAG = r"</?[A-Z][\w.]*(?:[ \t][^<>\n]*)?>"
"""The pattern of a tag that opens or closes a component of MDX."""
# docutils' names of directives and roles: letters and digits, with single marks in between.
_NAME = r"[^\W_]++(?:[-._+:][^\W_]++)*+"
DIRECTIVE = re.compile(rf"\.\.[ \t]+(?P<name>{_NAME})[ ]?::(?:[ \t]+(?P<argument>[^\n]*)|(?=\n|\Z))")
CODE_DIRECTIVES = frozenset(
    "code code-block sourcecode parsed-literal prompt console ipython doctest testcode math".split()
)
_MARKUP = re.compile(
    rf"""
      ^(?:                                                                   # at the beginning of a line
        [ \t]*(?:`{{3,}}|~{{3,}})[^\n`]*$                                     # the edge of a fenced code block
    | [ \t]*\.\.[ \t]+_[^\n]*:[^\n]*$                                       # an anchor or the target of a link
    | (?P<margin>[ \t]*)\.\.(?:[ \t]+(?:index::|(?!{_NAME}[ ]?::(?:\s|\Z)|\|[^|\n]+\||\[[\w\#*-]+\]))[^\n]*)?$  # a comment
    | [ \t]*\.\.[ \t]+(?:\|[^|\n]+\|[ \t]+)?(?:image|figure|contents|toctree|highlight|include|literalinclude|
        currentmodule|module|py:currentmodule|py:module|meta|raw|autoclass|automodule|autofunction|code|code-block|
        sourcecode|parsed-literal|prompt|console|ipython|doctest|testcode|math|sectionauthor|moduleauthor|tabularcolumns|
        default-role)[ ]?::[^\n]*$
    | [ \t]*\.\.[ \t](?P<since>version(?:added|changed|removed)|deprecated)::(?=\s)
    | [ \t]*\.\.[ \t]+{_NAME}[ ]?::(?=\s|\Z)                               # the mark of another directive
    | [ \t]*[!?]{{3}}\+?[ \t]+[\w-]*                                        # the mark of an admonition
    | [ \t]*(?:/{{3,}}[ \t]*(?:[\w-]+[ \t]*)?(?:\||$)|:{{3,}}(?:[ \t]*[\w-]+(?!\S))?)      # or of another container
    | [ ]{{0,3}}\[(?!\^)[^\]\n]+\]:[ \t]+<?{_PLACE}>?(?:[ \t]+["'(][^\n]*)?[ \t]*$   # where a link leads
    | [ \t]*:(?:class|name|alt|width|height|target|align|maxdepth|caption|local|depth|hidden|titlesonly|
        no-?index(?:-entry)?|module|canonical|synopsis|platform|members|undoc-members|show-inheritance|linenos|header-rows|stub-columns|widths):[^\n]*$
    )
    | (?=[<\[!:`{{*])(?:                                                     # with one of these: few places are tried
        (?P<comment><!--)
    | </?(?:{_TAGS})(?:[ \t\n][^<>]*)?/?>
    | \[!\[{_ALT}\]\({_IMAGE}\)\]\({_IMAGE}\)                                # an image that is a link
    | !\[{_ALT}\](?:\({_IMAGE}\)|\[[^\]\n]{{0,99}}\])                        # an image
    | (?<!!)\[(?P<link>[^\]\[\n]*(?:\n[^\]\[\n]+)?)\](?:\({_TARGET}(?:[ \t\n]+"[^"\n]{{0,999}}")?\)|\[[^\]\n]{{0,99}}\])
    | :(?:[\w.+-]+:){{1,3}}`[~!]?(?P<role>[^`<]++)(?:<[^>`]*>)?`
    | `(?P<named>[^`<\n]++)\s*+<[^>`\n]+>`__?
    | (?<!`)`(?P<reference>[^`\n]+)`__?(?!\w)
    | \{{:?[ \t]*[.\#][\w-][^{{}}\n]*\}}                                     # an anchor or class in braces
    | \*\*+
    )
    """,
    re.MULTILINE | re.VERBOSE | re.DOTALL,
)
_HINT = re.compile(r"[`<\[*{]|\.\.(?:\s|$)|!!!|\?\?\?|~~~|///|:::|^[ \t]*:\w", re.MULTILINE)
# Every match of the pattern contains one of these, and finding them is many times as fast.
_HINT_MARKS = ("`", "<", "[", "*", "{", "..", "!!!", "???", "~~~", "///", ":")
# Maximum characters of an HTML comment.
_MAX_COMMENT = 5_003
_WORD = re.compile(r"[^\W_]")
_IN_LINE = re.compile(r"[^\n]")
# Maximum characters of a text whose result is cached.
_SHORT = 2_000


def readable(text: str) -> str:
    """Replace mark-up by spaces. Links, roles and directives leave their text, images and anchors leave nothing.

    Directives of versions become words: "version added". The result has the length and the line breaks of `text`.
    """
    if not any(map(text.__contains__, _HINT_MARKS)) or not _HINT.search(text):
        return text
    return _remembered(text) if len(text) <= _SHORT else _readable(text)


def says_something(text: str) -> bool:
    """Return true if a readable text contains a word or a number."""
    return _WORD.search(text) is not None


def _readable(text: str) -> str:
    pieces: list[str] = []
    at = 0
    while match := _MARKUP.search(text, at):
        start, end = match.span()
        if match["margin"] is not None:
            # Deeper lines below a comment belong to it.
            margin = len(match["margin"])
            while end < len(text):
                stop = text.find("\n", end + 1)
                line = text[end + 1 : len(text) if stop < 0 else stop]
                if line.strip() and indent_of(line) <= margin:
                    break
                end = len(text) if stop < 0 else stop
        if match["comment"] is not None:
            close = text.find("-->", end, end + _MAX_COMMENT)
            if close < 0:
                pieces.append(text[at:end])
                at = end
                continue
            end = close + len("-->")
        kept = match.lastgroup if match.lastgroup in ("link", "role", "named", "reference") else None
        first, last = match.span(kept) if kept else (end, end)
        shown = text[first:last]
        if match["since"] is not None:
            # in the room of its marks
            shown = match["since"].replace("version", "version ").ljust(len(match["since"]) + 2)
            first = end - len(shown)
        pieces += [text[at:start], _blank(text[start:first]), shown, _blank(text[last:end])]
        at = max(end, start + 1)
    return "".join([*pieces, text[at:]])


def _blank(text: str) -> str:
    return _IN_LINE.sub(" ", text) if "\n" in text else " " * len(text)


# Questions read the same leaves again.
_remembered = lru_cache(4096)(_readable)
