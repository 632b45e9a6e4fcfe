"""PDF: the text that PDFium reads, page by page, with headings from bookmarks or from type sizes.

A PDF holds glyphs at positions, not paragraphs or headings.

- Lines are in the order of the file, which is right for most documents, even with columns. A wide gap between lines starts a
  paragraph. Tables lose their grid.
- The outline comes from the bookmarks if at least two of them, and half of all, are found on their pages. Otherwise it has the
  short lines that are larger than the body text, or bold in text that is not. Running heads are left out.
- Pages that show something but have no text, such as scans, are reported. With text recognition, they have the recognised text
  and only headings from bookmarks.
"""

from __future__ import annotations

import ctypes
import re
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from itertools import groupby, pairwise
from statistics import median
from typing import Any

from mergewise.errors import ReadError
from mergewise.readers.broken_words import HYPHEN, WholeWords
from mergewise.readers.builder import Builder, Parsed, one_line
from mergewise.readers.decoding import mismatch
from mergewise.readers.metadata import metadata_from
from mergewise.readers.pdf_annotations import Annotation, annotations_of, insert_values
from mergewise.readers.recognition import Recognition
from mergewise.readers.table import refuse_long
from mergewise.readers.titles import is_generic, is_numbered, real_title
from mergewise.types import frozen

# PDFium is not thread-safe.
_PDFIUM = threading.Lock()

_BOLD_NAME = re.compile(r"bold|black|heavy|demi|[a-z]BX\d|CMBX|SFBX|-bd\b|Bd$", re.IGNORECASE)
_BOLD_WEIGHT = 600
# Characters of a line whose type is looked up. Looking up all of them takes longer than reading the text.
_SAMPLES = 5
_PARAGRAPH_GAP = 1.35  # line distances
_BELOW = 1_000  # points
# PDFium's code for a hyphen at the end of a line, whose next line it appends
_BROKEN = 2
_LARGER = 1.1
# Size of a first letter that is two lines high, in sizes of the text.
_INITIAL = 1.8
_MAX_HEADING = 160  # characters
_MAX_HEADING_LINES = 3
_RUNNING_HEAD_PAGES = 3
_DIGITS = "0123456789"
_PROPERTIES = ("Author", "CreationDate", "ModDate", "Subject", "Keywords")


@frozen
class Line:
    """A line of a page: its text, its type size in points, and whether all of it is bold.

    `top` and `bottom` are the heights of its base line at its beginning and its end. They differ if PDFium has undone a
    hyphenation, which joins two or more lines of the page.
    """

    text: str
    size: float
    bold: bool
    top: float
    bottom: float

    @property
    def type(self) -> Type:
        return self.size, self.bold


@frozen
class Bookmark:
    level: int
    title: str
    page: int


@frozen
class HeadingLines:
    """A heading on lines `first` to `last` of a page, both included."""

    page: int
    first: int
    last: int
    level: int


@dataclass(slots=True)
class PdfContent:
    """Content that PDFium reads. `textless` and `recognised` are page numbers from 0 of pages without text of their own."""

    bookmarks: list[Bookmark]
    properties: dict[str, str]
    pages: list[PageLines] = field(default_factory=list)
    textless: list[int] = field(default_factory=list)
    recognised: list[int] = field(default_factory=list)


PageLines = list[Line]
Type = tuple[float, bool]


def read_pdf(data: bytes, recognition: Recognition | None = None) -> Parsed:
    if b"%PDF-" not in data[:1024]:
        raise ReadError(mismatch("a PDF", data))
    content = _extract(data, recognition)
    if not any(content.pages):
        which = "its page" if len(content.pages) == 1 else f"any of its {len(content.pages)} pages"
        tried = "--ocr reads scans" if recognition is None else "text recognition found none"
        raise ReadError(f"no text on {which}" + (f" ({tried})" if content.textless else ""))
    words = WholeWords(line.text for page in content.pages for line in page)
    content.pages = [_with_whole_words(page, words) for page in content.pages]
    headings = _from_bookmarks(content.pages, content.bookmarks)
    typeset = [[] if number in content.recognised else page for number, page in enumerate(content.pages)]
    if not headings and any(typeset):
        headings = _from_type(typeset)
    parsed = _write(content.pages, headings, content.properties)
    return replace(parsed, textless=tuple(number + 1 for number in content.textless))


# --- PDFium ------------------------------------------------------------------------------------------------------


def _extract(data: bytes, recognition: Recognition | None) -> PdfContent:
    import pypdfium2

    with _PDFIUM:
        try:
            document = pypdfium2.PdfDocument(data)
        except pypdfium2.PdfiumError as error:
            if "password" in str(error).lower():
                raise ReadError("encrypted", "save it without a password") from error
            raise ReadError("damaged PDF") from error
        with closing(document):
            targets = ((bookmark, bookmark.get_dest()) for bookmark in document.get_toc())
            bookmarks = [
                Bookmark(bookmark.level + 1, bookmark.get_title(), page)
                for bookmark, target in targets
                if target and (page := target.get_index()) is not None
            ]
            # a form that cannot be opened must not cost the text
            with suppress(pypdfium2.PdfiumError):
                document.init_forms()
            content = PdfContent(bookmarks, document.get_metadata_dict())
            _add_pages(document, recognition, content)
            return content


def _add_pages(document: Any, recognition: Recognition | None, content: PdfContent) -> None:
    from pypdfium2 import raw

    length = 0
    for number in range(len(document)):
        with closing(document[number]) as page:
            annotations = list(annotations_of(page, document.formenv))
            lines, alone = _page_lines(page, annotations)
            if not lines and raw.FPDFPage_CountObjects(page) > 0:
                lines = [] if recognition is None else _recognised_lines(page, recognition)
                (content.recognised if lines else content.textless).append(number)
            # each of them is a paragraph and no heading
            lines += [Line(text, 0.0, False, row * -_BELOW, row * -_BELOW) for row, text in enumerate(alone, start=1)]
        content.pages.append(lines)
        length += sum(len(line.text) for line in lines)
        # a million pages may share one stream
        refuse_long(length)


def _recognised_lines(page: Any, recognition: Recognition) -> PageLines:
    """Return the rows of recognised text as lines of the page, in points from its foot."""
    rows, scale = recognition.rows(page)
    height = page.get_height()
    lines = []
    for row in rows:
        foot = height - max(box.bottom for box in row) / scale
        size = max(box.bottom - box.top for box in row) / scale
        lines.append(Line(one_line(" ".join(box.text for box in row)), size, False, foot, foot))
    return [line for line in lines if line.text]


def _page_lines(page: Any, annotations: Sequence[Annotation]) -> tuple[PageLines, list[str]]:
    """Return the lines of a page, and the texts of annotations that belong to no line."""
    from pypdfium2 import raw

    with closing(page.get_textpage()) as textpage:
        codes = [raw.FPDFText_GetUnicode(textpage, index) for index in range(textpage.count_chars())]
        characters = [HYPHEN if code == _BROKEN else chr(code) for code in codes]
        alone: list[str] = []
        if annotations:
            origins = [_origin(raw, textpage, index) for index in range(len(codes))]
            alone = insert_values(characters, origins, annotations)
        lines = []
        ends = [-1, *(index for index, code in enumerate(codes) if code in (10, 13)), len(codes)]
        for start, end in [(before + 1, end) for before, end in pairwise(ends) if before + 1 < end]:
            # PDFium returns two surrogates for a character beyond the basic plane
            units = "".join(characters[start:end]).encode("utf-16-le", "surrogatepass")
            text = one_line(units.decode("utf-16-le", "replace"))
            inked = [index for index in range(start, end) if codes[index] > 32]
            if text and inked:
                sample = inked[:: max(1, len(inked) // _SAMPLES)]
                size = median(_size(raw, textpage, index) for index in sample)
                bold = all(_is_bold(raw, textpage, index) for index in sample)
                heights = (_origin(raw, textpage, index)[1] for index in (inked[0], inked[-1]))
                lines.append(Line(text, size, bold, *heights))
        return lines, alone


def _size(raw: Any, textpage: Any, index: int) -> float:
    matrix = raw.FS_MATRIX()
    scaled = raw.FPDFText_GetMatrix(textpage, index, matrix)
    stretch = (matrix.c**2 + matrix.d**2) ** 0.5 if scaled else 1.0
    return round(2 * stretch * float(raw.FPDFText_GetFontSize(textpage, index))) / 2


def _is_bold(raw: Any, textpage: Any, index: int) -> bool:
    if raw.FPDFText_GetFontWeight(textpage, index) >= _BOLD_WEIGHT:
        return True
    name = ctypes.create_string_buffer(128)
    raw.FPDFText_GetFontInfo(textpage, index, name, len(name), ctypes.c_int())
    return _BOLD_NAME.search(name.value.decode("utf-8", "replace")) is not None


def _origin(raw: Any, textpage: Any, index: int) -> tuple[float, float]:
    x, y = raw.c_double(), raw.c_double()
    raw.FPDFText_GetCharOrigin(textpage, index, x, y)
    return float(x.value), float(y.value)


def _with_whole_words(page: PageLines, words: WholeWords) -> PageLines:
    """Mend the words of a page that a hyphen or a large first letter breaks."""
    lines: PageLines = []
    for line in page:
        text = words.mend(line.text)
        initial = lines[-1] if lines else line
        is_large = len(initial.text) == 1 and initial.text.isupper() and initial.size >= _INITIAL * line.size > 0
        if is_large and text[0].isalpha() and text[0].upper() != initial.text:
            text = words.after_initial(lines.pop().text, text)
        lines.append(line if text == line.text else replace(line, text=text))
    return lines


# --- headings ----------------------------------------------------------------------------------------------------


def _from_bookmarks(pages: Sequence[PageLines], bookmarks: Sequence[Bookmark]) -> list[HeadingLines]:
    headings: dict[tuple[int, int], HeadingLines] = {}
    places = {page: _places(pages[page]) for page in {b.page for b in bookmarks} if page < len(pages)}
    for bookmark in bookmarks:
        # the lines that show the title, ignoring case, spaces and a number before it
        page, wanted = bookmark.page, _letters(bookmark.title)
        alike = places.get(page, {}).get(wanted.lstrip(_DIGITS), {}) if wanted else {}
        if lines := next((place for seen, place in alike.items() if seen.endswith(wanted)), None):
            headings.setdefault((page, lines[0]), HeadingLines(page, *lines, bookmark.level))
    if len(headings) < 2 or 2 * len(headings) < len(bookmarks):
        return []
    kept: list[HeadingLines] = []
    for heading in sorted(headings.values(), key=lambda h: (h.page, h.first)):
        # without overlaps
        if not kept or (kept[-1].page, kept[-1].last) < (heading.page, heading.first):
            kept.append(heading)
    return kept


# Maps a text's letters, first without its number and then with it, to the first and last of the lines that show it first.
TextPlaces = dict[str, dict[str, tuple[int, int]]]


def _places(lines: PageLines) -> TextPlaces:
    letters = [_letters(line.text) for line in lines]
    places: TextPlaces = {}
    for count in range(1, _MAX_HEADING_LINES + 1):
        for first in range(len(lines) - count + 1):
            seen = "".join(letters[first : first + count])
            places.setdefault(seen.lstrip(_DIGITS), {}).setdefault(seen, (first, first + count - 1))
    return places


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text.casefold()))


def _from_type(pages: Sequence[PageLines]) -> list[HeadingLines]:
    lines = [line for page in pages for line in page if line.size]
    weights: Counter[Type] = Counter()
    for line in lines:
        weights[line.type] += len(line.text)
    body = max(weights, key=lambda kind: (weights[kind], kind), default=(1.0, False))
    # lines, with masked digits, that are on several pages
    counts = Counter(text for page in pages for text in {_without_digits(line.text) for line in page})
    running = {text for text, count in counts.items() if count >= _RUNNING_HEAD_PAGES}
    blocks = [(number, first, last) for number, page in enumerate(pages) for first, last in _runs(page, body, running)]
    if len(lines) > 20 and 3 * len(blocks) > len(lines):
        # a form or a poster: type does not mark headings here
        return []
    types = sorted({pages[number][first].type for number, first, _ in blocks}, reverse=True)
    levels = {kind: level for level, kind in enumerate(types, start=1)}
    return [HeadingLines(n, first, last, levels[pages[n][first].type]) for n, first, last in blocks]


def _without_digits(text: str) -> str:
    return re.sub(r"\d+", "#", text)


def _runs(page: PageLines, body: Type, running: set[str]) -> Iterator[tuple[int, int]]:
    """Yield runs of neighbouring lines of one type that differ from the body and look like a heading."""
    body_size, body_bold = body
    for (size, bold), group in groupby(enumerate(page), lambda numbered: numbered[1].type):
        rows, lines = zip(*group, strict=True)
        stands_out = size >= _LARGER * body_size or (bold and not body_bold and size >= body_size)
        repeated = any(_without_digits(line.text) in running for line in lines)
        if stands_out and not repeated and _reads_like_heading(lines):
            yield rows[0], rows[-1]


def _reads_like_heading(lines: Sequence[Line]) -> bool:
    text = " ".join(line.text for line in lines)
    return (
        len(lines) <= _MAX_HEADING_LINES
        and len(text) <= _MAX_HEADING
        and sum(map(str.isalpha, text)) >= 2
        and (text[0].isalnum() or text[0] in "([\"'“‘«¿")
        and not text[0].islower()
        and text[-1] not in ".,;-"
    )


# --- text --------------------------------------------------------------------------------------------------------


def _write(pages: Sequence[PageLines], headings: Sequence[HeadingLines], properties: dict[str, str]) -> Parsed:
    builder = Builder()
    starts = {(heading.page, heading.first): heading for heading in headings}
    for number, page in enumerate(pages):
        builder.page()
        # the lower quartile of the steps down: pages of many short paragraphs have more gaps than lines in a row
        steps = sorted(upper.bottom - lower.top for upper, lower in pairwise(page))
        # columns and superscripts cause smaller steps
        steps = [step for step in steps if 0.5 * page[0].size < step < _BELOW / 2]
        gap = _PARAGRAPH_GAP * (steps[len(steps) // 4] if steps else 0.0)
        row = 0
        while row < len(page):
            if heading := starts.get((number, row)):
                end = heading.last + 1
                builder.heading(heading.level, " ".join(line.text for line in page[row:end]))
            else:
                end = row + 1
                while end < len(page) and (number, end) not in starts and page[end - 1].bottom - page[end].top <= gap:
                    end += 1
                builder.paragraph("\n".join(line.text for line in page[row:end]))
            row = end
    metadata = metadata_from((name, properties.get(name, "")) for name in _PROPERTIES)
    return builder.build(_title(real_title(properties.get("Title", "")), pages, headings), metadata)


def _title(declared: str, pages: Sequence[PageLines], headings: Sequence[HeadingLines]) -> str:
    """Return the first of these that exists:

    1. The declared title, if the first page shows it. Otherwise it is often the title of a template.
    2. The only heading of the first page with the highest level.
    3. The first heading of that page, unless it names a part, such as "Abstract" or "5.1 Results".
    4. The declared title.
    """
    shown = _letters("".join(line.text for line in pages[0]))
    if _letters(declared) and _letters(declared) in shown:
        return declared
    candidates = [heading for heading in headings if heading.page == 0]
    highest = [heading for heading in candidates if heading.level == min(h.level for h in candidates)]
    best = (highest if len(highest) == 1 else candidates)[:1]
    title = " ".join(line.text for heading in best for line in pages[0][heading.first : heading.last + 1])
    is_part = is_generic(title) or (len(candidates) > 1 and is_numbered(title))
    return declared if is_part else title or declared
