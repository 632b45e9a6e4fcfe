"""`mergewise.toml`: found in the working directory or above it, and what it sets.

The search goes upward as git's does. It ends at the home directory, at the top of a repository, where another file system
begins, and at a directory that belongs to somebody else: what stands there was not written for the person who runs this.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mergewise.errors import UsageError

NAME = "mergewise.toml"
_RENAMED = {"index": "index_dir"}


def find_configuration(start: Path | None = None, home: Path | None = None) -> Path | None:
    """The nearest configuration file; None where there is none."""
    here = Path.cwd() if start is None else start.resolve()
    return next((folder / NAME for folder in _searched(here, home or _home()) if (folder / NAME).is_file()), None)


def _home() -> Path | None:
    try:
        return Path.home().resolve()
    except (OSError, RuntimeError):
        return None


def _searched(here: Path, home: Path | None) -> Iterator[Path]:
    """The working directory, whoever owns it, and then its parents as far as they are trusted."""
    yield here
    below = here
    for folder in here.parents:
        if below == home or (below / ".git").exists() or not _trusted(below, folder):
            return
        yield folder
        below = folder


def _trusted(below: Path, folder: Path) -> bool:
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
    """Options by command: top-level keys are for every command, a table `[ask]` for that command alone.

    `known` says for each command which parameters it has, and of each whether it is a path; relative ones count from `base`.
    """
    try:
        settings = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {error}", "it is a TOML file") from None
    tables = {key: value for key, value in settings.items() if isinstance(value, dict)}
    common = _named({key: value for key, value in settings.items() if key not in tables})
    unknown = (common.keys() - set().union(*known.values())) | (tables.keys() - known.keys())
    if unknown:
        raise UsageError(f"{path} sets {', '.join(sorted(unknown))}, which no command knows", "see docs/guide.md")
    return {
        name: {
            key: str(base / value) if base is not None and parameters[key] and isinstance(value, str) else value
            for key, value in {**common, **_named(tables.get(name, {}))}.items()
            if key in parameters
        }
        for name, parameters in known.items()
    }


def _named(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options by the names of their parameters: `index` is the directory, dashes are underscores."""
    return {_RENAMED.get(key, key.replace("-", "_")): value for key, value in options.items()}
