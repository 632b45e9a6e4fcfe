"""The manifest: which version of each table an index consists of. It is replaced atomically, as the last step of a change."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property, lru_cache
from hashlib import blake2b
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeAlias

from mergewise.errors import CorruptIndex, NewerFormat, NotAnIndex, OlderFormat, StoreError
from mergewise.files import find_untrusted_entry, regular_bytes, write_whole
from mergewise.ranges import short_repr

# 4: the table of leaves may have a column of words in other languages than English, which older versions cannot write
FORMAT = 4
# 5: rows wait for their vectors, which older versions would misread. The format is 4 again once none does
WAITING = 5
NAME = "manifest.json"
# bytes: a million runs of numbers take less
_LONGEST = 64_000_000
# ids, numbers of documents and versions: as far as JSON's numbers are exact
_HIGHEST = 2**53
_WIDEST = 65_536
_LONGEST_SPEC = 4096
# of a table and of a file in the index: no separator, and no dot at the beginning
_LONGEST_NAME = 200
_PLAIN_NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{_LONGEST_NAME - 1}}}")

Run: TypeAlias = tuple[int, int]
"""The document numbers from the first up to, not including, the second."""


@dataclass(frozen=True, slots=True)
class ViewState:
    """A view of an index: its settings, and the documents that do not have it yet, as runs of their numbers.

    A view is `offered` to questions once it was whole, also while documents that came later lack it.
    """

    settings: Mapping[str, Any]
    missing: tuple[Run, ...] = ()
    offered: bool = True


@dataclass(frozen=True)
class Manifest:
    """`tables` maps a table to the version that is part of the index; `mapped` a table to its files (`store.mapped`);
    `trained` the vector indexes, by table and column, to the rows that there were when their partitions were chosen.

    Ids below `next_id` and document numbers below `next_number` are taken. `unembedded` are the rows of a table that wait for
    their vectors, as runs of ids. A run may go over ids that are of no row of the table. A table without runs has its vectors,
    but its search indexes are still to be made of them.
    """

    embedder: str
    dimension: int
    views: Mapping[str, ViewState]
    tables: Mapping[str, int] = field(default_factory=dict)
    mapped: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    trained: Mapping[str, int] = field(default_factory=dict)
    unembedded: Mapping[str, tuple[Run, ...]] = field(default_factory=dict)
    next_id: int = 0
    next_number: int = 0
    format: int = FORMAT

    @property
    def whole(self) -> tuple[str, ...]:
        """The views that every document has."""
        return tuple(name for name, view in self.views.items() if not view.missing)

    # every question is told it, and a server asks for it several times a question
    @cached_property
    def snapshot(self) -> str:
        """A short hash of the state that this is. Files of rows have names that were drawn, so that no other index has it."""
        return blake2b(json.dumps(asdict(self), sort_keys=True).encode(), digest_size=8).hexdigest()

    @property
    def offered(self) -> tuple[str, ...]:
        """The views that questions can use."""
        return tuple(name for name, view in self.views.items() if view.offered or not view.missing)


def read_manifest(directory: Path) -> Manifest | None:
    """The manifest of the index in `directory`; None where there is nothing yet."""
    path = directory / NAME
    try:
        text = _read(path)
        if text is None and directory.is_dir() and any(not entry.name.startswith(".") for entry in directory.iterdir()):
            raise NotAnIndex(
                f"{directory} is a directory, but not a mergewise index",
                "choose another --index, or an empty directory",
            )
    except UnicodeDecodeError:
        raise _damage_error(directory) from None
    except NotADirectoryError:
        raise NotAnIndex(f"{directory} is not a mergewise index", "an index is a directory; choose another") from None
    except PermissionError as error:
        raise NotAnIndex(f"{path} cannot be read: {error.strerror}", "check its permissions") from None
    # no regular file, or a name that is too long or that no file can have
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise NotAnIndex(f"{str(path)[:200]!r} cannot be read: {reason}", "choose another --index") from None
    return None if text is None else _parse(text, directory)


def _read(path: Path) -> str | None:
    try:
        return regular_bytes(path, _LONGEST).decode("utf-8")
    except FileNotFoundError:
        return None


def check_plain(directory: Path) -> None:
    """Raises CorruptIndex where the index holds anything but folders and regular files, and StoreError where it cannot be read.

    An index may have come with a clone: a link in it would have files elsewhere written, read or deleted.
    """
    try:
        strange = find_untrusted_entry(directory)
    except OSError as error:
        raise StoreError(f"{directory} cannot be read: {error.strerror}", "check its permissions") from None
    if strange is not None:
        raise CorruptIndex(
            f"{strange} is {'a link' if strange.is_symlink() else 'no regular file'}, which no index holds",
            "do not trust this index; if the link is yours, put the folder itself in its place",
        )


# every question reads the manifest, which is mostly what it was
@lru_cache(4)
def _parse(text: str, directory: Path) -> Manifest:
    try:
        raw = _record(text)
    except ValueError:
        # the tables of an index stand beside it
        if any(directory.glob("*.lance")):
            raise _damage_error(directory) from None
        raise NotAnIndex(f"{directory / NAME} is not a mergewise manifest", "choose another --index") from None
    return manifest_of(raw, directory)


def parse_manifest(content: bytes, place: object, beside: str) -> tuple[Manifest, Any]:
    """The manifest of the index in a place that is no directory, and what stands beside it under a name of its own.

    Raises NotAnIndex, and what `read_manifest` raises for formats and fields.
    """
    try:
        raw = _record(content.decode("utf-8"))
    except ValueError:
        raise NotAnIndex(f"{place}/{NAME} is not a mergewise manifest", "choose another --index") from None
    return manifest_of({name: value for name, value in raw.items() if name != beside}, place), raw.get(beside)


def _record(text: str) -> dict[str, Any]:
    """Raises ValueError where it is none."""
    try:
        raw = json.loads(text)
        if type(raw["format"]) is not int:
            raise TypeError
    except (TypeError, KeyError, RecursionError) as error:
        raise ValueError(str(error)) from None
    return dict(raw)


def manifest_of(raw: Mapping[str, Any], place: object) -> Manifest:
    """The manifest out of its record. Raises NewerFormat, OlderFormat and CorruptIndex."""
    written_by = raw["format"]
    if written_by > WAITING:
        raise NewerFormat(
            f"{place} has format {short_repr(written_by)}, this mergewise reads up to {WAITING}", "upgrade mergewise"
        )
    if written_by < FORMAT:
        raise OlderFormat(
            f"{place} has format {short_repr(written_by)}, this mergewise reads {FORMAT} and {WAITING}",
            "index the documents again into a new directory",
        )
    try:
        manifest = _manifest(raw)
        wrong = next(_faults(manifest), None)
    # what a field of another shape brings
    except (TypeError, KeyError, ValueError, AttributeError):
        wrong = "it lacks fields"
    if wrong is not None:
        raise CorruptIndex(f"{place}/{NAME} is no manifest: {wrong}", "index the documents again into a new directory")
    return manifest


def _damage_error(directory: Path) -> CorruptIndex:
    return CorruptIndex(f"{directory / NAME} is damaged", "restore it from a copy, or index the documents again")


def _faults(manifest: Manifest) -> Iterator[str]:
    """What is wrong with the types, ranges and sizes of the fields."""
    views = manifest.views
    if not isinstance(manifest.embedder, str) or not 0 < len(manifest.embedder) <= _LONGEST_SPEC:
        yield "its embedder is not a spec"
    if not _is_count(manifest.dimension, _WIDEST):
        yield f"its dimension is not a number up to {_WIDEST}"
    if not (_is_count(manifest.next_id) and _is_count(manifest.next_number)):
        yield "the numbers that are free are not numbers"
    if not views or any(len(name) > _LONGEST_NAME or not isinstance(of.settings, dict) for name, of in views.items()):
        yield "its views have no settings"
    if not all(_are_runs(view.missing, manifest.next_number) for view in views.values()):
        yield "the documents that a view lacks are not runs of numbers"
    if not all(type(view.offered) is bool for view in views.values()):
        yield "whether its views are offered is not said"
    if not all(_is_plain(name) and _are_runs(runs, manifest.next_id) for name, runs in manifest.unembedded.items()):
        yield "the rows that wait for vectors are not runs of ids"
    if not all(_is_plain(name) and _is_count(version) for name, version in manifest.tables.items()):
        yield "its tables are not names with versions"
    if not all(_is_count(rows) for rows in manifest.trained.values()):
        yield "its vector indexes have no numbers of rows"
    if not all(_is_plain(name) and _is_mapping(raw, manifest.next_id) for name, raw in manifest.mapped.items()):
        yield "its mapped files are not names with numbers of rows"


def _are_runs(runs: Sequence[Run], end: int) -> bool:
    bounds = [bound for run in runs for bound in run]
    return all(_is_count(bound, end) for bound in bounds) and bounds == sorted(bounds)


def _is_mapping(raw: Mapping[str, Any], next_id: int) -> bool:
    """Whether it is what `store.mapped.Mapped` is made of."""
    numbered = [*raw["segments"], *raw.get("address_files", ())]
    files = [file for file, _ in numbered] + ([] if raw["addresses"] is None else [raw["addresses"]])
    ids = raw["end"], raw.get("indexed", 0)
    return (
        all(map(_is_plain, files))
        and all(_is_count(rows) for _, rows in numbered)
        and all(_is_count(row, next_id) for row in ids)
    )


def _is_count(value: object, most: int = _HIGHEST) -> bool:
    return type(value) is int and 0 <= value <= most


def _is_plain(name: object) -> bool:
    return isinstance(name, str) and _PLAIN_NAME.fullmatch(name) is not None


def _manifest(raw: Mapping[str, Any]) -> Manifest:
    views = {
        name: ViewState(view["settings"], _runs(view["missing"]), view.get("offered", not view["missing"]))
        for name, view in raw["views"].items()
    }
    unembedded = {name: _runs(runs) for name, runs in raw.get("unembedded", {}).items()}
    return Manifest(**{**raw, "views": views, "unembedded": unembedded})


def _runs(raw: Sequence[Sequence[int]]) -> tuple[Run, ...]:
    return tuple((first, end) for first, end in raw)


def write_manifest(directory: Path, manifest: Manifest) -> None:
    """Replace the manifest in one step, under the writer's lock: it is on the disk whole before it takes the name."""
    write_whole(directory / NAME, json.dumps(manifest_record(manifest), indent=1).encode())
    # what killed writers left
    for left in directory.glob(f".{NAME}.*"):
        left.unlink(missing_ok=True)


def manifest_record(manifest: Manifest) -> dict[str, Any]:
    """The manifest as it is written."""
    raw = {**asdict(manifest), "format": WAITING if manifest.unembedded else FORMAT}
    if not manifest.unembedded:
        # a field that older versions do not know
        del raw["unembedded"]
    return raw


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


def without_span(runs: Sequence[Run], first: int, end: int) -> tuple[Run, ...]:
    """The runs without the numbers from `first` up to, not including, `end`."""
    parts = (part for a, b in runs for part in ((a, min(b, first)), (max(a, end), b)))
    return tuple((a, b) for a, b in parts if a < b)


def with_run(runs: Sequence[Run], first: int, end: int) -> tuple[Run, ...]:
    """The runs and one more, which begins where the last one ends, or behind it."""
    if runs and runs[-1][1] == first:
        return (*runs[:-1], (runs[-1][0], end))
    return (*runs, (first, end))


def holds(runs: Sequence[Run], number: int) -> bool:
    """Whether the number lies in one of the runs, which are in order."""
    at = bisect_right(runs, number, key=itemgetter(0)) - 1
    return at >= 0 and number < runs[at][1]
