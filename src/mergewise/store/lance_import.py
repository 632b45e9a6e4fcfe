"""LanceDB without the half of it that no index in a directory needs.

`import lancedb` runs 1.6 s, most of it in clients of its cloud and of REST catalogues (`lance_namespace`, urllib3, some four
hundred pydantic models). So its package, and the package of the REST client, are entered here without running their
`__init__`: that happens when a name of theirs is first asked for, by whoever asks. Submodules are imported as always.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from threading import RLock
from types import ModuleType
from typing import TYPE_CHECKING, Any

from mergewise.errors import UsageError

if TYPE_CHECKING:
    from lancedb.table import AsyncTable

_PACKAGES = ("lancedb", "lance_namespace_urllib3_client")
_LOCK = RLock()
_HERE = (None,) * 8  # no key, region, host, interval, client, options or session: a database in a directory


class _InUse:
    """Whether LanceDB works in this process. Its threads do not survive a fork: in a child it would wait for them for ever."""

    def __init__(self) -> None:
        self._used = self._forked = False
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._in_child)

    def claim(self, directory: Path) -> None:
        """It works from now on. Raises UsageError as `demand_own_process` does."""
        self.demand_own_process(directory)
        self._used = True

    def demand_own_process(self, directory: Path) -> None:
        """Raises UsageError in a process that was forked from one that had used LanceDB."""
        if self._forked:
            raise UsageError(
                f"{directory} cannot be opened in a process that was forked after an index was used",
                "start processes afresh: multiprocessing.get_context('spawn'), or fork before the first index is opened",
            )

    def _in_child(self) -> None:
        self._forked = self._forked or self._used


IN_USE = _InUse()


class DeferredPackage(ModuleType):
    """A package whose `__init__` runs when a name that it does not have yet is asked for."""

    def __init__(self, spec: ModuleSpec) -> None:
        super().__init__(spec.name)
        self.__spec__ = spec
        self.__loader__ = spec.loader
        self.__file__ = spec.origin
        self.__package__ = spec.name
        self.__path__ = spec.submodule_search_locations or []
        self._entered = False

    def __getattr__(self, name: str) -> Any:
        absent = AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        if name.startswith("__") and name != "__all__":
            raise absent
        # a submodule that another one imports: without the lock, which somebody may hold who waits for that other one
        if find_spec(f"{self.__name__}.{name}") is not None:
            return import_module(f"{self.__name__}.{name}")
        with _LOCK:
            self._run()
        if name in self.__dict__:
            return self.__dict__[name]
        own = self.__dict__.get("__getattr__")
        if own is None:
            raise absent
        return own(name)

    def __dir__(self) -> list[str]:
        with _LOCK:
            self._run()
        return sorted(self.__dict__)

    def _run(self) -> None:
        spec = self.__spec__
        if self._entered or spec is None or spec.loader is None:
            return
        self._entered = True
        try:
            spec.loader.exec_module(self)
        except BaseException:
            self._entered = False
            raise


def defer(name: str) -> None:
    """Enter a package without running its `__init__`, unless somebody imported it already."""
    with _LOCK:
        spec = None if name in sys.modules else find_spec(name)
        if spec is not None:
            sys.modules[name] = DeferredPackage(spec)


def prepare() -> None:
    """To be called before anything of LanceDB is imported."""
    if all(name in sys.modules for name in _PACKAGES):
        return
    with _LOCK:
        for name in _PACKAGES:
            defer(name)
        package = sys.modules.get("lancedb")
        if isinstance(package, DeferredPackage) and "__version__" not in package.__dict__:
            package.__dict__["__version__"] = version("lancedb")  # which its modules ask the package for


async def open_table(directory: Path, name: str) -> AsyncTable:
    """A table of a directory, for reading: what `connect_async` and `open_table` do, without the catalogues."""
    prepare()
    IN_USE.claim(directory)
    from lancedb._lancedb import connect
    from lancedb.table import AsyncTable

    database = await connect(str(directory), *_HERE)
    return AsyncTable(await database.open_table(name))


def connect(directory: Path) -> Any:
    """The directory as a database, for writing."""
    prepare()
    IN_USE.claim(directory)
    import lancedb

    with _LOCK:
        return lancedb.connect(directory)
