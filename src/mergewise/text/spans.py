"""Sets of spans of one text, as (start, end) pairs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

Part: TypeAlias = tuple[int, int]


def union(parts: Iterable[Part], text: str | None = None) -> list[Part]:
    """The parts in order, with those that overlap or touch made one: no character is lost, and none comes twice.

    Parts of a `text` also join where only white space lies between them.
    """
    joined: list[Part] = []
    for start, end in sorted(parts):
        touches = joined and (start <= joined[-1][1] or (text is not None and not text[joined[-1][1] : start].strip()))
        if touches:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((start, end))
    return joined
