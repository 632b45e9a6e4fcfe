"""Patterns that select the files of a folder, similar to `.gitignore`.

- `*`, `?` and `[a-z]` match characters of one name, `**` any number of folders.
- A pattern without a slash matches names at any depth: `*.log`, `drafts`.
- A pattern with a slash is relative to the searched folder, or to the folder that its path is relative to: in `docs`,
  `2019/*.md` and `docs/2019/*.md` match the same files.
- A slash at the end matches only folders: `drafts/`.
- A folder that matches includes all its content.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from mergewise.errors import UsageError
from mergewise.ranges import as_list, short_repr, text
from mergewise.types import frozen

_ANY = "**"
_HINT = "use a pattern such as 'drafts/', '*.log' or '2019/**/*.md'"


@frozen
class PathPattern:
    """A pattern as its names. An `anchored` pattern is relative to the folder."""

    names: tuple[str, ...]
    anchored: bool
    folders_only: bool

    @classmethod
    def of(cls, written: str) -> PathPattern:
        """Parse a pattern. Raises UsageError if it is invalid."""
        if written.startswith("!"):
            raise UsageError(
                f"invalid pattern: {short_repr(written)} (begins with !)", "use --include for files to read"
            )
        names = [name for name in written.split("/") if name not in ("", ".")]
        if not names or ".." in names or "\0" in written:
            raise UsageError(f"invalid pattern: {short_repr(written)}", _HINT)
        # `**/**` equals `**`, and a final `**` matches the content of a folder, not the folder itself
        names = [name for i, name in enumerate(names) if name != _ANY or names[i + 1 : i + 2] != [_ANY]]
        names[-1:] = ["*"] if names[-1] == _ANY else names[-1:]
        return cls(tuple(names), "/" in written.rstrip("/"), written.endswith("/"))

    @property
    def suffix(self) -> str:
        """Suffix of all files that match by name. Empty if the pattern has no suffix."""
        suffix = "" if self.folders_only else PurePosixPath(self.names[-1]).suffix.lower()
        return "" if any(sign in suffix for sign in "*?[") else suffix

    def matches(self, names: Sequence[str], *, is_folder: bool) -> bool:
        """Tell whether the pattern matches the path of these names, or a folder above it.

        All places in the pattern that the names may have reached are followed at once. So the time grows only with the product of
        both lengths.
        """
        parts = self.names if self.anchored else (_ANY, *self.names)
        reached = {0}
        for name in names[: None if is_folder or not self.folders_only else -1]:
            reached |= {at + 1 for at in reached if parts[at] == _ANY}
            stay = {at for at in reached if parts[at] == _ANY}
            reached = stay | {at + 1 for at in reached - stay if fnmatchcase(name, parts[at])}
            if len(parts) in reached:
                return True
        return False


@frozen
class FileChoice:
    """Selection of files: files that match `include` (all without one), except files that match `exclude`.

    An `include` pattern that ends in a suffix, such as `*.json`, adds files of this suffix even if folders are not searched for
    them. Files that you name yourself are read whatever the patterns say.
    """

    include: tuple[PathPattern, ...] = ()
    exclude: tuple[PathPattern, ...] = ()
    suffixes: frozenset[str] = field(default=frozenset())

    @classmethod
    def of(cls, include: Iterable[str] = (), exclude: Iterable[str] = ()) -> FileChoice:
        """Parse patterns. Raises UsageError if one is invalid."""
        wanted, unwanted = (
            tuple(PathPattern.of(text("pattern", one)) for one in as_list("patterns", given, "give a list"))
            for given in (include, exclude)
        )
        return cls(wanted, unwanted, frozenset(filter(None, (pattern.suffix for pattern in wanted))))

    def takes(self, path: Path, folder: Path, *, is_folder: bool = False) -> bool:
        """Tell whether the file at `path` in `folder` is read. For a folder, tell whether it is searched."""
        if not (self.include or self.exclude):
            return True
        within = path.relative_to(folder).parts
        named = (*(part for part in folder.parts if part != folder.anchor), *within)

        def is_matched(patterns: Iterable[PathPattern]) -> bool:
            readings = ((p, names) for p in patterns for names in ((within, named) if p.anchored else (within,)))
            return any(pattern.matches(names, is_folder=is_folder) for pattern, names in readings)

        return not is_matched(self.exclude) and (is_folder or not self.include or is_matched(self.include))


ALL_FILES = FileChoice()
