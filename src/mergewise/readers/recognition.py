"""Text recognition (OCR) of pages without text, by RapidOCR (extra `ocr`), whose package includes its models.

The models read Latin writing and Chinese. If they are sure of less than half of a page's lines, the page is skipped: it is
probably in another script, and would be read as rubbish.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from statistics import median
from time import monotonic
from typing import Any

from mergewise.errors import MissingExtra
from mergewise.log import log
from mergewise.types import frozen

THREADS = min(4, os.cpu_count() or 1)
# Pixels of the longer side of a page. The models scale larger images down.
_LONGEST_SIDE = 2000
# lowest confidence of a line that counts as read
_MIN_SCORE = 0.8
# share of the time limit after which no further page is begun
_TIME_SHARE = 0.75
# range of the white between two columns, as shares of the width; and share of its column that a line of prose fills
_MIDDLE, _FILLED = (0.3, 0.7), 0.6
_MOST_ACROSS = 0.2
_FEWEST_LINES = 3


@frozen
class TextBox:
    """A line of text in an image, with its place in pixels from the top left corner."""

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
    """Limits for recognising the pages of one file: a number of pages, and seconds from now.

    `tried` counts the pages. `ended` is true once a limit has skipped a page.
    """

    pages: int
    seconds: float
    tried: int = 0
    ended: bool = False
    _began: float = field(default_factory=monotonic)

    def rows(self, page: Any) -> tuple[list[list[TextBox]], float]:
        """Return the rows of text on a PDFium page in reading order, and the pixels of a point.

        Without rows if the models read nothing, or if no pages or time are left.
        """
        if self.tried >= self.pages or monotonic() - self._began > _TIME_SHARE * self.seconds:
            self.ended = True
            return [], 1.0
        self.tried += 1
        scale = _LONGEST_SIDE / max(1.0, *page.get_size())
        try:
            boxes = text_boxes(page.render(scale=scale).to_numpy())
        except MemoryError:
            raise
        except Exception as error:
            # models raise anything on strange pictures; one such page must not cost the others
            log.debug("page not recognised: %s", error)
            return [], scale
        # in unknown letters, the models see only the full stops
        sure = [box for box in boxes if box.score >= _MIN_SCORE and any(map(str.isalnum, box.text))]
        return list(rows_in_order(sure)) if 2 * len(sure) >= len(boxes) else [], scale


def check_recognition() -> None:
    """Raise MissingExtra if RapidOCR is not installed."""
    if find_spec("rapidocr") is None:
        raise MissingExtra("text recognition", "ocr")


def text_boxes(image: Any) -> list[TextBox]:
    """Return the lines of text in an image, an array (height, width, 3) of bytes."""
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
    # pages are scanned upright; text_score=0 returns unsure lines, too, which we count
    own = {"Global.log_level": "error", "Global.text_score": 0.0, "Global.use_cls": False}
    return RapidOCR(params=own | {f"EngineConfig.onnxruntime.{name}": number for name, number in threads.items()})


def rows_in_order(boxes: Sequence[TextBox]) -> Iterator[list[TextBox]]:
    """Yield the boxes row by row, from top to bottom. Columns of prose are read one after the other.

    Lines across columns, such as a title, divide them: the columns above come before the line, the columns below after it.
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
    """Return the white between columns of prose: few lines cross it, and its neighbours fill their columns, unlike cells."""
    if len(boxes) < 2 * _FEWEST_LINES:
        return None
    left, right = min(box.left for box in boxes), max(box.right for box in boxes)
    low, high = (left + share * (right - left) for share in _MIDDLE)
    # the number of crossing boxes changes only at the edges of boxes
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
