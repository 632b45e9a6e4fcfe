"""The manifest: the version of each table in an index. It is replaced atomically, as the last step of a change."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, lru_cache
from hashlib import blake2b
from operator import itemgetter
from pathlib import Path
from shlex import quote
from typing import Any, TypeAlias
from zlib import crc32

from mergewise.errors import CorruptIndex, NewerFormat, NotAnIndex, OlderFormat, StoreError
from mergewise.files import find_untrusted_entry, regular_bytes, write_whole
from mergewise.ranges import short_repr
from mergewise.types import Json, JsonDict, frozen

# 6: digests of files, of the manifest too. 4 and 5, which this version reads, have none.
FORMAT, OLDEST = 6, 4
NAME = "manifest.json"
# the manifests of all shards
SHARDS_NAME, SHARDS_FORMAT = "shards.json", 1
MOST_SHARDS = 1024
_DIGEST = '{"digest": "'
# characters of the digest, with those around it
_DIGESTED = len(_DIGEST) + 10
# maximum size in bytes: a million runs of numbers take less
_LONGEST = 256_000_000
# maximum of ids, document numbers and versions: the largest exact number in JSON
_HIGHEST = 2**53
_WIDEST = 65_536
_LONGEST_SPEC = 4096
# names of tables and files in the index: no separator, and no leading dot
_LONGEST_NAME = 200
_PLAIN_NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{_LONGEST_NAME - 1}}}")

Run: TypeAlias = tuple[int, int]
"""Consecutive numbers, from the first up to, but not including, the second."""


@frozen
class ViewState:
    """A view of an index: its settings, and the numbers of the documents that lack it, as runs.

    A view is `offered` to queries once it has been complete, even while new documents lack it.
    """

    settings: Json
    missing: tuple[Run, ...] = ()
    offered: bool = True


@dataclass(frozen=True)
class Manifest:
    """The state of an index.

    `tables` maps each table to its current version, `mapped` each table to its files (`store.mapped`). `trained` maps the vector
    indexes, TABLE.COLUMN, to the number of rows at their training.

    Ids below `next_id` and document numbers below `next_number` are in use. `unembedded` maps tables to the rows that lack
    vectors, as runs of ids. A run may cover ids that the table does not have. A table with an empty list has all its vectors,
    but still needs its search indexes.

    `digests` maps each file of the tables and each mapped file to its digest (`store.digests`). Older indexes have none.
    `altered` are the documents whose damaged texts a repair has kept. They are not read.
    """

    embedder: str
    dimension: int
    views: Mapping[str, ViewState]
    tables: Mapping[str, int] = field(default_factory=dict)
    mapped: Mapping[str, Json] = field(default_factory=dict)
    trained: Mapping[str, int] = field(default_factory=dict)
    unembedded: Mapping[str, tuple[Run, ...]] = field(default_factory=dict)
    next_id: int = 0
    next_number: int = 0
    digests: Mapping[str, str] = field(default_factory=dict)
    altered: tuple[str, ...] = ()
    format: int = FORMAT

    @property
    def file(self) -> str:
        """The name of the file that holds this state."""
        return NAME

    @property
    def parts(self) -> Mapping[str, Manifest]:
        """The manifests that name tables, by the folders of these tables."""
        return {"": self}

    @property
    def settings(self) -> Mapping[str, Json]:
        """The settings of the views."""
        return {name: view.settings for name, view in self.views.items()}

    # cached, because a server reads it several times per query
    @cached_property
    def snapshot(self) -> str:
        """A short hash of the state. Files of rows have random names, so the hash is unique among all indexes."""
        return blake2b(json.dumps(asdict(self), sort_keys=True).encode(), digest_size=8).hexdigest()

    @property
    def offered(self) -> tuple[str, ...]:
        """The views that queries can use."""
        return tuple(name for name, view in self.views.items() if view.offered or not view.missing)


@dataclass(frozen=True)
class ShardedManifest(Manifest):
    """The manifests of all shards of an index, with their common fields. Indexes of older versions have no id.

    Another number of shards is another `generation`, with folders of its own.
    """

    shards: tuple[Manifest, ...] = ()
    id: str | None = None
    generation: int = 1

    @classmethod
    def of(cls, shards: Sequence[Manifest], own_id: str | None, generation: int = 1) -> ShardedManifest:
        """Join the manifests of all shards.

        A view is missing in the index if a shard lacks it, and offered if all shards offer it.
        """
        views = {
            name: replace(
                view,
                missing=next((shard.views[name].missing for shard in shards if shard.views[name].missing), ()),
                offered=all(shard.views[name].offered for shard in shards),
            )
            for name, view in shards[0].views.items()
        }
        return cls(shards[0].embedder, shards[0].dimension, views, shards=(*shards,), id=own_id, generation=generation)

    @property
    def file(self) -> str:
        return SHARDS_NAME

    @cached_property
    def parts(self) -> Mapping[str, Manifest]:
        folder = f"{self.folders[0]}/" if self.generation > 1 else ""
        return {f"{folder}shard-{at:04}": shard for at, shard in enumerate(self.shards)}

    @property
    def folders(self) -> tuple[str, str]:
        """The folders of this generation, unless it is the first, and of the next, which is an index until it replaces this."""
        return f"generation-{self.generation:04}", f"generation-{self.generation + 1:04}"


def read_manifest(directory: Path) -> Manifest | None:
    """Read the manifest of the index in `directory`. Return None if the directory is missing or empty."""
    path = state_file(directory)
    try:
        text = None
        with suppress(FileNotFoundError):
            text = regular_bytes(path, _LONGEST).decode("utf-8")
        if text is None:
            is_sharded = any(directory.glob("shard-*/*.lance"))
            if is_sharded or _has_tables(directory):
                path = directory / SHARDS_NAME if is_sharded else path
                raise CorruptIndex(f"missing manifest: {path}", damage_hint(directory))
            # a killed writer of a new index leaves hidden files and folders of shards
            entries = directory.iterdir() if directory.is_dir() else ()
            if any(not entry.name.startswith((".", "shard-", "generation-")) for entry in entries):
                raise NotAnIndex(
                    f"{directory} is not a mergewise index", "choose another --index, or an empty directory"
                )
    except UnicodeDecodeError:
        raise _damage_error(path) from None
    except NotADirectoryError:
        raise NotAnIndex(f"{directory} is not a mergewise index", "an index is a directory; choose another") from None
    except PermissionError as error:
        raise NotAnIndex(f"cannot read {path}: {error.strerror}", "check its permissions") from None
    # not a regular file, or an invalid or too long name
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise NotAnIndex(f"cannot read {str(path)[:200]!r}: {reason}", "choose another --index") from None
    return None if text is None else _parse(text, path)


def state_file(directory: Path) -> Path:
    """Return the state file of an index in this directory. Each change replaces it. An index without it does not exist."""
    # an invalid path is reported when it is read
    with suppress(OSError):
        if (directory / SHARDS_NAME).is_file():
            return directory / SHARDS_NAME
    return directory / NAME


def check_plain(directory: Path) -> None:
    """Raise CorruptIndex if an index holds anything but folders and regular files, or StoreError if it is unreadable.

    An index may be part of a cloned repository. A link in it could make us read, write or delete files elsewhere.
    """
    try:
        strange = find_untrusted_entry(directory)
    except OSError as error:
        raise StoreError(f"cannot read {directory}: {error.strerror}", "check its permissions") from None
    if strange is not None:
        raise CorruptIndex(
            f"unexpected file in the index: {strange} is {'a link' if strange.is_symlink() else 'not a regular file'}",
            "do not trust this index; if the link is yours, replace it by the folder itself",
        )


# every query reads the manifest, which seldom changes
@lru_cache(4)
def _parse(text: str, path: Path) -> Manifest:
    try:
        raw = _record(text)
    except ValueError:
        # a digest, or tables next to the manifest, show that this is an index
        if text.startswith(_DIGEST) or path.name == SHARDS_NAME or _has_tables(path.parent):
            raise _damage_error(path) from None
        raise NotAnIndex(f"{path} is not a mergewise manifest", "choose another --index") from None
    return _state_of(raw, path.parent)


def parse_manifest(content: bytes, place: object, extra: str) -> tuple[Manifest, Any]:
    """Parse a manifest with an extra field. Return the manifest and the field's value.

    Raises NotAnIndex, and the errors of `manifest_of`.
    """
    try:
        raw = _record(content.decode("utf-8"))
    except ValueError:
        if content.startswith(_DIGEST.encode()):
            raise CorruptIndex(f"{place}/{NAME} is damaged", damage_hint(place)) from None
        raise NotAnIndex(f"{place}/{NAME} is not a mergewise manifest", "choose another --index") from None
    return _state_of({name: value for name, value in raw.items() if name != extra}, place), raw.get(extra)


def _record(text: str | Json) -> JsonDict:
    """Parse the record of a manifest, or check a parsed one. Raise ValueError if it is invalid or has another digest."""
    if isinstance(text, str) and text.startswith(_DIGEST):
        rest = text[_DIGESTED:]
        if text[:_DIGESTED].encode() != _digest_of(rest.encode()):
            raise ValueError("another digest")
        text = "{" + rest
    try:
        raw = json.loads(text) if isinstance(text, str) else text
        if type(raw["format"]) is not int:
            raise TypeError
    except (TypeError, KeyError, RecursionError) as error:
        raise ValueError(str(error)) from None
    return dict(raw)


def manifest_of(raw: Json, place: object) -> Manifest:
    """Convert a record to the manifest of one index. Raises NewerFormat, OlderFormat or CorruptIndex."""
    written_by = raw["format"]
    if written_by > FORMAT:
        raise NewerFormat(
            f"{place} has format {short_repr(written_by)} (this mergewise reads up to {FORMAT})", "upgrade mergewise"
        )
    if written_by < OLDEST:
        raise OlderFormat(
            f"{place} has format {short_repr(written_by)} (this mergewise reads {OLDEST} to {FORMAT})",
            "index the documents again into a new directory",
        )
    try:
        views = {
            name: ViewState(view["settings"], _runs(view["missing"]), view.get("offered", not view["missing"]))
            for name, view in raw["views"].items()
        }
        unembedded = {name: _runs(runs) for name, runs in raw.get("unembedded", {}).items()}
        altered = tuple(raw.get("altered", ()))
        manifest = Manifest(**{**raw, "views": views, "unembedded": unembedded, "altered": altered})
        wrong = next((fault for is_valid, fault in _checks(manifest) if not is_valid), None)
    # errors that a missing or malformed field raises
    except (TypeError, KeyError, ValueError, AttributeError):
        wrong = "missing or malformed fields"
    if wrong is not None:
        raise CorruptIndex(f"invalid manifest {place}/{NAME}: {wrong}", damage_hint(place))
    return manifest


def _state_of(raw: Json, place: object) -> Manifest:
    """Convert the record of a state, with or without shards."""
    if "shards" not in raw:
        return manifest_of(raw, place)
    if raw["format"] != SHARDS_FORMAT:
        raise NewerFormat(
            f"unknown format of {place}: {short_repr(raw['format'])} (expected {SHARDS_FORMAT})", "upgrade"
        )
    identity, generation = raw.get("id"), raw.get("generation", 1)
    try:
        shards = [manifest_of(_record(one), place) for one in raw["shards"]]
    # errors that a missing or malformed field raises
    except (ValueError, TypeError, AttributeError):
        shards = []
    common = {(one.embedder, one.dimension, *sorted(one.views)) for one in shards}
    if len(common) != 1 or len(shards) > MOST_SHARDS or not (_is_count(generation) and generation):
        raise CorruptIndex(f"invalid list of shards in {place}/{SHARDS_NAME}", "restore it from a copy")
    return ShardedManifest.of(shards, identity if isinstance(identity, str) else None, generation)


def _damage_error(path: Path) -> CorruptIndex:
    return CorruptIndex(f"{path} is damaged", damage_hint(path.parent))


def damage_hint(place: object) -> str:
    """Return an instruction for a damaged manifest. It can be rebuilt from the tables of an index in a folder."""
    if isinstance(place, Path) and _has_tables(place):
        return f"run `mergewise check --repair -i {quote(str(place))}`, or restore the file from a copy"
    return "restore it from a copy, or index the documents again into a new directory"


def _has_tables(directory: Path) -> bool:
    return any(directory.glob("*.lance"))


def _checks(manifest: Manifest) -> Iterator[tuple[bool, str]]:
    """Yield whether the types, ranges and sizes of the fields are valid, each with its fault."""
    views = manifest.views
    yield isinstance(manifest.embedder, str) and 0 < len(manifest.embedder) <= _LONGEST_SPEC, "invalid embedder"
    yield _is_count(manifest.dimension, _WIDEST), f"invalid dimension (expected 0 to {_WIDEST})"
    yield _is_count(manifest.next_id) and _is_count(manifest.next_number), "invalid next id or document number"
    named = all(len(name) <= _LONGEST_NAME and isinstance(view.settings, dict) for name, view in views.items())
    yield bool(views) and named, "invalid views (expected names with settings)"
    runs = all(_are_runs(view.missing, manifest.next_number) for view in views.values())
    yield runs, "invalid missing documents of a view (expected runs of numbers)"
    offered = all(type(view.offered) is bool for view in views.values())
    yield offered, "invalid `offered` of a view (expected true or false)"
    waiting = all(_is_plain(name) and _are_runs(own, manifest.next_id) for name, own in manifest.unembedded.items())
    yield waiting, "invalid rows without vectors (expected runs of ids)"
    tables = all(_is_plain(name) and _is_count(version) for name, version in manifest.tables.items())
    yield tables, "invalid tables (expected names with versions)"
    yield all(map(_is_count, manifest.trained.values())), "invalid vector indexes (expected numbers of rows)"
    texts = all(isinstance(text, str) for texts in (*manifest.digests.items(), manifest.altered) for text in texts)
    yield texts, "invalid digests or altered documents (expected texts)"
    mapped = all(_is_plain(name) and _is_mapping(raw, manifest.next_id) for name, raw in manifest.mapped.items())
    yield mapped, "invalid mapped files (expected names with numbers of rows)"


def _are_runs(runs: Sequence[Run], end: int) -> bool:
    bounds = [bound for run in runs for bound in run]
    return all(_is_count(bound, end) for bound in bounds) and bounds == sorted(bounds)


def _is_mapping(raw: Json, next_id: int) -> bool:
    """Return whether a value has the form of `store.mapped.Mapped`."""
    numbered = [*raw["segments"], *raw.get("address_files", ()), *raw.get("postings", ())]
    files = [file for file, _ in numbered] + ([] if raw["addresses"] is None else [raw["addresses"]])
    ids = raw["end"], raw.get("indexed", 0), raw.get("posted", 0)
    has_counts = all(_is_count(rows) for _, rows in numbered) and all(_is_count(row, next_id) for row in ids)
    return has_counts and all(map(_is_plain, files))


def _is_count(value: object, most: int = _HIGHEST) -> bool:
    return type(value) is int and 0 <= value <= most


def _is_plain(name: object) -> bool:
    return isinstance(name, str) and _PLAIN_NAME.fullmatch(name) is not None


def _runs(raw: Sequence[Sequence[int]]) -> tuple[Run, ...]:
    return tuple((first, end) for first, end in raw)


def write_manifest(directory: Path, manifest: Manifest) -> None:
    """Replace the manifest atomically, under the writer's lock: the complete file is renamed."""
    write_whole(directory / manifest.file, manifest_bytes(manifest, {}))
    # temporary files of killed writers
    for temporary in directory.glob(f".{manifest.file}.*"):
        temporary.unlink(missing_ok=True)


def manifest_bytes(manifest: Manifest, extra: Json) -> bytes:
    """Write a manifest with extra fields and its digest. An indent would take six times as long for many shards."""
    indent = None if isinstance(manifest, ShardedManifest) else 1
    rest = json.dumps({**manifest_record(manifest), **extra}, indent=indent).encode()[1:]
    return _digest_of(rest) + rest


def _digest_of(rest: bytes) -> bytes:
    """Return the beginning of a manifest: the digest of the rest."""
    return f'{_DIGEST}{crc32(rest):08x}",'.encode()


def manifest_record(manifest: Manifest) -> JsonDict:
    """Convert a manifest to its record."""
    if isinstance(manifest, ShardedManifest):
        shards = [manifest_record(shard) for shard in manifest.shards]
        return {"format": SHARDS_FORMAT, "id": manifest.id, "generation": manifest.generation, "shards": shards}
    return {**asdict(manifest), "format": FORMAT}


# -- runs of numbers


def without(runs: Sequence[Run], numbers: Collection[int]) -> tuple[Run, ...]:
    """Remove numbers from runs."""
    for number in numbers:
        runs = without_span(runs, number, number + 1)
    return tuple(runs)


def without_span(runs: Sequence[Run], first: int, end: int) -> tuple[Run, ...]:
    """Remove the numbers from `first` up to, but not including, `end`."""
    parts = (part for a, b in runs for part in ((a, min(b, first)), (max(a, end), b)))
    return tuple((a, b) for a, b in parts if a < b)


def with_run(runs: Sequence[Run], first: int, end: int) -> tuple[Run, ...]:
    """Append a run, which must begin at or after the end of the last run."""
    if runs and runs[-1][1] == first:
        return (*runs[:-1], (runs[-1][0], end))
    return (*runs, (first, end))


def holds(runs: Sequence[Run], number: int) -> bool:
    """Return whether a number is in one of the sorted runs."""
    at = bisect_right(runs, number, key=itemgetter(0)) - 1
    return at >= 0 and number < runs[at][1]
