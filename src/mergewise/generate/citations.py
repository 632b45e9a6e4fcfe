"""Citations from the marks of an answer: the sentences of documents behind each statement.

A statement with the mark [n] cites the closest sentence of source n. If no sentence is close, because the statement uses other
words, it cites the whole source. `Claims` checks separately that the sources support a statement. See `marks` for the syntax of
marks, and for marks without a source.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Sequence
from functools import cache
from typing import NamedTuple

from mergewise.generate.marks import MarkedText, marked_texts
from mergewise.generate.prompts import NOT_FOUND
from mergewise.generate.sources import DocumentLookup, Source
from mergewise.text.alignment import Aligner, sentences_at, words
from mergewise.text.sections import headings_at, outline_of, short_name
from mergewise.text.sentences import split_long, split_sentences, strip_span
from mergewise.text.spans import has_lines, line_at, spans_of
from mergewise.text.support.judge import Judge
from mergewise.text.support.names import quotations_in
from mergewise.text.support.sources import Extract, ReadSource
from mergewise.text.terms import content_terms
from mergewise.types import Citation, Context, Heading, Location, Span

# minimum support to cite a single sentence instead of the whole source
_CLEAR = 0.25
# maximum characters of a sentence to judge: longer ones are lists or tables, and the time grows with the square of the length
_LONGEST = 2000
_REFUSAL = words(NOT_FOUND)
_SHORT_REFUSAL = words("Nothing relevant was found")


class Statement(NamedTuple):
    """A sentence of an answer without its marks, the numbers of the sources that it cites, and their support.

    `supported` is None if support cannot be judged: without sources, or for a sentence without content words.
    """

    text: str
    numbers: tuple[int, ...] = ()
    supported: bool | None = None


class Cited(NamedTuple):
    """An answer text with valid marks only, its citations and sentences.

    `removed` is the number of marks without a source. `refuses` is True if the answer as a whole is that nothing was found.
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
        """Share of sentences without support among the judged ones, or None if none were judged."""
        judged = sum(statement.supported is not None for statement in self.statements)
        return len(self.unverified) / judged if judged else None


def cite(text: str, sources: Sequence[Source], document: DocumentLookup, context: Context | None = None) -> Cited:
    """Resolve the marks of an answer. Citations follow the order of the marks, and each sentence of a source appears once."""
    by_number = {source.number: source for source in sources}
    pieces = marked_texts(text, by_number.keys(), texts_of(sources))
    locator = Locator(document, context)
    aligners = cache(lambda n: Aligner([s for span, part in by_number[n].parts for s in sentences_at(part, span)]))
    claims = Claims(sources)
    statements = _statements(pieces, claims)
    citations: dict[tuple[int, Span], Citation] = {}
    for statement in statements:
        for number in statement.numbers:
            alignment = aligners(number).align(statement.text)
            # The sentences that support the statement, or the whole source.
            found = [(sentence.span, sentence.text) for sentence in alignment.sources]
            if alignment.support < _CLEAR or not found:
                found = [(span, text) for span, text in by_number[number].parts if text.strip()]
            for span, sentence in found:
                citations.setdefault((number, span), locator.citation(number, sentence, span))
    kept = "".join(piece.text for piece in pieces)
    removed = sum(piece.removed for piece in pieces)
    return Cited(kept, tuple(citations.values()), removed, tuple(statements), _refuses(statements, claims))


def texts_of(sources: Sequence[Source]) -> list[str]:
    """Return the texts of the sources."""
    return [part for source in sources for _, part in source.parts]


def _refuses(statements: Sequence[Statement], claims: Claims) -> bool:
    """Check that a sentence begins with the refusal, ignoring case, and that no other part of the answer counts as one.

    The prompt asks a model to say only `NOT_FOUND`, but the model may add an apology, or continue and answer anyway. Another
    part counts as an answer if it cites a related source, or if it is a separate sentence that the sources support.
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
    """Split into statements. A mark belongs to the sentence that contains or precedes it, or to an empty statement."""
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
    statements = []
    for (start, end), numbers in zip(sentences, cited, strict=True):
        if start < end or numbers:
            overlapping = [text for _, _, text in quoted[bisect_right(ends, start) : bisect_left(begins, end)]]
            supported = claims.is_supported(plain[start:end], numbers, overlapping)
            statements.append(Statement(plain[start:end], tuple(numbers), supported))
    return statements


class Claims:
    """Judge of statements. It reads the sources that a statement cites, or all sources if it cites none."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._sources = {source.number: source for source in sources}

        def read(number: int) -> ReadSource:
            source = self._sources[number]
            return ReadSource.of([Extract(text, 0, len(text)) for _, text in source.parts], source.path)

        self._judge: Judge = Judge(read)

    def is_supported(
        self, statement: str, numbers: Collection[int], quotations: Sequence[str] | None = None
    ) -> bool | None:
        """Check that the sources support the statement and contain its quotations.

        Args:
            statement: The statement to judge.
            numbers: Numbers of the sources; all sources if empty.
            quotations: Quotations to look for; by default those in the statement.

        Returns:
            None without sources or without content words in the statement.
        """
        if not self._sources or not content_terms(statement):
            return None
        return bool(self._judge.judge(statement, list(numbers or self._sources), quotations).support)

    def is_related(self, text: str, numbers: Collection[int]) -> bool:
        """Check that the sources contain two content words of the text, or half of its content words."""
        return self._judge.is_related(text, list(numbers or self._sources))


class Locator:
    """Locator of spans in their documents. It reads each document once. The `context` knows the kinds of its sentences."""

    def __init__(self, document: DocumentLookup, context: Context | None = None) -> None:
        self._document = cache(document)
        self._context = context

        @cache
        def outline(doc_id: str) -> tuple[Heading, ...]:
            document = self._document(doc_id)
            if document is None:
                return ()
            return outline_of(document)

        self.outline = outline

    def citation(self, number: int, text: str, span: Span) -> Citation:
        """Make the citation of the text at the span, without white space at its ends."""
        # Strip the text and its span. Blank text is unchanged.
        start, end = strip_span(text, 0, len(text))
        if start < end:
            text, span = text[start:end], Span(span.doc_id, span.start + start, span.start + end)
        document = self._document(span.doc_id)
        title = short_name(document.title) if document else ""
        # The passage may have other headings, if it was merged from several sections.
        path = headings_at(self.outline(span.doc_id), span.start)
        if path and document is not None and path[0].strip() == title.strip():
            path = path[1:]
        kind = None if self._context is None else self._context.kind_of(span)
        commit = None if document is None else document.metadata.get("commit")
        at = commit if isinstance(commit, str) else None
        return Citation(number, text, span, title, path, self._page(span), self._line(span), kind, commit=at)

    def location(self, span: Span) -> Location:
        document = self._document(span.doc_id)
        url = None if document is None else document.metadata.get("url")
        known = url if isinstance(url, str) and url.startswith(("http://", "https://")) else None
        return Location(self._page(span), self._line(span), known)

    def _page(self, span: Span) -> int | None:
        document = self._document(span.doc_id)
        pages = document.pages if document else ()
        return next((page.number for page in pages if page.start <= span.start < page.end), None)

    def _line(self, span: Span) -> int | None:
        document = self._document(span.doc_id)
        lined = document is not None and not document.pages and has_lines(document.id)
        return line_at(document.text, span.start) if document is not None and lined else None


def locations(context: Context, document: DocumentLookup) -> dict[Span, Location]:
    """Locate the spans of the passages. Fields that a document does not have, or of a missing document, are None."""
    locator = Locator(document)
    spans = dict.fromkeys(spans_of(context))
    return {span: locator.location(span) for span in spans}
