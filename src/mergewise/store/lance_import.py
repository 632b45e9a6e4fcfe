"""LanceDB without the half of it that no index in a directory needs.

`import lancedb` takes more than three times as long as the parts of it that a question needs: most of it are clients of its
cloud and of REST catalogues. So two packages are entered here without running their `__init__`: it runs when
a name of theirs is first asked for, by whoever asks. Submodules are imported as always.

This leans on internals of LanceDB. `tests/store/test_lance_import.py` names them, and fails when one of them changes.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec, module_from_spec
from threading import RLock
from types import ModuleType
from typing import TYPE_CHECKING, Any

from mergewise.errors import UsageError

if TYPE_CHECKING:
    from lancedb import Session
    from lancedb._lancedb import Connection
    from lancedb.table import AsyncTable

# bytes at most of what all tables of a place keep: LanceDB's own limits for one connection
INDEX_CACHE, METADATA_CACHE = 6 << 30, 1 << 30
# openings of tables after which what is kept begins anew
OPENINGS = 100
DEFERRED = ("lancedb", "lance_namespace_urllib3_client")
_LOCK = RLock()


class _InUse:
    """Whether LanceDB works in this process. Its threads do not survive a fork: in a child it would wait for them for ever."""

    def __init__(self) -> None:
        self._used = self._forked = False
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._in_child)

    def claim(self, place: object) -> None:
        """It works from now on. Raises UsageError as `check_own_process` does."""
        self.check_own_process(place)
        self._used = True

    def check_own_process(self, place: object) -> None:
        """Raises UsageError in a process that was forked from one that had used LanceDB."""
        if self._forked:
            raise UsageError(
                f"{place} cannot be opened in a process that was forked after an index was used",
                "start processes afresh: multiprocessing.get_context('spawn'), or fork before the first index is opened",
            )

    def _in_child(self) -> None:
        self._forked = self._forked or self._used


IN_USE = _InUse()


class DeferredPackage(ModuleType):
    """A package whose `__init__` runs when a name that it does not have yet is asked for. Then it is a plain module."""

    running = False

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("__") or name == "__all__":
            # a submodule that another one imports: without the lock, whose holder may wait for that other one
            if find_spec(f"{self.__name__}.{name}") is not None:
                return import_module(f"{self.__name__}.{name}")
            _enter(self)
            if not isinstance(self, DeferredPackage):
                return getattr(self, name)
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")

    def __dir__(self) -> list[str]:
        _enter(self)
        return sorted(self.__dict__)


def _enter(package: ModuleType) -> None:
    """Run the `__init__` of a package that waits for it. While it runs, its own imports find what there is so far."""
    with _LOCK:
        spec = package.__spec__
        if (
            isinstance(package, DeferredPackage)
            and not package.running
            and spec is not None
            and spec.loader is not None
        ):
            package.running = True
            try:
                spec.loader.exec_module(package)
                package.__class__ = ModuleType  # type: ignore[assignment]
            finally:
                del package.running


def prepare() -> None:
    """Enter the packages without running their `__init__`, unless somebody imported them already.

    To be called before anything of LanceDB is imported.
    """
    if all(name in sys.modules for name in DEFERRED):
        return
    with _LOCK:
        for name in DEFERRED:
            spec = None if name in sys.modules else find_spec(name)
            if spec is not None:
                package = module_from_spec(spec)
                package.__class__ = DeferredPackage
                if name == "lancedb":
                    # which its modules ask the package for
                    package.__dict__["__version__"] = version(name)
                sys.modules[name] = package


class Sessions:
    """What LanceDB keeps in memory for the tables of one place: a new version of a table finds the search indexes there that it
    shares with the one before. It is kept by the names of files: another index of the same name needs sessions of its own.

    What was read of versions that nobody opens any more stays there too, a third of a megabyte a change. So a new session begins
    after so many openings, and the one before goes with the last table that was opened in it.
    """

    def __init__(self) -> None:
        self._openings = 0
        self._session: Session | None = None

    def current(self) -> Session:
        """To be asked for by a process that is known to be its own."""
        from lancedb._lancedb import Session

        with _LOCK:
            if self._session is None or self._openings >= OPENINGS:
                self._session, self._openings = Session(INDEX_CACHE, METADATA_CACHE), 0
            self._openings += 1
            return self._session

    def begin_anew(self) -> None:
        """What is opened from now on is read from the files."""
        with _LOCK:
            self._session = None


async def connect_for_reading(place: object, sessions: Sessions, storage: dict[str, str] | None = None) -> Connection:
    """A directory or a bucket as a database: what `connect_async` does, without the catalogues."""
    prepare()
    IN_USE.claim(place)
    from lancedb._lancedb import connect

    # the type stub does not know that the other parameters have defaults
    return await connect(str(place), storage_options=storage, session=sessions.current())  # type: ignore[call-arg]


async def table_of(database: Connection, name: str, version: int) -> AsyncTable:
    from lancedb.table import AsyncTable

    table = AsyncTable(await database.open_table(name))
    await table.checkout(version)
    return table


def connect(place: object, sessions: Sessions, storage: dict[str, str] | None = None) -> Any:
    """A directory or a bucket as a database, for writing."""
    prepare()
    IN_USE.claim(place)
    import lancedb

    with _LOCK:
        return lancedb.connect(str(place), storage_options=storage, session=sessions.current())
