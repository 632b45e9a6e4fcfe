"""Files to documents: `read` one, `find_files` many.

`SUFFIXES` names the reader of each kind of file. A reader is a function from bytes to `Parsed`. Whatever its parser raises,
`read` raises a ReadError with a reason in one line. Parsers are imported when first used.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeAlias

from mergewise.errors import ReadError
from mergewise.readers.builder import Parsed
from mergewise.readers.docx import read_docx
from mergewise.readers.html import read_html
from mergewise.readers.jats import read_jats
from mergewise.readers.markdown import read_markdown
from mergewise.readers.pdf import read_pdf
from mergewise.readers.plain import read_plain
from mergewise.readers.rst import read_rst
from mergewise.types import Document

__all__ = ["MAX_BYTES", "SUFFIXES", "Parsed", "Reader", "find_files", "read"]

Reader: TypeAlias = Callable[[bytes], Parsed]

MAX_BYTES = 200_000_000

SUFFIXES: dict[str, Reader] = {
    ".docx": read_docx,
    ".htm": read_html,
    ".html": read_html,
    ".log": read_plain,
    ".markdown": read_markdown,
    ".md": read_markdown,
    ".nxml": read_jats,
    ".pdf": read_pdf,
    ".rst": read_rst,
    ".text": read_plain,
    ".txt": read_plain,
    ".xhtml": read_html,
    ".xml": read_jats,
}


def read(path: Path, *, id: str | None = None) -> Document:
    """The document in one file, by its suffix; a file of unknown suffix is read as plain text.

    The id is the path as given, with forward slashes, unless `id` names another. A file that states no title is
    called by its name. Raises ReadError, and nothing else, with a reason in one line.
    """
    reader = SUFFIXES.get(path.suffix.lower(), read_plain)
    try:
        data = _load(path)
        parsed = reader(data)
    except ReadError:
        raise
    except OSError as error:
        raise ReadError(_os_reason(error)) from error
    except RecursionError as error:
        raise ReadError("nested too deeply") from error
    except Exception as error:  # on broken files parsers raise anything; one such file must not stop the others
        raise ReadError(f"damaged or not supported: {_first_line(error)}") from error
    if not parsed.text.strip():
        raise ReadError("no text")
    return Document(
        id=path.as_posix() if id is None else id,
        text=parsed.text,
        title=parsed.title or path.stem,
        metadata=parsed.metadata,
        outline=parsed.outline,
        pages=parsed.pages,
        units=parsed.units,
    )


def find_files(paths: Iterable[Path]) -> Iterator[Path]:
    """The files to read in `paths`, each once. Files that are named themselves are read whatever their suffix.

    A folder is walked in sorted order, without hidden entries and files of unknown suffix. A path that does not exist, and
    a folder that cannot be listed, is yielded as it is, so that `read` gives the reason.
    """
    seen: set[Path] = set()
    for path in paths:
        if path.is_dir():
            yield from _walk(path, seen)
        elif _is_new(path, seen):
            yield path


def _walk(folder: Path, seen: set[Path]) -> Iterator[Path]:
    if not _is_new(folder, seen):  # also where a symbolic link leads back up
        return
    try:
        entries = sorted(folder.iterdir())
    except OSError:
        yield folder
        return
    for entry in entries:
        if entry.name.startswith("."):
            continue
        if entry.is_dir():
            yield from _walk(entry, seen)
        elif entry.suffix.lower() in SUFFIXES and entry.is_file() and _is_new(entry, seen):
            yield entry


def _is_new(path: Path, seen: set[Path]) -> bool:
    real = Path(os.path.realpath(path))
    if real in seen:
        return False
    seen.add(real)
    return True


def _load(path: Path) -> bytes:
    if path.is_dir():
        raise ReadError("a folder, not a file" if os.access(path, os.R_OK) else "permission denied")
    if path.exists() and not path.is_file():  # reading a pipe or a device might never end
        raise ReadError("not a regular file")
    with path.open("rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ReadError(f"larger than {MAX_BYTES // 1_000_000} MB")
    if not data.strip():
        raise ReadError("empty")
    return data


def _os_reason(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "no such file"
    if isinstance(error, PermissionError):
        return "permission denied"
    return error.strerror or _first_line(error)


def _first_line(error: Exception) -> str:
    lines = str(error).split("\n")
    return lines[0].strip()[:200] or type(error).__name__
