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
# Shares of the limit, in characters that are then shown: markup and letters take several bytes.
SHARES = (0.7, 0.35, 0.12, 0.04)


@dataclass(frozen=True, slots=True)
class Detail:
    """The most that is shown: characters around a piece, candidates left out, steps, characters a passage, passages."""

    around: int = 320
    left: int = 8
    steps: int = 80
    reasons: int = 40  # that are told of one passage
    nodes: int = 300  # of the tree of the trace
    characters: int | None = None
    passages: int | None = None

    def omissions(self) -> list[str]:
        """What a reader is told that this page leaves out, against a whole one."""
        whole = Detail()
        around = f"surroundings beyond {self.around} characters" if self.around else "surroundings"
        parts = (
            (self.around < whole.around, around),
            (self.steps < whole.steps, "the steps of the trace, and the reasons of each piece"),
            (self.left < whole.left, "the candidates that were not taken"),
            (self.characters is not None, f"what passages hold beyond {self.characters or 0:,} characters"),
            (self.passages is not None, f"all passages after the first {self.passages or 0:,}"),
        )
        return [part for is_omitted, part in parts if is_omitted]


def details(limit: int, contexts: Sequence[Context]) -> Iterator[Detail]:
    """From the whole page down to hardly any. What cannot fit, since its bare text does not, is not tried."""
    whole = Detail()
    short = replace(whole, around=120)
    none = replace(short, around=0)
    bare = replace(none, left=0, steps=0, reasons=0, nodes=12)
    # the bytes that all passages take at the least
    least = sum(len(passage.text.encode("utf-8", "replace")) + FRAME for c in contexts for passage in c.passages)
    if least < limit:
        yield from (whole, short, none, bare)
    most = max((len(context.passages) for context in contexts), default=0)
    sides = max(1, len(contexts))
    for passages in PASSAGES:
        shown = max(1, min(passages // sides, most))
        for share in SHARES:
            characters = max(LINE, int(share * limit) // (shown * sides))
            yield replace(bare, characters=characters, passages=shown if shown < most else None)


def fit_page(render: Callable[[Detail], str], limit: int, contexts: Sequence[Context]) -> str:
    """The richest page below the limit, in bytes of UTF-8."""
    page = ""
    for detail in details(limit, contexts):
        page = render(detail)
        if len(page.encode()) < limit:
            break
    return page


def notice(detail: Detail) -> Markup | None:
    """What was left out for the sake of the size."""
    omitted = ", ".join(detail.omissions())
    return tag("p", f"Left out to keep this page small: {omitted}.", class_="notice", role="note") if omitted else None
