"""How much a page shows, and how it is held below its limit: surroundings go first, the text of the context last."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from mergewise.page.markup import Markup, tag

LIMIT = 300_000  # bytes of a page


@dataclass(frozen=True, slots=True)
class Detail:
    """The most that is shown: characters around a piece, candidates left out, steps, characters a passage, passages."""

    around: int = 320
    left: int = 8
    steps: int = 80
    reasons: int = 40  # that are told of one passage
    hops: int = 6
    characters: int | None = None
    passages: int | None = None

    def omitted(self) -> list[str]:
        """What a reader is told that this page leaves out, against a whole one."""
        whole = Detail()
        said = []
        if self.around < whole.around:
            said.append(f"surroundings beyond {self.around} characters" if self.around else "surroundings")
        if self.steps < whole.steps:
            said.append("the steps of the trace, and the reasons of each piece")
        if self.left < whole.left:
            said.append("the candidates that were not taken")
        if self.characters is not None:
            said.append(f"what passages hold beyond {self.characters:,} characters")
        if self.passages is not None:
            said.append(f"all passages after the first {self.passages:,}")
        return said


def details() -> Iterator[Detail]:
    """From the whole page down to hardly any: each one shows less than the one before."""
    whole = Detail()
    yield whole
    yield (short := replace(whole, around=120))
    yield (none := replace(short, around=0))
    yield (bare := replace(none, left=0, steps=0, reasons=0, hops=3))
    characters, passages = 65_536, 512
    while passages >= 1:
        yield replace(bare, characters=characters, passages=passages)
        characters, passages = max(characters // 2, 64), passages // 2 if characters <= 1024 else passages


def fitted(render: Callable[[Detail], str], limit: int = LIMIT) -> str:
    """The richest page below the limit, in bytes of UTF-8."""
    page = ""
    for detail in details():
        page = render(detail)
        if len(page.encode()) < limit:
            break
    return page


def notice(detail: Detail) -> Markup | None:
    """What was left out for the sake of the size."""
    omitted = detail.omitted()
    if not omitted:
        return None
    return tag("p", f"Left out to keep this page small: {', '.join(omitted)}.", class_="notice", role="note")
