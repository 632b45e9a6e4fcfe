"""Documents and the nodes of their trees. Nodes point into `Document.text` by character offsets."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TypeAlias

from mergewise.types.records import frozen

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

MetadataValue: TypeAlias = str | int | float | bool
Metadata: TypeAlias = Mapping[str, MetadataValue]
Part: TypeAlias = tuple[int, int]
"""A part of a text: its start and end."""
AnyPath: TypeAlias = str | os.PathLike[str]
"""A path of a file or folder, or of an index the address of a bucket."""
OneCondition: TypeAlias = str | Mapping[str, Any]
Where: TypeAlias = OneCondition | Sequence[OneCondition | None]
"""A condition as text, a filter as JSON, or a list of both that must all hold. None in the list is ignored."""


class FileMetadata(dict[str, MetadataValue]):
    """Metadata that a reader found in a file. Invalid entries are dropped, while those of a caller raise an error."""


RowId: TypeAlias = Annotated[int, "row"]
"""Number of a row in the record's own view. Builders count from 0 in each document; the store shifts the numbers."""
LeafId: TypeAlias = Annotated[int, "leaf"]
"""Number of a leaf in a record of another view. Builders count from the document's first leaf."""
Kind: TypeAlias = Literal["prose", "item", "row", "line", "entry", "code"]
"""What a sentence or another unit of text is: a sentence of prose, an item of a list, a row of a table, a line of a log or of
settings with its further lines, a record of fields, or a stretch of code."""
DocumentUnit: TypeAlias = Part | tuple[int, int, Kind]
_SHOWN = 60  # characters of a text that a record's repr shows


def short_line(text: str) -> str:
    """Return the beginning of a text, quoted, on one line."""
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


@frozen
class Heading:
    """One heading of a document: `text[start:end]` is its line or lines, mark-up included; level 1 is the highest.

    An empty one without a title is the place where the text after a nested entry continues the section above.
    """

    level: int
    title: str
    start: int
    end: int


@frozen
class Page:
    """One page of a paginated document: `text[start:end]`, numbered as a reader would count, from 1."""

    number: int
    start: int
    end: int


@frozen
class Document:
    """A text with an id. The text never changes, and all spans of an index point into it.

    Attributes:
        id: Id within an index.
        text: Text of the document.
        title: Title.
        metadata: Values by key, for conditions and for display.
        outline: Headings in document order. With None, Markdown headings are found when the document is indexed.
        pages: Pages that tile the text, if the source has pages.
        units: Start and end of passages that must stay whole, such as chunks of another tool or rows of a table. Each becomes
            a leaf. A third value gives the kind: a unit of a kind other than "prose" is not cut into sentences unless it is long.
    """

    id: str
    text: str
    title: str = ""
    metadata: Metadata = field(default_factory=dict)
    outline: tuple[Heading, ...] | None = None
    pages: tuple[Page, ...] = ()
    units: tuple[DocumentUnit, ...] = ()

    def __repr__(self) -> str:
        return f"Document({self.id!r}, title={short_line(self.title)}, {len(self.text):,} characters)"


@frozen
class File:
    """A file that is read under another name, such as an upload. Its document belongs to no folder and keeps no path.

    Attributes:
        path: File to read.
        id: Id of the document, by default `name`.
        name: File name that gives the format, by default the last part of the path.
        title: Title, by default from the file or its name.
        metadata: Metadata that replace those of the file under the same keys.
    """

    path: AnyPath
    id: str | None = field(default=None, kw_only=True)
    name: str | None = field(default=None, kw_only=True)
    title: str | None = field(default=None, kw_only=True)
    metadata: Metadata | None = field(default=None, kw_only=True)


class Spanned:
    """The span of a record of a document's part."""

    __slots__ = ()

    doc_id: str
    start: int
    end: int

    @property
    def span(self) -> Span:
        return Span(self.doc_id, self.start, self.end)


class OverLeaves:
    """The leaves of a record with consecutive ones."""

    __slots__ = ()

    first_leaf: int
    leaf_count: int

    @property
    def leaves(self) -> range:
        return range(self.first_leaf, self.first_leaf + self.leaf_count)


@frozen
class Section(Spanned, OverLeaves):
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
    tokens: int  # of its leaves, by the shipped counter


class Sentence(NamedTuple):
    """`document.text[start:end]` without surrounding white space, and its tokens by the shipped counter.

    It may also be another unit, such as a row of a table (`text.units`). `kind` is None in indexes from before kinds existed.
    """

    start: int
    end: int
    tokens: int
    kind: Kind | None = None


class Lead(NamedTuple):
    """A sentence that another one needs: sentence `number` needs sentence `of` of the leaf `back` leaves earlier."""

    number: int
    back: int
    of: int


@frozen
class Leaf(Spanned):
    """The smallest node of a document's tree: whole sentences below one heading. Ids follow document order."""

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
    sentences: tuple[Sentence, ...] = ()  # without headings and empty mark-up
    leads: tuple[Lead, ...] = ()

    @property
    def parent(self) -> int:
        return self.ancestors[-1]


@frozen
class Definition(OverLeaves):
    """The leaves below a heading, or of a document without headings: `leaf_count` leaves from `first_leaf` on.

    `document` is the number of their document.
    """

    document: int
    first_leaf: int
    leaf_count: int


@frozen
class Name:
    """A name in case-folded words, and the leaves of the section that defines it."""

    name: str
    first_leaf: RowId
    leaf_count: int


@frozen
class LeafSentences:
    """A leaf with the vectors of its sentences: the part of `Leaf` that selection needs, and the number of the document.

    `vectors` holds unit vectors, shape (sentences, dimension), or None without an embedder. If the embedder cannot embed parts,
    each sentence has the vector of its leaf.
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
    leads: tuple[Lead, ...] | None  # None in indexes from before leads existed
    vectors: npt.NDArray[np.float32] | None

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    @property
    def span(self) -> Span:
        return Span(self.doc_id, self.start, self.end)
