"""Pictures of PDF pages: the place of a text is marked, and a file that PDFium cannot draw is refused."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import pytest

from mergewise.errors import ReadError
from mergewise.readers import pdf_page
from mergewise.readers.pdf_page import HEIGHT, WIDTH, page_picture

LINES = [("/F1", 12, 60, 700 - 20 * row, f"Line {row} of the page about terns.") for row in range(5)]


def pixels_of(picture: bytes) -> tuple[int, int, list[bytes]]:
    """Return width, height and rows of a PNG with one chunk of data and no filters."""
    assert picture.startswith(b"\x89PNG\r\n\x1a\n") and picture.endswith(b"IEND\xaeB`\x82")
    width, height = (int.from_bytes(picture[at : at + 4], "big") for at in (16, 20))
    at = picture.index(b"IDAT")
    raw = zlib.decompress(picture[at + 4 : at + 4 + int.from_bytes(picture[at - 4 : at], "big")])
    row = 1 + 3 * width
    assert len(raw) == height * row
    return width, height, [raw[y * row + 1 : (y + 1) * row] for y in range(height)]


def marked_share(picture: bytes) -> tuple[float, float]:
    """Return the first and last marked row, as shares of the height. Marked pixels have more blue than red."""
    _, height, rows = pixels_of(picture)
    marked = [y for y, row in enumerate(rows) if any(red < blue for red, blue in zip(row[::3], row[2::3], strict=True))]
    return (marked[0] / height, marked[-1] / height) if marked else (0.0, 0.0)


@pytest.fixture
def read(make_pdf: Callable[..., bytes]) -> Callable[[], bytes]:
    return lambda: make_pdf([LINES, [("/F1", 12, 60, 400, "The second page.")]])


def test_the_words_are_marked_where_the_page_has_them(read: Callable[[], bytes]) -> None:
    width, height, _ = pixels_of(page_picture(read, 1, ""))
    assert width == WIDTH and abs(height - WIDTH * 800 / 600) <= 1 and height <= HEIGHT
    assert marked_share(page_picture(read, 1, "")) == (0.0, 0.0)
    # line 2 stands at 660 of 800 points from the foot
    top, bottom = marked_share(page_picture(read, 1, "LINE 2 of  the page\nabout terns"))
    assert 0.15 < top < 1 - 660 / 800 < bottom < 0.19
    assert marked_share(page_picture(read, 1, "Line 4 of the page about terns. Line 1 of the page")) == (0.0, 0.0)
    top, bottom = marked_share(
        page_picture(read, 1, "Line 4 of the page about terns.\nLine 1 of the page about terns.")
    )
    assert top < 0.16 and bottom > 0.22
    assert marked_share(page_picture(read, 2, "second page"))[0] == pytest.approx(0.5, abs=0.03)


@pytest.mark.parametrize("content", [b"", b"%PDF-1.4 broken", b"plain text"])
def test_files_that_cannot_be_drawn_are_refused(content: bytes) -> None:
    with pytest.raises(ReadError, match="page cannot be drawn"):
        page_picture(lambda: content, 1, "")


def test_a_page_that_does_not_exist_is_refused(read: Callable[[], bytes]) -> None:
    with pytest.raises(ReadError, match="page cannot be drawn"):
        page_picture(read, 3, "")


def test_drawing_is_limited_in_time(read: Callable[[], bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    # the time is over before the file is written to the process, whose input must be closed all the same
    monkeypatch.setattr(pdf_page, "SECONDS", 0.0)
    with pytest.raises(ReadError, match="page cannot be drawn"):
        page_picture(read, 1, "")
