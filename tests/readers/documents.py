"""Parts of a read document, and files made in memory."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from mergewise.types import Document

Read: TypeAlias = Callable[[str, "bytes | str"], Document]
Refusal: TypeAlias = Callable[[str, "bytes | str"], str]


def outline(document: Document) -> list[tuple[int, str]]:
    return [(heading.level, heading.title) for heading in document.outline or ()]


def titles(document: Document) -> list[str]:
    return [heading.title for heading in document.outline or ()]


def heading_texts(document: Document) -> list[str]:
    """Return the text at each heading."""
    return [document.text[heading.start : heading.end] for heading in document.outline or ()]


def units(document: Document) -> list[str]:
    return [document.text[start:end] for start, end, *_ in document.units]


def bytes_of(made: Any) -> bytes:
    """Return the file of a document made by python-docx, python-pptx, openpyxl or odfpy."""
    file = io.BytesIO()
    (made.write if hasattr(made, "write") else made.save)(file)
    return file.getvalue()


def archive(parts: Mapping[str, bytes | str]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as target:
        for name, content in parts.items():
            target.writestr(name, content)
    return file.getvalue()


def with_changed_parts(content: bytes, change: Callable[[str, bytes], bytes | str]) -> bytes:
    """Return an archive whose parts are changed by `change(name, content)`."""
    with zipfile.ZipFile(io.BytesIO(content)) as source:
        return archive({name: change(name, source.read(name)) for name in source.namelist()})
