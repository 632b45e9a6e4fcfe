"""Where an index lives: a folder of this machine, with shards or without, or a prefix of a bucket on an object store.

`Place` is what the store asks of either. Its state is its manifest, which is replaced last: in a folder under a file lock, on
a bucket by a put that fails where another one came in between.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from mergewise.store.places.folder import Folder

if TYPE_CHECKING:
    from mergewise.store.places.place import Place

SCHEMES = ("s3", "gs", "az")
# a `Path` folds the two slashes of a URL to one
_URL = re.compile(rf"({'|'.join(SCHEMES)}):/+")


def is_url(path: str | os.PathLike[str]) -> bool:
    """Whether a path means a prefix of a bucket, also once `pathlib` has folded its slashes."""
    return _URL.match(os.fspath(path)) is not None


def place_of(
    path: str | os.PathLike[str],
    storage: Mapping[str, str] | None = None,
    cache: str | os.PathLike[str] | None = None,
    cache_size: str | int = "10GB",
    refresh: str | float = "1s",
) -> Place:
    """The place that a path or a URL names. All else is about buckets alone, see `mergewise.open`. Nothing is asked of it yet.

    Raises UsageError for a URL, a size or a time that cannot be, MissingExtra where the client of buckets is missing.
    """
    if not is_url(path):
        from mergewise.store.shards.place import ShardedFolder, are_shards

        return (ShardedFolder if are_shards(Path(path)) else Folder)(Path(path))
    from mergewise.store.places.bucket import Bucket

    url = _URL.sub(lambda match: f"{match[1]}://", os.fspath(path)).rstrip("/")
    return Bucket(url, storage or {}, None if cache is None else Path(cache), cache_size, refresh)


def root_of(place: Place, root: str | os.PathLike[str] | None = None) -> Path:
    """The folder that files are named from: the given one, else that in which the index stands, for a bucket the current one."""
    if root is None:
        return Path.cwd() if place.refresh is not None else Path(os.path.realpath(place.directory)).parent
    return Path(os.path.realpath(root))


__all__ = ["SCHEMES", "is_url", "place_of", "root_of"]
