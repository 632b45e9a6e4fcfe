"""Translation of the database's errors: every error that leaves the store is a mergewise error.

LanceDB and Arrow report damaged files by errors of any kind: ValueError, RuntimeError, OSError, and Rust panics, which are not
an `Exception`. Problems of the machine (full disk, missing permission) are not damage and have their own messages.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from functools import wraps
from inspect import isfunction
from typing import Any, Concatenate, ParamSpec, TypeVar

from mergewise.errors import CorruptIndex, MergewiseError, StoreError
from mergewise.log import log

Kind = TypeVar("Kind")
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

REPAIR_HINT = "run `mergewise check --repair`"
REINDEX_HINT = "index the documents again into a new directory"
_PASSED_ON = (
    *(MergewiseError, KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError, ImportError, Warning),
    *(asyncio.CancelledError, CancelledError),
)
_UNREACHABLE = "check the network, the endpoint and the credentials, and try again"
_MACHINE = {
    "no space left": "make room on the disk",
    "disk quota": "make room on the disk",
    "file too large": "raise the limit on the size of files (ulimit -f)",
    "permission denied": "check the permissions of the directory",
    "read-only file system": "the file system cannot be written: use another directory",
    "too many open files": "close other indexes, or raise the limit (ulimit -n)",
    # messages of LanceDB's client of object stores when it gives up
    "generic s3 error": _UNREACHABLE,
    "generic gcs error": _UNREACHABLE,
    "generic microsoftazure error": _UNREACHABLE,
}
_LONGEST = 200


class DamagedCopies(CorruptIndex):
    """Damage that may be in local copies only. The reader tries again with new copies."""


@contextmanager
def reading(place: object, what: str = "", hint: str = REPAIR_HINT) -> Iterator[None]:
    """Translate errors to CorruptIndex, or to StoreError for a problem of the machine. `what` names the data in the message."""
    try:
        yield
    except _PASSED_ON:
        raise
    except BaseException as error:
        # an error of the database, of Arrow, or of our own code on damaged data; a Rust panic is not an `Exception`
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        if advice := machine_advice(error):
            raise StoreError(f"{place}: {line(error)}", advice) from error
        data = f"{what} of {place}" if what else str(place)
        raise CorruptIndex(f"cannot read {data}: {line(error)}", hint) from error


def after_change(work: Callable[[], object], failure: str) -> None:
    """Do work that a finished change does not need. Log its failure, because an error would mean that nothing changed."""
    try:
        work()
    except Exception as error:
        log.warning("%s: %s", failure, error)


def raising_store_errors(kind: type[Kind]) -> type[Kind]:
    """Decorate a class with a `place`, so that all its public methods raise mergewise errors only.

    The methods of a class with a `state` (`snapshot.Snapshot`) run again with new local copies after damage of the old ones.
    """
    for name, member in list(vars(kind).items()):
        if isfunction(member) and not name.startswith("_"):
            setattr(kind, name, _raising(member))
    return kind


def of_state(method: Callable[Concatenate[Any, Arguments], Result]) -> Callable[Concatenate[Any, Arguments], Result]:
    """Return a method of a class with a `state`, which calls this method of the state."""

    @wraps(method)
    def call(self: Any, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        result: Result = getattr(self.state, method.__name__)(*args, **kwargs)
        return result

    return call


def machine_advice(error: BaseException) -> str:
    """Return an instruction if an error reports a problem of the machine, such as a full disk. Else return an empty text."""
    if isinstance(error, MemoryError):
        return "free memory or raise its limit (ulimit -v); for `index`, use fewer --workers or exclude large files"
    return next((advice for sign, advice in _MACHINE.items() if sign in str(error).lower()), "")


def tells_full_disk(error: BaseException) -> bool:
    """Return whether an error, or its cause, reports a full disk."""
    return any(sign in f"{error} {error.__cause__}".lower() for sign in ("no space left", "disk quota"))


def line(error: BaseException) -> str:
    """Return the first line of an error's message."""
    told = f"{error} is missing" if isinstance(error, KeyError) else str(error).strip()
    message = re.split(r"\n|\. Valid fields|, /(?:root|rustc|home)/", told)[0]
    return message[:_LONGEST] or type(error).__name__


def _raising(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return method(self, *args, **kwargs)
        except BaseException:
            # only after an error, because a context manager would cost as much as most calls
            state = getattr(self, "state", None)
            try:
                with (reading if state is None else state.reading)(self.place):
                    raise
            except DamagedCopies:
                if state is None:
                    raise
                with state.reading(self.place):
                    state.renew()
                    return method(self, *args, **kwargs)

    return call
