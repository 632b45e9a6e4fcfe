"""Citations from the marks of an answer: which sentence of which document each statement rests on.

A mark is what an answer prints: [3], or [1, 2]. It holds the numbers of sources. A statement with the mark [n] cites the
sentence of source n that supports it best. Where none supports it clearly, because the statement uses other words, the whole
source is cited. A number that no source has is taken out of the answer and counted. Brackets in code are left alone, and so
are years: `x[0]` and [1984] are no marks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from mergewise.generate.sources import DocumentLookup, Source
from mergewise.text.alignment import Aligner, sentences_at
from mergewise.text.lines import has_lines, line_at
from mergewise.text.sections import headings_at, markdown_headings
from mergewise.text.sentences import split_sentences
from mergewise.types import Citation, Heading, Span

# [3] and [1, 2], with the white space before it, which goes when the mark goes
_MARK = re.compile(r"(?P<space>[ \t]*)\[(?P<numbers>\d{1,3}(?:\s*[,;]\s*\d{1,3})*)\]")
_CLEAR = 0.25  # support from which a sentence is cited alone
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)
_OPEN_MARK = re.compile(r"[ \t]*(?:\[[\d,; \t]{0,40})?\Z")


@dataclass(frozen=True, slots=True)
class Cited:
    """A text whose marks all name sources, its citations, and how many numbers were removed because no source has them."""

    text: str
    citations: tuple[Citation, ...]
    removed: int


def cite(text: str, sources: Sequence[Source], document: DocumentLookup) -> Cited:
    """Resolve the marks of an answer. Citations come in the order of the marks, each sentence of a source once."""
    known = {source.number: source for source in sources}
    kept, removed = without_unknown(text, known.keys())
    locator = Locator(document)
    aligners = cache(lambda n: Aligner([s for span, part in known[n].parts for s in sentences_at(part, span)]))
    citations: dict[tuple[int, Span], Citation] = {}
    for statement, numbers in _statements(kept):
        for number in numbers:
            for span, sentence in _support(statement, known[number], aligners(number)):
                citations.setdefault((number, span), locator.citation(number, sentence, span))
    return Cited(kept, tuple(citations.values()), removed)


def without_unknown(text: str, known: Collection[int]) -> tuple[str, int]:
    """The text without the numbers in its marks that are not `known`, and how many these were."""
    kept: list[str] = []
    position = removed = 0
    for match in _marks(text):
        numbers = _numbers(match)
        named = [n for n in numbers if n in known]
        removed += len(numbers) - len(named)
        kept.append(text[position : match.start()])
        kept.append((match["space"] if named else "") + "".join(f"[{n}]" for n in named))
        position = match.end()
    return "".join(kept) + text[position:], removed


class MarkFilter:
    """`without_unknown` for a text that arrives in pieces: the end of the text is held back while it may become a mark."""

    def __init__(self, known: Collection[int], show: Callable[[str], None]) -> None:
        self._known = known
        self._show = show
        self._arrived = ""
        self._shown = 0

    def add(self, piece: str) -> None:
        self._arrived += piece
        self._show_upto(_settled(self._arrived))

    def end(self) -> None:
        self._show_upto(len(self._arrived))

    def _show_upto(self, end: int) -> None:
        cleaned = without_unknown(self._arrived[:end], self._known)[0].lstrip()
        if len(cleaned) > self._shown:
            self._show(cleaned[self._shown :])
            self._shown = len(cleaned)


def _settled(text: str) -> int:
    """The offset up to which a text can be shown, whatever follows: a mark or code may still be open at its end."""
    line = text.rfind("\n") + 1
    if _CODE.sub("", text[line:]).count("`"):
        return line + text[line:].index("`")
    open_mark = _OPEN_MARK.search(text)
    return open_mark.start() if open_mark else len(text)


class Locator:
    """Says where spans stand in their documents. Each document is read once."""

    def __init__(self, document: DocumentLookup) -> None:
        self._document = cache(document)
        self._outline = cache(self._find_outline)

    def _find_outline(self, doc_id: str) -> tuple[Heading, ...]:
        document = self._document(doc_id)
        if document is None:
            return ()
        return markdown_headings(document.text) if document.outline is None else document.outline

    def is_heading(self, span: Span) -> bool:
        """Whether the span lies in a heading, which names what is said below it and says nothing itself."""
        return any(heading.start <= span.start and span.end <= heading.end for heading in self._outline(span.doc_id))

    def citation(self, number: int, text: str, span: Span) -> Citation:
        document = self._document(span.doc_id)
        title = document.title if document else ""
        return Citation(number, text, span, title, self._headings(span), self._page(span), self._line(span))

    def _headings(self, span: Span) -> tuple[str, ...]:
        """The headings above the span itself: those of its passage may differ, since it may be merged from several sections."""
        document, path = self._document(span.doc_id), headings_at(self._outline(span.doc_id), span.start)
        repeats = path and document is not None and path[0].strip() == document.title.strip()
        return path[1:] if repeats else path

    def _page(self, span: Span) -> int | None:
        document = self._document(span.doc_id)
        pages = document.pages if document else ()
        return next((page.number for page in pages if page.start <= span.start < page.end), None)

    def _line(self, span: Span) -> int | None:
        document = self._document(span.doc_id)
        lined = document is not None and not document.pages and has_lines(document.id)
        return line_at(document.text, span.start) if document is not None and lined else None


def _marks(text: str) -> list[re.Match[str]]:
    code = [match.span() for match in _CODE.finditer(text)]
    return [m for m in _MARK.finditer(text) if not any(start < m.end() and m.start() < end for start, end in code)]


def _numbers(mark: re.Match[str]) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", mark["numbers"])]


def _statements(text: str) -> Iterator[tuple[str, list[int]]]:
    """For each mark, the sentence that it stands in or after, and its numbers."""
    plain, position = "", 0
    marks: list[tuple[int, list[int]]] = []  # the offset of each in `plain`, and its numbers
    for match in _marks(text):
        plain += text[position : match.start()]
        marks.append((len(plain), _numbers(match)))
        position = match.end()
    plain += text[position:]
    sentences = split_sentences(plain)
    for offset, numbers in marks:
        before = [plain[start:end] for start, end in sentences if start < offset]
        yield (before or [plain])[-1], numbers


def _support(statement: str, source: Source, aligner: Aligner) -> list[tuple[Span, str]]:
    """The sentences that the statement rests on."""
    alignment = aligner.align(statement)
    if alignment.support < _CLEAR:
        return list(source.parts)
    return [(sentence.span, sentence.text) for sentence in alignment.sources]
