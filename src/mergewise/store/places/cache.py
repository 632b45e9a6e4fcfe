"""Files of buckets kept on this machine: names that never mean another content, so that nothing is ever asked about them again.

Several processes share a cache. A file is there whole or not at all: it takes its name once it is written.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable
from pathlib import Path

from mergewise.files import new_file

log = logging.getLogger("mergewise")

FOLDER = "mapped"


class FileCache:
    """The files of one index, below a root that it shares with others. All of them together take `most` bytes, at most.

    Those that are `named` stay: the state that questions are answered from has them mapped.
    """

    def __init__(self, root: Path, index: str, most: int) -> None:
        self.directory = root / index
        self._root = root
        self._most = most
        self.named: frozenset[str] = frozenset()

    def path(self, file: str) -> Path:
        return self.directory / FOLDER / file

    def fetch(self, file: str, download: Callable[[Path], None], *, anew: bool = False) -> Path:
        """The file, downloaded unless it is there. Raises OSError where there is no room, and what `download` raises."""
        path = self.path(file)
        if not anew:
            try:
                # what was used last goes last
                os.utime(path)
                return path
            except OSError:
                pass
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, part = new_file(path.parent, f".{file}.", ".part")
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
        kept = [(one, status) for one in self._root.glob(f"*/{FOLDER}/*") if (status := _status(one)) and one != path]
        total = needed + sum(status.st_size for one, status in kept if one.suffix != ".part")
        for one, status in sorted(kept, key=lambda pair: pair[1].st_mtime):
            if total <= self._most:
                return
            if (one.parent == path.parent and one.name in self.named) or one.suffix == ".part":
                continue
            try:
                one.unlink()
                total -= status.st_size
            except OSError as error:
                log.debug("%s cannot be removed now: %s", one, error)
        if total > self._most:
            log.warning("the cache %s is full: rows are read from the bucket, which makes questions slower", self._root)
            raise OSError(errno.ENOSPC, "the cache is full", str(path))


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except OSError:
        return None
