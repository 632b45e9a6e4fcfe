"""Folders kept in step with an index while they change: one round for each burst of changes, until Ctrl-C."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from mergewise.cli.output import say_aside, say_error
from mergewise.errors import MergewiseError, MissingExtra, UsageError

QUIET = 300
"""Milliseconds without a change after which a burst is over."""
LONGEST = 5000
"""Milliseconds after which a burst that does not end is taken as it is."""


def follow(folders: Sequence[Path], index_dir: Path, synchronise: Callable[[], None]) -> None:
    """Synchronise now, and after every burst of changes. An error of one round is printed, and the next one comes."""
    try:
        from watchfiles import watch
    except ImportError as error:
        raise MissingExtra("watching", "watch", error) from error
    for folder in folders:
        if not folder.is_dir():
            raise UsageError(f"{folder} is not a folder", "name a folder to watch")
    own = os.path.realpath(index_dir)

    def counts(_: object, path: str) -> bool:
        """Not what the index itself writes, and nothing hidden, which is not indexed either."""
        real = os.path.realpath(path)
        return real != own and not real.startswith(own + os.sep) and not Path(path).name.startswith(".")

    try:
        # the first round begins when the watch stands, so that no change is lost between the two
        rounds = watch(
            *folders, watch_filter=counts, debounce=LONGEST, step=QUIET, rust_timeout=1000, yield_on_timeout=True
        )
        first = True
        for changes in rounds:
            if changes or first:
                one_round(synchronise)
                if first:
                    say_aside(f"watching {', '.join(map(str, folders))}; Ctrl-C ends it", None)
                first = False
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
