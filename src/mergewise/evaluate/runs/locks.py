"""Locks of a run folder: one of the whole run, or one of each shard."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from mergewise.errors import UsageError

LOCK = ".lock"


@contextmanager
def run_lock(folder: Path, name: str) -> Iterator[None]:
    """Lock a run or a shard. Raises UsageError if another process holds the lock."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / name, timeout=0)
        lock.acquire()
    except Timeout:
        raise UsageError(f"another process is computing this in {folder}", "wait until it ends") from None
    except OSError as error:
        raise UsageError(f"cannot write {folder}: {error.strerror}", "name another folder") from None
    try:
        yield
    finally:
        lock.release()


@contextmanager
def other_shards_done(folder: Path) -> Iterator[None]:
    """Hold the locks of all shards. Raises UsageError if one is still computed: its rows would be lost."""
    with ExitStack() as held:
        for path in sorted(folder.glob(f"{LOCK}-*")):
            try:
                held.enter_context(FileLock(path, timeout=0))
            except Timeout:
                raise UsageError(
                    f"a shard of {folder} is still running", "run the same command again when it ends"
                ) from None
        yield
