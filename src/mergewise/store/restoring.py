"""Restoration of a damaged or missing manifest from the tables of an index.

Each table records the embedder and the settings of its view when it is created (`tables.with_record`). A repair completes the
rest of the manifest from the rows. In a table of an older mergewise, a view counts as one with default settings.
"""

from __future__ import annotations

from contextlib import nullcontext, suppress
from pathlib import Path

import pyarrow as pa

from mergewise.errors import CorruptIndex, UsageError
from mergewise.store.damage import REINDEX_HINT, reading
from mergewise.store.documents import DOCUMENTS
from mergewise.store.lance_versions import version_of
from mergewise.store.manifest import NAME, SHARDS_NAME, Manifest, ViewState, read_manifest, state_file, write_manifest
from mergewise.store.places import is_url
from mergewise.store.places.folder import Folder
from mergewise.store.tables import record_of
from mergewise.store.views import Registry

MOVED = "manifest.damaged.json"
"""Name of the damaged manifest after a restoration."""


def restore_manifest(directory: Path, registry: Registry, wait: float, embedder: str | None = None) -> bool:
    """Replace a damaged or missing manifest. Return whether that was necessary. The damaged one is kept as `MOVED`.

    An index in shards or in a bucket is left as it is.

    Args:
        directory: Directory of the index.
        registry: All views.
        wait: Seconds to wait for another writer.
        embedder: Embedder of an index whose tables do not record it.

    Raises:
        CorruptIndex: if the table of documents is unreadable.
        UsageError: if the embedder is unknown.
        IndexBusy: if another process writes for too long.
    """
    if is_url(directory) or state_file(directory).name == SHARDS_NAME:
        return False
    with suppress(CorruptIndex):
        read_manifest(directory)
        return False
    place = Folder(directory)
    with place.writer(wait):
        # the newest version and the schema of each table; an unreadable one is left out, unless it is the documents
        tables: dict[str, tuple[int, pa.Schema]] = {}
        for folder in sorted(directory.glob("*.lance"), key=lambda folder: folder.stem != DOCUMENTS):
            tolerant = suppress(CorruptIndex) if DOCUMENTS in tables else nullcontext()
            with tolerant, reading(place, f"table {folder.stem!r}", REINDEX_HINT):
                version = max(filter(None, map(version_of, (folder / "_versions").iterdir())))
                place.check_own_files(folder.stem, version)
                tables[folder.stem] = version, place.database().open_table(folder.stem).schema
        if DOCUMENTS not in tables:
            raise CorruptIndex(f"missing table {DOCUMENTS!r} in {place}", REINDEX_HINT)
        # columns record a later embedder than tables
        recorded = (
            *(field for _, schema in tables.values() for field in schema),
            *(schema for _, schema in tables.values()),
        )
        records = [record for one in recorded if (record := record_of(one))]
        types = [field.type for _, schema in tables.values() for field in schema]
        dimension = max((kind.list_size for kind in types if pa.types.is_fixed_size_list(kind)), default=0)
        spec = records[0]["embedder"] if records else embedder if dimension else "none"
        if spec is None:
            raise UsageError(
                f"the tables of {directory} do not record the embedder",
                "name it: `MERGEWISE_EMBEDDER=minilm mergewise check --repair`, if the index has the default embedder",
            )
        standard = {view.name: view.dump() for view in registry.values()}
        present = [name for name in standard if any(t.name in tables for t in registry[name].tables_of(standard[name]))]
        settings = {name: standard[name] for name in present} | {
            record["view"]: record["settings"] for record in records if "view" in record
        }
        views = {name: ViewState(own) for name, own in settings.items()}
        manifest = Manifest(spec, dimension, views, {name: version for name, (version, _) in tables.items()})
        with suppress(FileNotFoundError):
            (directory / NAME).replace(directory / MOVED)
        write_manifest(directory, manifest)
    return True
