"""Sentences that a model might write from a passage, from `support_cases.toml`."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import NamedTuple


class Case(NamedTuple):
    """A passage, the title above it, sentences that it supports, and sentences that it does not support."""

    title: str
    passage: str
    true: tuple[str, ...]
    lies: tuple[str, ...]


_CASES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def _cases(half: str) -> tuple[Case, ...]:
    return tuple(
        Case(case["title"], case["passage"], tuple(case["true"]), tuple(case["lies"])) for case in _CASES[half]
    )


TUNED, HELD_OUT = _cases("tuned"), _cases("held_out")
