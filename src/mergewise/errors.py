"""Errors that mergewise raises. The message names the problem, and `hint` is an instruction.

MergewiseError
├── UsageError            an invalid argument or request (exit 2)
├── ReadError             a file that cannot be read
├── MissingExtra          an optional dependency that is missing or broken
├── Cancelled             cancelled by the caller
├── DeadlineExceeded      past the deadline of a question
├── ModelError            a failed model, or an invalid reply
│   └── InputRefused      an input that an endpoint refused
└── StoreError            a failure of the index on disk
    ├── NotAnIndex        a directory with something else (exit 2)
    ├── NewerFormat       an index of a newer mergewise (exit 2)
    ├── OlderFormat       an index of an older mergewise (exit 2)
    ├── EmbedderMismatch  an index of another embedder (exit 2)
    ├── IndexBusy         another process is writing (retryable)
    ├── ShardsMissing     no node of a cluster answers for a shard (retryable)
    └── CorruptIndex      a damaged index
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import ClassVar

from mergewise.redaction import masked


def install_command(extra: str, *options: str) -> str:
    """Return the command that installs an extra, with more options of pip.

    Its source is that of the installed package: a checkout, a file or a repository (PEP 610), else an index of packages.
    """
    import json
    from importlib import metadata
    from pathlib import Path
    from urllib.parse import unquote, urlsplit

    try:
        origin = json.loads(metadata.distribution("mergewise").read_text("direct_url.json") or "{}")
    except (metadata.PackageNotFoundError, ValueError):
        origin = {}
    url = origin.get("url", "")
    place = Path(unquote(urlsplit(url).path))
    source = f"mergewise[{extra}]"
    if url.startswith("file:") and place.exists():
        source = f"{'.' if place == Path.cwd() else place}[{extra}]"
        options = (*options, *["--editable"] * origin.get("dir_info", {}).get("editable", False))
    elif "vcs_info" in origin:
        source = f"{source} @ {origin['vcs_info']['vcs']}+{url}"
    return " ".join(("pip install", *options, f'"{source}"'))


def did_you_mean(given: object, names: Iterable[str]) -> str:
    """Ask for the known name that is most like an unknown one: "did you mean weave? ". Empty if no name is like it."""
    from difflib import get_close_matches

    near = get_close_matches(given[:80].lower(), list(names), 1) if isinstance(given, str) else ()
    return f"did you mean {near[0]}? " if near else ""


def one_of(given: object, names: Iterable[str]) -> str:
    """Return the hint for an unknown name, with the list of known names."""
    known = list(names)
    return f"{did_you_mean(given, known)}one of: {', '.join(known)}"


def check_known(what: str, given: str, names: Collection[str]) -> None:
    """Raise UsageError for an unknown name, with a hint that lists the known ones."""
    if given not in names:
        raise UsageError(f"unknown {what}: {given!r}", one_of(given, names))


def first_line(error: Exception) -> str:
    """Return the first line of an error's text, at most 200 characters. The name of its class if there is no text."""
    return str(error).strip().partition("\n")[0].rstrip()[:200] or type(error).__name__


class MergewiseError(Exception):
    """Base of all errors. Messages and hints never contain keys.

    Attributes:
        message: The problem.
        hint: An instruction.
        exit_code: Exit code of the command line.
        retryable: True if the same call may succeed later.
    """

    exit_code: ClassVar[int] = 1
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, hint: str = "") -> None:
        self.message, self.hint = masked(message), masked(hint)
        super().__init__(self.message)

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class UsageError(MergewiseError):
    """An invalid argument or request."""

    exit_code = 2


class ReadError(MergewiseError):
    """A file that cannot be read. The report of `Index.add` names it with the reason."""


class MissingExtra(MergewiseError):
    """An optional dependency that is not installed, or that is installed but broken.

    Args:
        feature: The package or feature, as the message names it.
        extra: The extra that installs it.
        cause: The error that importing the package raised. It tells an absent package from a broken one.
    """

    def __init__(self, feature: str, extra: str, cause: Exception | None = None) -> None:
        # the import statement itself found no module, and not an import inside an installed package
        at = None if cause is None else cause.__traceback__
        if cause is None or (isinstance(cause, ModuleNotFoundError) and (at is None or at.tb_next is None)):
            super().__init__(f"{feature} is not installed", install_command(extra))
            return
        reason = first_line(cause)
        super().__init__(
            f"{feature} is installed, but cannot be imported: {reason}",
            f"repair it, or reinstall it: {install_command(extra, '--force-reinstall')}",
        )


class Cancelled(MergewiseError):
    """Work that the caller cancelled. Finished batches stay."""


class DeadlineExceeded(MergewiseError):
    """A question that took longer than its deadline."""


class ModelError(MergewiseError):
    """A failed model, or a reply that cannot be used."""


class InputRefused(ModelError):
    """An input that an endpoint refused, for example because it is too long."""


class StoreError(MergewiseError):
    """A failure of the index on disk."""


class NotAnIndex(StoreError):
    """A directory that holds something other than an index."""

    exit_code = 2


class NewerFormat(StoreError):
    """An index that a newer mergewise wrote."""

    exit_code = 2


class OlderFormat(StoreError):
    """An index that an older mergewise wrote, in a format that cannot be opened."""

    exit_code = 2


class EmbedderMismatch(StoreError):
    """An index that was built with another embedder."""

    exit_code = 2


class IndexBusy(StoreError):
    """An index that another process is writing. Try again later."""

    retryable = True


class ShardsMissing(StoreError):
    """An index with a shard for which no node of a cluster answers. Ask again later, or for a partial answer."""

    retryable = True


class CorruptIndex(StoreError):
    """A damaged index. `mergewise check --repair` may repair it."""
