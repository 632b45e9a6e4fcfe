"""Folders kept in step with an index while they change: one round for each burst of changes, until Ctrl-C."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from mergewise.cli.output import say_aside, say_error
from mergewise.errors import MergewiseError


def follow(folders: Sequence[Path], index_dir: Path, synchronise: Callable[[], None]) -> None:
    """Synchronise now, and after every burst of changes. An error of one round is printed, and the next one comes."""
    from mergewise.readers.watching import bursts

    try:
        for number, _ in enumerate(bursts(folders, [index_dir])):
            one_round(synchronise)
            if number == 0:
                say_aside(f"watching {', '.join(map(str, folders))}; Ctrl-C ends it", None)
    except KeyboardInterrupt:
        say_aside("stopped watching", None)


def one_round(synchronise: Callable[[], None]) -> None:
    """Synchronise once; print any error."""
    try:
        synchronise()
    except MergewiseError as error:
        say_error(error.message, error.hint)
    except Exception as error:
        # a full disk, a damaged index: the next round may find it mended
        say_error(f"{type(error).__name__}: {error}")
