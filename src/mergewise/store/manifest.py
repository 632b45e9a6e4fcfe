"""The manifest: which version of each table an index consists of. It is replaced atomically, as the last step of a change."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from mergewise.errors import CorruptIndex, NewerFormat, NotAnIndex, OlderFormat

FORMAT = 2
NAME = "manifest.json"


@dataclass(frozen=True, slots=True)
class Manifest:
    """`tables` maps a table to the version that is part of the index; ids below `next_id` are taken."""

    embedder: str
    dimension: int
    views: tuple[str, ...]
    sizes: dict[str, int]  # the tree's settings that the rows were made with
    tables: dict[str, int] = field(default_factory=dict)
    next_id: int = 0
    next_number: int = 0
    format: int = FORMAT
    slices: dict[str, Any] | None = (
        None  # settings of the slice view, once it was asked for; `views` has it when it is whole
    )


def read_manifest(directory: Path) -> Manifest | None:
    """The manifest of the index in `directory`; None where there is nothing yet."""
    path = directory / NAME
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        if directory.is_dir() and any(not entry.name.startswith(".") for entry in directory.iterdir()):
            raise NotAnIndex(
                f"{directory} is a directory, but not a mergewise index",
                "choose another --index, or an empty directory",
            ) from None
        return None
    except (NotADirectoryError, IsADirectoryError):
        raise NotAnIndex(f"{directory} is not a mergewise index", "an index is a directory; choose another") from None
    except PermissionError as error:
        raise NotAnIndex(f"{path} cannot be read: {error.strerror}", "check its permissions") from None
    return _parse(text, directory)


def _parse(text: str, directory: Path) -> Manifest:
    try:
        raw = json.loads(text)
        written_by = int(raw["format"])
    except (ValueError, TypeError, KeyError):
        raise NotAnIndex(f"{directory / NAME} is not a mergewise manifest", "choose another --index") from None
    if written_by > FORMAT:
        raise NewerFormat(
            f"{directory} has format {written_by}, this mergewise reads up to {FORMAT}", "upgrade mergewise"
        )
    if written_by < FORMAT:
        raise OlderFormat(
            f"{directory} has format {written_by}, this mergewise reads {FORMAT}",
            "index the documents again into a new directory",
        )
    try:
        return Manifest(**{**raw, "views": tuple(raw["views"])})
    except (TypeError, KeyError):
        raise CorruptIndex(
            f"{directory / NAME} lacks fields", "index the documents again into a new directory"
        ) from None


def write_manifest(directory: Path, manifest: Manifest) -> None:
    """Replace the manifest in one step: it is on the disk whole before it takes the name."""
    temporary = directory / f".{NAME}.{os.getpid()}"
    with temporary.open("w", encoding="utf-8") as file:
        json.dump(asdict(manifest), file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(directory / NAME)
