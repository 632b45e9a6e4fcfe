"""Files that somebody else may have put where they stand: a clone brings an index, a cache or a configuration along.

The rule for folders that mergewise keeps, of which the index is one: inside there are folders and regular files alone. A link
would lead what is written or deleted elsewhere, and a pipe or a device is waited for without end. Whoever opens
such a folder looks for a `find_untrusted_entry` first. Single files are read by `regular_bytes` and written by `write_whole`.
"""

from __future__ import annotations

import errno
import os
import secrets
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from stat import S_ISLNK, S_ISREG
from typing import Any
from weakref import finalize

from mergewise.errors import UsageError

_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_NO_WAITING = getattr(os, "O_NONBLOCK", 0)
_BINARY = getattr(os, "O_BINARY", 0)
_LONGEST_TOML = 200_000


def regular_bytes(path: Path, most: int, *, follow: bool = False) -> bytes:
    """The content of a regular file of up to `most` bytes. A link is followed only where the user may have made it (`follow`).

    Raises OSError for anything else, at once: nothing is waited for.
    """
    _check_regular(path, (path.stat() if follow else path.lstat()).st_mode)
    with os.fdopen(os.open(path, os.O_RDONLY | _BINARY | _NO_WAITING | (0 if follow else _NO_LINK)), "rb") as file:
        # what stands there now
        _check_regular(path, os.fstat(file.fileno()).st_mode)
        content = file.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"it is larger than {most:,} bytes", str(path))
    return content


def _check_regular(path: Path, mode: int) -> None:
    if not S_ISREG(mode):
        raise OSError(errno.EINVAL, f"it is {'a link' if S_ISLNK(mode) else 'no regular file'}", str(path))


def load_toml(path: Path, hint: str = "it is a TOML file") -> dict[str, Any]:
    """Load a TOML file. A link is followed: users keep such files elsewhere.

    Raises:
        UsageError: if the file cannot be read, or is invalid.
    """
    try:
        return tomllib.loads(regular_bytes(path, _LONGEST_TOML, follow=True).decode("utf-8"))
    except RecursionError:
        raise UsageError(f"{path} cannot be read: it is nested too deeply", hint) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"{path} cannot be read: {reason}", hint) from None


def new_file(folder: Path, prefix: str, suffix: str = "", mode: int = 0o666) -> tuple[int, Path]:
    """An empty file that was not there, open for writing. Nobody can know its name beforehand."""
    path = folder / f"{prefix}{secrets.token_hex(8)}{suffix}"
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY | _NO_LINK, mode), path


def write_whole(path: Path, content: bytes, mode: int = 0o666) -> None:
    """Give `path` this content in one step: it is on the disk whole before it takes the name, whatever had the name."""
    handle, temporary = new_file(path.parent, f".{path.name}.", mode=mode)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def find_untrusted_entry(folder: Path) -> Path | None:
    """The first link, pipe, socket or device below `folder`, which may be a link itself; None where there is none.

    Raises OSError where a folder in it cannot be read.
    """
    waiting = [os.fspath(folder)]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    # one that has just gone is no file either
                    elif not entry.is_file(follow_symlinks=False) and os.path.lexists(entry.path):
                        return Path(entry.path)
        except FileNotFoundError:
            # a writer has just dropped it
            continue
    return None


class PinnedDirectory:
    """A folder by what it is, not by its name: tells when another one has taken its place, or when it has gone."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._status: Callable[[], os.stat_result]
        if hasattr(os, "O_DIRECTORY"):
            # open, so that no other folder can get its number on the disk
            handle = os.open(path, getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY)
            finalize(self, os.close, handle)
            self._status = lambda: os.fstat(handle)
        else:
            status = path.stat()
            self._status = lambda: status

    def stands(self) -> bool:
        try:
            return os.path.samestat(self._status(), self.path.stat())
        except PermissionError:
            # whoever opens it is told
            return True
        except OSError:
            return False


def user_directory(named: str | None, below_home: str) -> Path:
    """Where this user's programs keep things: in the folder that is named, where the system does, or below the home directory.

    Raises OSError or RuntimeError where nobody knows the home directory.
    """
    if named:
        return Path(named) / "mergewise"
    if sys.platform in ("win32", "darwin"):
        import typer

        return Path(typer.get_app_dir("mergewise"))
    return Path.home().resolve() / below_home / "mergewise"


def state_directory() -> Path:
    """Where mergewise remembers things for this user. Raises what `user_directory` raises."""
    return user_directory(os.environ.get("XDG_STATE_HOME"), ".local/state")
