"""Files and documents to index, each once, with a digest that tells whether it changed.

A file is named by its source: its path from the directory in which the index stands, or its absolute path where it lies
elsewhere. So its name is the same from whatever directory, and by whatever path, it was given.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from hashlib import blake2b
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

from mergewise.errors import ReadError, UsageError
from mergewise.ranges import short_repr, text_or_none
from mergewise.readers import UNTRIED, FileReader, FolderSearch, ReadFile, digest_of, file_bytes, find_files, read_file
from mergewise.readers.builder import whole_number
from mergewise.types import Document, File, FileMetadata, Metadata, Origin

Source: TypeAlias = str | os.PathLike[str] | Document | File

NAMED = "named "
"""How the digest begins of a file that was read under another name than its own: no file of a folder is taken for it."""
_SURROGATE = re.compile("[\ud800-\udfff]")
# the text, the metadata and the id: LangChain, Haystack, LlamaIndex
_FOREIGN_FIELDS = (("page_content", "metadata", "id"), ("content", "meta", "id"), ("text", "metadata", "node_id"))
_FILE_FIELDS = ("source", "file_path", "file_name")


@dataclass(frozen=True, slots=True)
class Input:
    """Something to index: a file by its path, a file under another name, or a document that the caller made.

    `name` is the source of a file by its path, and else the document's id. `given` is what an older mergewise called a file.

    `metadata` are given to it beside its own, whose values they replace. Of its pages without text, `ocr_pages` may be
    recognised: a file is not the same that had more than might be recognised before, where that were fewer.
    """

    name: str
    source: Path | Document | File
    given: tuple[str, ...] = ()
    reader: FileReader = field(default=read_file, compare=False, repr=False)
    metadata: Metadata = field(default_factory=dict, compare=False, repr=False)
    ocr_pages: int = 0

    @property
    def is_file(self) -> bool:
        """Whether it is a file by its path: one of a folder, or that may come to lie in one."""
        return isinstance(self.source, Path)

    @property
    def _path(self) -> Path:
        """Where the bytes of a file are."""
        assert not isinstance(self.source, Document)
        return Path(self.source.path if isinstance(self.source, File) else self.source)

    @property
    def size(self) -> int:
        """Characters of a document, bytes of a file: what is known before it is read."""
        if isinstance(self.source, Document):
            return len(self.source.text) if isinstance(self.source.text, str) else 0
        try:
            return self._path.stat().st_size
        except OSError:
            return 0

    def digest(self) -> str:
        """A hash of the content; empty where it cannot be read: `read` says why."""
        if _SURROGATE.search(self.name):
            return ""
        if isinstance(self.source, Document):
            return "" if _what_is_wrong(self.source) else _document_digest(self.source)
        try:
            return self._digest_with_name(digest_of(file_bytes(self._path)))
        except ReadError:
            return ""

    def _digest_with_name(self, digest: str) -> str:
        """The digest of a file's bytes with what else decides how it is read."""
        if not isinstance(self.source, File):
            return digest
        content, untried, tried = digest.partition(UNTRIED)
        whole = repr((content, _label(self.source), self.source.title)).encode("utf-8", "surrogatepass")
        return f"{NAMED}{digest_of(whole)}{untried}{tried}"

    def is_same(self, standing: str, digest: str) -> bool:
        """Whether its content, which has this `digest`, is the one that the index has, which has the digest `standing`."""
        content, untried, tried = standing.partition(UNTRIED)
        return digest == content and (not untried or self.ocr_pages <= whole_number(tried, 0))

    def origin(self) -> Origin | None:
        """The place and the age of a file by its path; None for all else."""
        if not isinstance(self.source, Path):
            return None
        try:
            status = self.source.stat()
        except OSError as error:
            raise ReadError(error.strerror or "cannot be read") from error
        return Origin(self.name, status.st_size, int(status.st_mtime))

    def read(self, doc_id: str | None = None) -> ReadFile:
        """The document, and the digest of what it was read from: a file may have changed since `digest`.

        Its id is `doc_id`; without one, that of the caller's document, or the name. Raises ReadError.
        """
        textless: tuple[int, ...] = ()
        if isinstance(self.source, Document):
            if wrong := _what_is_wrong(self.source):
                raise ReadError(wrong)
            digest = _document_digest(self.source)
            document = self.source if doc_id is None else replace(self.source, id=doc_id)
        else:
            named = self.source if isinstance(self.source, File) else None
            label = None if named is None else _label(named)
            document, digest, textless = self.reader(self._path, id=self.name if doc_id is None else doc_id, name=label)
            digest = self._digest_with_name(digest)
            if named is not None and named.title is not None:
                document = replace(document, title=named.title)
        if not document.text.strip():
            raise ReadError("empty")
        if _SURROGATE.search(document.id + document.title + document.text):
            raise ReadError("not valid Unicode: it holds half a surrogate pair")
        if document.units:
            document = replace(document, units=_checked_units(document))
        return ReadFile(self.described(document), digest, textless)

    def described(self, document: Document) -> Document:
        """The document with the metadata that are given to it. Metadata of a file stay of this kind."""
        if not self.metadata:
            return document
        metadata = {**document.metadata, **self.metadata}
        of_file = isinstance(document.metadata, FileMetadata)
        return replace(document, metadata=FileMetadata(metadata) if of_file else metadata)


def _what_is_wrong(document: Document) -> str:
    """The first field of a caller's document that has the wrong type, in words; empty if there is none."""
    for name in ("id", "title", "text"):
        value = getattr(document, name)
        if not isinstance(value, str):
            return f"its {name} is {short_repr(value)}, not a text"
    if not isinstance(document.metadata, Mapping):
        return f"its metadata is {short_repr(document.metadata)}, not a dictionary"
    wrong = next((key for key in document.metadata if not isinstance(key, str)), None)
    return "" if wrong is None else f"the metadata key {short_repr(wrong)} is no text"


def _checked_units(document: Document) -> tuple[tuple[int, int], ...]:
    """The units as tuples. They must be spans inside the text that hold something, in order and apart."""
    units: list[tuple[int, int]] = []
    end = 0
    for number, unit in enumerate(document.units, start=1):
        named = f"unit {number} {unit!r:.60}"
        if not isinstance(unit, tuple | list) or len(unit) != 2 or not all(type(offset) is int for offset in unit):
            raise ReadError(f"{named} is not a pair (start, end) of whole numbers")
        if not 0 <= unit[0] < unit[1] <= len(document.text):
            raise ReadError(f"{named} does not lie in the text of {len(document.text)} characters, or is empty")
        if not document.text[unit[0] : unit[1]].strip():
            raise ReadError(f"{named} holds nothing but white space")
        if unit[0] < end:
            raise ReadError(
                f"{named} begins before unit {number - 1} ends at {end}: units are sorted and do not overlap"
            )
        units.append((unit[0], unit[1]))
        end = unit[1]
    return tuple(units)


def inputs_of(
    sources: Iterable[Source | Iterable[Source]],
    root: Path | None = None,
    search: FolderSearch | None = None,
    reader: FileReader = read_file,
    metadata: Metadata = MappingProxyType({}),
    *,
    ocr_pages: int = 0,
) -> list[Input]:
    """The files and documents, each once; for a folder, the files in it, by `search`. Files are named from `root`, and read by
    `reader`, which may recognise `ocr_pages` of a file. All of them get the `metadata`.
    """
    inputs: dict[str, Input] = {}
    paths: list[Path] = []
    # a view of a dictionary cannot be sent to another process
    metadata = dict(metadata)
    for source in _flat(sources):
        if isinstance(source, File):
            given = named_input(source, metadata)
            inputs.setdefault(given.name, replace(given, reader=reader, ocr_pages=ocr_pages))
        elif isinstance(source, Document):
            name = source.id if isinstance(source.id, str) else short_repr(source.id)
            inputs.setdefault(name, Input(name, source, metadata=metadata))
        else:
            paths.append(Path(os.path.normpath(source)))
            for file in find_files(paths[-1:], search):
                given = file_input(file, paths[-1], root)
                given = replace(given, reader=reader, metadata=metadata, ocr_pages=ocr_pages)
                inputs.setdefault(given.name, given)
    return list(inputs.values())


def named_input(file: File, metadata: Metadata = MappingProxyType({})) -> Input:
    """A file under another name. Raises UsageError where one of its fields cannot be."""
    for field_name in ("id", "name", "title"):
        text_or_none(f"{field_name} of a file", getattr(file, field_name))
    if not isinstance(file.path, str | os.PathLike):
        raise UsageError(f"the path of a file is {short_repr(file.path)}", "give a text or a pathlib.Path")
    own = {} if file.metadata is None else file.metadata
    if not isinstance(own, Mapping):
        raise UsageError(f"the metadata of a file are {short_repr(own)}, not a dictionary", "give a dictionary")
    doc_id = _label(file) if file.id is None else file.id
    if not doc_id:
        raise UsageError("a file has no name and no id", "mergewise.File(path, name=...)")
    return Input(doc_id, file, metadata={**own, **metadata})


def _label(file: File) -> str:
    return Path(file.path).name if file.name is None else file.name


def file_input(file: Path, found_in: Path, root: Path | None = None) -> Input:
    """A file that was named itself, or found in a folder. Below that folder, symbolic links are not followed for its name."""
    within = file.relative_to(found_in)
    real = real_path(found_in) / within
    # the path as it may have been given before: absolute, or from here
    older = (file, real, *_from_here(real))
    return Input(source_name(real, root), file, tuple(dict.fromkeys(path.as_posix() for path in older)))


def _from_here(path: Path) -> Iterator[Path]:
    """The path as seen from the working directory; nothing where that is gone."""
    try:
        yield Path(os.path.relpath(path))
    except OSError:
        return


def real_path(path: Path) -> Path:
    """Absolute, with the links of a folder resolved. A file that is a link keeps its name: it may come to lead elsewhere."""
    return Path(os.path.realpath(path)) if path.is_dir() else Path(os.path.realpath(path.parent), path.name)


def source_name(real: Path, root: Path | None) -> str:
    """An absolute path as seen from `root`, if it lies below it."""
    return (real.relative_to(root) if root is not None and real.is_relative_to(root) else real).as_posix()


def matching(wanted: str, sources: Mapping[str, Path | None]) -> list[str]:
    """The ids that an id, a path, the beginning of ids, or a pattern means; `sources` has the file of each id."""
    if wanted in sources:
        return [wanted]
    below = [doc_id for doc_id in sources if doc_id.startswith(wanted.rstrip("/") + "/")]
    return _read_from(wanted, sources) or below or [doc_id for doc_id in sources if fnmatchcase(doc_id, wanted)]


def _read_from(wanted: str, sources: Mapping[str, Path | None]) -> list[str]:
    """The ids of what was read from this path; none where it cannot be one, as it is too long or holds what no path holds."""
    try:
        path = real_path(Path(os.path.normpath(wanted)))
    except (OSError, ValueError):
        return []
    return [doc_id for doc_id, file in sources.items() if file is not None and file.is_relative_to(path)]


def _flat(sources: Iterable[Any]) -> Iterator[Source]:
    for source in sources:
        if isinstance(source, str | os.PathLike | Document | File):
            yield source
        elif (document := document_of(source)) is not None:
            yield document
        elif isinstance(source, bytes) or not isinstance(source, Iterable):
            raise UsageError(f"{short_repr(source)} cannot be indexed", "give files, folders or documents")
        else:
            yield from _flat(source)


def document_of(foreign: object) -> Document | None:
    """Convert a document of LangChain, LlamaIndex or Haystack, known by its fields; None for any other object.

    Its id is the object's own. An object without one is called by the file that its metadata name, with the page, if any, and a
    digest of its text, so that the pieces of a file are apart. Metadata that an index cannot hold are left out.
    """
    for text_field, metadata_field, id_field in _FOREIGN_FIELDS:
        text, metadata = getattr(foreign, text_field, None), getattr(foreign, metadata_field, None)
        if isinstance(text, str) and isinstance(metadata, Mapping) and hasattr(foreign, id_field):
            title = metadata.get("title")
            return Document(
                id=getattr(foreign, id_field) or _foreign_id(text, metadata),
                text=text,
                title=title if isinstance(title, str) else "",
                metadata=FileMetadata({key: value for key, value in metadata.items() if key != "title"}),
            )
    return None


def _foreign_id(text: str, metadata: Mapping[str, object]) -> str:
    file = next((str(metadata[name]) for name in _FILE_FIELDS if metadata.get(name)), "text")
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()
    return "#".join([file, *(str(metadata[key]) for key in ("page",) if key in metadata), digest])


def _document_digest(document: Document) -> str:
    parts: object = (document.text, document.title, sorted(document.metadata.items()), document.outline, document.pages)
    # without units, the digest of versions that had none
    parts = (parts, document.units) if document.units else parts
    try:
        return digest_of(repr(parts).encode("utf-8", "surrogatepass"))
    except ValueError:
        # a number of more digits than Python writes
        return ""
