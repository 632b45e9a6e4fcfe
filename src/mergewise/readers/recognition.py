"""Text recognition (OCR) of pages without text, by RapidOCR (extra `ocr`), whose models come with its package.

The models read Latin writing, and are made for Chinese too. A page is left alone of whose lines they are sure of less than
half: so are pages in other writing, of which they would make rubbish.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from statistics import median
from time import monotonic
from typing import Any

from mergewise.errors import MissingExtra

log = logging.getLogger("mergewise")

THREADS = min(4, os.cpu_count() or 1)
# pixels of the longer side of a page: the models look at no more
_LONGEST_SIDE = 2000
# how sure the models are of a line, from which it counts as read
_SURE = 0.8
# of the seconds that there are, those after which no further page is begun
_SHARE = 0.75
# where the white between two columns may lie, in parts of the width; and what part of its column a line of prose fills
_MIDDLE, _FILLED = (0.3, 0.7), 0.6
_MOST_ACROSS = 0.2
_FEWEST_LINES = 3


@dataclass(frozen=True, slots=True)
class TextBox:
    """A line of text in an image, and where it stands, in pixels from the top left corner."""

    text: str
    left: float
    top: float
    right: float
    bottom: float
    score: float = 1.0

    @property
    def middle(self) -> float:
        return (self.top + self.bottom) / 2

    @property
    def width(self) -> float:
        return self.right - self.left


@dataclass
class Recognition:
    """The pages of one file that may be recognised, and the time for them, in seconds from now.

    `tried` counts those that were; `ended` says whether one more was to be.
    """

    pages: int
    seconds: float
    tried: int = 0
    ended: bool = False
    _began: float = field(default_factory=monotonic)

    def rows(self, page: Any) -> tuple[list[list[TextBox]], float]:
        """The rows of text on a page of PDFium in reading order, and the pixels of a point; none where the models read nothing,
        or pages or time are used up.
        """
        if self.tried >= self.pages or monotonic() - self._began > _SHARE * self.seconds:
            self.ended = True
            return [], 1.0
        self.tried += 1
        scale = _LONGEST_SIDE / max(1.0, *page.get_size())
        try:
            boxes = text_boxes(page.render(scale=scale).to_numpy())
        except MemoryError:
            raise
        except Exception as error:
            # on strange pictures models raise anything; one such page must not cost the others
            log.debug("a page was not recognised: %s", error)
            return [], scale
        # of letters that they do not know, the models see the full stops alone
        sure = [box for box in boxes if box.score >= _SURE and any(map(str.isalnum, box.text))]
        return list(rows_in_order(sure)) if 2 * len(sure) >= len(boxes) else [], scale


def check_recognition() -> None:
    """Raises MissingExtra where RapidOCR is not installed."""
    if find_spec("rapidocr") is None:
        raise MissingExtra("text recognition", "ocr")


def text_boxes(image: Any) -> list[TextBox]:
    """The lines of text that the models find in an image, an array (height, width, 3) of bytes."""
    found = _engine()(image)
    if found.boxes is None:
        return []
    corners = ((box[:, 0], box[:, 1]) for box in found.boxes)
    sides = ((float(x.min()), float(y.min()), float(x.max()), float(y.max())) for x, y in corners)
    return [
        TextBox(text, *side, score=float(score))
        for text, side, score in zip(found.txts, sides, found.scores, strict=True)
    ]


@cache
def _engine() -> Any:
    from rapidocr import RapidOCR

    threads = dict.fromkeys(("intra_op_num_threads", "inter_op_num_threads"), THREADS)
    # pages are scanned upright; text_score=0, so that what is not read is seen too
    own = {"Global.log_level": "error", "Global.text_score": 0.0, "Global.use_cls": False}
    return RapidOCR(params=own | {f"EngineConfig.onnxruntime.{name}": number for name, number in threads.items()})


def rows_in_order(boxes: Sequence[TextBox]) -> Iterator[list[TextBox]]:
    """The boxes row by row, from top to bottom; where prose stands in columns, column by column.

    What goes across columns, such as a title, divides them: those above it come before it, those below it after.
    """
    gutter = _gutter(boxes)
    if gutter is None:
        yield from _rows(boxes)
        return
    zone: list[TextBox] = []
    for box in [*sorted(boxes, key=lambda box: box.middle), None]:
        if box is not None and not box.left < gutter < box.right:
            zone.append(box)
            continue
        for side in ([b for b in zone if b.right <= gutter], [b for b in zone if b.left >= gutter]):
            yield from rows_in_order(side)
        zone = []
        if box is not None:
            yield [box]


def _gutter(boxes: Sequence[TextBox]) -> float | None:
    """Where white divides columns of prose: few lines go across, and those at its sides fill their columns, as cells do not."""
    if len(boxes) < 2 * _FEWEST_LINES:
        return None
    left, right = min(box.left for box in boxes), max(box.right for box in boxes)
    low, high = (left + share * (right - left) for share in _MIDDLE)
    # just beside a box the number changes of those that go across
    places = {box.right for box in boxes if low <= box.right <= high}
    across = {place: sum(box.left < place < box.right for box in boxes) for place in places}
    for place in sorted(places, key=lambda place: (across[place], -place)):
        sides = [box for box in boxes if box.right <= place], [box for box in boxes if box.left >= place]
        if across[place] <= _MOST_ACROSS * len(boxes) and all(_is_prose(side) or _gutter(side) for side in sides):
            return place
    return None


def _is_prose(boxes: Sequence[TextBox]) -> bool:
    if len(boxes) < _FEWEST_LINES:
        return False
    width = max(box.right for box in boxes) - min(box.left for box in boxes)
    return median(box.width for box in boxes) >= _FILLED * width


def _rows(boxes: Sequence[TextBox]) -> Iterator[list[TextBox]]:
    row: list[TextBox] = []
    for box in sorted(boxes, key=lambda box: box.middle):
        if row and not row[0].top <= box.middle <= row[0].bottom:
            yield sorted(row, key=lambda box: box.left)
            row = []
        row.append(box)
    if row:
        yield sorted(row, key=lambda box: box.left)
