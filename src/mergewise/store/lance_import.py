"""LanceDB, imported without the parts that an index does not need.

`import lancedb` takes more than three times as long as the parts that a query needs. Most of it is clients for its cloud and for
REST catalogues. So two packages are registered without running their `__init__`, which runs when one of their names is first
used. Submodules are imported as usual.

This depends on internals of LanceDB. `tests/store/test_lance_import.py` names them, and fails when one of them changes.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from threading import RLock
from types import ModuleType
from typing import TYPE_CHECKING, Any

from mergewise.errors import UsageError

if TYPE_CHECKING:
    from lancedb import Session
    from lancedb._lancedb import Connection, Table

# maximum bytes of the caches for all tables of a place: LanceDB's own limits for one connection
INDEX_CACHE, METADATA_CACHE = 6 << 30, 1 << 30
# number of opened tables after which the caches are dropped
OPENINGS = 100
DEFERRED = ("lancedb", "lance_namespace_urllib3_client")
_LOCK = RLock()


class _InUse:
    """A guard against LanceDB in forked processes: its threads do not survive a fork, so a child would hang."""

    def __init__(self) -> None:
        self._used = self._forked = False
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._in_child)

    def claim(self, place: object) -> None:
        """Record that LanceDB is in use. Raise UsageError like `check_own_process`."""
        self.check_own_process(place)
        self._used = True

    def check_own_process(self, place: object) -> None:
        """Raise UsageError in a process that was forked after LanceDB was used."""
        if self._forked:
            raise UsageError(
                f"cannot open {place}: this process was forked after an index was used",
                "start new processes (multiprocessing.get_context('spawn')), or fork before the first index is opened",
            )

    def _in_child(self) -> None:
        self._forked = self._forked or self._used


IN_USE = _InUse()


class DeferredPackage(ModuleType):
    """A package whose `__init__` runs on the first access to a missing name. Then it becomes a plain module."""

    running = False

    def __getattr__(self, name: str) -> Any:
        if name == "__version__":
            # LanceDB's modules read the version from the package
            return version(self.__name__)
        if not name.startswith("__") or name == "__all__":
            # import a submodule without the lock, because the holder of the lock may wait for the importing module
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
    """Run the deferred `__init__` of a package. Its own imports see the partly initialised package."""
    with _LOCK:
        loader = None if package.__spec__ is None else package.__spec__.loader
        if isinstance(package, DeferredPackage) and not package.running and loader is not None:
            package.running = True
            try:
                loader.exec_module(package)
                package.__class__ = ModuleType  # type: ignore[assignment]
            finally:
                del package.running


def prepare() -> None:
    """Register the packages without running their `__init__`, unless they are already imported.

    Call this before any import from LanceDB.
    """
    if all(name in sys.modules for name in DEFERRED):
        return
    with _LOCK:
        for name in DEFERRED:
            spec = None if name in sys.modules else find_spec(name)
            if spec is not None:
                package = module_from_spec(spec)
                package.__class__ = DeferredPackage
                sys.modules[name] = package


class Sessions:
    """LanceDB's caches for the tables of one place. A new version of a table reuses the cached search indexes of the old one.

    The caches are keyed by file name, so another index of the same name needs its own sessions. They also keep data of old
    versions, a third of a megabyte a change. So a new session begins after `OPENINGS` opened tables. The old session is freed
    with its last open table.
    """

    def __init__(self) -> None:
        self._openings = 0
        self._session: Session | None = None

    def current(self) -> Session:
        """Return the current session. The caller has checked `IN_USE`."""
        from lancedb._lancedb import Session

        with _LOCK:
            if self._session is None or self._openings >= OPENINGS:
                self._session, self._openings = Session(INDEX_CACHE, METADATA_CACHE), 0
            self._openings += 1
            return self._session

    def reset(self) -> None:
        """Begin a new session, so that tables opened from now on are read from the files."""
        with _LOCK:
            self._session = None


def _address(place: object) -> str:
    """Return the address of a directory or a bucket. LanceDB would take a relative path such as `db` for one of its cloud."""
    return str(place.absolute() if isinstance(place, Path) else place)


async def connect_for_reading(place: object, sessions: Sessions, storage: dict[str, str] | None = None) -> Connection:
    """Open a directory or a bucket as a database, like `connect_async`, but without the catalogues."""
    prepare()
    IN_USE.claim(place)
    from lancedb._lancedb import connect

    # the type stub lacks the defaults of the other parameters
    return await connect(_address(place), storage_options=storage, session=sessions.current())  # type: ignore[call-arg]


async def table_of(database: Connection, name: str, version: int) -> Table:
    """Open a version of a table for reading, without LanceDB's classes in Python: `lancedb.table` imports all of them."""
    table = await database.open_table(name)
    await table.checkout(version)
    return table


def connect(place: object, sessions: Sessions, storage: dict[str, str] | None = None) -> Any:
    """Open a directory or a bucket as a database for writing."""
    prepare()
    IN_USE.claim(place)
    import lancedb

    with _LOCK:
        return lancedb.connect(_address(place), storage_options=storage, session=sessions.current())
