"""Where the shards of an index live, and its state: `shards.json`, which holds the manifests of all of them, replaced last.

A shard is an index in a folder of its own, but for its manifest. So a change of several shards is seen whole or not at all. What
a killed writer left half done is undone as in any index: the next change goes back to the versions that are named.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from mergewise.errors import CorruptIndex, NewerFormat, UsageError
from mergewise.files import regular_bytes, write_whole
from mergewise.ranges import Range, whole
from mergewise.store.manifest import NAME as MANIFEST
from mergewise.store.manifest import Manifest, manifest_of, manifest_record
from mergewise.store.places.folder import Folder, LockHolder
from mergewise.store.places.place import ManifestState, Tag, WritingRight

NAME = "shards.json"
FORMAT = 1
MOST_SHARDS = 1024
_LONGEST = 256_000_000

Manifests = tuple[Manifest, ...]


def shard_of(doc_id: str, shards: int) -> int:
    """The shard of a document: the same everywhere and always."""
    return zlib.crc32(doc_id.encode("utf-8", "surrogatepass")) % shards


def are_shards(directory: Path) -> bool:
    try:
        return (directory / NAME).is_file()
    except OSError:
        # no file can have this path
        return False


def state_file(directory: Path) -> Path:
    """The file that names what an index in this directory consists of. Each change replaces it; without it there is no index."""
    return directory / (NAME if are_shards(directory) else MANIFEST)


class ShardedFolder(Folder):
    """The folder with all shards, which has the lock of them. A new one gets `shards`."""

    state = NAME

    def __init__(self, directory: Path, shards: int = 1) -> None:
        super().__init__(directory)
        self._shards = whole("the shards are", shards, Range(1, MOST_SHARDS))
        # bytes that each shard held when its old versions last went
        self.swept: dict[int, int] = {}

    def manifests(self) -> Manifests:
        """Of the state that stands. Raises CorruptIndex and NewerFormat."""
        try:
            return _manifests_of(regular_bytes(self.directory / NAME, _LONGEST), self.directory)
        except OSError as error:
            raise CorruptIndex(f"{self.directory / NAME} cannot be read: {error.strerror}", "restore a copy") from None

    def write(self, manifests: Sequence[Manifest]) -> None:
        """Replace the state in one step, under the lock."""
        record = {"format": FORMAT, "shards": [manifest_record(manifest) for manifest in manifests]}
        write_whole(self.directory / NAME, json.dumps(record).encode())

    def manifest(self) -> ManifestState:
        """There is none that could be copied or replaced by itself."""
        raise UsageError(f"{self} has shards", "copy the folder while nothing is written")

    def _begin(self, manifest: Manifest) -> None:
        """Each shard begins as the manifest says."""
        for at in range(self._shards):
            self.shard(at).mkdir(exist_ok=True)
        self.write([manifest] * self._shards)

    def known(self) -> Manifest:
        """One for all: embedder and views are common to them; a view is missing, or not offered yet, where it is so in one."""
        shards = self.manifests()
        views = {
            name: replace(
                view,
                missing=next((one.views[name].missing for one in shards if one.views[name].missing), ()),
                offered=all(one.views[name].offered for one in shards),
            )
            for name, view in shards[0].views.items()
        }
        tables = {f"{at}/{name}": version for at, one in enumerate(shards) for name, version in one.tables.items()}
        mapped = {f"{at}/{name}": of for at, one in enumerate(shards) for name, of in one.mapped.items()}
        return replace(shards[0], views=views, tables=tables, mapped=mapped)

    def shard(self, at: int) -> Path:
        return self.directory / f"shard-{at:04}"


@lru_cache(4)
def _manifests_of(content: bytes, directory: Path) -> Manifests:
    try:
        record = json.loads(content)
        version, shards = record["format"], record["shards"]
    except (ValueError, TypeError, KeyError):
        raise CorruptIndex(f"{directory / NAME} is damaged", "restore it from a copy") from None
    if version != FORMAT:
        raise NewerFormat(f"{directory} has shards of format {version!r}, this mergewise reads {FORMAT}", "upgrade")
    if not isinstance(shards, list) or not 0 < len(shards) <= MOST_SHARDS:
        raise CorruptIndex(f"{directory / NAME} has no list of shards", "restore it from a copy")
    return tuple(manifest_of(raw, directory / NAME) for raw in shards)


class ShardPlace(Folder):
    """The `Place` of one shard for those who ask."""

    def __init__(self, folder: ShardedFolder, at: int) -> None:
        super().__init__(folder.shard(at))
        self.folder, self.at = folder, at
        # one for all shards, so that they share what is kept of their search indexes
        self._sessions = folder._sessions

    def manifest(self) -> ManifestState:
        return ManifestState(self.known(), None)

    def known(self) -> Manifest:
        return self.folder.manifests()[self.at]


class ChangingShardPlace(ShardPlace):
    """The same for a change of several shards, under the lock of all of them: its manifest is kept until all have theirs."""

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
        """What a change needs no more may be what the state before it needs: see `sweep`."""

    def sweep(self) -> None:
        """Once the change is whole."""
        self._swept = self.folder.swept.get(self.at, 0)
        super().clean(self.known(), sure=False)
        self.folder.swept[self.at] = self._swept
