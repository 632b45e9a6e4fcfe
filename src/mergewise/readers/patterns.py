"""Patterns of paths that say which files of a folder are read, in the manner of a `.gitignore`.

- `*`, `?` and `[a-z]` stand for characters of one name, `**` for any number of folders.
- A pattern without a slash means names at any depth: `*.log`, `drafts`.
- One with a slash counts from the folder that is searched, or from where that folder is named from: of `docs`,
  `2019/*.md` and `docs/2019/*.md` mean the same.
- A slash at the end means folders alone: `drafts/`.
- With a folder goes all that it holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from mergewise.errors import UsageError
from mergewise.ranges import as_list, short_repr, text

_ANY = "**"
_HINT = "patterns are such as 'drafts/', '*.log' or '2019/**/*.md'"


@dataclass(frozen=True, slots=True)
class PathPattern:
    """One pattern, as the names that it is made of. It is `anchored` where it counts from the folder."""

    names: tuple[str, ...]
    anchored: bool
    folders_only: bool

    @classmethod
    def of(cls, written: str) -> PathPattern:
        """Raises UsageError for a pattern that can mean nothing."""
        if written.startswith("!"):
            raise UsageError(f"the pattern {short_repr(written)} begins with !", "name by --include what is to be read")
        names = [name for name in written.split("/") if name not in ("", ".")]
        if not names or ".." in names or "\0" in written:
            raise UsageError(f"the pattern {short_repr(written)} means nothing in a folder", _HINT)
        # two in a row say what one says, and one at the end means what a folder holds, not the folder
        names = [name for i, name in enumerate(names) if name != _ANY or names[i + 1 : i + 2] != [_ANY]]
        names[-1:] = ["*"] if names[-1] == _ANY else names[-1:]
        return cls(tuple(names), "/" in written.rstrip("/"), written.endswith("/"))

    @property
    def suffix(self) -> str:
        """The suffix that all files have which it means by their names; empty where it says none."""
        suffix = "" if self.folders_only else PurePosixPath(self.names[-1]).suffix.lower()
        return "" if any(sign in suffix for sign in "*?[") else suffix

    def means(self, names: Sequence[str], *, is_folder: bool) -> bool:
        """Whether it means the path of these names, or a folder above it.

        The places in the pattern that the names so far may have reached are followed all at once, so that the time grows with
        the product of both lengths and no faster.
        """
        asked = self.names if self.anchored else (_ANY, *self.names)
        reached = {0}
        for name in names[: None if is_folder or not self.folders_only else -1]:
            reached |= {at + 1 for at in reached if asked[at] == _ANY}
            stay = {at for at in reached if asked[at] == _ANY}
            reached = stay | {at + 1 for at in reached - stay if fnmatchcase(name, asked[at])}
            if len(asked) in reached:
                return True
        return False


@dataclass(frozen=True, slots=True)
class FileChoice:
    """The files that are read: those that a pattern of `include` means, or all without one, but none that `exclude` means.

    A pattern of `include` that ends in a suffix, such as `*.json`, brings files of this suffix also where a folder is not
    searched for them. Files that are named themselves are read whatever the patterns say.
    """

    include: tuple[PathPattern, ...] = ()
    exclude: tuple[PathPattern, ...] = ()
    suffixes: frozenset[str] = field(default=frozenset())

    @classmethod
    def of(cls, include: Iterable[str] = (), exclude: Iterable[str] = ()) -> FileChoice:
        """Raises UsageError for what is no pattern."""
        wanted, unwanted = (
            tuple(PathPattern.of(text("pattern", one)) for one in as_list("patterns", given, "give a list"))
            for given in (include, exclude)
        )
        return cls(wanted, unwanted, frozenset(filter(None, (pattern.suffix for pattern in wanted))))

    def takes(self, path: Path, folder: Path, *, is_folder: bool = False) -> bool:
        """Whether what lies at `path` in `folder` is read, or for a folder, whether it is entered."""
        if not (self.include or self.exclude):
            return True
        within = path.relative_to(folder).parts
        named = (*(part for part in folder.parts if part != folder.anchor), *within)

        def is_meant(patterns: Iterable[PathPattern]) -> bool:
            readings = ((p, names) for p in patterns for names in ((within, named) if p.anchored else (within,)))
            return any(pattern.means(names, is_folder=is_folder) for pattern, names in readings)

        return not is_meant(self.exclude) and (is_folder or not self.include or is_meant(self.include))


ALL_FILES = FileChoice()
