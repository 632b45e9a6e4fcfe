"""Lazy imports: public names of a package are imported at their first use, so that importing the package costs nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module


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
