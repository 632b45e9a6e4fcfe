"""The manifest: which version of each table an index consists of. It is replaced atomically, as the last step of a change."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from mergewise.errors import CorruptIndex, NewerFormat, NotAnIndex, OlderFormat

# 4: the table of leaves may have a column of words in other languages than English, which older versions cannot write
FORMAT = 4
# is read, and written anew as the newest by the next change
OLDEST = 2
NAME = "manifest.json"

Run: TypeAlias = tuple[int, int]
"""The document numbers from the first up to, not including, the second."""


@dataclass(frozen=True, slots=True)
class ViewState:
    """A view of an index: its settings, and the documents that do not have it yet, as runs of their numbers."""

    settings: Mapping[str, Any]
    missing: tuple[Run, ...] = ()


@dataclass(frozen=True, slots=True)
class Manifest:
    """`tables` maps a table to the version that is part of the index; `mapped` a table to its files (`store.mapped`);
    `trained` the vector indexes, by table and column, to the rows that there were when their partitions were chosen.

    Ids below `next_id` and document numbers below `next_number` are taken.
    """

    embedder: str
    dimension: int
    views: Mapping[str, ViewState]
    tables: Mapping[str, int] = field(default_factory=dict)
    mapped: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    trained: Mapping[str, int] = field(default_factory=dict)
    next_id: int = 0
    next_number: int = 0
    format: int = FORMAT

    @property
    def whole(self) -> tuple[str, ...]:
        """The views that every document has."""
        return tuple(name for name, view in self.views.items() if not view.missing)


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
    except UnicodeDecodeError:
        raise _damage_error(directory) from None
    except (NotADirectoryError, IsADirectoryError):
        raise NotAnIndex(f"{directory} is not a mergewise index", "an index is a directory; choose another") from None
    except PermissionError as error:
        raise NotAnIndex(f"{path} cannot be read: {error.strerror}", "check its permissions") from None
    # a name that is too long, or that no file can have
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise NotAnIndex(f"{str(path)[:200]!r} cannot be read: {reason}", "choose another --index") from None
    return _parse(text, directory)


def _parse(text: str, directory: Path) -> Manifest:
    try:
        raw = json.loads(text)
        written_by = int(raw["format"])
    except (ValueError, TypeError, KeyError, RecursionError):
        # the tables of an index stand beside it
        if any(directory.glob("*.lance")):
            raise _damage_error(directory) from None
        raise NotAnIndex(f"{directory / NAME} is not a mergewise manifest", "choose another --index") from None
    if written_by > FORMAT:
        raise NewerFormat(
            f"{directory} has format {written_by}, this mergewise reads up to {FORMAT}", "upgrade mergewise"
        )
    if written_by < OLDEST:
        raise OlderFormat(
            f"{directory} has format {written_by}, this mergewise reads {OLDEST} to {FORMAT}",
            "index the documents again into a new directory",
        )
    try:
        return _sound(_manifest(_upgrade(raw) if written_by == OLDEST else raw))
    except (TypeError, KeyError, ValueError, AttributeError):
        raise CorruptIndex(
            f"{directory / NAME} lacks fields", "index the documents again into a new directory"
        ) from None


def _damage_error(directory: Path) -> CorruptIndex:
    return CorruptIndex(f"{directory / NAME} is damaged", "restore it from a copy, or index the documents again")


def _sound(manifest: Manifest) -> Manifest:
    """The manifest, if every field holds what it should. Raises ValueError."""
    counts = [manifest.dimension, manifest.next_id, manifest.next_number]
    counts += [*manifest.tables.values(), *manifest.trained.values()]
    counts += [bound for view in manifest.views.values() for run in view.missing for bound in run]
    if any(type(count) is not int or not 0 <= count < 2**62 for count in counts):
        raise ValueError("a count that is none")
    if not isinstance(manifest.embedder, str) or not manifest.views:
        raise ValueError("no embedder, or no view")
    if any(not isinstance(view.settings, dict) for view in manifest.views.values()):
        raise ValueError("settings that are none")
    if any(not isinstance(mapped, dict) for mapped in manifest.mapped.values()):
        raise ValueError("files that are none")
    return manifest


def _manifest(raw: Mapping[str, Any]) -> Manifest:
    views = {
        name: ViewState(view["settings"], tuple((first, end) for first, end in view["missing"]))
        for name, view in raw["views"].items()
    }
    return Manifest(**{**raw, "views": views})


def _upgrade(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Format 2 knew two views by name. One that was being added is begun anew: what it has is replaced."""
    slices = raw["slices"]
    views = {"leaf": {"settings": raw["sizes"], "missing": []}}
    if slices is not None:
        missing = [] if "slice" in raw["views"] else [[0, raw["next_number"]]]
        views["slice"] = {"settings": slices, "missing": missing}
    kept = {name: raw[name] for name in ("embedder", "dimension", "tables", "next_id", "next_number", "format")}
    return {**kept, "views": views}


def write_manifest(directory: Path, manifest: Manifest) -> None:
    """Replace the manifest in one step: it is on the disk whole before it takes the name."""
    temporary = directory / f".{NAME}.{os.getpid()}"
    with temporary.open("w", encoding="utf-8") as file:
        json.dump({**asdict(manifest), "format": FORMAT}, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(directory / NAME)


# -- runs of numbers


def without(runs: Sequence[Run], numbers: Collection[int]) -> tuple[Run, ...]:
    """The runs without these numbers."""
    left: list[Run] = []
    for first, end in runs:
        for number in sorted(number for number in numbers if first <= number < end):
            if first < number:
                left.append((first, number))
            first = number + 1
        if first < end:
            left.append((first, end))
    return tuple(left)


def holds(runs: Sequence[Run], number: int) -> bool:
    return any(first <= number < end for first, end in runs)
