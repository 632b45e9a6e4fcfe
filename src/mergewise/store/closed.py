"""What stands in the place of a store once its index is closed."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

from mergewise.errors import UsageError


class ClosedStore:
    """Knows its directory, and for all else says that it is closed."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise UsageError(f"the index {self.directory} is closed", "open it again: mergewise.open")
