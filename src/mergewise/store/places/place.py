"""The place of an index, which the store reads and writes: a folder, or a prefix of a bucket. Both have the same methods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from mergewise.store.manifest import Manifest

if TYPE_CHECKING:
    from mergewise.store.places.bucket import Bucket
    from mergewise.store.places.folder import Folder, LockHolder
    from mergewise.store.places.lease import LeaseHolder

Place: TypeAlias = "Folder | Bucket"
"""The location of an index. Methods raise StoreError if it is unreachable. `str()` returns its path or URL."""

WritingRight: TypeAlias = "LockHolder | LeaseHolder"
"""A held right to write."""

Tag: TypeAlias = Any
"""The identity of one write of the manifest. A swap names the tag that it read."""

Stamp: TypeAlias = tuple[object, ...]
"""The identity of one write of a table's version. A recreated table counts its versions from the beginning."""


class ManifestState(NamedTuple):
    """The current manifest and its tag."""

    manifest: Manifest
    tag: Tag


class PlaceSize(NamedTuple):
    """The total size of a place in bytes, and the time of its last change in seconds since 1970."""

    bytes: int
    changed: float
