"""Files to documents: `read_file` reads one file, `find_files` finds many.

`SUFFIXES` maps each suffix to its reader. `walked_suffixes` are those that a folder is searched for. A reader is a function from
bytes to `Parsed`. Whatever its parser raises, `read_file` raises a ReadError with a reason in one line. Parsers are imported at
their first use.
"""

from __future__ import annotations

import errno
import gzip
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, partial
from hashlib import blake2b
from io import BytesIO
from pathlib import Path, PurePosixPath
from stat import S_ISDIR
from typing import NamedTuple, Protocol, TypeAlias

from mergewise.errors import ReadError, first_line
from mergewise.files import regular_bytes
from mergewise.lazy import Lazy
from mergewise.log import log
from mergewise.plugins import merge_parts, plugins
from mergewise.readers.as_markdown import markup_readers
from mergewise.readers.builder import Parsed
from mergewise.readers.definitions import LANGUAGES
from mergewise.readers.docx import read_docx
from mergewise.readers.epub import read_epub
from mergewise.readers.front_matter import field_units, read_plain
from mergewise.readers.html import read_html
from mergewise.readers.jats import read_xml
from mergewise.readers.mail import read_eml, read_mbox
from mergewise.readers.markdown import read_markdown
from mergewise.readers.metadata import metadata_from as metadata_from
from mergewise.readers.notebook import read_notebook
from mergewise.readers.odt import read_odt
from mergewise.readers.patterns import ALL_FILES, FileChoice
from mergewise.readers.pdf import read_pdf
from mergewise.readers.pptx import read_pptx
from mergewise.readers.recognition import Recognition
from mergewise.readers.records import read_json, read_json_lines
from mergewise.readers.rst import read_rst
from mergewise.readers.source import reader_of
from mergewise.readers.table import read_csv, read_tsv
from mergewise.readers.xlsx import read_xlsx
from mergewise.text.sections import short_name
from mergewise.types import Document, Failure, Known, OutwardLink, frozen

__all__ = [
    "MAX_BYTES",
    "SUFFIXES",
    "FileReader",
    "FolderSearch",
    "Parsed",
    "ReadFile",
    "Reader",
    "digest_of",
    "walked_suffixes",
]
__all__ += ["file_bytes", "find_files", "read_file"]

Reader: TypeAlias = Callable[[bytes], Parsed]


Place: TypeAlias = str | tuple[int, int]
"""A place on disk: a real path, or the device and inode of a folder."""


@frozen
class FileFormat:
    """A format that another package reads, provided through an entry point of the group `mergewise.readers`.

    Attributes:
        suffixes: Suffixes of its files in lower case, such as (".eqn",).
        read: Function from the bytes of a file to a `Parsed`. Any error that it raises fails that file alone.
        walked: True if a search through folders reads such files. Otherwise they are read only if they are named.
        sandboxed: True if such files are read in the separate process with limits, as PDF and DOCX are.
    """

    suffixes: tuple[str, ...]
    read: Reader
    walked: bool = True
    sandboxed: bool = True


class ReadFile(NamedTuple):
    """A document, the digest of the bytes it was read from, and the numbers of its pages that may be scans."""

    document: Document
    digest: str
    textless: tuple[int, ...] = ()


class FileReader(Protocol):
    """A function that reads one file: `read_file`, or the same in another process."""

    def __call__(
        self, path: Path, *, id: str | None = None, name: str | None = None, within: Path | None = None
    ) -> ReadFile: ...


UNTRIED = " untried beyond "
MAX_BYTES = 200_000_000
_OS_REASONS = {
    errno.ENOENT: "no such file",
    errno.EACCES: "permission denied",
    errno.EPERM: "permission denied",
    errno.EINVAL: "not a regular file",
    errno.EXDEV: "a link out of the folder",
}


_READERS: tuple[tuple[Reader, str], ...] = (
    (read_plain, ".log .text .txt"),
    (read_markdown, ".markdown .md"),
    (read_rst, ".rst"),
    (read_html, ".htm .html .xhtml"),
    (read_xml, ".nxml .xml"),
    (read_docx, ".docx"),
    (read_odt, ".odt"),
    (read_epub, ".epub"),
    (read_pdf, ".pdf"),
    (read_pptx, ".pptx"),
    (read_xlsx, ".xlsm .xlsx"),
    (read_csv, ".csv"),
    (read_tsv, ".tsv"),
    (read_json, ".json"),
    (read_json_lines, ".jsonl .ndjson"),
    (read_notebook, ".ipynb"),
    (read_eml, ".eml"),
    (read_mbox, ".mbox"),
)


def _formats() -> dict[str, FileFormat]:
    found = plugins("mergewise.readers", FileFormat, "mergewise.extend.FileFormat")
    return merge_parts(*((one.origin, dict.fromkeys(one.part.suffixes, one.part)) for one in found))


def _readers() -> dict[str, Reader]:
    own = {suffix: reader for reader, suffixes in _READERS for suffix in suffixes.split()}
    own |= dict(markup_readers())
    own |= {suffix: reader_of(language) for suffix, language in LANGUAGES.items()}
    return own | {suffix: one.read for suffix, one in FORMATS.items()}


FORMATS: Lazy[FileFormat] = Lazy(_formats)
"""Formats of other packages, by suffix. They take precedence over the readers here."""
SUFFIXES: Lazy[Reader] = Lazy(_readers)


@cache
def walked_suffixes() -> frozenset[str]:
    """Return the suffixes that a folder is searched for.

    Configuration and JSON are read only if they are named: in a folder of documents they are mostly build files, and a search
    would find their words instead of its text.
    """
    named_only = {".cfg", ".ini", ".json", ".toml", ".yaml", ".yml"} - FORMATS.keys()
    return frozenset(SUFFIXES) - named_only - {suffix for suffix, one in FORMATS.items() if not one.walked}


def read_file(
    path: Path,
    *,
    id: str | None = None,
    name: str | None = None,
    within: Path | None = None,
    recognition: Recognition | None = None,
) -> ReadFile:
    """Read one file, with the reader of its suffix, and hash the same bytes.

    A file of unknown suffix is read as plain text. A file such as `corpus.jsonl.gz` is unpacked first. A file without a title
    gets its name as title. Pages without text are recognised as far as `recognition` allows. If a page was left out, the digest
    ends with `UNTRIED` and the page limit, so that a higher limit reads the file again.

    Args:
        path: Path of the file. With forward slashes, it is the default id.
        id: Id of the document.
        name: Name to read the file as, instead of its own.
        within: Real path of a folder that links must not lead out of.
        recognition: Limits for text recognition. Without it, no page is recognised.

    Raises:
        ReadError: with a reason in one line, whatever the parser raised.
    """
    named = path if name is None else PurePosixPath(name)
    is_packed = named.suffix.lower() == ".gz" and named.with_suffix("").suffix.lower() in SUFFIXES
    named = named.with_suffix("") if is_packed else named
    reader = SUFFIXES.get(named.suffix.lower(), read_plain)
    if reader is read_pdf and recognition is not None:
        reader = partial(read_pdf, recognition=recognition)
    try:
        data = file_bytes(path, within)
        if not data.strip():
            raise ReadError("empty")
        parsed = reader(unpack(data) if is_packed else data)
    except ReadError:
        raise
    except RecursionError as error:
        raise ReadError("nested too deeply") from error
    except Exception as error:
        # parsers raise anything on broken files; one such file must not stop the others
        raise ReadError(f"damaged or not supported: {first_line(error)}") from error
    if not parsed.text.strip():
        raise ReadError("no text")
    for note in parsed.notes:
        log.warning("%s: %s", named, note)
    document = Document(
        id=path.as_posix() if id is None else id,
        text=parsed.text,
        title=short_name(parsed.title) or (named.name if named.suffix.lower() in LANGUAGES else named.stem),
        metadata=parsed.metadata,
        outline=parsed.outline,
        pages=parsed.pages,
        units=field_units(parsed.text) if reader is read_rst else parsed.units,
    )
    tried = 0 if recognition is None else recognition.pages
    complete = not parsed.textless or (recognition is not None and not recognition.ended)
    return ReadFile(document, digest_of(data) + ("" if complete else f"{UNTRIED}{tried}"), parsed.textless)


@dataclass
class FolderSearch:
    """Settings and results of a search through folders.

    `choice` selects files. The folders `without` are skipped. `folders` are the searched folders. `left_out` counts, by suffix,
    files without a reader. `excluded` counts the files and folders that `choice` leaves out. `outward` are links that lead out
    of the searched folder. They are followed only with `follow_links`. `lost` are the documents of whole sources without such a
    file now, and `failed` are the failures of sources.
    """

    choice: FileChoice = ALL_FILES
    without: tuple[Path, ...] = ()
    follow_links: bool = False
    folders: list[Path] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    excluded: int = 0
    outward: list[OutwardLink] = field(default_factory=list)
    lost: list[Known] = field(default_factory=list)
    failed: list[Failure] = field(default_factory=list)

    def takes(self, name: str) -> bool:
        """Tell whether a file of a source is read, by its path there. Hidden files are not, as in folders."""
        path = Path(name)
        return not any(part.startswith(".") for part in path.parts) and self._is_wanted(path, Path(), is_folder=False)

    def _is_wanted(self, path: Path, folder: Path, *, is_folder: bool) -> bool:
        """Tell whether a file is read, or a folder searched. Count those that are not."""
        suffix = path.suffix.lower()
        if not self.choice.takes(path, folder, is_folder=is_folder):
            self.excluded += 1
        elif is_folder or suffix in walked_suffixes() | self.choice.suffixes:
            return True
        else:
            self.left_out[suffix] += 1
        return False

    def files(self, folder: Path, seen: set[Place]) -> Iterator[Path]:
        self.folders.append(folder)
        # a list instead of recursion, since folders may be nested deeply
        waiting = [folder]
        while waiting:
            path = waiting.pop()
            # `Path.is_dir` raises for a path that is too long for the system
            is_folder = path is folder or os.path.isdir(path)  # noqa: PTH112
            if path is not folder and not self._is_wanted(path, folder, is_folder=is_folder):
                continue
            # a file may be listed twice, and a symbolic link may lead back up
            if _is_new(path, seen) and (not self._leads_out(path, folder) or self.follow_links):
                try:
                    entries = sorted(path.iterdir()) if is_folder else None
                except OSError:
                    entries = None
                if entries is None:
                    # also pipes, devices and broken links: `read_file` reports why they cannot be read
                    yield path
                else:
                    waiting += (entry for entry in reversed(entries) if not entry.name.startswith("."))

    def _leads_out(self, path: Path, folder: Path) -> bool:
        """Return whether the path is a link out of the folder, and note such a link."""
        # `read_file` reports a broken or circular link, and a path that is too long
        with suppress(OSError, RuntimeError):
            if path is not folder and path.is_symlink():
                target = path.resolve(strict=True)
                if not target.is_relative_to(os.path.realpath(folder)):
                    self.outward.append(OutwardLink(path.as_posix(), target.as_posix(), self.follow_links))
                    return True
        return False


def find_files(paths: Iterable[Path], search: FolderSearch | None = None) -> Iterator[Path]:
    """Yield the files to read in `paths`, each once. A path to a file is yielded whatever its suffix.

    Folders are walked in sorted order, without hidden entries. `search` selects files and notes the others. Missing and
    unreadable paths are yielded, too, so that `read_file` reports the reason.
    """
    search = FolderSearch() if search is None else search
    seen: set[Place] = set()
    for folder in search.without:
        _is_new(folder, seen)
    for path in paths:
        if path.is_dir():
            yield from search.files(path, seen)
        elif _is_new(path, seen):
            yield path


def _is_new(path: Path, seen: set[Place]) -> bool:
    """Note the path, and return whether it is new. A folder is identified by its inode: finding its real path may be slow."""
    number = 0
    with suppress(OSError):
        status = path.stat()
        number = status.st_ino if S_ISDIR(status.st_mode) else 0
    place: Place = (status.st_dev, number) if number else os.path.realpath(path)
    is_new = place not in seen
    seen.add(place)
    return is_new


def file_bytes(path: Path, within: Path | None = None) -> bytes:
    """Return the content of a regular file, which may be empty. Its links must not lead out of the folder `within`.

    Raises:
        ReadError: for anything else, which might never end, and for a file larger than `MAX_BYTES`.
    """
    try:
        status = path.stat()
        if S_ISDIR(status.st_mode):
            raise ReadError("a folder, not a file" if os.access(path, os.R_OK) else "permission denied")
        # reading a sparse file to its end would take long
        if status.st_size > MAX_BYTES:
            raise ReadError(f"larger than {MAX_BYTES // 1_000_000} MB")
        return regular_bytes(path, MAX_BYTES, follow=True, within=within)
    except OSError as error:
        raise ReadError(_OS_REASONS.get(error.errno or 0) or error.strerror or first_line(error)) from error
    except ValueError as error:
        raise ReadError(f"invalid file name: {first_line(error)}") from error


def unpack(data: bytes) -> bytes:
    """Unpack gzip. Raises ReadError for more than `MAX_BYTES`."""
    content = gzip.GzipFile(fileobj=BytesIO(data)).read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise ReadError(f"larger than {MAX_BYTES // 1_000_000} MB, unpacked")
    return content


def digest_of(content: bytes) -> str:
    return blake2b(content, digest_size=16).hexdigest()
