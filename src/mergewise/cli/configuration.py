"""The configuration file `mergewise.toml`: its search and its options.

The search starts in the working directory and goes upward, as git's does. It ends at the home directory, at the top of a
repository, at the boundary of a file system, and at a directory of another user, who may have written the file for someone else.

A folder, and its configuration, may come from an untrusted source such as a clone. Unless the user's own configuration trusts
the folder, its file must not

- name a model or server that would receive documents or keys,
- name an index or a cache outside of the folder,
- name files that a command writes, removes or reads,
- switch off the sandbox that reads files in a separate process.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mergewise.errors import UsageError, did_you_mean
from mergewise.extend import FILE_SECONDS, SHIPPED_EMBEDDERS, load_toml, user_directory
from mergewise.types import Json, JsonDict

if TYPE_CHECKING:
    from mergewise import Index

NAME = "mergewise.toml"
HARMLESS = {
    "base": {"minilm"},
    "causal": {"none"},
    "chat": {"extractive"},
    "embedder": SHIPPED_EMBEDDERS,
    "reranker": {"none"},
    "scorer": {"lm"},
    "utility": {"none"},
}
"""Models by option that send nothing and load nothing from elsewhere."""
_INSIDE = {"cache", "index_dir", "second_source", "tokenizer", "weights"}
"""Paths that an untrusted file may set if they are inside its folder."""
_UNSAFE = frozenset(
    "auth bench collection condition config data days docs file files fit follow_links host html labels meta out "
    "paths port prompts questions ray scope sets token wanted write yes".split()
)
"""Options that an untrusted file must not set. They name files to overwrite, remove or read, metadata of documents, prompts of
chat models, nodes of a cluster (which get documents and run programs), or who may reach a server."""
TRUST = "trust"
"""Key of the user's own file with the list of trusted folders."""


def own_configuration() -> Path | None:
    """Return the path of the user's own file, which may not exist, or None if its folder is unknown."""
    try:
        return user_directory(os.environ.get("XDG_CONFIG_HOME"), ".config") / NAME
    except (OSError, RuntimeError):
        return None


def trusted_folders(own: Path) -> list[Path]:
    """Return the folders that the user's own configuration trusts, subfolders included."""
    folders = load_toml(own).get(TRUST, [])
    if not isinstance(folders, list) or not all(isinstance(folder, str) for folder in folders):
        raise UsageError(
            f"{own}: invalid {TRUST} (expected a list of folders)", f'write {TRUST} = ["/home/me/project"]'
        )
    return [Path(folder).expanduser().resolve() for folder in folders]


def permitted_embedder(index_dir: Path, named: str | None = None) -> str | None:
    """Return the embedder that the user names, else the one that an index in a trusted folder names, or None."""
    from mergewise.extend import is_url, place_of

    own = existing_configuration()
    # a bucket is in no folder
    if named is not None or own is None or is_url(index_dir):
        return named
    if not any(_is_inside(index_dir, folder) for folder in trusted_folders(own)):
        return None
    manifest = place_of(index_dir).known()
    return None if manifest is None else manifest.embedder


def open_permitted(index_dir: Path, *, embedder: str | None = None, **options: Any) -> Index:
    """Open the index with the embedder that the user names, else with the index's own embedder if that is permitted."""
    import mergewise

    return mergewise.open(index_dir, embedder=embedder or permitted_embedder(index_dir), **options)


def _is_inside(place: Path, folder: Path) -> bool:
    """Check that a path is inside a folder, following links. An invalid path is inside no folder."""
    try:
        return Path(os.path.realpath(place)).is_relative_to(os.path.realpath(folder))
    except (OSError, ValueError):
        return False


def harmless(options: Json, folder: Path) -> JsonDict:
    """Return the options that an untrusted file in `folder` may set for a command."""
    return {name: value for name, value in options.items() if _is_harmless(name, value, folder)}


def _is_harmless(name: str, value: object, folder: Path) -> bool:
    if name in HARMLESS:
        return isinstance(value, str) and value in HARMLESS[name]
    if name in _INSIDE:
        return isinstance(value, str) and _is_inside(folder / value, folder)
    if name == "sandbox":
        return value is True
    if name == "file_seconds":
        return isinstance(value, int | float) and value <= FILE_SECONDS
    if name == "strategies":
        # a strategy may name a weights file outside of the folder
        return "weights" not in str(value)
    return name not in _UNSAFE


def find_configuration() -> Path | None:
    """Return the path of the nearest configuration file, which may not be a regular file, or None."""
    return next((folder / NAME for folder in _search_path() if os.path.lexists(folder / NAME)), None)


def working_directory() -> Path:
    """Return the working directory. Raises UsageError if it was deleted or is unreachable."""
    try:
        return Path.cwd()
    except OSError as error:
        raise UsageError(
            f"working directory not found: {error.strerror}", "change to a directory that exists"
        ) from None


def existing_configuration() -> Path | None:
    """Return the path of the user's own file, or None if it does not exist."""
    own = own_configuration()
    return own if own is not None and os.path.lexists(own) else None


def _home() -> Path | None:
    try:
        return Path.home().resolve()
    except (OSError, RuntimeError):
        return None


def _search_path() -> Iterator[Path]:
    """Yield the working directory, whoever owns it, then its parents as long as `_may_search` allows them."""
    below, home = working_directory(), _home()
    yield below
    for folder in below.parents:
        if below == home or (below / ".git").exists() or not _may_search(below, folder):
            return
        yield folder
        below = folder


def _may_search(below: Path, folder: Path) -> bool:
    """Check that `folder` is on the same file system and that the user owns it and the file in it."""
    try:
        parent, child = folder.stat(), below.stat()
        if parent.st_dev != child.st_dev:
            return False
        user = getattr(os, "getuid", None)
        file = folder / NAME
        owners = {parent.st_uid, *([file.stat().st_uid] if file.exists() else [])}
        return user is None or owners == {user()}
    except OSError:
        return False


def read_configuration(path: Path, known: Mapping[str, Mapping[str, bool]], base: Path | None = None) -> JsonDict:
    """Read the options of a file, by command.

    Top-level keys are for every command, a table `[ask]` is for that command, and `["train utility"]` for a command of a group.

    Args:
        path: The configuration file.
        known: The parameters of each command. True marks a path.
        base: The folder that relative paths count from.
    """
    hint = "correct the line; write an option with the name of a command into tables, such as [ask] with index = ..."
    settings = load_toml(path, hint)
    if path == own_configuration():
        settings.pop(TRUST, None)
    tables = {key: value for key, value in settings.items() if isinstance(value, dict)}
    common = _by_parameter({key: value for key, value in settings.items() if key not in tables})
    names = set().union(*known.values())
    unknown = (common.keys() - names) | (tables.keys() - known.keys())
    if unknown:
        raise UsageError(
            f"{path}: unknown options: {', '.join(sorted(unknown))}",
            f"{did_you_mean(min(unknown), names | known.keys())}list them with `mergewise config COMMAND`",
        )
    return {
        name: {
            key: str(base / value) if base is not None and parameters[key] and isinstance(value, str) else value
            for key, value in {**common, **_by_parameter(tables.get(name, {}))}.items()
            if key in parameters
        }
        for name, parameters in known.items()
    }


def _by_parameter(options: Json) -> JsonDict:
    """Rename options to their parameters: `index` becomes `index_dir`, and dashes become underscores."""
    return {"index_dir" if key == "index" else key.replace("-", "_"): value for key, value in options.items()}
