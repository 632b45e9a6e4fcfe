"""How much a page shows, and how it is held below its limit: surroundings go first, the text of the context last."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from mergewise.page.markup import Markup, tag
from mergewise.types import Context

LIMIT = 300_000  # bytes of a page
FRAME = 500  # bytes around the text of a passage
LINE = 80  # characters of a passage that are always shown
PASSAGES = (200, 50, 12, 3)  # that are shown where not all can be, all contexts together
SHARES = (
    0.7,
    0.35,
    0.12,
    0.04,
)  # of the limit, in characters that are then shown: markup and letters take several bytes


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


def details(limit: int, contexts: Sequence[Context]) -> Iterator[Detail]:
    """From the whole page down to hardly any. What cannot fit, since its bare text does not, is not tried."""
    whole = Detail()
    short = replace(whole, around=120)
    none = replace(short, around=0)
    bare = replace(none, left=0, steps=0, reasons=0, hops=3)
    if _least(contexts) < limit:
        yield from (whole, short, none, bare)
    most = max((len(context.passages) for context in contexts), default=0)
    sides = max(1, len(contexts))
    for passages in PASSAGES:
        shown = max(1, min(passages // sides, most))
        for share in SHARES:
            characters = max(LINE, int(share * limit) // (shown * sides))
            yield replace(bare, characters=characters, passages=shown if shown < most else None)


def _least(contexts: Sequence[Context]) -> int:
    """The bytes that all passages take at the least."""
    passages = [passage for context in contexts for passage in context.passages]
    return sum(len(passage.text.encode("utf-8", "replace")) + FRAME for passage in passages)


def fitted(render: Callable[[Detail], str], limit: int, contexts: Sequence[Context]) -> str:
    """The richest page below the limit, in bytes of UTF-8."""
    page = ""
    for detail in details(limit, contexts):
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
