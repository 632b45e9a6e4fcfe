"""Places of indexes: a local folder, with or without shards, or a prefix of a bucket on an object store.

`Place` is their common protocol. The manifest is the state of a place, and a change replaces it last. In a folder a file lock
protects it, in a bucket a conditional put, which fails if another writer came first.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from mergewise.defaults import CACHE_SIZE
from mergewise.store.places.folder import Folder

if TYPE_CHECKING:
    from mergewise.store.places.objects import Objects
    from mergewise.store.places.place import Place

SCHEMES = ("s3", "gs", "az")
# a `Path` reduces the two slashes of a URL to one
_URL = re.compile(rf"({'|'.join(SCHEMES)}):/+")


def is_url(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is the URL of a bucket, even if `pathlib` has reduced its slashes."""
    return _URL.match(os.fspath(path)) is not None


def place_of(
    path: str | os.PathLike[str],
    storage: Mapping[str, str] | None = None,
    cache: str | os.PathLike[str] | None = None,
    cache_size: str | int = CACHE_SIZE,
    refresh: str | float = "1s",
) -> Place:
    """Return the place of a path or a URL, without reading it. The other arguments apply to buckets, see `mergewise.open`.

    Raises:
        UsageError: if the URL, the size or the time is invalid.
        MissingExtra: if the client of object stores is missing.
    """
    if not is_url(path):
        return Folder(Path(path))
    from mergewise.store.places.bucket import Bucket

    return Bucket(_url_of(path), storage or {}, None if cache is None else Path(cache), cache_size, refresh)


@lru_cache(maxsize=64)
def objects_of(prefix: str | os.PathLike[str]) -> Objects:
    """Return the objects below a URL, with the client options of the environment."""
    from mergewise.store.places.objects import Objects

    return Objects(_url_of(prefix), {})


def _url_of(path: str | os.PathLike[str]) -> str:
    return _URL.sub(lambda match: f"{match[1]}://", os.fspath(path)).rstrip("/")


def root_of(place: Place, root: str | os.PathLike[str] | Mapping[str, Path] | None = None) -> Path | Mapping[str, Path]:
    """Return the folder that file names are relative to, or several folders by the beginning of the names.

    The default is the folder that contains the index, or the current folder for a bucket.
    """
    if root is None:
        return Path.cwd() if place.refresh is not None else Path(os.path.realpath(place.directory)).parent
    if isinstance(root, Mapping):
        return {start: Path(os.path.realpath(folder)) for start, folder in root.items()}
    return Path(os.path.realpath(root))


__all__ = ["SCHEMES", "is_url", "objects_of", "place_of", "root_of"]
