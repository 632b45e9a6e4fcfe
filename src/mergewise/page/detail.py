"""Size limit of a page: how much detail it shows. Surrounding text is dropped first, the text of the context last."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from mergewise.page.markup import Markup, tag
from mergewise.types import Context

LIMIT = 300_000  # bytes of a page
FRAME = 500  # bytes of markup around the text of a passage
LINE = 80  # smallest number of characters that a passage shows
PASSAGES = (200, 50, 12, 3)  # numbers of passages to try if not all fit, over all contexts
# Shares of the limit to try as numbers of characters. Markup and non-ASCII letters take several bytes.
SHARES = (0.7, 0.35, 0.12, 0.04)


class Detail(NamedTuple):
    """The largest amounts that a page shows. None: no limit."""

    around: int = 320  # characters of surrounding text
    left: int = 8  # left-out candidates
    steps: int = 80  # steps of the trace
    reasons: int = 40  # reasons per passage
    nodes: int = 300  # nodes of the tree
    characters: int | None = None  # characters per passage
    passages: int | None = None

    def omissions(self) -> list[str]:
        """Name the parts that this page leaves out, for its reader."""
        whole = Detail()
        around = f"surrounding text beyond {self.around} characters" if self.around else "surrounding text"
        parts = (
            (self.around < whole.around, around),
            (self.steps < whole.steps, "steps of the trace and reasons"),
            (self.left < whole.left, "candidates that were not taken"),
            (self.characters is not None, f"the rest of passages beyond {self.characters or 0:,} characters"),
            (self.passages is not None, f"passages after the first {self.passages or 0:,}"),
        )
        return [part for is_omitted, part in parts if is_omitted]


def details(limit: int, contexts: Sequence[Context]) -> Iterator[Detail]:
    """Yield details to try, from the whole page downwards. Skip the full texts if they alone exceed the limit."""
    whole = Detail()
    short = whole._replace(around=120)
    none = short._replace(around=0)
    bare = none._replace(left=0, steps=0, reasons=0, nodes=12)
    # lower bound of the bytes of all passages
    least = sum(len(passage.text.encode("utf-8", "replace")) + FRAME for c in contexts for passage in c.passages)
    if least < limit:
        yield from (whole, short, none, bare)
    most = max((len(context.passages) for context in contexts), default=0)
    sides = max(1, len(contexts))
    for passages in PASSAGES:
        shown = max(1, min(passages // sides, most))
        for share in SHARES:
            characters = max(LINE, int(share * limit) // (shown * sides))
            yield bare._replace(characters=characters, passages=shown if shown < most else None)


def fit_page(render: Callable[[Detail], str], limit: int, contexts: Sequence[Context]) -> str:
    """Return the most detailed page below the limit, in bytes of UTF-8."""
    page = ""
    for detail in details(limit, contexts):
        page = render(detail)
        if len(page.encode()) < limit:
            break
    return page


def notice(detail: Detail) -> Markup | None:
    """Draw the note on the parts that were left out because of the size limit."""
    omitted = ", ".join(detail.omissions())
    return tag("p", f"Left out to keep this page small: {omitted}.", class_="notice", role="note") if omitted else None
