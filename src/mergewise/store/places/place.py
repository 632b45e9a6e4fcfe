"""What the store asks of the place where an index lives."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from mergewise.store.manifest import Manifest

if TYPE_CHECKING:
    import pyarrow as pa
    from lancedb.table import AsyncTable

Tag: TypeAlias = object
"""Which writing of the manifest one is. Whoever swaps it says which one he read."""

Stamp: TypeAlias = tuple[object, ...]
"""Which writing of a table's version one is: a table that was made anew counts its versions from the beginning."""


class ManifestState(NamedTuple):
    """The manifest that stands, and its tag."""

    manifest: Manifest
    tag: Tag


class PlaceSize(NamedTuple):
    """The bytes of everything that a place holds, and when its manifest was written, in seconds since 1970."""

    bytes: int
    changed: float


class WritingRight(Protocol):
    """The right to write, while it is held."""

    took_over: bool
    """Whether the writer before was given up: it may still be writing, so that its tables have to be fenced off."""

    def check(self) -> None:
        """Raises IndexBusy once another writer may have taken over."""


class Place(Protocol):
    """Whatever asks it raises StoreError where it cannot be reached. As a text it is what people call it."""

    directory: Path
    """Of this machine: the index itself, or what is kept here of one that lives on a bucket."""
    refresh: float | None
    """Seconds after which somebody looks for a newer state, beside the questions; None where `known` reads it each time."""

    # -- the manifest

    def manifest(self) -> ManifestState | None:
        """As it stands now; None where there is no index."""

    def known(self) -> Manifest | None:
        """The manifest that questions are answered from."""

    def know(self, state: ManifestState) -> None:
        """Questions are answered from this state from now on, unless from a later one already."""

    def newer(self) -> ManifestState | None:
        """The state that stands where it is not the known one."""

    def create(self, manifest: Manifest, wait: float) -> None:
        """Make the place an index, unless somebody just did. UsageError where it cannot be one."""

    def swap(self, manifest: Manifest, tag: Tag, writer: WritingRight) -> Tag:
        """Replace the manifest, in one step. Raises IndexBusy where it is no longer the one with the tag."""

    def check_same(self) -> None:
        """Raises StoreError where another index has taken the place of the one that was opened."""

    def check_plain(self) -> None:
        """Raises CorruptIndex where there is what no index holds."""

    def writer(self, wait: float) -> AbstractContextManager[WritingRight]:
        """Hold the right to write. Raises IndexBusy where somebody else has held it for so many seconds."""

    # -- tables

    async def open_table(self, name: str, version: int) -> AsyncTable:
        """A version of a table for reading."""

    def database(self) -> Any:
        """All tables, for writing: a `lancedb.DBConnection`."""

    def create_table(self, name: str, schema: pa.Schema) -> Any:
        """An empty table that no manifest names. What an interrupted change left of it goes."""

    def drop_table(self, name: str) -> None:
        """Delete a table that no manifest is going to name, whatever state its files are in."""

    def read_anew(self) -> None:
        """What is kept of tables, in memory or on this machine, is not asked by those that are opened from now on."""

    def drop_copies(self) -> bool:
        """Do without copies of tables on this machine that may be damaged. Whether there were any."""

    def stamp(self, name: str, version: int) -> Stamp | None:
        """Which writing of this version stands; None where none does."""

    def is_untouched(self, name: str, version: int, stamp: Stamp, writer: WritingRight) -> bool:
        """Whether nobody has written to a table since this process had its last version open, with this stamp."""

    def check_own_files(self, name: str, version: int) -> None:
        """Raises CorruptIndex where a version of a table has files outside of the place."""

    # -- mapped files

    def fetch(self, file: str, *, anew: bool = False) -> Path:
        """A mapped file on this machine; `anew` where the one that is kept is damaged. Raises OSError where there is none."""

    def publish(self, file: str) -> None:
        """A mapped file that was written to this machine is part of the place from now on, and survives a loss of power."""

    def drop_unnamed(self, named: set[str]) -> None:
        """Delete the mapped files that are not among these."""

    # -- everything that the place holds

    def clean(self, manifest: Manifest, *, all_of_it: bool = False, sure: bool = True) -> None:
        """Delete what no state needs and no reader may be reading, or `all_of_it` that the manifest does not name.

        Without `sure`, only where enough has been written since the last time.
        """

    def size(self) -> PlaceSize:
        """How large it is, and when it last changed."""

    def files(self, below: str = "") -> Iterable[str]:
        """The names of all files below a folder of the place."""

    def read(self, file: str) -> bytes:
        """A small file, whole. Raises FileNotFoundError."""

    def download(self, file: str, to: Path) -> None:
        """Copy a file of the place to one that is not there yet."""

    def upload(self, path: Path, file: str) -> None:
        """Copy a file of this machine to the place."""
