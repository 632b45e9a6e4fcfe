"""What the database's errors mean: every error that leaves the store on disk is one of ours.

LanceDB and Arrow tell of damaged files by errors of any kind: ValueError, RuntimeError, OSError, and a panic of Rust code,
which is not even an `Exception`. What a machine lacks (room on the disk, a permission) is no damage, and says so.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from functools import wraps
from inspect import isfunction
from typing import Any, TypeVar

from mergewise.errors import CorruptIndex, MergewiseError, StoreError

Kind = TypeVar("Kind")

MEND = "`mergewise check --repair` mends what can be mended"
ANEW = "index the documents again into a new directory"
_PASSED_ON = (
    *(MergewiseError, KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError, ImportError, Warning),
    *(asyncio.CancelledError, CancelledError),
)
_UNREACHABLE = "the bucket cannot be reached: check the network, the endpoint and the credentials, and try again"
_MACHINE = {
    "no space left": "make room on the disk",
    "disk quota": "make room on the disk",
    "file too large": "raise the limit on the size of files (ulimit -f)",
    "permission denied": "check the permissions of the directory",
    "read-only file system": "the directory is on a file system that cannot be written",
    "too many open files": "close other indexes, or raise the limit (ulimit -n)",
    # what LanceDB's client of object stores says where it gave up
    "generic s3 error": _UNREACHABLE,
    "generic gcs error": _UNREACHABLE,
    "generic microsoftazure error": _UNREACHABLE,
}
_LONGEST = 200


@contextmanager
def reading(place: object, what: str = "", hint: str = MEND) -> Iterator[None]:
    """Whatever goes wrong within is raised as a CorruptIndex, or as a StoreError where it tells of the machine.

    `what` names what was read or written.
    """
    try:
        yield
    except _PASSED_ON:
        raise
    except BaseException as error:
        # an error of the database, of Arrow, or of ours reading what makes no sense; a panic of Rust is no `Exception`
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        for sign, advice in _MACHINE.items():
            if sign in str(error).lower():
                raise StoreError(f"{place}: {line(error)}", advice) from error
        named = f"{what} of {place}" if what else str(place)
        raise CorruptIndex(f"{named} cannot be read: {line(error)}", hint) from error


def raising_store_errors(kind: type[Kind]) -> type[Kind]:
    """A class with a `place`, of which every public method raises errors of ours alone.

    They are raised by `reading`, or by what the class has under the name `_reading`.
    """
    for name, member in list(vars(kind).items()):
        if isfunction(member) and not name.startswith("_"):
            setattr(kind, name, _raising(member))
    return kind


def tells_full_disk(error: BaseException) -> bool:
    """Whether an error, or the one that it was raised from, says that there is no room on the disk."""
    return any(sign in f"{error} {error.__cause__}".lower() for sign in ("no space left", "disk quota"))


def line(error: BaseException) -> str:
    """The first line of what an error says."""
    said = re.split(r"\n|\. Valid fields|, /(?:root|rustc|home)/", str(error).strip())[0]
    return said[:_LONGEST] or type(error).__name__


def _raising(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return method(self, *args, **kwargs)
        except BaseException:
            # only now: most calls are small, and entering a context manager would cost as much
            with getattr(self, "_reading", reading)(self.place):
                raise

    return call
