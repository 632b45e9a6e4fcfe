"""Watch folders for changes. One burst of changes is one event."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event

from mergewise.errors import MissingExtra, UsageError
from mergewise.files import resolved_path

QUIET = 300
"""Milliseconds without a change that end a burst."""
LONGEST = 5000
"""Milliseconds after which a longer burst is reported."""


def bursts(
    folders: Sequence[Path], left_out: Sequence[Path], stop: Event | None = None, look_seconds: float | None = None
) -> Iterator[None]:
    """Yield once when watching has started, so that no change is missed, and then after each burst of changes.

    Without the package `watchfiles`, folders are searched for changes at intervals.

    Args:
        folders: Folders to watch.
        left_out: Directories to ignore. Hidden files are always ignored.
        stop: Event that ends watching.
        look_seconds: Interval without `watchfiles`.

    Raises:
        UsageError: if a path is not a folder.
        MissingExtra: without both `watchfiles` and `look_seconds`.
    """
    for folder in folders:
        if not folder.is_dir():
            raise UsageError(f"not a folder: {folder}", "name a folder to watch")
    own = [os.path.realpath(directory) for directory in left_out]

    def counts(_: object, path: str) -> bool:
        real = os.path.realpath(path)
        is_own = any(real == directory or real.startswith(directory + os.sep) for directory in own)
        return not is_own and not Path(path).name.startswith(".")

    try:
        from watchfiles import watch
    except ImportError as error:
        if look_seconds is None:
            raise MissingExtra("watching", "watch", error) from error
        yield from _differences(folders, own, stop or Event(), look_seconds)
        return
    rounds = watch(
        *folders,
        watch_filter=counts,
        debounce=LONGEST,
        step=QUIET,
        rust_timeout=1000,
        yield_on_timeout=True,
        stop_event=stop,
        raise_interrupt=stop is None,
    )
    is_first = True
    for changes in rounds:
        if changes or is_first:
            yield
        is_first = False


def _differences(folders: Sequence[Path], own: Sequence[str], stop: Event, seconds: float) -> Iterator[None]:
    seen: object = None
    while not stop.is_set():
        found = {state for folder in folders for state in _file_states(folder, own)}
        if found != seen:
            seen = found
            yield
        stop.wait(seconds)


def _file_states(folder: Path, own: Sequence[str]) -> Iterator[tuple[str, int, int]]:
    """Yield path, time and size of each file. A folder that is gone or unreadable has none: indexing reports it."""
    for place, inner, names in os.walk(folder):
        real = resolved_path(place)
        inner[:] = [name for name in inner if not name.startswith(".") and str(real / name) not in own]
        for path in (Path(place, name) for name in names if not name.startswith(".")):
            # the file may be gone by now
            with suppress(OSError):
                status = path.stat()
                yield str(path), status.st_mtime_ns, status.st_size
