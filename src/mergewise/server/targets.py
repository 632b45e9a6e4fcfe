"""Interpretation of `mergewise serve PATH`: a server's data, an existing index, or an index of folders of documents.

An index may come from an untrusted place, so files next to the index are never read as server state. The state for serving a
single index (tokens, jobs) is in the user's state directory, never in the index.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from mergewise.errors import UsageError
from mergewise.extend import is_url, state_directory, state_file
from mergewise.server.configuration import CollectionConfig

DEFAULT_INDEX = Path("mergewise.index")
_GENERIC_NAMES = ("index", "mergewise", "mergewise-index", "")


class ServedPlace(NamedTuple):
    """The directory of a server's state, and the collections that follow from the arguments."""

    data: Path
    collections: Mapping[str, CollectionConfig]


def served_place(named: Path | None, docs: Sequence[Path] = (), follow_links: bool = False) -> ServedPlace:
    """Interpret the path `named` (default: `mergewise.index` in the working directory) and the folders of documents.

    `follow_links` applies to the folders.

    - The URL of an index in a bucket, which is served read-only.
    - An index, or `docs` and the path of a new index (the default, or a name such as `my.index`): one collection for the index.
    - Otherwise a server's data, with a collection for `docs`.

    Raises UsageError if the path does not exist or a folder is invalid.
    """
    path = named or DEFAULT_INDEX
    if is_url(path):
        if docs:
            raise UsageError(f"read-only index: {path} is in a bucket", "remove --docs")
        title = descriptive_name(path)
        return ServedPlace(_state_of(path), {collection_name(title): CollectionConfig(path, title=title)})
    for folder in docs:
        if not folder.is_dir():
            raise UsageError(f"not a folder: {folder}", "pass a folder of documents")
    folders = tuple(Path(os.path.realpath(folder)) for folder in docs)
    title = folders[0].name if folders else descriptive_name(path)
    own = CollectionConfig(title=title, folders=folders, follow_links=follow_links)
    is_for_index = named is None or (path.suffix == DEFAULT_INDEX.suffix and not path.exists())
    if state_file(path).exists() or (is_for_index and docs):
        own = replace(own, path=Path(os.path.realpath(path)))
        return ServedPlace(_state_of(path), {collection_name(title): own})
    if is_for_index:
        raise UsageError(
            f"index not found: {path}",
            "run `mergewise serve --docs FOLDER` to index a folder, or `mergewise serve DATA` for a server's data directory",
        )
    if path.exists() and not path.is_dir():
        raise UsageError(f"not a directory: {path}", "pass a directory for the server's data, or an index")
    return ServedPlace(path, {collection_name(title): own} if folders else {})


def collection_name(text: str) -> str:
    """Turn a text into a name of a collection: "My Docs (2024)" becomes "my-docs-2024"."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:63].rstrip("-") or "documents"


def descriptive_name(index: Path) -> str:
    """Return the name of an index, or of its folder if the index has a generic name."""
    real = index if is_url(index) else Path(os.path.realpath(index))
    return real.parent.name if collection_name(real.name) in _GENERIC_NAMES else real.name.removesuffix(".index")


def _state_of(index: Path) -> Path:
    real = os.fspath(index) if is_url(index) else os.path.realpath(index)
    digest = sha256(os.fsencode(real)).hexdigest()[:16]
    try:
        return state_directory() / "serve" / f"{collection_name(descriptive_name(index))}-{digest}"
    except (OSError, RuntimeError) as error:
        raise UsageError(f"cannot find the user's state directory: {error}", "set XDG_STATE_HOME or HOME") from None
