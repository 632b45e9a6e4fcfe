"""What passes between the rooms: frozen records. Those that stand for text point into `Document.text` by character offsets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from itertools import accumulate
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

MetadataValue: TypeAlias = str | int | float | bool
Metadata: TypeAlias = Mapping[str, MetadataValue]


class FileMetadata(dict[str, MetadataValue]):
    """Metadata that a reader found in a file. What does not fit an index is left out of it, where a caller's is refused."""


RowId: TypeAlias = Annotated[int, "row"]
"""The number of a row in the record's own view. A builder counts from 0 in each document; a store moves the numbers."""
LeafId: TypeAlias = Annotated[int, "leaf"]
"""The number of a leaf, in a record of another view. A builder counts from the document's first leaf."""


_SHOWN = 60  # characters of a text that a record's repr shows


def _short(text: str) -> str:
    """The beginning of a text, quoted, on one line."""
    line = " ".join(text[: 4 * _SHOWN].split())
    return repr(line if len(line) <= _SHOWN and len(text) <= 4 * _SHOWN else line[: _SHOWN - 1].rstrip() + "…")


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """`document(doc_id).text[start:end]`, in characters (code points) of the root document's text."""

    doc_id: str
    start: int
    end: int

    def __len__(self) -> int:
        return self.end - self.start

    def overlaps(self, other: Span) -> bool:
        return self.doc_id == other.doc_id and self.start < other.end and other.start < self.end

    def contains(self, other: Span) -> bool:
        return self.doc_id == other.doc_id and self.start <= other.start and other.end <= self.end


@dataclass(frozen=True, slots=True)
class Heading:
    """One heading of a document: `text[start:end]` is its line or lines, mark-up included; level 1 is the highest."""

    level: int
    title: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a paginated document: `text[start:end]`, numbered as a reader would count, from 1."""

    number: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Document:
    """A text with an identity. The text never changes; every span of an index points into it.

    `outline` holds the headings in document order; None means that nobody looked, and Markdown headings in the text
    are then found when the document is indexed. `pages` tile the text where the source had pages. `units` are (start, end)
    of passages that somebody cut already, such as chunks of another tool or the rows of a table: each becomes one leaf.
    """

    id: str
    text: str
    title: str = ""
    metadata: Metadata = field(default_factory=dict)
    outline: tuple[Heading, ...] | None = None
    pages: tuple[Page, ...] = ()
    units: tuple[tuple[int, int], ...] = ()

    def __repr__(self) -> str:
        return f"Document({self.id!r}, title={_short(self.title)}, {len(self.text):,} characters)"


@dataclass(frozen=True, slots=True)
class Section:
    """An inner node of a document's tree: the document itself (depth 0) or a run of text under one or more headings.

    The spans of a node's children tile `[start, end)`: no gap, no overlap. Ids are numbers within one index.
    The leaves below a section have the consecutive ids `first_leaf .. first_leaf + leaf_count - 1`.
    """

    id: RowId
    doc_id: str
    parent: RowId | None
    depth: int
    ordinal: int  # position among the children of `parent`
    children: int  # how many children the node has
    start: int
    end: int
    headings: tuple[str, ...]  # titles from the outermost heading down to this node's own
    first_leaf: RowId
    leaf_count: int
    tokens: int  # of its leaves, by the counter that ships with the package

    @property
    def span(self) -> Span:
        return Span(self.doc_id, self.start, self.end)


class Sentence(NamedTuple):
    """`document.text[start:end]`, without white space around it; `tokens` by the counter that ships with the package.

    It may be more than a sentence in grammar: a list item, a row of a table, code (`text.units`).
    """

    start: int
    end: int
    tokens: int


class Lead(NamedTuple):
    """What a sentence of a leaf needs before it: sentence `number` needs number `of` of the leaf `back` leaves before."""

    number: int
    back: int
    of: int


@dataclass(frozen=True, slots=True)
class Leaf:
    """The smallest node of a document's tree: whole sentences, in one heading's reach. Ids follow document order."""

    id: RowId
    doc_id: str
    title: str  # the document's
    ancestors: tuple[RowId, ...]  # section ids, from the document down to the parent
    ordinal: int  # position among the children of its parent
    start: int
    end: int
    body: int  # offset in the document where the text after leading headings and white space begins
    headings: tuple[str, ...]
    text: str  # document.text[start:end]
    tokens: int
    sentences: tuple[Sentence, ...] = ()  # headings left out, and mark-up that says nothing
    leads: tuple[Lead, ...] = ()

    @property
    def parent(self) -> int:
        return self.ancestors[-1]

    @property
    def span(self) -> Span:
        return Span(self.doc_id, self.start, self.end)


@dataclass(frozen=True, slots=True)
class Definition:
    """The leaves `first_leaf .. first_leaf + leaf_count - 1`: those under one heading, or of a document without headings.

    `document` is the number of their document.
    """

    document: int
    first_leaf: int
    leaf_count: int

    @property
    def leaves(self) -> range:
        return range(self.first_leaf, self.first_leaf + self.leaf_count)


@dataclass(frozen=True, slots=True)
class Name:
    """A name in folded words, and the leaves of the section that defines it."""

    name: str
    first_leaf: RowId
    leaf_count: int


@dataclass(frozen=True, slots=True)
class LeafSentences:
    """A leaf with the vectors of its sentences: the part of `Leaf` that selection needs, and the number of the document.

    `vectors` are the sentences' unit vectors, (sentences, dimension); None without an embedder. With an embedder that gives
    no vectors of parts, every sentence has the vector of its leaf.
    """

    id: int
    document: int
    doc_id: str
    title: str
    headings: tuple[str, ...]
    start: int
    body: int
    text: str
    sentences: tuple[Sentence, ...]
    leads: tuple[Lead, ...] | None  # None in an index that was made before there were leads
    vectors: npt.NDArray[np.float32] | None

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    @property
    def span(self) -> Span:
        return Span(self.doc_id, self.start, self.end)


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
    """A piece of a context. Verbatim: `text` is the text of `spans`, in order, joined by `GAP`."""

    text: str
    score: float
    spans: tuple[Span, ...]
    verbatim: bool = True
    title: str = ""
    headings: tuple[str, ...] = ()

    def __repr__(self) -> str:
        places = ", ".join(f"{span.doc_id}:{span.start}-{span.end}" for span in self.spans[:1])
        more = f" and {len(self.spans) - 1} more" if len(self.spans) > 1 else ""
        return f"Passage({_short(self.text)}, {places}{more}, score={self.score:.3g})"

    def parts(self) -> list[tuple[Span, str]]:
        """The spans of a verbatim passage, each with its text."""
        starts = accumulate((len(span) + len(GAP) for span in self.spans), initial=0)
        return [(span, self.text[at : at + len(span)]) for span, at in zip(self.spans, starts, strict=False)]


class Cause(StrEnum):
    """Why a step took the text that it `covers`, or left it out, as far as others than its strategy need to know.

    SEARCH found it, and TAKE selected it from what was found. The question NAMED what its section defines; a HOP led to it from
    a name in the evidence; it is a NEIGHBOUR of what was taken. MERGE: a section whose parts were found; FUSION: what was kept
    of fused chunks; CUT: the first sentences of what did not fit; ROUND: found by a further search.

    The causes from LINK on took nothing. LINK: a name leads to a section (`HopNote`); MISSING: the index lacks something; LEFT:
    not selected; SKIP: did not fit; DROP: taken, and gone again; STOP: not worth its tokens.
    """

    SEARCH = "search"
    TAKE = "take"
    NAMED = "named"
    HOP = "hop"
    NEIGHBOUR = "neighbour"
    MERGE = "merge"
    FUSION = "fusion"
    CUT = "cut"
    ROUND = "round"
    OTHER = "other"
    LINK = "link"
    MISSING = "missing"
    LEFT = "left"
    SKIP = "skip"
    DROP = "drop"
    STOP = "stop"


_CAUSES = {cause.value: cause for cause in Cause}


class Quoter(Protocol):
    """Says where spans stand, and quotes them where their documents are at hand."""

    def where(self, spans: Sequence[Span]) -> str: ...

    def quote(self, span: Span) -> str:
        """The place of a span and its text, on one line."""
        ...


class Note(Protocol):
    """Details of a step that only one strategy knows. `kind` is their key in JSON. Notes subclass this protocol."""

    __slots__ = ()

    @property
    def kind(self) -> str: ...

    def as_dict(self) -> dict[str, object]:
        """The details as JSON can hold them: numbers, texts, lists and dictionaries."""
        ...

    @property
    def covers(self) -> tuple[Span, ...] | None:
        """The text that the step says something of, where that is neither its output nor its inputs; else None."""
        return None

    def lines(self, step: Step, quoter: Quoter) -> Sequence[str] | None:
        """The step as lines for people. None: like a step without a note; no lines: not at all."""
        return None


@dataclass(frozen=True, slots=True)
class HopNote(Note):
    """The name in the evidence that leads to a section, and the number of the hop, from 1."""

    kind: ClassVar[str] = "hop"

    number: int
    name: str

    def as_dict(self) -> dict[str, object]:
        return {"number": self.number, "name": self.name}


@dataclass(frozen=True, slots=True)
class Step:
    """One thing a strategy did, and why: what it took (`inputs`), what came of it (`output`), at what score.

    `action` and `reason` are for people. Code reads `cause`, which is that of the action's name where none is given, and `note`.
    """

    action: str
    reason: str
    inputs: tuple[Span, ...] = ()
    output: Span | None = None
    score: float | None = None
    note: Note | None = None
    cause: Cause = Cause.OTHER

    def __post_init__(self) -> None:
        if self.cause is Cause.OTHER:
            object.__setattr__(self, "cause", _CAUSES.get(self.action, Cause.OTHER))

    @property
    def covers(self) -> tuple[Span, ...]:
        """The text that the step says something of."""
        if self.note is not None and self.note.covers is not None:
            return self.note.covers
        return self.inputs if self.output is None else (self.output,)


@dataclass(frozen=True, slots=True)
class Usage:
    """What was spent: calls of a chat model and the tokens that went through it. All zero without a model."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        tokens = self.input_tokens + other.input_tokens, self.output_tokens + other.output_tokens
        return Usage(self.calls + other.calls, *tokens)

    def cost(self, input_price: float, output_price: float) -> float:
        """The cost at these prices for a million tokens, in their currency."""
        return (self.input_tokens * input_price + self.output_tokens * output_price) / 1_000_000


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation with a chat model."""

    role: Literal["system", "user", "assistant"]
    text: str


@dataclass(frozen=True, slots=True)
class Reply:
    """What a chat model answered. `complete` is False where it stopped at its limit of tokens."""

    text: str
    usage: Usage
    complete: bool = True


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
    that are needed most likely first; None where another strategy made the context. `ensemble` is set by a strategy whose
    passages are to be read in several streams.
    """

    question: str
    strategy: str
    budget: int
    text: str
    tokens: int
    passages: tuple[Passage, ...]
    trace: tuple[Step, ...] = ()
    usage: Usage = Usage()
    evidence: tuple[Evidence, ...] | None = field(default=None, repr=False, compare=False)
    reading: Reading | None = field(default=None, repr=False, compare=False)

    def merged_from(self, parts: Sequence[Context]) -> Context:
        """This context, to be read as the first of the contexts that it was merged from and that has a `reading`."""
        first = next((part.reading for part in parts if part.reading is not None), None)
        return self if first is None else replace(self, reading=first.after_merge(self, parts))

    def __repr__(self) -> str:
        size = f"{len(self.passages)} passages, {self.tokens} of {self.budget} tokens"
        return f"Context({_short(self.question)}, {self.strategy}, {size})"


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
        return f"Citation([{self.number}] {_short(self.text)}, {self.span.doc_id}:{self.span.start}-{self.span.end})"


@dataclass(frozen=True, slots=True)
class Answer(Pictured):
    """An answer with its evidence. `found` is False when nothing relevant was found; `text` then says so. Where `sure` is False,
    nothing was found that answers outright, and the quotations, if any, are the closest places.

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
    usage: Usage = Usage()
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

    def __repr__(self) -> str:
        found = f"{len(self.citations)} citations" if self.found else "nothing found"
        return f"Answer({_short(self.text)}, {found}, {self.mode})"


@dataclass(frozen=True, slots=True)
class Failure:
    """A file or document that could not be indexed, with the reason in one line."""

    source: str
    reason: str


@dataclass(frozen=True, slots=True)
class Duplicate:
    """A document that says the same as one that came before it."""

    id: str
    same_as: str


@dataclass(frozen=True, slots=True)
class DocumentChange:
    """What became of one document in `Index.sync`, or would become of it; `was` is the id that a moved one had."""

    action: Literal["added", "replaced", "removed", "moved"]
    id: str
    was: str = ""


@dataclass(frozen=True, slots=True)
class AddReport:
    """What `Index.add` or `Index.sync` did: documents added, replaced, left unchanged, removed, moved, and what failed.

    `duplicates` are those among the documents written that say the same as another one. `left_out` counts, by suffix, the
    files of folders that no reader knows. `changes` names what `sync` changed, or would change in a dry run.
    """

    added: int = 0
    replaced: int = 0
    unchanged: int = 0
    failed: tuple[Failure, ...] = ()
    removed: int = 0
    moved: int = 0
    duplicates: tuple[Duplicate, ...] = ()
    left_out: tuple[tuple[str, int], ...] = ()
    changes: tuple[DocumentChange, ...] = ()

    def __repr__(self) -> str:
        values = ((name, getattr(self, name)) for name in self.__slots__)
        counts = (f"{name}={value if isinstance(value, int) else len(value)}" for name, value in values if value)
        return f"AddReport({', '.join(counts)})"

    def __add__(self, other: AddReport) -> AddReport:
        """The sum of two reports, field by field; `left_out` of both stands one after the other."""
        mine, others = (tuple(getattr(report, field.name) for field in fields(report)) for report in (self, other))
        return AddReport(*(a + b for a, b in zip(mine, others, strict=True)))


@dataclass(frozen=True, slots=True)
class Origin:
    """The file that a document was read from: its path, its size, and when it was changed last, in seconds since 1970.

    `source` is relative to the directory in which the index stands, with forward slashes, or absolute where the file lies
    elsewhere.
    """

    source: str
    bytes: int
    modified: int


@dataclass(frozen=True, slots=True)
class DocumentInfo:
    """A row of `Index.documents`: a document without its text. `characters` and `leaves` are its size.

    `origin` is the file that it was read from; None for a document that the caller made, or an older mergewise indexed.
    """

    id: str
    title: str
    metadata: Metadata
    characters: int
    leaves: int
    origin: Origin | None = None


@dataclass(frozen=True, slots=True)
class Known:
    """What tells whether a document of the index is still the one that is given."""

    id: str
    digest: str
    origin: Origin | None = None


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of one table and one document: `records`, and `columns` with one more value for each record, such as its vector."""

    records: tuple[Any, ...]
    columns: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DocumentRows:
    """What an index stores of one document: by table, the rows of every view that it has. `rows["leaf"]` are the leaves.

    Ids count from 0 in each view; the store moves them into a range that is free.
    """

    document: Document
    digest: str
    tables: Mapping[str, Rows] = field(default_factory=dict)
    origin: Origin | None = None

    def __getitem__(self, table: str) -> tuple[Any, ...]:
        """The records of this table; none where the document has no rows of it."""
        rows = self.tables.get(table)
        return () if rows is None else rows.records

    def column(self, table: str, name: str) -> Any:
        """This column of the table's rows; None where there is none."""
        rows = self.tables.get(table)
        return None if rows is None else rows.columns.get(name)


@dataclass(frozen=True, slots=True)
class Problem:
    """A broken invariant of an index. `doc_id` names the document to index again, where one is concerned.

    `kind` is "altered" where the document's text is not the one that was written: nothing here can mend that.
    """

    what: str
    doc_id: str | None = None
    kind: Literal["broken", "altered"] = "broken"
