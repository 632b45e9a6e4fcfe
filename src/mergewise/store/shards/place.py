"""The places of shards, and their common state: `shards.json` holds the manifests of all shards, and is replaced last.

A shard is an index in its own folder, but without a manifest. So a change of several shards becomes visible at once. The
incomplete change of a killed writer is undone as in any index: the next change goes back to the versions in the manifests.
Each folder records its index and its number, so that a foreign or swapped shard is recognised.
"""

from __future__ import annotations

import json
import secrets
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from mergewise.errors import CorruptIndex, NewerFormat, UsageError
from mergewise.files import regular_bytes, write_whole
from mergewise.ranges import Range, short_repr, whole
from mergewise.store.manifest import NAME as MANIFEST
from mergewise.store.manifest import Manifest, manifest_of, manifest_record
from mergewise.store.places.folder import Folder, LockHolder
from mergewise.store.places.place import ManifestState, Tag, WritingRight

NAME, OWN_NAME = "shards.json", "shard.json"
FORMAT = 1
MOST_SHARDS = 1024
_LONGEST, _LONGEST_OWN = 256_000_000, 1_000

Manifests = tuple[Manifest, ...]


class ShardsState(NamedTuple):
    """The manifests of all shards, and the id of the index. Indexes of older versions have no id."""

    manifests: Manifests
    id: str | None


def shard_of(doc_id: str, shards: int) -> int:
    """Return the shard of a document. The result must never change between versions."""
    return zlib.crc32(doc_id.encode("utf-8", "surrogatepass")) % shards


def are_shards(directory: Path) -> bool:
    try:
        return (directory / NAME).is_file()
    except OSError:
        # an invalid path
        return False


def state_file(directory: Path) -> Path:
    """Return the state file of an index in this directory. Each change replaces it. An index without it does not exist."""
    return directory / (NAME if are_shards(directory) else MANIFEST)


class ShardedFolder(Folder):
    """The folder of all shards, with their common lock. A new index gets `shards` shards."""

    state = NAME

    def __init__(self, directory: Path, shards: int = 1) -> None:
        super().__init__(directory)
        self._shards = whole("number of shards", shards, Range(1, MOST_SHARDS))
        # size of each shard in bytes when old versions were last dropped
        self.swept: dict[int, int] = {}

    def manifests(self) -> Manifests:
        """Read the current manifests. Raises CorruptIndex or NewerFormat."""
        return self.shards().manifests

    def shards(self) -> ShardsState:
        """Read the current state. Raises CorruptIndex or NewerFormat."""
        try:
            return _parse(regular_bytes(self.directory / NAME, _LONGEST), self.directory)
        except OSError as error:
            raise CorruptIndex(f"cannot read {self.directory / NAME}: {error.strerror}", "restore a copy") from None

    def write(self, manifests: Sequence[Manifest], identity: str | None) -> None:
        """Replace the state atomically, under the lock."""
        record = {"format": FORMAT, "id": identity, "shards": [manifest_record(manifest) for manifest in manifests]}
        write_whole(self.directory / NAME, json.dumps(record).encode())

    def manifest(self) -> ManifestState:
        """Raise UsageError: an index in shards has no single manifest to copy or replace."""
        raise UsageError(f"{self} has shards", "copy the folder while nothing is written")

    def _begin(self, manifest: Manifest) -> None:
        """Create all shards with the same manifest."""
        for at in range(self._shards):
            self.shard(at).mkdir(exist_ok=True)
        self.identify([manifest] * self._shards)

    def identify(self, manifests: Sequence[Manifest]) -> None:
        """Give the index an id, and record it in all shards."""
        identity = secrets.token_hex(16)
        for at in range(len(manifests)):
            write_whole(self.shard(at) / OWN_NAME, _own_record(identity, at, len(manifests)))
        self.write(manifests, identity)

    def check_shard(self, at: int) -> None:
        """Raise CorruptIndex if the folder of a shard is missing, a link, or holds another shard or one of another index."""
        path, state, own = self.shard(at), self.shards(), b""
        with suppress(OSError):
            own = regular_bytes(path / OWN_NAME, _LONGEST_OWN)
        is_other = state.id is not None and own != _own_record(state.id, at, len(state.manifests))
        if path.is_symlink() or not path.is_dir() or is_other:
            raise CorruptIndex(f"missing or wrong shard: {path}", "restore all shards of this index from the same copy")

    def known(self) -> Manifest:
        """Combine the manifests of all shards. Embedder and views are common to them.

        A view is missing in the index if a shard lacks it, and offered if all shards offer it.
        """
        shards = self.manifests()
        views = {
            name: replace(
                view,
                missing=next((shard.views[name].missing for shard in shards if shard.views[name].missing), ()),
                offered=all(shard.views[name].offered for shard in shards),
            )
            for name, view in shards[0].views.items()
        }
        tables = {f"{at}/{name}": version for at, shard in enumerate(shards) for name, version in shard.tables.items()}
        mapped = {f"{at}/{name}": files for at, shard in enumerate(shards) for name, files in shard.mapped.items()}
        return replace(shards[0], views=views, tables=tables, mapped=mapped)

    def shard(self, at: int) -> Path:
        return self.directory / f"shard-{at:04}"


def _own_record(identity: str, at: int, count: int) -> bytes:
    return json.dumps({"index": identity, "shard": at, "shards": count}).encode()


@lru_cache(4)
def _parse(content: bytes, directory: Path) -> ShardsState:
    try:
        record = json.loads(content)
        version, identity = record["format"], record.get("id")
        if version != FORMAT:
            raise NewerFormat(f"unknown format of {directory}: {short_repr(version)} (expected {FORMAT})", "upgrade")
        manifests = tuple(manifest_of(raw, directory / NAME) for raw in record["shards"])
    # errors that a missing or malformed field raises
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise CorruptIndex(f"{directory / NAME} is damaged", "restore it from a copy") from None
    common = {(one.embedder, one.dimension, *sorted(one.views)) for one in manifests}
    if len(common) != 1 or len(manifests) > MOST_SHARDS:
        raise CorruptIndex(f"invalid list of shards in {directory / NAME}", "restore it from a copy")
    return ShardsState(manifests, identity if isinstance(identity, str) else None)


class ShardPlace(Folder):
    """The `Place` of one shard for reading."""

    def __init__(self, folder: ShardedFolder, at: int) -> None:
        super().__init__(folder.shard(at))
        self.folder, self.at = folder, at
        # all shards share the caches of search indexes
        self._sessions = folder._sessions

    def manifest(self) -> ManifestState:
        return ManifestState(self.known(), None)

    def check_same(self) -> None:
        self.folder.check_shard(self.at)
        super().check_same()

    def known(self) -> Manifest:
        return self.folder.manifests()[self.at]


class ChangingShardPlace(ShardPlace):
    """The `Place` of one shard during a change, under the common lock. `changing` collects the new manifests of all shards."""

    def __init__(self, folder: ShardedFolder, at: int, changing: list[Manifest]) -> None:
        super().__init__(folder, at)
        self._changing = changing

    def known(self) -> Manifest:
        return self._changing[self.at]

    def swap(self, manifest: Manifest, tag: Tag, writer: WritingRight) -> Tag:
        self.check_same()
        self._changing[self.at] = manifest
        return None

    @contextmanager
    def writer(self, wait: float) -> Iterator[LockHolder]:
        self.check_plain()
        yield LockHolder()

    def clean(self, manifest: Manifest, *, all_of_it: bool = False, sure: bool = True) -> None:
        """Do nothing: the state before the change may still need the files. See `sweep`."""

    def sweep(self) -> None:
        """Delete unneeded files after the change is complete."""
        self._swept = self.folder.swept.get(self.at, 0)
        super().clean(self.known(), sure=False)
        self.folder.swept[self.at] = self._swept
