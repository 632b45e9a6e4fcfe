"""Files of buckets kept on this machine: names that never mean another content, so that nothing is ever asked about them again.

Several processes share a cache. A file is there whole or not at all: it takes its name once it is written.
"""

from __future__ import annotations

import errno
import logging
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import time

from mergewise.files import new_file

log = logging.getLogger("mergewise")

# of files of rows, and of copies of tables
FOLDERS = ("mapped", "copies")
# Seconds for which a file stays that somebody has fetched, or still uses: whoever does touches it from time to time.
USED, TOUCHED = 900.0, 300.0


class FileCache:
    """The files of one index, below a root that it shares with others. All of them together take `most` bytes, at most.

    Those that are `named` stay: questions are answered from them. Those of other processes stay as long as these touch them.
    """

    def __init__(self, root: Path, index: str, most: int) -> None:
        self.directory = root / index
        self._root = root
        self.most = most
        self._touched = time()
        # bytes that may come before the others are counted again
        self._spare = 0
        self.named: frozenset[str] = frozenset()

    def path(self, file: str) -> Path:
        return self.directory / file

    def touch(self) -> None:
        """Tell other processes that the named files are in use."""
        if time() - self._touched > TOUCHED:
            self._touched = time()
            for file in self.named:
                with suppress(OSError):
                    os.utime(self.path(file))

    def fetch(
        self, file: str, download: Callable[[Path], None], *, anew: bool = False, size: int | None = None
    ) -> Path:
        """The file, downloaded unless it is there, with as many bytes as are known. Raises OSError where there is no room,
        and what `download` raises."""
        path = self.path(file)
        if not anew:
            with suppress(OSError):
                if size is None or path.stat().st_size == size:
                    # what was used last goes last
                    os.utime(path)
                    return path
        # of the folders that are made, only the last one gets the mode
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, part = new_file(path.parent, f".{path.name}.", ".part")
        os.close(handle)
        try:
            download(part)
            self._make_room(part.stat().st_size, path)
            part.replace(path)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
        return path

    def _make_room(self, needed: int, path: Path) -> None:
        """Delete the files that were not used for longest until so many bytes have room beside the others."""
        if needed <= self._spare:
            self._spare -= needed
            return
        files = (one for folder in FOLDERS for one in self._root.glob(f"*/{folder}/**/*"))
        kept = [(one, status) for one in files if one != path and (status := _status(one)) is not None]
        named = {self.path(file) for file in self.named}
        total = needed + sum(status.st_size for one, status in kept if one.suffix != ".part")
        for one, status in sorted(kept, key=lambda pair: pair[1].st_mtime):
            if total <= self.most:
                break
            if time() - status.st_mtime < USED or one in named:
                continue
            try:
                one.unlink()
                # one that a killed process left was not counted
                total -= 0 if one.suffix == ".part" else status.st_size
            except OSError as error:
                log.debug("%s cannot be removed now: %s", one, error)
        if total > self.most:
            log.warning("the cache %s is full: rows are read from the bucket, which makes questions slower", self._root)
            raise OSError(errno.ENOSPC, "the cache is full", str(path))
        # other processes fill it too
        self._spare = (self.most - total) // 4


def _status(path: Path) -> os.stat_result | None:
    """Of a file."""
    with suppress(OSError):
        status = path.lstat()
        return None if stat.S_ISDIR(status.st_mode) else status
    return None
