"""What is to be indexed: files and documents, each once, with a digest that tells whether it changed."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import TypeAlias

from mergewise.errors import ReadError
from mergewise.readers import find_files, read
from mergewise.types import Document

Source: TypeAlias = str | os.PathLike[str] | Document

_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Input:
    """Something to index: a file, or a document that the caller made."""

    name: str
    source: Path | Document

    def digest(self) -> str:
        if isinstance(self.source, Document):
            given = self.source
            parts: object = (given.text, given.title, sorted(given.metadata.items()), given.outline, given.pages)
            parts = (
                (parts, given.units) if given.units else parts
            )  # without units, the digest of versions that had none
            return _digest(repr(parts).encode("utf-8", "surrogatepass"))
        try:
            return _digest(self.source.read_bytes())
        except OSError:
            return ""  # `document` will say why it cannot be read

    def document(self) -> Document:
        document = self.source if isinstance(self.source, Document) else read(self.source, id=self.name)
        if not document.text.strip():
            raise ReadError("empty")
        if _SURROGATE.search(document.id + document.title + document.text):
            raise ReadError("not valid Unicode: it holds half a surrogate pair")
        return replace(document, units=_checked_units(document)) if document.units else document


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


def inputs_of(sources: Iterable[Source | Iterable[Source]]) -> list[Input]:
    """The files and documents, each once; for a folder, the files in it."""
    inputs: dict[str, Input] = {}
    for source in _flat(sources):
        if isinstance(source, Document):
            inputs.setdefault(source.id, Input(source.id, source))
        else:
            for file in find_files([Path(os.path.normpath(source))]):
                inputs.setdefault(file.as_posix(), Input(file.as_posix(), file))
    return list(inputs.values())


def _flat(sources: Iterable[Source | Iterable[Source]]) -> Iterator[Source]:
    for source in sources:
        if isinstance(source, str | os.PathLike | Document):
            yield source
        else:
            yield from source


def _digest(content: bytes) -> str:
    return blake2b(content, digest_size=16).hexdigest()
