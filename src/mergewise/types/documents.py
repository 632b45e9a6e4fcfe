"""Documents and what the tree makes of them. What stands for text points into `Document.text` by character offsets."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

MetadataValue: TypeAlias = str | int | float | bool
Metadata: TypeAlias = Mapping[str, MetadataValue]
OneCondition: TypeAlias = str | Mapping[str, Any]
Where: TypeAlias = OneCondition | Sequence[OneCondition | None]
"""A condition as text, a filter as JSON, or a list of both that must all be met. None in the list is no condition."""


class FileMetadata(dict[str, MetadataValue]):
    """Metadata that a reader found in a file. What does not fit an index is left out of it, where a caller's is refused."""


RowId: TypeAlias = Annotated[int, "row"]
"""The number of a row in the record's own view. A builder counts from 0 in each document; a store moves the numbers."""
LeafId: TypeAlias = Annotated[int, "leaf"]
"""The number of a leaf, in a record of another view. A builder counts from the document's first leaf."""
_SHOWN = 60  # characters of a text that a record's repr shows


def short_line(text: str) -> str:
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
        return f"Document({self.id!r}, title={short_line(self.title)}, {len(self.text):,} characters)"


@dataclass(frozen=True, slots=True)
class File:
    """A file to be read under another name than its own, such as an upload: the bytes at `path`, in the format of `name`.

    `name` defaults to the last part of the path, `id` to the name, and `title` to what the file or its name says. The `metadata`
    stand in place of those of the file under the same keys. The document belongs to no folder, and remembers no path.
    """

    path: str | os.PathLike[str]
    id: str | None = field(default=None, kw_only=True)
    name: str | None = field(default=None, kw_only=True)
    title: str | None = field(default=None, kw_only=True)
    metadata: Metadata | None = field(default=None, kw_only=True)


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
