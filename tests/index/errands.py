"""Functions that tests send to workers, which import only this module."""

from __future__ import annotations

import logging
import os
import signal
import warnings

from mergewise.errors import MissingExtra, UsageError


def square(number: int) -> tuple[int, int]:
    return number * number, os.getpid()


def noisy(number: int) -> int:
    logging.getLogger("mergewise").warning("number %d", number)
    logging.getLogger("mergewise").debug("not to be told")
    warnings.warn(f"beware of {number}", UserWarning, stacklevel=1)
    print("a parser prints")
    if number == 2:
        raise UsageError("two is too much", "take one")
    if number == 3:
        raise MissingExtra("three", "numbers")
    return number


def kill_other_process(item: tuple[int, int]) -> int:
    """Kill this process at number 3, unless the item names it."""
    pid, number = item
    if number == 3 and os.getpid() != pid:
        os.kill(os.getpid(), signal.SIGKILL)
    return number
