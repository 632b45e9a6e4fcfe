"""LanceDB without the half of it that no index in a directory needs.

`import lancedb` runs 1.6 s, most of it in clients of its cloud and of REST catalogues (`lance_namespace`, urllib3, some four
hundred pydantic models). So its package, and the package of the REST client, are entered here without running their
`__init__`: that happens when a name of theirs is first asked for, by whoever asks. Submodules are imported as always.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from threading import RLock
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lancedb.table import AsyncTable

_PACKAGES = ("lancedb", "lance_namespace_urllib3_client")
_LOCK = RLock()
_HERE = (None,) * 8  # no key, region, host, interval, client, options or session: a database in a directory


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
    from lancedb._lancedb import connect
    from lancedb.table import AsyncTable

    database = await connect(str(directory), *_HERE)
    return AsyncTable(await database.open_table(name))


def connect(directory: Path) -> Any:
    """The directory as a database, for writing."""
    prepare()
    import lancedb

    with _LOCK:
        return lancedb.connect(directory)
