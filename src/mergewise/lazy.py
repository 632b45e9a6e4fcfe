"""Lazy imports: public names of a package, and parts of a dictionary, are imported at their first use.

So importing a package costs nothing, and a module of another package can import ours before we import its parts.
"""

from __future__ import annotations

import re
from collections import UserDict
from collections.abc import Callable, Mapping
from functools import cache, cached_property
from importlib import import_module
from typing import Any, NamedTuple, TypeVar

Part = TypeVar("Part")


def names_by_module(table: str) -> dict[str, str]:
    """Read a table with a line for each module: its name, a colon, and its public names. A line that goes on is indented more."""
    return dict(line.split(": ") for line in re.sub(r"\n {5,}", " ", table.strip()).split("\n    "))


def lazy_names(package: str, homes: Mapping[str, str]) -> Callable[[str], object]:
    """Return the `__getattr__` of a package (PEP 562).

    Args:
        package: Name of the package.
        homes: Maps each module to its names, separated by blanks. A module is relative to the package, or a full name.
    """
    modules = {name: module for module, names in homes.items() for name in names.split()}

    def get_name(name: str) -> object:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = modules[name]
        return getattr(import_module(module if module.startswith("mergewise.") else f"{package}.{module}"), name)

    return get_name


@cache
def of_process(make: Callable[..., Part], *arguments: Any) -> Part:
    """Return what `make` makes of these arguments, once in each process: an object that is pickled as its arguments."""
    return make(*arguments)


class Later(NamedTuple):
    """A part that is imported when it is first read: `attribute` of the module, or its entry of the part's name."""

    module: str
    attribute: str

    def load(self, name: str) -> Any:
        found = getattr(import_module(self.module), self.attribute)
        return found[name] if isinstance(found, Mapping) else found


class Lazy(UserDict[str, Part]):
    """A dictionary filled by `make` on first access. A value that is a `Later` is imported when it is first read."""

    def __init__(self, make: Callable[[], Mapping[str, Part]]) -> None:
        self._make = make

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle `make` alone: the other process fills its own dictionary, which must be equal."""
        from pickle import PicklingError

        if dict(self) != dict(Lazy(self._make)):
            raise PicklingError("this dictionary was changed in this process")
        return Lazy, (self._make,)

    @cached_property
    def data(self) -> dict[str, Part]:  # type: ignore[override]
        return dict(self._make())

    def __getitem__(self, name: str) -> Part:
        part = self.data[name]
        if isinstance(part, Later):
            part = self.data[name] = part.load(name)
        return part
