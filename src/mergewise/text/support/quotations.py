"""What a statement quotes, and whether words stand in a text in their order."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from mergewise.text.alignment import words

FEW_WORDS = 3  # fewer are no quotation to look up

_QUOTED = re.compile(r"“([^“”\n]+)”|„([^„“”\n]+)[“”]|«([^«»\n]+)»|「([^「」\n]+)」|(?<![^\W_])\"(?=\S)([^\"\n]+)\"")
_LEFT_OUT = re.compile(r"…|\.\.\.|\[[^\]\n]{0,40}\]")


def quotations_in(text: str) -> Iterator[tuple[int, int, str]]:
    """What stands between quotation marks, with its offsets."""
    for match in _QUOTED.finditer(text):
        yield match.start(), match.end(), match[match.lastindex or 0]


def holds_quotation(quotation: str, texts: Collection[str]) -> bool:
    """Whether one of the texts, each as `in_order` gives it, holds the words; what is left out of a quotation divides it."""
    parts = [words(part) for part in _LEFT_OUT.split(quotation)]
    return all(any(in_order(part) in text for text in texts) for part in parts if len(part) >= FEW_WORDS)


def in_order(forms: Sequence[str]) -> str:
    """Words as one string in which runs of words can be found."""
    return f" {' '.join(forms)} "
