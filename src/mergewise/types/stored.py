"""What a store holds of documents and tells of its changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from mergewise.types.documents import Document, Metadata


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

    action: Literal["added", "replaced", "updated", "removed", "moved"]
    id: str
    was: str = ""


@dataclass(frozen=True, slots=True)
class OutwardLink:
    """A symbolic link in a folder that leads out of it: its path, and the real path of what it leads to."""

    link: str
    target: str


@dataclass(frozen=True, slots=True)
class TextlessPages:
    """Pages of a file that show something and have no text, as scans have not, numbered from 1."""

    source: str
    pages: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class AddReport:
    """What `Index.add` or `Index.sync` did: documents added, replaced, left unchanged, removed, moved, and what failed.

    `duplicates` are those among the documents written that say the same as another one. `left_out` counts, by suffix, the
    files of folders that no reader knows. `changes` names what `sync` changed, or would change in a dry run.

    `updated` counts documents whose metadata alone changed. `gone` are the ids of documents that `add` left in the index,
    though their files are no longer in the folders. `excluded` counts files and folders that patterns left out. `outward` are
    links that led out of a folder, and were followed. `textless` names pages that may be scans.
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
    updated: int = 0
    gone: tuple[str, ...] = ()
    excluded: int = 0
    outward: tuple[OutwardLink, ...] = ()
    textless: tuple[TextlessPages, ...] = ()

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
    `language` is a code such as "fr", or "und" where it cannot be told; empty where an older mergewise indexed it.
    """

    id: str
    title: str
    metadata: Metadata
    characters: int
    leaves: int
    origin: Origin | None = None
    language: str = ""


@dataclass(frozen=True, slots=True)
class Known:
    """What tells whether a document of the index is still the one that is given."""

    id: str
    digest: str
    origin: Origin | None = None


@dataclass(frozen=True, slots=True)
class VectorCount:
    """How many leaves an index has, how many of them have their vectors, and how many wait for theirs: questions find these by
    their words alone. In an index without an embedder, none has one and none waits."""

    leaves: int
    embedded: int
    waiting: int


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of one table and one document: `records`, and `columns` with one more value for each record, such as its vector."""

    records: tuple[Any, ...]
    columns: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DocumentRows:
    """What an index stores of one document: by table, the rows of every view that it has. `rows["leaf"]` are the leaves.

    Ids count from 0 in each view; the store moves them into a range that is free. `language` is empty where nobody has looked
    at it yet.
    """

    document: Document
    digest: str
    tables: Mapping[str, Rows] = field(default_factory=dict)
    origin: Origin | None = None
    language: str = field(default="", compare=False)

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
