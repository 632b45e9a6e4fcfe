"""Records of a question: hits, passages, the context and the answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from itertools import accumulate
from typing import Any, ClassVar, Protocol, TypeAlias, TypeVar

from mergewise.types.chat import Message, Usage
from mergewise.types.documents import Kind, Leaf, Part, Span, short_line
from mergewise.types.records import frozen
from mergewise.types.trace import Step


@frozen
class Hit:
    """A row that a search returned. `score` lies in [0, 1] and is comparable within one question only."""

    row: Leaf
    score: float
    bm25: float | None = None
    cosine: float | None = None


GAP = " …\n"
"""Separator of the parts of a passage that do not touch in the document."""


class Scored(Protocol):
    """A record with a score."""

    @property
    def score(self) -> float: ...


ScoredRecord = TypeVar("ScoredRecord", bound=Scored)


def best_first(records: Iterable[ScoredRecord]) -> list[ScoredRecord]:
    """Sort records by falling scores. Records of equal scores keep their order."""
    return sorted(records, key=lambda record: -record.score)


@frozen
class Passage:
    """A piece of a context.

    Attributes:
        text: Text of the passage. If it is verbatim, the text of `spans` in order, joined by `GAP`.
        score: Rank of the passage within its context. `weave` gives the probability in [0, 1] that the passage is needed. Scores
            of other strategies may be above 1.
        spans: Sources of the text in their documents.
        verbatim: False for text that a model wrote.
        title: Title of the document.
        headings: Headings above the passage, outermost first.
    """

    text: str
    score: float
    spans: tuple[Span, ...]
    verbatim: bool = True
    title: str = ""
    headings: tuple[str, ...] = ()

    def __repr__(self) -> str:
        places = ", ".join(f"{span.doc_id}:{span.start}-{span.end}" for span in self.spans[:1])
        more = f" and {len(self.spans) - 1} more" if len(self.spans) > 1 else ""
        return f"Passage({short_line(self.text)}, {places}{more}, score={self.score:.3g})"

    def parts(self) -> list[tuple[Span, str]]:
        """Return the spans of a verbatim passage, each with its text."""
        starts = accumulate((len(span) + len(GAP) for span in self.spans), initial=0)
        return [(span, self.text[at : at + len(span)]) for span, at in zip(self.spans, starts, strict=False)]


@frozen
class Evidence:
    """A sentence of a context with weave's judgement of it.

    Attributes:
        span: Place of the sentence.
        text: Text of the sentence.
        needed: Spans that must be read with it, itself included, in document order.
        relevance: Probability in [0, 1] that the sentence is needed.
        cosine: Cosine of its vector and the question's, or None without an embedder.
        terms: Weighted share of the question's terms in the sentence.
        path_terms: The same with the terms of its headings.
        document_terms: The same with the terms of its document as far as weave read it, and of `led_by`.
        led_by: Sentence with the name that led here over a hop.
        reranked: Log-odds added by a reranker, or None without one.
        kind: What the sentence is, such as "prose" or "row", or None in an older index.
        exact: Share of the question's exact names (versions, clauses) in it, its headings or the line above that begins with one.
    """

    span: Span
    text: str
    needed: tuple[Span, ...]
    relevance: float
    cosine: float | None
    terms: float
    path_terms: float
    document_terms: float = 1.0
    led_by: Span | None = None
    reranked: float | None = None
    kind: Kind | None = None
    exact: float = 0.0


class Reading(Protocol):
    """Message of a strategy to the modes of its design: how to read the passages of a context other than as one text."""

    def after_merge(self, merged: Context, parts: Sequence[Context]) -> Reading:
        """Return the reading of the context that `parts` were merged into. Some parts may have another reading or none."""


class AnswerStreams(Protocol):
    """Weights of an answer's streams (AED-RAG decoding only)."""

    @property
    def weights(self) -> Mapping[str, float]:
        """Weights by the names of the streams."""

    def as_dict(self) -> dict[str, object]: ...

    def lines(self, *, by_token: bool) -> list[list[tuple[str, str]]]:
        """Describe the streams for people, as lines of pieces. Each piece has the name of its stream, or an empty one.

        The lines include the answer, token by token or by runs of tokens of one stream.
        """


class Pictured:
    """A record that notebooks show as HTML. The package sets `draw`, because the renderer imports the records."""

    __slots__ = ()

    draw: ClassVar[Callable[[Any], str] | None] = None

    def _repr_html_(self) -> str | None:
        return None if Pictured.draw is None else Pictured.draw(self)


LIKELY_COMPLETE = 0.6
"""Minimum of `Context.complete` for a context without the remark that there may be more."""


@frozen
class Context(Pictured):
    """The context that a strategy assembled for a question.

    Attributes:
        question: Question that was searched for.
        strategy: Name of the strategy.
        budget: Maximum tokens.
        text: Text for the model, with headings and marks.
        tokens: Tokens of `text`, at most `budget`.
        passages: Passages of the text.
        trace: Steps that led to the context.
        usage: Calls and tokens of models that took part.
        evidence: Sentences that weave selected, most likely needed first. None for other strategies.
        reading: Message to the modes of the strategy's design.
        snapshot: State of the index, as `Index.snapshot`. Empty without an index.
        complete: Probability in [0, 1] that the context holds all evidence that the documents have for the question. None unless
            weave assembled it in one round.
    """

    question: str
    strategy: str
    budget: int
    text: str
    tokens: int
    passages: tuple[Passage, ...]
    trace: tuple[Step, ...] = ()
    usage: Usage = field(default_factory=Usage)
    evidence: tuple[Evidence, ...] | None = field(default=None, repr=False, compare=False)
    reading: Reading | None = field(default=None, repr=False, compare=False)
    snapshot: str = field(default="", repr=False, compare=False)
    complete: float | None = field(default=None, repr=False, compare=False)

    @property
    def may_lack(self) -> bool:
        """True if the context has passages, and probably lacks evidence: `complete` is below `LIKELY_COMPLETE`."""
        return bool(self.passages) and self.complete is not None and self.complete < LIKELY_COMPLETE

    def kind_of(self, span: Span) -> Kind | None:
        """Return the kind of the most relevant sentence of `evidence` that overlaps the span, or None without one."""
        return next((one.kind for one in self.evidence or () if one.span.overlaps(span)), None)

    def merged_from(self, parts: Sequence[Context]) -> Context:
        """Return this context with the reading of the first of `parts` that has one."""
        first = next((part.reading for part in parts if part.reading is not None), None)
        return self if first is None else replace(self, reading=first.after_merge(self, parts))

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        size = f"{len(self.passages)} passages, {self.tokens} of {self.budget} tokens"
        return f"Context({short_line(self.question)}, {self.strategy}, {size})"


@frozen
class Location:
    """Place of a span for readers: page and line as in `Citation`, and the address in its document's metadata."""

    page: int | None = None
    line: int | None = None
    url: str | None = None


@frozen
class Citation:
    """The source of a statement in an answer.

    Attributes:
        number: Number of its mark in the answer.
        text: Quoted text.
        span: Place of the text.
        title: Title of the document.
        headings: Headings above the text, outermost first.
        page: Page, from 1, or None without pages.
        line: Line in the source file, from 1, or None for formats without lines, such as PDF.
        kind: What the text is, such as "prose" or "row", or None if the context has no evidence that tells it.
        quoted: Start and end of the quotation in the text of an answer that quotes it, else None.
        commit: Commit at which the document was read, or None for documents that are not from a Git repository.
    """

    number: int
    text: str
    span: Span
    title: str
    headings: tuple[str, ...] = ()
    page: int | None = None
    line: int | None = None
    kind: Kind | None = None
    quoted: Part | None = None
    commit: str | None = None

    def __repr__(self) -> str:
        return (
            f"Citation([{self.number}] {short_line(self.text)}, {self.span.doc_id}:{self.span.start}-{self.span.end})"
        )


@frozen
class Answer(Pictured):
    """An answer with its citations.

    Attributes:
        question: Question as it was asked.
        text: Text of the answer, with marks.
        citations: Sources by mark. If nothing was found, the nearest places.
        context: Context that the answer is based on.
        usage: Calls and tokens of models, including the context's.
        found: False if the answer is probably not in the documents. `text` then says so.
        mode: Mode that made the answer, "extractive" without a chat model.
        complete: False if the model reached its limit of tokens.
        removed_marks: Number of marks that were removed because no source has their number.
        unsupported: Share of sentences that their sources do not support, or None without a model or without sources.
        sure: False if the answer is likely, but not surely, among the quotations, or if a sentence is unsupported.
        trace: Steps from the context to the answer.
        unverified: The unsupported sentences.
        unsupported_extract: Share of unsupported sentences in a model's extract, or None without one.
        streams: Weights of the streams that were decoded together.
        instead_of: Mode that the strategy prefers, if its model is missing.
    """

    question: str
    text: str
    citations: tuple[Citation, ...]
    context: Context
    usage: Usage = field(default_factory=Usage)
    found: bool = True
    mode: str = "extractive"
    complete: bool = True
    removed_marks: int = 0
    unsupported: float | None = None
    sure: bool = True
    trace: tuple[Step, ...] = ()
    unverified: tuple[str, ...] = ()
    unsupported_extract: float | None = None
    streams: AnswerStreams | None = None
    instead_of: str = ""

    def __post_init__(self) -> None:
        if self.unsupported:
            object.__setattr__(self, "sure", False)

    def instead_of_mode(self, preferred: str) -> Answer:
        """Return this answer with the mode that the strategy prefers, if another mode answered."""
        return self if preferred in ("", self.mode) else replace(self, instead_of=preferred)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        found = f"{len(self.citations)} citations" if self.found else "nothing found"
        return f"Answer({short_line(self.text)}, {found}, {self.mode})"


Turn: TypeAlias = Answer | Message | tuple[str, str]
"""A turn of a conversation: an answer with its question, a message, or a question and its answer as texts."""
