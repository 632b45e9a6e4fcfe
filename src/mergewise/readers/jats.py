"""XML: JATS, the format of journal articles (also PubMed Central's .nxml), or any other with the names of its elements.

Read of JATS: title, abstracts, keywords, the sections of the body and of the back matter (acknowledgements, appendices, notes),
tables, captions of figures and tables, and formulas. Left out: the reference list (a search would find titles
instead of findings), affiliations, footnotes of the front, peer-review letters (`sub-article`). Entities of a DTD are never
expanded. HTML's named characters are known.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import unescape
from itertools import takewhile
from typing import Any

from mergewise.errors import ReadError
from mergewise.readers.builder import Builder, Parsed, one_line
from mergewise.readers.decoding import mismatch
from mergewise.readers.formulas import SCRIPTS, formula, write_scripts
from mergewise.readers.metadata import iso_date, metadata_from
from mergewise.readers.table import Cell, fill_grid
from mergewise.readers.xml import attribute, children, descendants, first, local, outermost, parse_xml
from mergewise.types import FileMetadata

_SECTIONS = frozenset("sec app ack notes glossary bio".split())
_WRAPPERS = frozenset(
    "app-group boxed-text disp-quote fig-group table-wrap-group statement supplementary-material".split()
)
_SKIPPED = frozenset("ref-list label title object-id graphic media fn-group sec-meta permissions attrib".split())
_FLOATS = frozenset("list def-list fig table-wrap fig-group boxed-text supplementary-material".split())
_HEADS = frozenset({"title", "head", "name"})
_PROSE = frozenset("p para simpara paragraph text".split())
_NAMES = {"ack": "Acknowledgements", "abstract": "Abstract"}


def read_xml(data: bytes) -> Parsed:
    if b"<" not in data[:1024]:
        raise ReadError(mismatch("XML", data))
    root = parse_xml(data)
    article = next((element for element in descendants(root, "article") if children(element, "front", "body")), None)
    builder = Builder()
    if article is None:
        _elements(root, builder, level=1)
        return builder.build()
    meta = first(article, "front", "article-meta")
    if meta is None:
        meta = first(article, "front-stub")
    title = _text(first(meta, "title-group", "article-title"))
    builder.heading(1, title)
    for abstract in children(meta, "abstract"):
        _section(abstract, builder, level=2)
    for group in children(meta, "kwd-group"):
        if words := ", ".join(map(_text, children(group, "kwd"))):
            builder.paragraph(f"{_text(first(group, 'title')) or 'Keywords'}: {words}")
    for part in (*children(article, "body"), *children(article, "back")):
        _blocks(part, builder, level=2)
    return builder.build(title, _metadata(article))


def _elements(element: Any, builder: Builder, level: int) -> None:
    """Write the attributes and children of an element as lines `name: text`. Children with children of their own are parts."""
    fields, heads = _attributes(element), children(element, *_HEADS)[:1]

    def write() -> None:
        name = [] if heads or not fields else [local(element)]
        builder.paragraph("\n".join([*name, *fields]))
        fields.clear()

    for child in element:
        name, inner = local(child), [one for one in child if local(one)]
        is_mixed = any((text or "").strip() for text in (child.text, *(one.tail for one in inner)))
        if child in heads:
            builder.heading(level, _text(child))
        elif name and (is_mixed or not inner):
            text = "; ".join(filter(None, [_text(child), *_attributes(child)]))
            fields += [text if name in _PROSE else f"{name}: {text}"] if text else []
        elif name:
            write()
            _elements(child, builder, level + 1)
    write()


def _attributes(element: Any) -> list[str]:
    return [f"{key.rpartition('}')[2]}: {value}" for key, value in element.attrib.items()]


def _metadata(article: Any) -> FileMetadata:
    front = first(article, "front")
    if front is None:
        return FileMetadata()
    meta = first(front, "article-meta")
    ids = {element.get("pub-id-type"): _text(element) for element in descendants(front, "article-id")}
    dates = sorted(filter(None, map(_date, descendants(front, "pub-date"))))
    # the earliest date, since the printed issue may come a year later
    published = dates[0] if dates else ""
    full = next((date for date in dates if date.startswith(published) and len(date) == 10), published)
    words = [_text(word) for group in children(meta, "kwd-group") for word in children(group, "kwd")]
    return metadata_from(
        [
            ("author", ", ".join(_authors(meta))),
            ("date", full),
            ("year", published[:4]),
            ("doi", ids.get("doi", "")),
            ("journal", _text(next(iter(descendants(front, "journal-title")), None))),
            ("keywords", ", ".join(words)),
            ("subject", _text(next(iter(descendants(front, "subject")), None))),
            ("language", attribute(article, "lang")),
        ]
    )


def _date(element: Any) -> str:
    known = list(takewhile(str.isdecimal, [_text(first(element, name)) for name in ("year", "month", "day")]))
    return iso_date("-".join(known)) if known else ""


def _authors(meta: Any) -> Iterator[str]:
    for group in children(meta, "contrib-group"):
        for person in children(group, "contrib"):
            if person.get("contrib-type", "author") == "author":
                name = first(person, "name")
                given, family = _text(first(name, "given-names")), _text(first(name, "surname"))
                text = f"{given} {family}".strip() or _text(first(person, "collab"))
                if text:
                    yield text


def _section(section: Any, builder: Builder, level: int) -> None:
    label, title = _text(first(section, "label")), _text(first(section, "title"))
    title = title or _NAMES.get(local(section), "")
    builder.heading(level, f"{label} {title}")
    _blocks(section, builder, level + 1 if title else level)


def _blocks(parent: Any, builder: Builder, level: int) -> None:
    """Write every child of `parent` as a block. Sections get the heading level `level`."""
    for child in parent:
        name = local(child)
        if name in _SKIPPED:
            continue
        if name in _SECTIONS:
            _section(child, builder, level)
        elif name in _WRAPPERS:
            builder.paragraph(_caption(child))
            _blocks(child, builder, level)
        elif name == "p":
            # a JATS paragraph may contain lists, figures and tables: they are written after its text
            builder.paragraph(_text(child, without=_FLOATS))
            _blocks(children(child, *_FLOATS), builder, level)
        elif name in ("list", "def-list"):
            _list(child, builder, depth=0)
        elif name == "fig":
            builder.paragraph(_caption(child))
        elif name == "table-wrap":
            builder.paragraph(_caption(child))
            # a table inside a cell is part of the cell's text
            for table in outermost(child, "table"):
                rows = [children(row, "td", "th") for row in outermost(table, "tr")]
                cells = [[Cell.of(_text(c), c.get("colspan"), c.get("rowspan")) for c in row] for row in rows]
                builder.table(fill_grid(cells))
            for note in (note for foot in children(child, "table-wrap-foot") for note in foot):
                builder.paragraph(_text(note))
        elif name != "caption":
            builder.paragraph(_text(child))


def _list(element: Any, builder: Builder, depth: int) -> None:
    ordered = element.get("list-type", "") not in ("", "bullet", "simple")
    for number, item in enumerate(children(element, "list-item", "def-item"), start=1):
        parts = (_text(child) for child in item if local(child) not in ("list", "label"))
        text = (": " if local(item) == "def-item" else " ").join(filter(None, parts))
        builder.item(text, marker=f"{number}." if ordered else "-", depth=depth)
        for nested in children(item, "list"):
            _list(nested, builder, depth + 1)


def _caption(element: Any) -> str:
    """Return label, title and text of a figure, table or box as one paragraph."""
    caption = first(element, "caption")
    return " ".join(filter(None, map(_text, [first(element, "label"), *(() if caption is None else caption)])))


def _text(element: Any, without: frozenset[str] = frozenset()) -> str:
    return "" if element is None else one_line(write_scripts("".join(_pieces(element, without))))


def _pieces(element: Any, without: frozenset[str]) -> Iterator[str]:
    yield element.text or ""
    for child in element:
        name = local(child)
        if name == "":
            # an unexpanded entity, such as `&alpha;`
            yield unescape(child.text or "")
        elif name == "alternatives":
            # renderings of one formula: prefer MathML, else the first with text
            ranked = sorted(child, key=lambda rendering: local(rendering) != "math")
            written = {"math": formula, "tex-math": _tex}
            yield next(filter(None, (written.get(local(one), _text)(one) for one in ranked)), "")
        elif name == "tex-math":
            yield _tex(child)
        elif name == "break":
            yield " "
        elif name == "math":
            yield formula(child)
        elif name in SCRIPTS:
            start, end = SCRIPTS[name]
            yield from (start, *_pieces(child, without), end)
        elif name not in without and name not in ("graphic", "inline-graphic", "object-id"):
            yield from _pieces(child, without)
        yield child.tail or ""


def _tex(element: Any) -> str:
    """Return the formula of a `tex-math`, which is usually wrapped in a whole LaTeX document."""
    return "".join(element.itertext()).split(r"\begin{document}", 1)[-1].partition(r"\end{document}")[0]
