"""Files and documents to index, each once, with a digest that detects changes.

The name of a file is its path relative to a root, or its absolute path if it is below no root. So the name does not depend on the
working directory or on links in the given path. The root is the folder of the index, unless `mergewise.open` was given others.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import field, replace
from fnmatch import fnmatchcase
from hashlib import blake2b
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias, get_args
from unicodedata import is_normalized, normalize

from mergewise import defaults
from mergewise.errors import ReadError, UsageError
from mergewise.files import Roots, is_address, resolved_path, source_name
from mergewise.ranges import short_repr, text_or_none
from mergewise.readers import UNTRIED, FileReader, FolderSearch, ReadFile, digest_of, file_bytes, find_files, read_file
from mergewise.readers.builder import whole_number
from mergewise.types import AnyPath, Document, DocumentUnit, File, FileMetadata, Kind, Metadata, Origin, frozen

Source: TypeAlias = AnyPath | Document | File

NAMED = "named "
"""Prefix of the digest of a file that was read under another name. It never equals the digest of a file in a folder."""
_SURROGATE = re.compile("[\ud800-\udfff]")
# the text, the metadata and the id: LangChain, Haystack, LlamaIndex
_FOREIGN_FIELDS = (("page_content", "metadata", "id"), ("content", "meta", "id"), ("text", "metadata", "node_id"))
_FILE_FIELDS = ("source", "file_path", "file_name")


@frozen
class Input:
    """A file by its path, a file under another name, or a document of the caller.

    `name` is the source of a file by its path, or the id of the document. `metadata` replace the document's own values.
    `ocr_pages` is the number of pages without text that may be recognised. If it is higher than before, a file with
    unrecognised pages counts as changed. With `reread`, a file counts as changed if an older version of the readers read it.
    Links of the file must not lead out of the folder `within`, a real path. A file of a source has a `version` instead of a
    digest of its content, and the id of its `File`.
    """

    name: str
    source: Path | Document | File
    reader: FileReader = field(default=read_file, compare=False, repr=False)
    metadata: Metadata = field(default_factory=dict, compare=False, repr=False)
    ocr_pages: int = 0
    reread: bool = False
    within: Path | None = field(default=None, compare=False, repr=False)
    version: str = ""

    @property
    def is_file(self) -> bool:
        """True for a file by its path, in a folder or named alone, and for a file of a source."""
        return isinstance(self.source, Path) or bool(self.version)

    @property
    def id(self) -> str:
        """Id of a new document, if no other has it."""
        return (self.source.id if isinstance(self.source, File) else None) or self.name

    @property
    def _path(self) -> Path:
        """Path of the file's bytes."""
        assert not isinstance(self.source, Document)
        return Path(self.source.path if isinstance(self.source, File) else self.source)

    @property
    def size(self) -> int:
        """Characters of a document, or bytes of a file: its size before reading."""
        if isinstance(self.source, Document):
            return len(self.source.text) if isinstance(self.source.text, str) else 0
        try:
            return self._path.stat().st_size
        except OSError:
            return 0

    def digest(self) -> str:
        """Return a hash of the content, or an empty string if it is unreadable. Then `read` reports the reason."""
        if _SURROGATE.search(self.name):
            return ""
        if isinstance(self.source, Document):
            return "" if _invalid_field(self.source) else _document_digest(self.source)
        try:
            return self.version or self._digest_with_name(digest_of(file_bytes(self._path, self.within)))
        except ReadError:
            return ""

    def _digest_with_name(self, digest: str) -> str:
        """Return the digest of a file's bytes together with the name and title that it is read with, or its version."""
        if not isinstance(self.source, File):
            return digest
        content, untried, tried = digest.partition(UNTRIED)
        if self.version:
            return f"{self.version}{untried}{tried}"
        whole = repr((content, _label(self.source), self.source.title)).encode("utf-8", "surrogatepass")
        return f"{NAMED}{digest_of(whole)}{untried}{tried}"

    def is_same(self, standing: str, digest: str) -> bool:
        """Tell whether content with this `digest` equals the indexed content, whose digest is `standing`."""
        content, tried, version = split_digest(standing)
        outdated = self.reread and version < defaults.READERS_VERSION and not isinstance(self.source, Document)
        return digest == content and not outdated and (tried is None or self.ocr_pages <= tried)

    def origin(self) -> Origin | None:
        """Return size and time of a file by its path, or None for other inputs."""
        if not self.is_file:
            return None
        try:
            status = self._path.stat()
        except OSError as error:
            raise ReadError(error.strerror or "cannot be read") from error
        return Origin(self.name, status.st_size, int(status.st_mtime))

    def read(self, doc_id: str | None = None) -> ReadFile:
        """Read the document, and hash the content it was read from: a file may have changed since `digest`.

        Its id is `doc_id`, or else the document's own id or the name. Raises ReadError.
        """
        textless: tuple[int, ...] = ()
        if isinstance(self.source, Document):
            if wrong := _invalid_field(self.source):
                raise ReadError(wrong)
            digest = _document_digest(self.source)
            document = self.source if doc_id is None else replace(self.source, id=doc_id)
        else:
            named = self.source if isinstance(self.source, File) else None
            label = None if named is None else _label(named)
            own_id = self.name if doc_id is None else doc_id
            document, digest, textless = self.reader(self._path, id=own_id, name=label, within=self.within)
            digest = f"{self._digest_with_name(digest)}{defaults.READ_BY}{defaults.READERS_VERSION}"
            if named is not None and named.title is not None:
                document = replace(document, title=named.title)
        if not document.text.strip():
            raise ReadError("empty")
        if _SURROGATE.search(document.id + document.title + document.text):
            raise ReadError("invalid Unicode: unpaired surrogate")
        if document.units:
            document = replace(document, units=_checked_units(document))
        return ReadFile(self.with_metadata(document), digest, textless)

    def with_metadata(self, document: Document) -> Document:
        """Add the given metadata to the document's own. Metadata of a file keep their type."""
        of_source = self.source.metadata if isinstance(self.source, File) else None
        metadata = {**document.metadata, **(of_source or {}), **self.metadata}
        of_file = isinstance(document.metadata, FileMetadata)
        return replace(document, metadata=FileMetadata(metadata) if of_file else metadata)


def split_digest(digest: str) -> tuple[str, int | None, int]:
    """Split the digest of an indexed document into the digest of its content, the page limit, and the version of the readers.

    The page limit is None if no page was left out. The version is 1 if none is recorded.
    """
    rest, _, version = digest.partition(defaults.READ_BY)
    content, untried, tried = rest.partition(UNTRIED)
    return content, whole_number(tried, 0) if untried else None, whole_number(version, 1)


def _invalid_field(document: Document) -> str:
    """Describe the first field of a caller's document with a wrong type. Empty if all are right."""
    for name in ("id", "title", "text"):
        value = getattr(document, name)
        if not isinstance(value, str):
            return f"invalid {name}: {short_repr(value)} (expected a text)"
    if not isinstance(document.metadata, Mapping):
        return f"invalid metadata: {short_repr(document.metadata)} (expected a dictionary)"
    wrong = next((key for key in document.metadata if not isinstance(key, str)), None)
    return "" if wrong is None else f"invalid metadata key: {short_repr(wrong)} (expected a text)"


def _checked_units(document: Document) -> tuple[DocumentUnit, ...]:
    """Return the units as tuples. They must be non-blank spans of the text, sorted and without overlap."""
    units: list[DocumentUnit] = []
    end = 0
    given: Iterable[Any] = document.units
    for number, unit in enumerate(given, start=1):
        named = f"unit {number} {unit!r:.60}"
        whole = isinstance(unit, tuple | list) and [type(part) for part in unit[:2]] == [int, int]
        if not whole or len(unit) > 3 or any(kind not in get_args(Kind) for kind in unit[2:]):
            raise ReadError(f"{named} is not a pair (start, end) of whole numbers, with or without a kind")
        if not 0 <= unit[0] < unit[1] <= len(document.text):
            raise ReadError(f"{named} is empty or outside the text of {len(document.text)} characters")
        if not document.text[unit[0] : unit[1]].strip():
            raise ReadError(f"{named} contains only white space")
        if unit[0] < end:
            raise ReadError(
                f"{named} begins before the end of unit {number - 1} at {end}: sort the units, without overlap"
            )
        units.append(tuple(unit))
        end = unit[1]
    return tuple(units)


def inputs_of(
    sources: Iterable[Source | Iterable[Source]],
    root: Roots | None = None,
    search: FolderSearch | None = None,
    reader: FileReader = read_file,
    metadata: Metadata = MappingProxyType({}),
    *,
    ocr_pages: int = 0,
    reread: bool = False,
    fetch: Callable[[str, Input], Iterable[Input]] | None = None,
) -> list[Input]:
    """List files and documents, each once. A folder is replaced by its files.

    Args:
        sources: Files, folders and documents, also in nested lists.
        root: Folders that names of files are relative to.
        search: Search through folders.
        reader: Reader of the files.
        metadata: Metadata of all inputs.
        ocr_pages: Pages of a file that `reader` may recognise.
        reread: Files that an older version of the readers read count as changed.
        fetch: Function that lists the files at an address, like a given input.

    Raises:
        UsageError: for an invalid source, and for an address without `fetch`.
    """
    inputs: dict[str, Input] = {}
    search = FolderSearch() if search is None else search
    # a MappingProxyType cannot be pickled for another process
    metadata = dict(metadata)
    of_file: dict[str, Any] = {"reader": reader, "ocr_pages": ocr_pages, "reread": reread}
    for source in _flat(sources):
        if isinstance(source, File):
            for field_name in ("id", "name", "title"):
                text_or_none(f"{field_name} of a file", getattr(source, field_name))
            if not isinstance(source.path, str | os.PathLike):
                raise UsageError(f"invalid path of a file: {short_repr(source.path)}", "give a text or a pathlib.Path")
            own = {} if source.metadata is None else source.metadata
            if not isinstance(own, Mapping):
                raise UsageError(f"invalid metadata of a file: {short_repr(own)}", "give a dictionary")
            doc_id = _label(source) if source.id is None else source.id
            if not doc_id:
                raise UsageError("missing name or id of a file", "give a name: mergewise.File(path, name=...)")
            inputs.setdefault(doc_id, Input(doc_id, source, metadata={**own, **metadata}, **of_file))
        elif isinstance(source, Document):
            name = source.id if isinstance(source.id, str) else short_repr(source.id)
            inputs.setdefault(name, Input(name, source, metadata=metadata))
        elif isinstance(source, str) and is_address(source):
            if fetch is None:
                raise UsageError(f"expected files and folders: {source}", "name a folder with its files, or a clone")
            inputs |= {
                given.name: given
                for given in fetch(source.rstrip("/"), Input("", Path(), metadata=metadata, **of_file))
            }
        else:
            path = Path(os.path.normpath(source))
            within = None if search.follow_links or not path.is_dir() else real_path(path)
            for file in find_files([path], search):
                # links below a folder stay in the name
                file_name = source_name(real_path(path) / file.relative_to(path), root)
                inputs.setdefault(file_name, Input(file_name, file, metadata=metadata, within=within, **of_file))
    return list(inputs.values())


def _label(file: File) -> str:
    return Path(file.path).name if file.name is None else file.name


def real_path(path: Path) -> Path:
    """Return the absolute path with resolved links of folders. A file that is a link keeps its name, as its target may change."""
    return resolved_path(path) if path.is_dir() else resolved_path(path.parent) / path.name


def matching(wanted: str, sources: Mapping[str, Path | None]) -> list[str]:
    """List the ids that match an id, a path, a prefix or a pattern, else in another Unicode form of it.

    `sources` maps each id to its file.
    """
    if wanted in sources:
        return [wanted]
    of_path: list[str] = []
    # an invalid path has no documents
    with suppress(OSError, ValueError):
        path = real_path(Path(os.path.normpath(wanted)))
        of_path = [doc_id for doc_id, file in sources.items() if file is not None and file.is_relative_to(path)]
    below = [doc_id for doc_id in sources if doc_id.startswith(wanted.rstrip("/") + "/")]
    found = of_path or below or [doc_id for doc_id in sources if fnmatchcase(doc_id, wanted)]
    usual = {normalize("NFC", doc_id): doc_id for doc_id in sources}
    if found or (usual.keys() == sources.keys() and is_normalized("NFC", wanted)):
        return found
    return [usual[one] for one in matching(normalize("NFC", wanted), {one: sources[usual[one]] for one in usual})]


def _flat(sources: Iterable[Any]) -> Iterator[Source]:
    for source in sources:
        if isinstance(source, str | os.PathLike | Document | File):
            yield source
        elif (document := document_of(source)) is not None:
            yield document
        elif isinstance(source, bytes) or not isinstance(source, Iterable):
            raise UsageError(f"invalid source: {short_repr(source)}", "give files, folders or documents")
        else:
            yield from _flat(source)


def document_of(foreign: object) -> Document | None:
    """Convert a document of LangChain, LlamaIndex or Haystack, recognised by its fields. Return None for any other object.

    A document without an id gets one from the file in its metadata, the page, if any, and a digest of its text, so that pieces of
    a file stay distinct. Metadata that an index cannot store are left out.
    """
    for text_field, metadata_field, id_field in _FOREIGN_FIELDS:
        text, metadata = getattr(foreign, text_field, None), getattr(foreign, metadata_field, None)
        if isinstance(text, str) and isinstance(metadata, Mapping) and hasattr(foreign, id_field):
            title = metadata.get("title")
            own_id = getattr(foreign, id_field)
            if not own_id:
                file = next((str(metadata[name]) for name in _FILE_FIELDS if metadata.get(name)), "text")
                page = [str(metadata["page"])] if "page" in metadata else []
                digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()
                own_id = "#".join([file, *page, digest])
            return Document(
                id=own_id,
                text=text,
                title=title if isinstance(title, str) else "",
                metadata=FileMetadata({key: value for key, value in metadata.items() if key != "title"}),
            )
    return None


def _document_digest(document: Document) -> str:
    parts: object = (document.text, document.title, sorted(document.metadata.items()), document.outline, document.pages)
    # without units, keep the digest of versions before units
    parts = (parts, document.units) if document.units else parts
    try:
        return digest_of(repr(parts).encode("utf-8", "surrogatepass"))
    except ValueError:
        # Python refuses to write an integer with too many digits
        return ""
