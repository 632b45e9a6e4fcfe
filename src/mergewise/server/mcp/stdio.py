"""The tools by standard input and output, for one index: the log goes to standard error, and nothing else to standard output."""

from __future__ import annotations

import re
from pathlib import Path

from mergewise.engine import Index
from mergewise.server.mcp.library import IndexLibrary
from mergewise.server.mcp.tools import mcp_server

_SEPARATORS = re.compile(r"[^a-z0-9]+")


def serve_index(index: Index, directory: Path, strategy: str, *, writes: bool = False) -> None:
    """Answer until standard input ends."""
    library = IndexLibrary(index, collection_name(directory), strategy)
    mcp_server(lambda call: library, writes=writes).run("stdio")


def collection_name(directory: Path) -> str:
    """What the index is called: its directory's name, or that of the folder around a directory of the usual name."""
    directory = directory.resolve()
    stem = directory.stem if directory.stem not in ("mergewise", "index") else directory.parent.name
    return _SEPARATORS.sub("-", stem.lower()).strip("-")[:63] or "index"
