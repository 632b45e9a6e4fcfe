"""Pictures of PDF pages with the place of a text marked. PDFium draws each one in a separate process, within limits."""

from __future__ import annotations

import json
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from threading import BoundedSemaphore
from typing import Any, TypeAlias

from mergewise.errors import ReadError
from mergewise.readers.sandbox import limit_process, passed_environment, start_sandbox

WIDTH, HEIGHT = 1_100, 2_200
"""Largest size of a picture in pixels."""
SECONDS = 10.0
_MEMORY_MB = 2_000
_SHORTEST_LINE = 12  # letters from which a line is searched alone
_AT_ONCE = BoundedSemaphore(2)
_PNG = b"\x89PNG\r\n\x1a\n"
_MARKED = (0.74, 0.87, 1.0)
"""Shares of red, green and blue that a marked pixel keeps."""

PixelBox: TypeAlias = tuple[int, int, int, int]
"""Left, top, right and bottom of a box, in pixels."""


def page_picture(content: Callable[[], bytes], number: int, words: str) -> bytes:
    """Return a page of a PDF as PNG, with the words marked if the page has them.

    Args:
        content: Function that reads the file. Few files are read at once.
        number: The page, from 1.
        words: Text of the page, as `read_pdf` returns it.

    Raises:
        ReadError: if PDFium cannot draw this page within the limits. Errors of `content` pass through.
    """
    with _AT_ONCE:
        data = content()
        # `with` closes standard input: after a timeout, `communicate` does not
        with start_sandbox(__name__, stderr=subprocess.DEVNULL, environment=passed_environment()) as process:
            try:
                picture, _ = process.communicate(json.dumps([number, words]).encode() + b"\n" + data, SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                picture = b""
    if not picture.startswith(_PNG):
        raise ReadError("page cannot be drawn", "download the original")
    return picture


# --- within the process ------------------------------------------------------------------------------------------


def main() -> None:
    """Write the picture of a page to standard output. Standard input has its number and the words, then the file."""
    limit_process(_MEMORY_MB, SECONDS)
    number, words = json.loads(sys.stdin.buffer.readline())
    sys.stdout.buffer.write(_draw(sys.stdin.buffer.read(), number, words))


def _draw(data: bytes, number: int, words: str) -> bytes:
    import numpy as np
    import pypdfium2

    with closing(pypdfium2.PdfDocument(data)) as document, closing(document[number - 1]) as page:
        scale = min(WIDTH / page.get_width(), HEIGHT / page.get_height())
        pixels = page.render(scale=scale, rev_byteorder=True).to_numpy()
        height, width, _ = pixels.shape
        for left, top, right, bottom in _boxes(page, words, width, height):
            pixels[top:bottom, left:right] = pixels[top:bottom, left:right] * _MARKED
        # each line begins with the number of its filter: 0
        lines = np.pad(pixels.reshape(height, -1), ((0, 0), (1, 0))).tobytes()
        size = width.to_bytes(4, "big") + height.to_bytes(4, "big")
        # 8 bits a channel, RGB
        return _PNG + _chunk(b"IHDR", size + b"\x08\2\0\0\0") + _chunk(b"IDAT", zlib.compress(lines)) + _chunk(b"IEND")


def _chunk(name: bytes, data: bytes = b"") -> bytes:
    return len(data).to_bytes(4, "big") + name + data + zlib.crc32(name + data).to_bytes(4, "big")


def _boxes(page: Any, words: str, width: int, height: int) -> Iterator[PixelBox]:
    """Yield the boxes of the words, or of their longer lines if the page has the words in another order."""
    from pypdfium2 import raw

    with closing(page.get_textpage()) as text:
        codes = (raw.FPDFText_GetUnicode(text, index) for index in range(text.count_chars()))
        places = [(index, letter) for index, code in enumerate(codes) for letter in _letters(chr(code))]
        shown = "".join(letter for _, letter in places)
        whole = _letters(words)
        lines = [letters for line in words.split("\n") if len(letters := _letters(line)) >= _SHORTEST_LINE]
        for wanted in [whole] if whole in shown else lines:
            if not wanted or (at := shown.find(wanted)) < 0:
                continue
            first, last = places[at][0], places[at + len(wanted) - 1][0]
            for index in range(text.count_rects(first, last - first + 1)):
                yield _box(page, text.get_rect(index), width, height)


def _letters(text: str) -> str:
    """Return the letters and digits that PDFium counts as one character, in lower case."""
    return "".join(letter for letter in text.casefold() if letter.isalnum() and letter < "\U00010000")


def _box(page: Any, rect: tuple[float, float, float, float], width: int, height: int) -> PixelBox:
    from pypdfium2 import raw

    corners = []
    for x, y in (rect[:2], rect[2:]):
        across, down = raw.c_int(), raw.c_int()
        raw.FPDF_PageToDevice(page, 0, 0, width, height, 0, x, y, across, down)
        corners.append((min(max(across.value, 0), width), min(max(down.value, 0), height)))
    (left, right), (top, bottom) = (sorted(side) for side in zip(*corners, strict=True))
    return left, max(0, top - 1), right, min(height, bottom + 2)


if __name__ == "__main__":
    main()
