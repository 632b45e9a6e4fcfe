"""Copying of an index from one place to another, file by file. File names are the same in all places; the manifest comes last."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from posixpath import join
from tempfile import TemporaryDirectory

from mergewise.errors import CorruptIndex, StoreError, UsageError
from mergewise.store.damage import REPAIR_HINT, machine_advice
from mergewise.store.digests import file_digest, files_of_table
from mergewise.store.lance_versions import UNREADABLE
from mergewise.store.manifest import Manifest
from mergewise.store.mapped import FOLDER, files_of
from mergewise.store.places.place import Place

# number of files copied in parallel
_STREAMS = 8


def copy_index(source: Place, goal: Place, wait: float) -> int:
    """Copy the current state, without old versions and cached answers of chat models. Return the number of files.

    Neither place is locked, because a state stays complete while others change the index.

    Raises:
        UsageError: if the source is not an index, or the goal already is.
        StoreError: if a file disappears before it is copied.
        CorruptIndex: if a file is damaged.
    """
    state = source.manifest()
    if state is None:
        raise UsageError(f"index not found: {source}", "name an existing index")
    manifest = state.manifest
    if goal.known() is not None:
        raise UsageError(f"index already exists: {goal}", "copy to another place")
    try:
        files = list(_files(source, manifest))
        parts = manifest.parts.items()
        digests = {join(folder, file): digest for folder, part in parts for file, digest in part.digests.items()}
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


def _files(source: Place, manifest: Manifest) -> Iterator[str]:
    """Yield all files that the manifest needs."""
    for folder, part in manifest.parts.items():
        (source.shard(folder) if folder else source).check_same()
        for name, version in part.tables.items():
            source.check_own_files(join(folder, name), version)
            yield from files_of_table(source, join(folder, name), version)
        yield from (join(folder, FOLDER, file) for file in files_of(part.mapped))
