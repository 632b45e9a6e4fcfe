"""Public names of a package that are imported when they are first used, so that importing the package costs nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module


def lazy_names(package: str, homes: Mapping[str, str]) -> Callable[[str], object]:
    """Return the `__getattr__` of a package (PEP 562).

    Args:
        package: Name of the package.
        homes: For each module of the package, relative to it or whole, the names it has, separated by blanks.
    """
    modules = {name: module for module, names in homes.items() for name in names.split()}

    def get_name(name: str) -> object:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = modules[name]
        return getattr(import_module(module if module.startswith("mergewise.") else f"{package}.{module}"), name)

    return get_name
