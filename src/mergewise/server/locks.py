"""Locks between the processes of a server.

- `writer`, `evaluator`, `supervisor`: held while the process lives
- `changes`: held while the writer runs jobs, and by a backup
- `backup`: held by a waiting backup, so that no further job begins
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from mergewise.errors import IndexBusy
from mergewise.server.spool import private_folder


def lock_file(data: Path, name: str) -> Path:
    """Return the path of the lock file of this name."""
    folder = data / "locks"
    # two steps, since mkdir applies the mode only to the last folder
    private_folder(data)
    private_folder(folder)
    return folder / name


@contextmanager
def waiting_lock(path: Path, seconds: float, refusal: Sequence[str] = ()) -> Iterator[None]:
    """Hold the lock. Raises IndexBusy, with the message and the hint `refusal`, if it is not free within the given seconds."""
    try:
        held = FileLock(path).acquire(timeout=seconds)
    except Timeout:
        raise IndexBusy(*(refusal or (f"locked by another process: {path}", "end that process first"))) from None
    with held:
        yield


def is_held(lock: FileLock) -> bool:
    try:
        with lock.acquire(timeout=0):
            return False
    except Timeout:
        return True
