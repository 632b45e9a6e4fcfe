"""Citations from the marks of an answer: which sentence of which document each statement rests on.

A statement with the mark [n] cites the sentence of source n that comes closest to it. Where none is close, because the
statement uses other words, the whole source is cited. Whether the sources support it is another question (see `Claims`).
What a mark is, and what becomes of one that names nothing, stands in `marks`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache

from mergewise.generate.marks import MarkedText, marked_texts
from mergewise.generate.prompts import NOT_FOUND
from mergewise.generate.sources import DocumentLookup, Source
from mergewise.text.alignment import Aligner, sentences_at, words
from mergewise.text.keys import short_name
from mergewise.text.sections import headings_at, markdown_headings
from mergewise.text.sentences import split_long, split_sentences, strip_span
from mergewise.text.spans import has_lines, line_at
from mergewise.text.support.judge import Judge
from mergewise.text.support.names import quotations_in
from mergewise.text.support.sources import Extract, ReadSource
from mergewise.text.terms import content_terms
from mergewise.types import Citation, Context, Heading, Location, Span

# support from which a sentence is cited alone
_CLEAR = 0.25
# characters of a sentence that is judged as one: what has more is a list, a table or no sentence, and the time grows with its
# square
_LONGEST = 2000
_REFUSAL = words(NOT_FOUND)
_SHORT_REFUSAL = words("Nothing relevant was found")


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence of an answer without its marks, the sources that it cites, and whether they support it.

    `supported` is None where nothing can be judged: there are no sources, or the sentence says nothing.
    """

    text: str
    numbers: tuple[int, ...] = ()
    supported: bool | None = None


@dataclass(frozen=True, slots=True)
class Cited:
    """A text whose marks all name sources, its citations and sentences, and how many numbers no source has.

    `refuses` says that the text as a whole answers that nothing was found.
    """

    text: str
    citations: tuple[Citation, ...]
    removed: int
    statements: tuple[Statement, ...] = ()
    refuses: bool = False

    @property
    def unverified(self) -> tuple[str, ...]:
        """The sentences without support."""
        return tuple(statement.text for statement in self.statements if statement.supported is False)

    @property
    def unsupported(self) -> float | None:
        """Their share of the sentences that could be judged; None where there are none."""
        judged = sum(statement.supported is not None for statement in self.statements)
        return len(self.unverified) / judged if judged else None


def cite(text: str, sources: Sequence[Source], document: DocumentLookup) -> Cited:
    """Resolve the marks of an answer. Citations come in the order of the marks, each sentence of a source once."""
    by_number = {source.number: source for source in sources}
    pieces = marked_texts(text, by_number.keys())
    locator = Locator(document)
    aligners = cache(lambda n: Aligner([s for span, part in by_number[n].parts for s in sentences_at(part, span)]))
    claims = Claims(sources)
    statements = _statements(pieces, claims)
    citations: dict[tuple[int, Span], Citation] = {}
    for statement in statements:
        for number in statement.numbers:
            for span, sentence in _support(statement.text, by_number[number], aligners(number)):
                citations.setdefault((number, span), locator.citation(number, sentence, span))
    kept = "".join(piece.text for piece in pieces)
    removed = sum(piece.removed for piece in pieces)
    return Cited(kept, tuple(citations.values()), removed, tuple(statements), _refuses(statements, claims))


def _refuses(statements: Sequence[Statement], claims: Claims) -> bool:
    """Whether a sentence begins with the refusal, in any case, and nothing beside it answers.

    A model is told to say `NOT_FOUND` and nothing else. It may add an apology to it, or go on and answer all the same. Beside it
    answers what cites a source that has to do with it, and a sentence of its own that the sources support.
    """
    refused = False
    for statement in statements:
        spoken = words(statement.text)
        begins = spoken[: len(_REFUSAL)] == _REFUSAL or spoken == _SHORT_REFUSAL
        refused = refused or begins
        rest = " ".join(spoken[len(_REFUSAL) :]) if begins else statement.text
        if (statement.numbers and claims.is_related(rest, statement.numbers)) or (not begins and statement.supported):
            return False
    return refused


def _statements(pieces: Sequence[MarkedText], claims: Claims) -> list[Statement]:
    """The sentences; a mark belongs to the one that it stands in or after. Marks without any sentence are one that is empty."""
    plain = "".join(piece.text for piece in pieces if not piece.numbers)
    whole = split_sentences(plain) or [(0, 0)]
    sentences = [part for start, end in whole for part in split_long(plain, start, end, _LONGEST, len)]
    starts = [start for start, _ in sentences]
    cited: list[dict[int, None]] = [{} for _ in sentences]
    offset = 0
    for piece in pieces:
        if piece.numbers:
            cited[max(0, bisect_left(starts, offset) - 1)] |= dict.fromkeys(piece.numbers)
        else:
            offset += len(piece.text)
    quoted = list(quotations_in(plain))
    begins, ends = [start for start, _, _ in quoted], [end for _, end, _ in quoted]

    def quotations_within(start: int, end: int) -> list[str]:
        """Those of which a part stands between these offsets."""
        return [text for _, _, text in quoted[bisect_right(ends, start) : bisect_left(begins, end)]]

    return [
        Statement(
            plain[start:end],
            tuple(numbers),
            claims.is_supported(plain[start:end], numbers, quotations_within(start, end)),
        )
        for (start, end), numbers in zip(sentences, cited, strict=True)
        if start < end or numbers
    ]


class Claims:
    """Holds statements to the sources whose numbers they cite, or to all of them where they cite none."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._sources = {source.number: source for source in sources}
        self._judge: Judge[int] = Judge(self._read)

    def is_supported(
        self, statement: str, numbers: Collection[int], quotations: Sequence[str] | None = None
    ) -> bool | None:
        """Whether the sources support the statement, and hold the quotations; None where there is nothing to judge.

        The quotations are those in the statement, unless they are given.
        """
        if not self._sources or not content_terms(statement):
            return None
        return bool(self._judge.judge(statement, self._numbers_or_all(numbers), quotations).support)

    def is_related(self, text: str, numbers: Collection[int]) -> bool:
        """Whether the sources hold two content words of the text, or half of them."""
        return self._judge.is_related(text, self._numbers_or_all(numbers))

    def _numbers_or_all(self, numbers: Collection[int]) -> list[int]:
        return list(numbers or self._sources)

    def _read(self, number: int) -> ReadSource:
        source = self._sources[number]
        return ReadSource.of([Extract(text, 0, len(text)) for _, text in source.parts], source.path)


class Locator:
    """Says where spans stand in their documents. Each document is read once."""

    def __init__(self, document: DocumentLookup) -> None:
        self._document = cache(document)
        self.outline = cache(self._find_outline)

    def _find_outline(self, doc_id: str) -> tuple[Heading, ...]:
        document = self._document(doc_id)
        if document is None:
            return ()
        return markdown_headings(document.text) if document.outline is None else document.outline

    def citation(self, number: int, text: str, span: Span) -> Citation:
        """The citation of the text that stands at the span, without the white space at its ends."""
        text, span = _visible(text, span)
        document = self._document(span.doc_id)
        title = short_name(document.title) if document else ""
        return Citation(number, text, span, title, self._headings(span), self._page(span), self._line(span))

    def location(self, span: Span) -> Location:
        document = self._document(span.doc_id)
        url = None if document is None else document.metadata.get("url")
        known = url if isinstance(url, str) and url.startswith(("http://", "https://")) else None
        return Location(self._page(span), self._line(span), known)

    def _headings(self, span: Span) -> tuple[str, ...]:
        """The headings above the span itself: those of its passage may differ, since it may be merged from several sections."""
        document, path = self._document(span.doc_id), headings_at(self.outline(span.doc_id), span.start)
        repeats = path and document is not None and path[0].strip() == short_name(document.title).strip()
        return path[1:] if repeats else path

    def _page(self, span: Span) -> int | None:
        document = self._document(span.doc_id)
        pages = document.pages if document else ()
        return next((page.number for page in pages if page.start <= span.start < page.end), None)

    def _line(self, span: Span) -> int | None:
        document = self._document(span.doc_id)
        lined = document is not None and not document.pages and has_lines(document.id)
        return line_at(document.text, span.start) if document is not None and lined else None


def locations(context: Context, document: DocumentLookup) -> dict[Span, Location]:
    """Where the spans of the passages stand. What a document does not say, or one that is not at hand, is None."""
    locator = Locator(document)
    spans = dict.fromkeys(span for passage in context.passages for span in passage.spans)
    return {span: locator.location(span) for span in spans}


def _visible(text: str, span: Span) -> tuple[str, Span]:
    """The text without white space at its ends, and its span; blank text is left as it is."""
    start, end = strip_span(text, 0, len(text))
    return (text[start:end], Span(span.doc_id, span.start + start, span.start + end)) if start < end else (text, span)


def _support(statement: str, source: Source, aligner: Aligner) -> list[tuple[Span, str]]:
    """The sentences that the statement rests on."""
    alignment = aligner.align(statement)
    if alignment.support < _CLEAR or not alignment.sources:
        return [(span, text) for span, text in source.parts if text.strip()]
    return [(sentence.span, sentence.text) for sentence in alignment.sources]
