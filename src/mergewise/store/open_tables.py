"""Tables that a change of an index leaves open for the next one, where nobody else has written to them in between."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mergewise.store.manifest import Manifest
from mergewise.store.places.place import ManifestState, Place, Stamp, WritingRight

if TYPE_CHECKING:
    from lancedb.table import Table as LanceTable

# after which tables are opened anew for writing
CHANGES = 50


@dataclass(frozen=True, slots=True)
class OpenTables:
    """What a change leaves open for the next one: tables at the versions that it committed, and which writings of these they are.

    LanceDB keeps what it has read of older versions with them. So they are opened anew after so many `changes`.
    """

    manifest: Manifest | None = None
    tables: Mapping[str, tuple[LanceTable, Stamp]] = field(default_factory=dict)
    changes: int = 0

    def untouched_tables(self, place: Place, state: ManifestState, writer: WritingRight) -> dict[str, LanceTable]:
        """The tables that nobody else has written to since."""
        if self.manifest != state.manifest or self.changes >= CHANGES:
            return {}
        return {
            name: table
            for name, (table, stamp) in self.tables.items()
            if place.is_untouched(name, state.manifest.tables[name], stamp, writer)
        }
