"""Numbers of Word's lists and headings. A DOCX does not contain them, so we count as Word does.

Bullets of any shape are "-". Formats other than decimal, letters and Roman numerals are counted in decimal.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from mergewise.readers.builder import whole_number
from mergewise.readers.xml import attribute, children, first, value
from mergewise.types import frozen

BULLET = "-"
_LEVEL = re.compile(r"%(\d)")
# Word's lists have nine levels.
_DEPTHS = frozenset("012345678")
# Characters of a level's pattern. Word allows no more.
_MAX_PATTERN = 255


@frozen
class Level:
    kind: str = "decimal"
    pattern: str = "%1."
    start: int = 1


@dataclass(slots=True)
class Numbering:
    """Lists with their levels. `lists` maps a list's id to the id of its definition. Lists of one definition share counters."""

    lists: dict[str, str] = field(default_factory=dict)
    levels: dict[tuple[str, int], Level] = field(default_factory=dict)
    _counts: dict[str, dict[int, int]] = field(default_factory=dict)

    def restart(self, list_id: str) -> None:
        self._counts.pop(self.lists.get(list_id, ""), None)

    def next_label(self, list_id: str, depth: int) -> str:
        """Return the label of a list's next item: "-", "3." or "2.1". Empty for an unknown list."""
        definition = self.lists.get(list_id)
        level = self.levels.get((definition, depth)) if definition else None
        if definition is None or level is None or level.kind == "none":
            return ""
        if level.kind == "bullet":
            return BULLET
        counts = self._counts.setdefault(definition, {})
        counts[depth] = counts.get(depth, level.start - 1) + 1
        for deeper in [d for d in counts if d > depth]:
            del counts[deeper]

        def number_text(match: re.Match[str]) -> str:
            depth = int(match[1]) - 1
            own = self.levels.get((definition, depth), Level())
            return _FORMATS.get(own.kind, str)(counts.setdefault(depth, own.start))

        return _LEVEL.sub(number_text, level.pattern).strip()


def read_numbering(root: Any) -> Numbering:
    """Read the numbering part `root`, which may be None."""
    numbering = Numbering()
    for definition in children(root, "abstractNum"):
        name = attribute(definition, "abstractNumId")
        for level in children(definition, "lvl"):
            depth = attribute(level, "ilvl")
            if depth in _DEPTHS:
                text = first(level, "lvlText")
                pattern = "" if text is None else attribute(text, "val")[:_MAX_PATTERN]
                first_number = whole_number(value(level, "start"), 1)
                numbering.levels[name, int(depth)] = Level(value(level, "numFmt") or "decimal", pattern, first_number)
    for item in children(root, "num"):
        numbering.lists[attribute(item, "numId")] = value(item, "abstractNumId")
    return numbering


def _letters(number: int) -> str:
    """Count as Word does: 1 is a, 26 is z, 27 is aa."""
    repeats, letter = divmod(max(number, 1) - 1, 26)
    return chr(ord("a") + letter) * (min(repeats, 9) + 1)


_ROMAN = dict(
    zip("m cm d cd c xc l xl x ix v iv i".split(), (1000, 900, 500, 400, 100, 90, 50, 40, 10, 9, 5, 4, 1), strict=True)
)


def _roman(number: int) -> str:
    numeral = ""
    for sign, worth in _ROMAN.items():
        numeral += sign * min(number // worth, 9)
        number %= worth
    return numeral


_FORMATS: dict[str, Callable[[int], str]] = {
    "lowerLetter": _letters,
    "upperLetter": lambda number: _letters(number).upper(),
    "lowerRoman": _roman,
    "upperRoman": lambda number: _roman(number).upper(),
}
