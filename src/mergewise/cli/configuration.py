"""`mergewise.toml`: found in the working directory or above it, and what it sets.

The search goes upward as git's does. It ends at the home directory, at the top of a repository, where another file system
begins, and at a directory that belongs to somebody else: what stands there was not written for the person who runs this.

A folder may have come from anywhere, with its configuration. So a file in a folder may not name what would be sent documents or
keys, nor an index or a place for answers outside of the folder, nor what a command is to write, remove or read, nor that files
are read without the bounds of a process apart, unless the user's own configuration trusts that folder.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mergewise.defaults import FILE_SECONDS, SHIPPED_EMBEDDERS
from mergewise.errors import UsageError
from mergewise.files import load_toml, user_directory

if TYPE_CHECKING:
    from mergewise.engine import Index

NAME = "mergewise.toml"
_RENAMED = {"index": "index_dir"}
HARMLESS = {
    "base": {"minilm"},
    "causal": {"none"},
    "chat": {"extractive"},
    "embedder": SHIPPED_EMBEDDERS,
    "reranker": {"none"},
    "scorer": {"lm"},
    "utility": {"none"},
}
"""Models that send nothing and load nothing from elsewhere, by option."""
_INSIDE = {"cache", "index_dir", "tokenizer", "weights"}
_FOR_PEOPLE = {
    "auth",
    "bench",
    "collection",
    "condition",
    "config",
    "data",
    "days",
    "docs",
    "file",
    "fit",
    "host",
    "html",
    "labels_dir",
    "meta",
    "out",
    "paths",
    "port",
    "prompts",
    "questions",
    "ray",
    "reports",
    "reuse",
    "scope",
    "sets",
    "token",
    "to_csv",
    "to_json",
    "wanted",
    "without",
    "write",
    "yes",
}
"""What no folder may say: files that are written over, what is removed, what is read, what documents are said to be, what chat
models are told, who gets documents and runs programs here (the nodes of a cluster), who may reach a server."""
TRUST = "trust"
"""Bytes of a configuration file: Python's reader of TOML takes a time that grows with the square of a dotted key."""


def own_configuration() -> Path | None:
    """The user's own file, whether there is one or not; None where it is not known where that would be."""
    try:
        return user_directory(os.environ.get("XDG_CONFIG_HOME"), ".config") / NAME
    except (OSError, RuntimeError):
        return None


def trusted_folders(own: Path) -> list[Path]:
    """The folders whose files the user's own configuration takes as its own, with all that is below them."""
    folders = load_toml(own).get(TRUST, [])
    if not isinstance(folders, list) or not all(isinstance(folder, str) for folder in folders):
        raise UsageError(f"{own}: {TRUST} is a list of folders", f'write {TRUST} = ["/home/me/project"]')
    return [Path(folder).expanduser().resolve() for folder in folders]


def permitted_embedder(index_dir: Path, named: str | None = None) -> str | None:
    """The embedder that an index names, where the user names it too or trusts the folder; None: let the index show its own."""
    from mergewise.store import is_url, place_of

    manifest = None if is_url(index_dir) and named is None else place_of(index_dir).known()
    # a bucket lies in no folder
    trusted = manifest is not None and (
        manifest.embedder == named or (not is_url(index_dir) and _is_trusted(index_dir))
    )
    return manifest.embedder if manifest is not None and trusted else None


def open_permitted(index_dir: Path, *, embedder: str | None = None, **options: Any) -> Index:
    """The index, with the embedder that the user names, or else the one that it names itself, where that is permitted."""
    import mergewise

    return mergewise.open(index_dir, embedder=embedder or permitted_embedder(index_dir), **options)


def _is_trusted(place: Path) -> bool:
    own = existing_configuration()
    return own is not None and any(_is_inside(place, folder) for folder in trusted_folders(own))


def _is_inside(place: Path, folder: Path) -> bool:
    """Whether it lies there, links followed; what is no path, as it holds what no path holds, lies nowhere."""
    try:
        return Path(os.path.realpath(place)).is_relative_to(os.path.realpath(folder))
    except (OSError, ValueError):
        return False


def harmless(options: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The options that a file in `folder` may set for a command."""
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
        # a file that a strategy reads may lie outside
        return "weights" not in str(value)
    return name not in _FOR_PEOPLE


def find_configuration(start: Path | None = None, home: Path | None = None) -> Path | None:
    """The nearest configuration file, which may turn out not to be a file; None where there is none."""
    here = working_directory() if start is None else start.resolve()
    return next(
        (folder / NAME for folder in _search_path(here, home or _home()) if os.path.lexists(folder / NAME)), None
    )


def working_directory() -> Path:
    """Raises UsageError where it was deleted, or cannot be reached."""
    try:
        return Path.cwd()
    except OSError as error:
        raise UsageError(f"the working directory is gone: {error.strerror}", "change to one that exists") from None


def existing_configuration() -> Path | None:
    """The user's own file, if there is one."""
    own = own_configuration()
    return own if own is not None and os.path.lexists(own) else None


def _home() -> Path | None:
    try:
        return Path.home().resolve()
    except (OSError, RuntimeError):
        return None


def _search_path(here: Path, home: Path | None) -> Iterator[Path]:
    """The working directory, whoever owns it, and then its parents as far as they are trusted."""
    yield here
    below = here
    for folder in here.parents:
        if below == home or (below / ".git").exists() or not _may_search(below, folder):
            return
        yield folder
        below = folder


def _may_search(below: Path, folder: Path) -> bool:
    """Whether the search may go on into `folder`: on the same file system, and the user's own as the file in it is."""
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


def read_configuration(path: Path, known: Mapping[str, Mapping[str, bool]], base: Path | None = None) -> dict[str, Any]:
    """Options by command: top-level keys are for every command, a table `[ask]` for that command alone, `["train utility"]` for
    one of a group.

    `known` says for each command which parameters it has, and of each whether it is a path; relative ones count from `base`.
    """
    settings = load_toml(path)
    if path == own_configuration():
        settings.pop(TRUST, None)
    tables = {key: value for key, value in settings.items() if isinstance(value, dict)}
    common = _by_parameter({key: value for key, value in settings.items() if key not in tables})
    unknown = (common.keys() - set().union(*known.values())) | (tables.keys() - known.keys())
    if unknown:
        raise UsageError(f"{path} sets {', '.join(sorted(unknown))}, which no command knows", "see docs/guide.md")
    return {
        name: {
            key: str(base / value) if base is not None and parameters[key] and isinstance(value, str) else value
            for key, value in {**common, **_by_parameter(tables.get(name, {}))}.items()
            if key in parameters
        }
        for name, parameters in known.items()
    }


def _by_parameter(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options by the names of their parameters: `index` is the directory, dashes are underscores."""
    return {_RENAMED.get(key, key.replace("-", "_")): value for key, value in options.items()}
