"""An index copied from one place to another, file by file: names are the same everywhere, and the manifest comes last."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

from mergewise.errors import StoreError, UsageError
from mergewise.store.lance_versions import UNREADABLE, files_of_version, version_name
from mergewise.store.manifest import Manifest
from mergewise.store.mapped import FOLDER, files_of
from mergewise.store.places.place import Place

# files at once
_STREAMS = 8


def copy_index(source: Place, goal: Place, wait: float) -> int:
    """Copy the state that stands, without old versions and the answers of chat models. How many files there were.

    Neither place is locked: a state stays whole while others change the index. Raises UsageError where the source is no index, or
    the goal is one already, and StoreError where a file is gone before it is copied.
    """
    state = source.manifest()
    if state is None:
        raise UsageError(f"there is no index at {source}", "name one that there is")
    manifest = state.manifest
    if goal.known() is not None:
        raise UsageError(f"{goal} is an index already", "copy to another place")
    try:
        files = list(_files(source, manifest))
        with TemporaryDirectory(prefix="mergewise-copy-") as folder, ThreadPoolExecutor(_STREAMS) as pool:

            def copy(numbered: tuple[int, str]) -> None:
                number, file = numbered
                part = Path(folder) / str(number)
                source.download(file, part)
                goal.upload(part, file)
                part.unlink()

            list(pool.map(copy, enumerate(files)))
    except (*UNREADABLE, RuntimeError) as error:
        raise StoreError(f"{source} has changed, or is damaged: {error}", "check it, and copy again") from None
    goal.create(manifest, wait)
    return len(files)


def _files(source: Place, manifest: Manifest) -> Iterator[str]:
    """All files that the manifest rests on."""
    for name, version in manifest.tables.items():
        source.check_own_files(name, version)
        table = f"{name}.lance"
        named = f"{table}/{version_name(version)}"
        yield named
        for file in files_of_version(source.read(named)):
            if file.startswith("_indices/"):
                yield from source.files(f"{table}/{file}")
            # what a version changed is asked of later ones alone
            elif not file.startswith("_transactions/"):
                yield f"{table}/{file}"
    yield from (f"{FOLDER}/{file}" for file in files_of(manifest.mapped))
