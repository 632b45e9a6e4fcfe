"""Safe access to files that somebody else may have put there: a clone may include an index, a cache or a configuration.

A folder that mergewise writes, such as an index, must contain only folders and regular files. A link would redirect writes and
deletions, and a pipe or a device would block forever. Call `find_untrusted_entry` before you open such a folder. Read single
files with `regular_bytes` and write them with `write_whole`.

`source_name` and `source_path` convert between paths and the names that an index gives to its files.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import sys
import tomllib
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path, PurePosixPath
from stat import S_ISLNK, S_ISREG
from typing import Any, TypeAlias
from weakref import finalize

from mergewise.errors import UsageError

Roots: TypeAlias = Path | Mapping[str, Path]
"""The folder that names of files are relative to, or several folders by the beginning of the names."""

BETWEEN = "//"
"""Text between the address of a source and the id of a file in it, in the names that an index gives to its files."""
_ADDRESS = re.compile(r"(git\+https?|git\+file|https?|s3|gs|az)://")
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_NO_WAITING = getattr(os, "O_NONBLOCK", 0)
_BINARY = getattr(os, "O_BINARY", 0)
_LONGEST_TOML = 200_000
# minimum number of bytes read of a file that has grown since it was opened
_GROWN = 65_536


def regular_bytes(path: Path, most: int, *, follow: bool = False, within: Path | None = None) -> bytes:
    """Return the content of a regular file of up to `most` bytes. Links are only followed with `follow`, for links of the user.

    With `within`, a real path, links are only followed as far as that folder. Raises OSError for anything else, without waiting.
    """
    _check_regular(path, (path.stat() if follow else path.lstat()).st_mode)
    with os.fdopen(os.open(path, os.O_RDONLY | _BINARY | _NO_WAITING | (0 if follow else _NO_LINK)), "rb") as file:
        # the file may have been replaced since the check
        status = os.fstat(file.fileno())
        _check_regular(path, status.st_mode)
        if within is not None:
            # the file may be outside of the folder, also if a link was replaced meanwhile
            real = resolved_path(path)
            if not real.is_relative_to(within) or not os.path.samestat(os.lstat(real), status):
                # as openat2 reports an escape
                raise OSError(errno.EXDEV, "a link out of the folder", str(path))
        # `read` reserves memory for all bytes it is asked for, so ask for those of the file
        size = status.st_size
        content = file.read(min(size, most) + 1)
        while size < len(content) <= most:
            # the file has grown since
            size = max(2 * len(content), _GROWN)
            content += file.read(min(size, most) + 1 - len(content))
    if len(content) > most:
        raise OSError(errno.EFBIG, f"larger than {most:,} bytes", str(path))
    return content


def resolved_path(path: str | os.PathLike[str]) -> Path:
    """Resolve all links of a path. A link to itself stays, where `Path.resolve` raises an error."""
    return Path(os.path.realpath(path))


def _check_regular(path: Path, mode: int) -> None:
    if not S_ISREG(mode):
        raise OSError(errno.EINVAL, "a link, not a file" if S_ISLNK(mode) else "not a regular file", str(path))


def load_toml(path: Path, hint: str = "give a readable TOML file") -> dict[str, Any]:
    """Load a TOML file. A link is followed: users keep such files elsewhere.

    Raises:
        UsageError: if the file cannot be read, or is invalid.
    """
    try:
        return tomllib.loads(regular_bytes(path, _LONGEST_TOML, follow=True).decode("utf-8"))
    except RecursionError:
        raise UsageError(f"{path} cannot be read: nested too deeply", hint) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"{path} cannot be read: {reason}", hint) from None


def new_file(folder: Path, prefix: str, suffix: str = "", mode: int = 0o666) -> tuple[int, Path]:
    """Create a file with an unpredictable name, and open it for writing."""
    path = folder / f"{prefix}{secrets.token_hex(8)}{suffix}"
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY | _NO_LINK, mode), path


def write_whole(path: Path, content: bytes, mode: int = 0o666) -> None:
    """Replace `path` atomically: the new content is on the disk before it takes the name."""
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
    """Return the first link, pipe, socket or device below `folder`, or None. The folder itself may be a link.

    Raises OSError if a folder in it cannot be read.
    """
    waiting = [os.fspath(folder)]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    # `is_file` is also false for an entry that has just been deleted
                    elif not entry.is_file(follow_symlinks=False) and os.path.lexists(entry.path):
                        return Path(entry.path)
        except FileNotFoundError:
            # a writer has just deleted it
            continue
    return None


class PinnedDirectory:
    """A folder identified by its inode instead of its name. It detects when another folder has taken its place."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._status: Callable[[], os.stat_result]
        if hasattr(os, "O_DIRECTORY"):
            # an open folder keeps its inode number, so that no other folder can get it
            handle = os.open(path, getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY)
            finalize(self, os.close, handle)
            self._status = partial(os.fstat, handle)
        else:
            status = path.stat()
            self._status = lambda: status

    def is_in_place(self) -> bool:
        try:
            return os.path.samestat(self._status(), self.path.stat())
        except PermissionError:
            # opening it reports the error
            return True
        except OSError:
            return False


def user_directory(named: str | None, below_home: str) -> Path:
    """Return the user's directory for mergewise: in the folder `named`, in the system's place, or below the home directory.

    Raises OSError or RuntimeError if the home directory is unknown.
    """
    if named:
        return Path(named) / "mergewise"
    if sys.platform in ("win32", "darwin"):
        import typer

        return Path(typer.get_app_dir("mergewise"))
    return Path.home().resolve() / below_home / "mergewise"


def state_directory() -> Path:
    """Return the directory for this user's state. Raises what `user_directory` raises."""
    return user_directory(os.environ.get("XDG_STATE_HOME"), ".local/state")


def is_address(source: object) -> bool:
    """Return whether a source, or the name of a file, is an address: of a Git repository, a site or a bucket."""
    return isinstance(source, str) and _ADDRESS.match(source) is not None


def source_name(real: Path, root: Roots | None) -> str:
    """Return the name of a file: its absolute path relative to the deepest root above it, after the beginning of that root."""
    roots = {} if root is None else {"": root} if isinstance(root, Path) else root
    above = [(len(folder.parts), start, folder) for start, folder in roots.items() if real.is_relative_to(folder)]
    _, start, folder = max(above, default=(0, "", Path()))
    return (start / real.relative_to(folder) if above else real).as_posix()


def sources_below(real: Path, root: Roots) -> list[str]:
    """Return the beginnings, up to a slash, of the names that files below a folder may have. An empty one begins all names."""
    roots = {"": root} if isinstance(root, Path) else root
    # a name with no known beginning counts from the first root
    pairs = [("", next(iter(roots.values()))), *roots.items()]
    names = [start / real.relative_to(folder) for start, folder in pairs if real.is_relative_to(folder)]
    names += [Path(start) for start, folder in pairs if folder.is_relative_to(real)]
    return ["" if name == Path() else f"{name.as_posix()}/" for name in [real, *names]]


def source_path(source: str, root: Roots) -> Path:
    """Return the path of a file by its name. A name with no known beginning counts from the first root."""
    roots = {"": root} if isinstance(root, Path) else root
    name = PurePosixPath(source)
    start = next((start for start in roots if start and name.is_relative_to(start)), None)
    return next(iter(roots.values())) / source if start is None else roots[start] / name.relative_to(start)
