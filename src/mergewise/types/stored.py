"""Records of stored documents and of changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from mergewise.types.documents import Document, Metadata
from mergewise.types.records import frozen


@frozen
class Failure:
    """A file or document that could not be indexed, with the reason in one line."""

    source: str
    reason: str


@frozen
class Duplicate:
    """A document with the same text as an earlier one."""

    id: str
    same_as: str


@frozen
class DocumentChange:
    """A change of a document by `Index.sync`, made or planned. `was` is the former id of a moved document."""

    action: Literal["added", "replaced", "updated", "removed", "moved"]
    id: str
    was: str = ""


@frozen
class OutwardLink:
    """A symbolic link that leads out of its folder: its path, the real path of its target, and whether it was followed."""

    link: str
    target: str
    followed: bool = False


@frozen
class TextlessPages:
    """Pages of a file with a picture and without text, such as scans, numbered from 1."""

    source: str
    pages: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class AddReport:
    """The result of `Index.add` or `Index.sync`.

    Attributes:
        added: Number of new documents.
        replaced: Number of documents with changed content.
        unchanged: Number of skipped documents.
        failed: Files and documents that could not be indexed.
        removed: Number of removed documents.
        moved: Number of documents whose file moved.
        duplicates: Written documents with the text of another one.
        left_out: Number of files without a reader, by suffix.
        changes: Changes by `sync`, or planned in a dry run.
        updated: Number of documents with changed metadata only.
        gone: Ids of documents that stayed although their files are gone from the folders.
        excluded: Number of files and folders that patterns excluded.
        outward: Links out of a folder, which are left out unless `follow_links` is given.
        textless: Pages that may be scans.
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
        """Add two reports, field by field. Lists are joined."""
        return AddReport(*(getattr(self, name) + getattr(other, name) for name in self.__slots__))


@frozen
class Origin:
    """The file that a document was read from.

    Attributes:
        source: Path with forward slashes, relative to the folder of the index, or absolute if the file is elsewhere.
        bytes: Size.
        modified: Time of the last change, in seconds since 1970.
    """

    source: str
    bytes: int
    modified: int


@frozen
class DocumentInfo:
    """A document of an index, without its text.

    Attributes:
        id: Id of the document.
        title: Title.
        metadata: Values by key.
        characters: Length of the text.
        leaves: Number of leaves.
        origin: File that it was read from, or None for a document that the caller made.
        language: Code such as "fr", "und" if unknown, or empty if an older mergewise indexed it.
    """

    id: str
    title: str
    metadata: Metadata
    characters: int
    leaves: int
    origin: Origin | None = None
    language: str = ""


@frozen
class Known:
    """Id, digest and file of an indexed document, to detect changes."""

    id: str
    digest: str
    origin: Origin | None = None


@frozen
class VectorCount:
    """Numbers of leaves with and without vectors. Text search alone finds waiting leaves.

    In an index without an embedder, `embedded` and `waiting` are 0.
    """

    leaves: int
    embedded: int
    waiting: int


@frozen
class Rows:
    """Rows of one table and one document: `records`, and `columns` with further values per record, such as vectors."""

    records: tuple[Any, ...]
    columns: Mapping[str, Any] = field(default_factory=dict)


@frozen
class DocumentRows:
    """All rows of a document, by table. `rows["leaf"]` are the leaves.

    Ids count from 0 in each view; the store shifts them to a free range. `language` is empty until it is detected.
    """

    document: Document
    digest: str
    tables: Mapping[str, Rows] = field(default_factory=dict)
    origin: Origin | None = None
    language: str = field(default="", compare=False)

    def __getitem__(self, table: str) -> tuple[Any, ...]:
        """Return the records of a table."""
        rows = self.tables.get(table)
        return () if rows is None else rows.records

    def column(self, table: str, name: str) -> Any:
        """Return a column of a table, or None if it is missing."""
        rows = self.tables.get(table)
        return None if rows is None else rows.columns.get(name)


@frozen
class Problem:
    """A broken invariant of an index.

    Attributes:
        what: Description.
        doc_id: Document to index again, if a document is affected.
        kind: "altered" if the text of the document is not the one that was written, "lost" if the documents are unreadable.
            Neither can be repaired. A "note" is not damage.
    """

    what: str
    doc_id: str | None = None
    kind: Literal["broken", "altered", "lost", "note"] = "broken"
