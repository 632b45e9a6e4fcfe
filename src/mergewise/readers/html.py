"""HTML: the main content as text, with headings, lists, tables and code kept readable.

The main content is chosen in three steps:
1. Scripts, styles, menus and hidden elements never count.
2. The main content is the page's `main`, its one large `article`, or the innermost container with most of the text outside links.
3. Blocks in it that call themselves side matter are left out, and so are lists of links.

On small pages such guesses do harm: steps 2 and 3 are undone if they lose half of the text. Style sheets and scripts are not
read, so elements that they hide or load are unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from mergewise.errors import ReadError
from mergewise.readers.builder import SHORT_ENTRY, Builder, Parsed, one_line, whole_number
from mergewise.readers.decoding import decode
from mergewise.readers.formulas import SCRIPTS, formula, write_scripts
from mergewise.readers.metadata import TEXT_KEYS, key_of, metadata_from
from mergewise.readers.table import Cell, fill_grid
from mergewise.readers.titles import real_title
from mergewise.readers.xml import outermost
from mergewise.types import FileMetadata

_CHARSET = re.compile(rb"""<(?:meta|\?xml)[^>]*?(?:charset|encoding)\s*=\s*["']?\s*([\w.:-]+)""", re.IGNORECASE)
_DECLARATION = re.compile(r"\A\s*<\?xml[^>]*\?>")


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_NEVER = _names(
    "script style noscript template svg canvas iframe object embed audio video map head nav button input select "
    "textarea datalist dialog annotation annotation-xml rp rt rtc"
)
_NEVER_ROLES = _names("navigation search dialog")
# Words of classes, ids and roles.
_SIDE_WORDS = _names(
    "nav navbar navigation navbox menu menubar sidebar breadcrumb breadcrumbs toc footer cookie cookies consent gdpr advert "
    "ads advertisement share sharing social related newsletter subscribe popup promo pagination pager toolbar contentinfo "
    "editsection noprint"
)
_NOTE_WORDS = _names(
    "note warning caution danger tip hint important info admonition alert callout footnote footnotes endnote endnotes"
)
_FOLDED_WORDS = _names("tab tabs tabbed tabpanel tabpane tabcontent panel accordion collapse collapsible")
# The tag of elements beside the content.
_SIDE = "aside-matter"
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_CONTAINERS = _names("body div section main article form center")
_LISTS = _names("ul ol menu dir")
_BLOCKS = (
    frozenset(_HEADINGS)
    | _CONTAINERS
    | _LISTS
    | _names(
        "address aside blockquote caption dd details dl dt fieldset figcaption figure footer header hgroup hr li p pre summary "
        "label legend optgroup table tr td th thead tbody tfoot"
    )
)
# The element of headings and entries, whatever its names.
_KEPT = frozenset(_HEADINGS) | _names("dl dt dd")
_JUDGED = _names("ul ol div table header footer aside")
_SECTION_WORDS = _names("section chapter") | {f"level{level}" for level in range(1, 7)}
_HIDDEN = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_WORDS = re.compile(r"[A-Z]?[a-z]+")
_FOOTNOTE_MARK = re.compile(r"\[?\s*[\w*†‡]{1,4}\s*\]?")

# Titles to use if the page's own `title` is unusable, best first.
_TITLES = ("og_title", "citation_title", "dc_title", "twitter_title")
_META_KEYS = TEXT_KEYS - {"type"} | frozenset(_TITLES)

_SMALL_PAGE = 5_000  # characters
# Characters of a table cell. Cells with data are shorter.
_LAYOUT_CELL = 1_000
_MANY_LINKS = 6
_SMALL_FORM = 300  # characters
_DESCRIPTION = 3  # words


class PlainLines(Builder):
    """Blocks of one list item or table cell, whose tables are plain lines."""

    def table(self, rows: Sequence[Sequence[str]]) -> None:
        self.paragraph("\n".join(map(" ".join, rows)))

    @property
    def lines(self) -> list[str]:
        return [line for line in "".join(self._pieces).split("\n") if line.strip()]


def read_html(data: bytes, charset: str = "", *, of_book: bool = False) -> Parsed:
    """Read a page.

    Args:
        data: The bytes of the page.
        charset: The encoding that its sender declares. It takes precedence over the page's own.
        of_book: True for a chapter of a book, all of which is main content.
    """
    body, title, metadata = _parse(data, charset)
    if of_book:
        body.set("role", "main")
    for element in list(body.iterdescendants()):
        if element.getparent() is not None and _is_never(element):
            # a form beside the text is known by its buttons
            element.clear(keep_tail=True) if element.tag in ("button", "input") else element.drop_tree()
    weights = _weigh(body)
    root = _main(body, weights)
    side = [e for e in body.iterdescendants() if e is not root and _is_side_matter(e, weights, root)]
    tags = [element.tag for element in side]
    for element in side:
        element.tag = _SIDE
    parsed = _render(body, root, title)
    size, _ = weights[body]
    if not parsed.text or 2 * len(parsed.text) < size <= _SMALL_PAGE:
        for element, tag in zip(side, tags, strict=True):
            element.tag = tag
        parsed = _render(body, body, title)
    return replace(parsed, title=title or parsed.title, metadata=metadata)


def _parse(data: bytes, charset: str) -> tuple[Any, str, FileMetadata]:
    """Return the body element, the title and the metadata."""
    from lxml import etree, html

    declared = _CHARSET.search(data[:4096])
    text = _DECLARATION.sub("", decode(data, charset or (declared[1].decode("ascii") if declared else "")))
    # Without huge_tree, libxml2 silently drops elements nested more than 256 deep. HTML has no entities to expand.
    parser = html.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True, huge_tree=True)
    try:
        document = html.document_fromstring(text.encode("utf-8", "replace"), parser=parser)
    except etree.ParserError as error:
        raise ReadError("no text") from error
    body = document.find("body")
    metas = ((key_of(e.get("name") or e.get("property") or e.get("itemprop") or ""), e) for e in document.iter("meta"))
    pairs = [(key, element.get("content") or "") for key, element in metas if key in _META_KEYS]
    pairs.append(("language", document.get("lang") or ""))
    titles = [document.findtext("head/title") or "", *(value for name, value in pairs if name in _TITLES)]
    title = one_line(next((title for title in map(real_title, titles) if title), ""))
    informative = ((name, value) for name, value in pairs if name not in _TITLES and one_line(value) != title)
    return (document if body is None else body), title, metadata_from(informative)


def _render(body: Any, root: Any, title: str) -> Parsed:
    builder = Builder(title)
    if root is not body and next(root.iter("h1"), None) is None:
        # add the page's only top heading if it is outside the main content
        titles = list(body.iter("h1"))
        if len(titles) == 1 and next(titles[0].iterancestors(_SIDE), None) is None:
            builder.heading(1, _flat(titles[0]))
    _Flow(builder).run(root)
    return builder.build()


# --- main content ------------------------------------------------------------------------------------------------


def _words_of(element: Any) -> frozenset[str]:
    """Return the words of the names that authors and tools give an element."""
    get = element.get
    return _words(f"{get('class', '')} {get('id', '')} {get('role', '')}")


# pages repeat their names
@lru_cache(10_000)
def _words(names: str) -> frozenset[str]:
    return frozenset(word.lower() for word in _WORDS.findall(names))


def _is_never(element: Any) -> Any:
    if element.tag in _NEVER:
        # a heading that folds its section
        return element.tag != "button" or element.getparent().tag not in _HEADINGS
    if not element.keys():
        return False
    hidden: bool = element.get("hidden") is not None or element.get("aria-hidden") == "true"
    hidden = hidden or _HIDDEN.search(element.get("style") or "") is not None
    return element.get("role") in _NEVER_ROLES or (hidden and _FOLDED_WORDS.isdisjoint(_words_of(element)))


# Number of characters of each element, and the number of them in links.
Weights = dict[Any, tuple[int, int]]


def _weigh(body: Any) -> Weights:
    weights: Weights = {}
    for element in reversed(list(body.iter())):
        text, links = len((element.text or "").strip()), 0
        for child in element:
            text += weights[child][0] + len((child.tail or "").strip())
            links += weights[child][1]
        weights[element] = text, text if element.tag == "a" else links
    return weights


def _prose(element: Any, weights: Weights) -> int:
    text, links = weights.get(element, (0, 0))
    return text - links


def _is_main(element: Any) -> bool:
    return "main" in (element.tag, element.get("role"))


def _main(body: Any, weights: Weights) -> Any:
    total = _prose(body, weights)
    best = max(filter(_is_main, body.iter()), key=lambda element: _prose(element, weights), default=None)
    if best is not None and 4 * _prose(best, weights) >= total:
        return best
    for article in body.iter("article"):
        if 2 * _prose(article, weights) >= total:
            return article
    return _descend(body, weights) if total > _SMALL_PAGE else body


def _descend(element: Any, weights: Weights) -> Any:
    """Return the innermost container with nine tenths of the prose, and all headings, of each container around it."""
    prose = _prose(element, weights)
    child = next((c for c in element if c.tag in _CONTAINERS and 10 * _prose(c, weights) >= 9 * prose), None)

    def has_heading(part: Any) -> bool:
        if _is_side_matter(part, weights, element):
            return False
        return part.tag in _HEADINGS or any(map(has_heading, part))

    if child is None or any(has_heading(other) for other in element if other is not child):
        return element
    return _descend(child, weights)


def _is_side_matter(element: Any, weights: Weights, root: Any) -> bool:
    """Tell whether an element is beside the content by its links, its tag or its names.

    Tools make ids from titles, so names never count for headings, entries and sections. Within the main content and for inline
    text, they count only together with links or buttons.
    """
    # most elements have neither a name nor such a tag
    if element.tag not in _JUDGED and not element.keys():
        return False
    text, links = weights.get(element, (0, 0))
    words = _words_of(element)
    if element.tag in _KEPT or 2 * (text - links) > _prose(root, weights):
        return False
    if element.get("epub:type") or not _NOTE_WORDS.isdisjoint(words):
        return False
    is_list = element.tag in ("ul", "ol", "div", "table") and 10 * links > 9 * text
    if is_list and sum(1 for _ in element.iter("a")) >= _MANY_LINKS and not _is_section(element):
        return True
    if element.tag == "footer":
        return bool(element.getparent().tag != "blockquote")
    is_bare = element.tag == "header" and next(element.iter(*_HEADINGS), None) is None
    if not is_bare and element.tag != "aside" and _SIDE_WORDS.isdisjoint(words):
        return False
    if element.tag not in _BLOCKS or any(
        _is_main(e) or e.tag == "article" for e in (element, *element.iterancestors())
    ):
        buttons = text < _SMALL_FORM and next(element.iter("button", "input"), None) is not None
        return 2 * links > text or buttons
    return not _is_section(element) and next(element.iter("pre"), None) is None


def _is_section(element: Any) -> bool:
    """Tell whether an element is a section of the text: it says so, or its id is made from its heading."""
    heading = next(element.iter(*_HEADINGS), None)
    if heading is None:
        return False
    name, title = (re.sub(r"\W|_", "", s.lower()) for s in (element.get("id") or "", heading.text_content()))
    is_named = bool(name) and (title.startswith(name) or name.startswith(title))
    return is_named or not _SECTION_WORDS.isdisjoint((element.get("class") or "").lower().split())


# --- text --------------------------------------------------------------------------------------------------------


class _Flow:
    """A walk over elements in order. Inline text is collected until a block begins or ends, and then written as a paragraph."""

    def __init__(self, sink: Builder) -> None:
        self._sink = sink
        self._inline: list[str] = []

    def run(self, element: Any) -> None:
        self._walk(element)
        self._flush()

    def _walk(self, element: Any) -> None:
        self._gather(element.text)
        for child in element:
            tag = child.tag
            if tag in _BLOCKS:
                self._flush()
            if tag == "br":
                self._inline.append("\n")
            elif tag in SCRIPTS and not _is_mark(child):
                self._inline.append(SCRIPTS[tag][0])
                self._walk(child)
                self._inline.append(SCRIPTS[tag][1])
            elif tag == "img":
                # a description, not a name
                text = child.get("alt") or ""
                self._gather(text if len(text.split()) >= _DESCRIPTION else "")
            elif tag == "math":
                self._inline.append(formula(child))
            elif tag in _HEADINGS:
                self._sink.heading(_HEADINGS[tag], _flat(child))
            elif tag == "pre":
                self._sink.verbatim(child.text_content())
            elif tag in _LISTS:
                self._sink.verbatim("\n".join(self._list(child)))
            elif tag == "dl" and not isinstance(self._sink, PlainLines):
                self._entries(child)
            elif tag == "dl":
                self._sink.verbatim("\n".join(self._definitions(self._children(child))))
            elif tag == "table":
                self._table(child)
            elif tag != _SIDE and not _is_mark(child):
                self._walk(child)
            if tag in _BLOCKS:
                self._flush()
            self._gather(child.tail)

    def _gather(self, text: str | None) -> None:
        if text:
            self._inline.append(re.sub(r"\s+", " ", text))

    def _flush(self) -> None:
        self._sink.paragraph(write_scripts("".join(self._inline)))
        self._inline.clear()

    def _list(self, element: Any) -> Iterator[str]:
        number = whole_number(element.get("start", "1"), 1)
        for child in self._children(element):
            lines = _lines(child)
            opens_with_list = not (child.text or "").strip() and len(child) > 0 and child[0].tag in ("ul", "ol")
            if child.tag != "li" or opens_with_list:
                yield from ("  " + line for line in lines)
                continue
            marker = f"{number}." if element.tag == "ol" else "-"
            number += 1
            yield from (f"{'  ' if row else marker + ' '}{line}" for row, line in enumerate(lines))

    def _definitions(self, parts: Iterable[Any]) -> Iterator[str]:
        for child in parts:
            indent = "  " if child.tag == "dd" else ""
            yield from (indent + line for line in _lines(child))

    def _entries(self, element: Any) -> None:
        """Write each entry of a list of definitions as a block. The terms of a long entry head its body instead."""
        entries: list[list[Any]] = []
        for child in self._children(element):
            for part in child if child.tag == "div" else (child,):
                if not entries or (part.tag == "dt" != entries[-1][-1].tag):
                    entries.append([])
                entries[-1].append(part)
        for entry in entries:
            terms = [part for part in entry if part.tag == "dt"]
            name = ", ".join(filter(None, map(_flat, terms)))
            # "Parameters:" announces a list
            if not name or name.endswith(":") or not _is_large(entry):
                self._sink.verbatim("\n".join(self._definitions(entry)))
                continue
            level = self._sink.begin_entry(name)
            for part in entry[len(terms) :]:
                if part.tag != _SIDE:
                    self._walk(part)
                    self._flush()
            self._sink.end_entry(level)

    def _table(self, table: Any) -> None:
        for caption in table.iterchildren("caption"):
            self._sink.paragraph(_flat(caption))
        cells = [list(row.iterchildren("td", "th")) for row in outermost(table, "tr", without=("caption", _SIDE))]
        flat = [cell for row in cells for cell in row]
        # a table of one cell a row, or of cells as long as a page, only lays out the page
        is_layout = table.get("role") in ("presentation", "none") or all(len(row) < 2 for row in cells)
        if is_layout or any(len(one_line(cell.text_content())) > _LAYOUT_CELL for cell in flat):
            for cell in flat:
                self._walk(cell)
                self._flush()
            return
        grid = [[Cell.of(_flat(c), c.get("colspan"), c.get("rowspan")) for c in row] for row in cells]
        self._sink.table(fill_grid(grid))

    def _children(self, element: Any) -> Iterator[Any]:
        return (child for child in element if child.tag != _SIDE)


def _is_large(entry: Sequence[Any]) -> bool:
    """Tell whether an entry has an id, blocks within blocks, or much text."""
    bodies = [part for part in entry if part.tag != "dt"]
    size = sum(len(one_line(body.text_content())) for body in bodies)
    if not size or size > SHORT_ENTRY or any(part.get("id") for part in entry if part.tag == "dt"):
        return size > 0
    return sum(1 for body in bodies for inner in body.iterdescendants() if inner.tag in _BLOCKS) > 1


def _is_mark(element: Any) -> bool:
    """Tell whether the element is no part of the text: a mark of a note such as `<sup><a href="#note-1">[1]</a></sup>`, or "¶"
    beside a heading, which links to the heading itself.
    """
    links = list(element.iter("a")) if element.tag in ("a", "sup") else []
    if not links or not (links[0].get("href") or "").startswith("#"):
        return False
    text = element.text_content().strip()
    if element.tag == "a" and "noteref" not in f"{element.get('epub:type')} {element.get('role')}":
        return text in "¶#§"
    return len(links) == 1 and _FOOTNOTE_MARK.fullmatch(text) is not None


def _lines(element: Any) -> list[str]:
    if not len(element):
        return list(filter(None, [one_line(element.text or "")]))
    lines = PlainLines()
    _Flow(lines).run(element)
    return lines.lines


def _flat(element: Any) -> str:
    return " ".join(_lines(element))
