"""The state of a shard. It is a part of its parent's state, which a change of several shards replaces once, as the last step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from mergewise.store.manifest import Manifest
from mergewise.store.places.place import ManifestState, Place, Tag, WritingRight


class ShardState:
    """The methods of a shard's `Place` that concern its state.

    A change of the parent begins with `pending`, the shard's manifest, and the parent's `right` to write, for all shards.
    """

    pending: Manifest | None = None
    right: WritingRight
    check_same: Callable[[], None]

    def __init__(self, parent: Place, name: str) -> None:
        self.parent, self.name = parent, name

    def manifest(self) -> ManifestState | None:
        if self.pending is not None:
            return ManifestState(self.pending, None)
        state = self.parent.manifest()
        own = None if state is None else state.manifest.parts.get(self.name)
        return None if state is None or own is None else ManifestState(own, state.tag)

    def known(self) -> Manifest | None:
        known = self.parent.known()
        return self.pending or (None if known is None else known.parts.get(self.name))

    def swap(self, manifest: Manifest, tag: Tag, writer: WritingRight) -> Tag:
        self.check_same()
        writer.check()
        self.pending = manifest
        return None

    @contextmanager
    def writer(self, wait: float) -> Iterator[WritingRight]:
        yield self.right

    def clean(self, manifest: Manifest, *, all_of_it: bool = False, sure: bool = True) -> None:
        """Do nothing: the state before the change may still need the files. The parent deletes them."""
