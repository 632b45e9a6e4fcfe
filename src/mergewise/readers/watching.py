"""Watch folders for changes. One burst of changes is one event."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Event

from mergewise.errors import MissingExtra, UsageError

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
        found = {
            (entry.path, entry.stat().st_mtime_ns, entry.stat().st_size)
            for folder in folders
            for entry in _files_below(os.fspath(folder), own)
        }
        if found != seen:
            seen = found
            yield
        stop.wait(seconds)


def _files_below(folder: str, own: Sequence[str]) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.startswith(".") or os.path.realpath(entry.path) in own:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    yield from _files_below(entry.path, own)
                elif entry.is_file():
                    yield entry
    except OSError:
        # the folder is gone or unreadable: indexing reports it
        return
