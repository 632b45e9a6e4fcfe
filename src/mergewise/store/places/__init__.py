"""Places of indexes: a local folder, with or without shards, or a prefix of a bucket on an object store.

A `Place` is one of them. The manifest is the state of a place, and a change replaces it last. In a folder a file lock
protects it, in a bucket a conditional put, which fails if another writer came first. File names are the same in all places, so an
index is copied file by file; the manifest comes last.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from posixpath import join
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from mergewise.defaults import CACHE_SIZE
from mergewise.errors import CorruptIndex, StoreError, UsageError
from mergewise.files import resolved_path
from mergewise.store.damage import REPAIR_HINT, machine_advice
from mergewise.store.lance_versions import UNREADABLE, version_name
from mergewise.types import AnyPath

if TYPE_CHECKING:
    from mergewise.store.places.objects import Objects
    from mergewise.store.places.place import Place

# number of files copied in parallel
_STREAMS = 8
SCHEMES = ("s3", "gs", "az")
# a `Path` reduces the two slashes of a URL to one
_URL = re.compile(rf"({'|'.join(SCHEMES)}):/+")


def is_url(path: AnyPath) -> bool:
    """Return whether a path is the URL of a bucket, even if `pathlib` has reduced its slashes."""
    return _URL.match(os.fspath(path)) is not None


def place_of(
    path: AnyPath,
    storage: Mapping[str, str] | None = None,
    cache: AnyPath | None = None,
    cache_size: str | int = CACHE_SIZE,
    refresh: str | float = "1s",
) -> Place:
    """Return the place of a path or a URL, without reading it. The other arguments apply to buckets, see `mergewise.open`.

    Raises:
        UsageError: if the URL, the size or the time is invalid.
        MissingExtra: if the client of object stores is missing.
    """
    if not is_url(path):
        from mergewise.store.places.folder import Folder

        return Folder(Path(path))
    from mergewise.store.places.bucket import Bucket

    return Bucket(_url_of(path), storage or {}, None if cache is None else Path(cache), cache_size, refresh)


@lru_cache(maxsize=64)
def objects_of(prefix: AnyPath) -> Objects:
    """Return the objects below a URL, with the client options of the environment."""
    from mergewise.store.places.objects import Objects

    return Objects(_url_of(prefix), {})


def _url_of(path: AnyPath) -> str:
    return _URL.sub(lambda match: f"{match[1]}://", os.fspath(path)).rstrip("/")


def root_of(place: Place, root: AnyPath | Mapping[str, Path] | None = None) -> Path | Mapping[str, Path]:
    """Return the folder that file names are relative to, or several folders by the beginning of the names.

    The default is the folder that contains the index, or the current folder for a bucket.
    """
    if root is None:
        return Path.cwd() if place.refresh is not None else resolved_path(place.directory).parent
    if isinstance(root, Mapping):
        return {start: resolved_path(folder) for start, folder in root.items()}
    return resolved_path(root)


def copy_index(source: Place, goal: Place, wait: float) -> int:
    """Copy the current state, without old versions and cached answers of chat models. Return the number of files.

    Neither place is locked, because a state stays complete while others change the index.

    Raises:
        UsageError: if the source is not an index, or the goal already is.
        StoreError: if a file disappears before it is copied.
        CorruptIndex: if a file is damaged.
    """
    from mergewise.store.digests import file_digest, listed_files
    from mergewise.store.mapped import FOLDER, files_of

    state = source.manifest()
    if state is None:
        raise UsageError(f"index not found: {source}", "name an existing index")
    manifest = state.manifest
    if goal.known() is not None:
        raise UsageError(f"index already exists: {goal}", "copy to another place")
    try:
        files: list[str] = []
        digests: dict[str, str] = {}
        for folder, part in manifest.parts.items():
            (source.shard(folder) if folder else source).check_same()
            for name, version in part.tables.items():
                table = join(folder, name)
                source.check_own_files(table, version)
                named = f"{table}.lance/{version_name(version)}"
                files += [named, *listed_files(source, table, source.read(named))]
            files += [join(folder, FOLDER, file) for file in files_of(part.mapped)]
            digests |= {join(folder, file): digest for file, digest in part.digests.items()}
        with TemporaryDirectory(prefix="mergewise-copy-") as folder, ThreadPoolExecutor(_STREAMS) as pool:

            def copy(numbered: tuple[int, str]) -> None:
                number, file = numbered
                part = Path(folder) / str(number)
                source.download(file, part)
                if file in digests and file_digest(part) != digests[file]:
                    raise CorruptIndex(f"damaged file: {file}", REPAIR_HINT)
                goal.upload(part, file)
                part.unlink()

            list(pool.map(copy, enumerate(files)))
    except (*UNREADABLE, RuntimeError) as error:
        if advice := machine_advice(error):
            raise StoreError(f"cannot copy {source} to {goal}: {error}", advice) from None
        raise StoreError(f"{source} has changed or is damaged: {error}", "check it and copy again") from None
    goal.create(manifest, wait)
    return len(files)


__all__ = ["SCHEMES", "copy_index", "is_url", "objects_of", "place_of", "root_of"]
