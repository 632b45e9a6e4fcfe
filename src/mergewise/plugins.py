"""Parts of other packages, found by entry points: designs, readers, commands and methods of evaluation."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any, NamedTuple, TypeVar

from mergewise.errors import UsageError
from mergewise.log import log

Part = TypeVar("Part")


class Plugin(NamedTuple):
    """An object of another package. `name` is the name of its entry point, and `origin` describes both for messages."""

    name: str
    origin: str
    part: Any


def plugins(group: str, kind: Any, public: str) -> list[Plugin]:
    """Load the objects of an entry point group. An object that fails to load is skipped, with a warning.

    Args:
        group: Name of the group, such as "mergewise.readers".
        kind: Type of the objects, which may be abstract.
        public: Name of the type in messages.

    Raises:
        UsageError: if an object has another type.
    """
    found: list[Plugin] = []
    for point in sorted(entry_points(group=group), key=_origin):
        try:
            part = point.load()
        except Exception as error:  # a foreign module may raise anything on import
            log.warning("%s is skipped, it failed to load: %s", _origin(point), error)
            continue
        if not isinstance(part, kind):
            page = "write-a-design" if group.endswith("designs") else "extend"
            hint = f"see docs/how-to/{page}.md, or uninstall the package"
            raise UsageError(f"{_origin(point)} is not a {public}", hint)
        found.append(Plugin(point.name, _origin(point), part))
    return found


def merge_parts(*provided: tuple[str, Mapping[str, Part]]) -> dict[str, Part]:
    """Merge the parts of all origins into one dictionary. Raises UsageError if two parts have the same name."""
    merged: dict[str, Part] = {}
    for origin, parts in provided:
        if duplicates := merged.keys() & parts.keys():
            raise UsageError(f"duplicate name {min(duplicates)!r} in {origin}", "uninstall that package")
        merged.update(parts)
    return merged


def _origin(point: EntryPoint) -> str:
    """Describe the entry point and its package, for messages."""
    kind = point.group.removeprefix("mergewise.").removesuffix("s")
    return f"the {kind} {point.name} of the package {(point.dist and point.dist.name) or 'without a name'}"
