"""What a question gets: hits, passages, the context and the answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any, ClassVar, Protocol, TypeAlias

from mergewise.types.chat import Message, Usage
from mergewise.types.documents import Leaf, Span, short_line
from mergewise.types.trace import Step


@dataclass(frozen=True, slots=True)
class Hit:
    """A row that a search returned. `score` lies in [0, 1] and is comparable within one question only."""

    row: Leaf
    score: float
    bm25: float | None = None
    cosine: float | None = None


GAP = " …\n"
"""Stands between the parts of a passage that do not touch in the document."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of a context. Verbatim: `text` is the text of `spans`, in order, joined by `GAP`.

    `score` ranks the passages of one context; their places do not, where it is in document order. `weave` gives the probability,
    in [0, 1], that the passage is needed. Other strategies have scores of their own, which may be above 1.
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
        """The spans of a verbatim passage, each with its text."""
        starts = accumulate((len(span) + len(GAP) for span in self.spans), initial=0)
        return [(span, self.text[at : at + len(span)]) for span, at in zip(self.spans, starts, strict=False)]


@dataclass(frozen=True, slots=True)
class Evidence:
    """A sentence of a context, and how far it answers the question, as weave judges its candidates.

    `needed` are the spans that have to be read with it, itself included, in the order of the text.
    """

    span: Span
    text: str
    needed: tuple[Span, ...]
    relevance: float  # the probability that the sentence is needed, in [0, 1]
    cosine: float | None  # of its vector with the question's; None without an embedder
    terms: float  # share of the question's terms that it holds, by their weights
    path_terms: float  # the same with the terms of its headings
    document_terms: float = 1.0  # the same with the terms of its document, as far as weave read it, and of `led_by`
    led_by: Span | None = None  # the sentence with the name that led here over a hop
    reranked: float | None = None  # log-odds that a reranker added; None where none was asked about it


class Reading(Protocol):
    """How the passages of a context want to be read, where not as one text: what a strategy tells the modes of its design."""

    def after_merge(self, merged: Context, parts: Sequence[Context]) -> Reading:
        """The same for the context that these were merged into. Some of `parts` may have no reading, or another one."""
        ...


class AnswerStreams(Protocol):
    """What the streams of an answer were weighed by, where a design decoded several of them together."""

    @property
    def weights(self) -> Mapping[str, float]:
        """By the names of the streams."""
        ...

    def as_dict(self) -> dict[str, object]: ...

    def lines(self, *, by_token: bool) -> list[list[tuple[str, str]]]:
        """For people: lines of pieces, each with the name of the stream that it came from, or an empty one.

        The answer itself stands among them, token by token or by runs of tokens of one stream.
        """
        ...


class Pictured:
    """What a notebook draws. `draw` makes HTML of it; the package sets it, since what draws stands above the records."""

    __slots__ = ()

    draw: ClassVar[Callable[[Any], str] | None] = None

    def _repr_html_(self) -> str | None:
        return None if Pictured.draw is None else Pictured.draw(self)


@dataclass(frozen=True, slots=True)
class Context(Pictured):
    """What a strategy assembled for a question: `text` goes to the model and holds `tokens <= budget` tokens.

    `usage` is what the assembly itself cost, where a model took part in it. `evidence` are the sentences that weave took, those
    that are needed most likely first; None where another strategy made the context. `reading` is set by a strategy whose
    passages are to be read otherwise than as one text. `snapshot` is the state of the index that it was assembled from, as
    `Index.snapshot` says it; empty where it came from no index.
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

    def merged_from(self, parts: Sequence[Context]) -> Context:
        """This context, to be read as the first of the contexts that it was merged from and that has a `reading`."""
        first = next((part.reading for part in parts if part.reading is not None), None)
        return self if first is None else replace(self, reading=first.after_merge(self, parts))

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        size = f"{len(self.passages)} passages, {self.tokens} of {self.budget} tokens"
        return f"Context({short_line(self.question)}, {self.strategy}, {size})"


@dataclass(frozen=True, slots=True)
class Location:
    """Where a span stands for a reader: page and line as in `Citation`, and the address that its document's metadata name."""

    page: int | None = None
    line: int | None = None
    url: str | None = None


@dataclass(frozen=True, slots=True)
class Citation:
    """Where a quoted sentence stands. `number` is the one printed in the answer, `page` is None without pages.

    `line` counts from 1 in the source file; None where the text is not the file's own, as in a PDF.
    """

    number: int
    text: str
    span: Span
    title: str
    headings: tuple[str, ...] = ()
    page: int | None = None
    line: int | None = None

    def __repr__(self) -> str:
        return (
            f"Citation([{self.number}] {short_line(self.text)}, {self.span.doc_id}:{self.span.start}-{self.span.end})"
        )


@dataclass(frozen=True, slots=True)
class Answer(Pictured):
    """An answer with its evidence. Where `sure` is False, the answer is likely among the quotations. Where `found` is False,
    it is probably not in the documents: `text` says so, and the citations, if any, are the nearest places.

    `mode` is how it was made: "extractive" without a chat model. `usage` includes the assembly of the context.
    `removed_marks` counts the numbers that a model cited and that no source has. `unverified` are the sentences of a model's
    answer that the sources they cite do not support, by their words, and `unsupported` is their share of its sentences; None
    where no model wrote, or there are no sources to hold it to. `unsupported_extract` is the same share of the sentences that a
    model extracted on the way; None where nothing was extracted.
    """

    question: str
    text: str
    citations: tuple[Citation, ...]
    context: Context
    usage: Usage = field(default_factory=Usage)
    found: bool = True
    mode: str = "extractive"
    complete: bool = True  # False where the model stopped at its limit of tokens
    removed_marks: int = 0
    unsupported: float | None = None
    sure: bool = True
    trace: tuple[Step, ...] = ()  # what was filtered, extracted and left out on the way from the context to the answer
    unverified: tuple[str, ...] = ()
    unsupported_extract: float | None = None
    streams: AnswerStreams | None = None  # where several streams were decoded together
    instead_of: str = ""  # the mode that the strategy prefers, where its model was not at hand

    def instead_of_mode(self, preferred: str) -> Answer:
        """This answer, with the mode that the strategy prefers where another one answered."""
        return self if preferred in ("", self.mode) else replace(self, instead_of=preferred)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        found = f"{len(self.citations)} citations" if self.found else "nothing found"
        return f"Answer({short_line(self.text)}, {found}, {self.mode})"


Turn: TypeAlias = Answer | Message | tuple[str, str]
"""What was said before: an answer with its question, one message, or a question and its answer as texts."""
