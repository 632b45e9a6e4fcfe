"""A local cache of bucket files. A file never changes its content, so a cached file needs no check against the bucket.

Several processes share a cache. A file is renamed to its name when it is complete, so no process sees part of a file.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import time

from mergewise.files import new_file
from mergewise.log import log

# the folders of mapped files, and of copies of tables
FOLDERS = ("mapped", "copies")
# Seconds for which a fetched or touched file stays, and seconds between the touches of a process that uses a file.
USED, TOUCHED = 900.0, 300.0


class FileCache:
    """The cached files of one index, below a root shared with other indexes. The whole root holds up to `most` bytes.

    Files in `named` stay, because queries read them. Files of other processes stay as long as those touch them.
    """

    def __init__(self, root: Path, index: str, most: int) -> None:
        self.directory = root / index
        self._root = root
        self.most = most
        self._touched = time()
        # bytes that may be added before the files are counted again
        self._spare = 0
        self.named: frozenset[str] = frozenset()

    def touch(self) -> None:
        """Touch the named files, so that other processes keep them."""
        if time() - self._touched > TOUCHED:
            self._touched = time()
            for file in self.named:
                with suppress(OSError):
                    os.utime(self.directory / file)

    def fetch(
        self, file: str, download: Callable[[Path], None], *, again: bool = False, size: int | None = None
    ) -> Path:
        """Return the path of a file, downloaded if it is missing or its size differs.

        Raises:
            OSError: if the cache is full. Errors of `download` pass through.
        """
        path = self.directory / file
        if not again:
            with suppress(OSError):
                if size is None or path.stat().st_size == size:
                    # the least recently used file is deleted first
                    os.utime(path)
                    return path
        # `mkdir` applies the mode to the last folder only
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
        """Delete the least recently used files until `needed` bytes fit."""
        if needed <= self._spare:
            self._spare -= needed
            return
        files = (file for folder in FOLDERS for file in self._root.glob(f"*/{folder}/**/*"))
        cached: list[tuple[Path, os.stat_result]] = []
        for file in files:
            with suppress(OSError):
                status = file.lstat()
                if file != path and not stat.S_ISDIR(status.st_mode):
                    cached.append((file, status))
        named = {self.directory / file for file in self.named}
        total = needed + sum(status.st_size for file, status in cached if file.suffix != ".part")
        for file, status in sorted(cached, key=lambda pair: pair[1].st_mtime):
            if total <= self.most:
                break
            if time() - status.st_mtime < USED or file in named:
                continue
            try:
                file.unlink()
                # partial files, left by killed processes, were not counted
                total -= 0 if file.suffix == ".part" else status.st_size
            except OSError as error:
                log.debug("cannot remove %s now: %s", file, error)
        if total > self.most:
            raise OSError(errno.ENOSPC, "the cache is full", str(path))
        # count again early, since other processes also fill the cache
        self._spare = (self.most - total) // 4
