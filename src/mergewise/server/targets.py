"""What `mergewise serve PATH` means: a server's data, an index that stands, or a folder of documents that is to be served.

An index may have come with a folder from anywhere. What lies beside it is not believed to be this user's server: the state of an
index that is served as it stands (tokens, jobs) lies below the user's own state directory, and the index holds nothing of it.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from mergewise.errors import UsageError
from mergewise.files import state_directory
from mergewise.server.configuration import CollectionConfig
from mergewise.store import state_file

DEFAULT_INDEX = Path("mergewise.index")
_TELL_NOTHING = frozenset({"index", "mergewise", "mergewise-index", ""})


@dataclass(frozen=True, slots=True)
class ServedPlace:
    """The directory of a server's state, and the collections that follow from what was named."""

    data: Path
    collections: Mapping[str, CollectionConfig] = field(default_factory=dict)


def served_place(named: Path | None, docs: Sequence[Path] = ()) -> ServedPlace:
    """What is served where `named` (default: `mergewise.index` here) and folders of documents are given.

    - an index, or a place for one (the default, or a name such as `my.index`) and `docs`: this index, as one collection
    - else a server's data, with a collection for `docs`

    Raises UsageError where there is nothing that could be served.
    """
    path = named or DEFAULT_INDEX
    for folder in docs:
        if not folder.is_dir():
            raise UsageError(f"{folder} is not a folder", "name a folder of documents")
    folders = tuple(Path(os.path.realpath(folder)) for folder in docs)
    is_for_index = named is None or (path.suffix == DEFAULT_INDEX.suffix and not path.exists())
    if state_file(path).exists() or (is_for_index and docs):
        title = folders[0].name if folders else _telling_name(path)
        own = CollectionConfig(Path(os.path.realpath(path)), title, folders)
        return ServedPlace(_state_of(path), {collection_name(title): own})
    if is_for_index:
        raise UsageError(
            f"there is no index at {path}",
            "mergewise serve --docs FOLDER indexes one and serves it; mergewise serve DATA serves a directory of data",
        )
    if path.exists() and not path.is_dir():
        raise UsageError(f"{path} is not a directory", "name a directory for the server's data, or an index")
    if folders:
        own = CollectionConfig(None, folders[0].name, folders)
        return ServedPlace(path, {collection_name(own.title): own})
    return ServedPlace(path)


def collection_name(text: str) -> str:
    """A name of a collection that reminds of a text: "My Docs (2024)" becomes "my-docs-2024"."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:63].rstrip("-") or "documents"


def _telling_name(index: Path) -> str:
    """The name of an index; that of its folder where it tells nothing."""
    real = Path(os.path.realpath(index))
    return real.parent.name if collection_name(real.name) in _TELL_NOTHING else real.name.removesuffix(".index")


def _state_of(index: Path) -> Path:
    real = os.path.realpath(index)
    digest = sha256(os.fsencode(real)).hexdigest()[:16]
    try:
        return state_directory() / "serve" / f"{collection_name(_telling_name(index))}-{digest}"
    except (OSError, RuntimeError) as error:
        raise UsageError(
            f"nobody knows where this user's programs keep their state: {error}", "set XDG_STATE_HOME, or HOME"
        ) from None
