"""Small handmade files, and checks that every read document must pass."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import pytest
from tests.support import read

from mergewise.errors import ReadError
from mergewise.types import Document

PdfLine = tuple[str, float, float, float, str]  # font (F1 regular, F2 bold), size, x, y, text


def check(document: Document) -> Document:
    assert document.text.strip()
    assert "\r" not in document.text
    assert document.title
    end = 0
    for heading in document.outline or ():
        assert end <= heading.start <= heading.end <= len(document.text)
        assert heading.title.strip() == heading.title
        assert (heading.start < heading.end) == bool(heading.title)
        assert heading.level >= 1
        end = heading.end
    end = 0
    for number, page in enumerate(document.pages, start=1):
        assert (page.number, page.start) == (number, end)
        end = page.end
    assert not document.pages or end == len(document.text)
    end = 0
    for start, after, *_ in document.units:
        assert end <= start < after <= len(document.text)
        assert document.text[start:after].strip() == document.text[start:after]
        end = after
    for key, value in document.metadata.items():
        assert key.isidentifier() and key == key.lower() and not key.startswith("_") and key not in ("id", "title")
        assert type(value) in (str, int, float, bool) and value != ""
    return document


@pytest.fixture
def read_bytes(tmp_path: Path) -> Callable[[str, bytes | str], Document]:
    """Function that writes a file, reads it, and checks the document."""

    def write_and_read(name: str, content: bytes | str) -> Document:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return check(read(path))

    return write_and_read


@pytest.fixture
def refusal(tmp_path: Path) -> Callable[[str, bytes | str], str]:
    """Function that writes an unreadable file and returns the reason of its refusal."""

    def write_and_fail(name: str, content: bytes | str) -> str:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        with pytest.raises(ReadError) as caught:
            read(path)
        assert "\n" not in caught.value.message
        return caught.value.message

    return write_and_fail


@pytest.fixture
def checked() -> Callable[[Document], Document]:
    return check


def _pdf(objects: Sequence[bytes], trailer: bytes = b"") -> bytes:
    body = b"%PDF-1.4\n"
    offsets = []
    for number, content in enumerate(objects, start=1):
        offsets.append(len(body))
        body += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    start, size = len(body), len(objects) + 1
    body += b"xref\n0 %d\n0000000000 65535 f \n%s" % (size, table)
    return body + b"trailer\n<< /Size %d /Root 1 0 R %s >>\nstartxref\n%d\n%%%%EOF\n" % (size, trailer, start)


@pytest.fixture
def make_pdf() -> Callable[..., bytes]:
    """Function that makes a PDF from pages of lines. `bookmarks` are (title, page); `title` and `info` are its properties.

    `annotations` are dictionaries of PDF, on all pages.
    """

    def make(
        pages: Sequence[Sequence[PdfLine]],
        bookmarks: Sequence[tuple[str, int]] = (),
        title: str = "",
        encrypted: bool = False,
        info: Mapping[str, str] = MappingProxyType({}),
        annotations: Sequence[str] = (),
    ) -> bytes:
        first_page = 6
        first_mark = first_page + 2 * len(pages)
        kids = b" ".join(b"%d 0 R" % (first_page + 2 * n) for n in range(len(pages)))
        added = "".join(f"<< /Type /Annot {one} >>" for one in annotations).encode("latin-1")
        more = (b"/Outlines 5 0 R" if bookmarks else b"") + (b"/AcroForm << /Fields [] >>" if annotations else b"")
        catalog = b"<< /Type /Catalog /Pages 2 0 R %s >>" % more
        objects = [
            catalog,
            b"<< /Type /Pages /Count %d /Kids [%s] >>" % (len(pages), kids),
            b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
            b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica-Bold >>",
            b"<< /Type /Outlines /First %d 0 R /Last %d 0 R >>" % (first_mark, first_mark + len(bookmarks) - 1),
        ]
        for number, lines in enumerate(pages):
            content = b"".join(
                b"BT /%s %f Tf %f %f Td (%s) Tj ET\n" % (font.encode(), size, x, y, text.encode("latin-1"))
                for font, size, x, y, text in lines
            )
            objects.append(
                b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents %d 0 R /Annots [%s] "
                b"/Resources << /Font << /F1 3 0 R /F2 4 0 R >> >> >>" % (first_page + 2 * number + 1, added)
            )
            objects.append(b"<< /Length %d >>\nstream\n%sendstream" % (len(content), content))
        for number, (name, page) in enumerate(bookmarks):
            chain = b"/Next %d 0 R" % (first_mark + number + 1) if number + 1 < len(bookmarks) else b""
            objects.append(
                b"<< /Title (%s) /Parent 5 0 R /Dest [%d 0 R /Fit] %s >>"
                % (name.encode(), first_page + 2 * page, chain)
            )
        trailer = b""
        if title or info:
            fields = b" ".join(b"/%s (%s)" % (k.encode(), v.encode()) for k, v in {"Title": title, **info}.items())
            objects.append(b"<< %s >>" % fields)
            trailer += b"/Info %d 0 R" % len(objects)
        if encrypted:
            objects.append(b"<< /Filter /Standard /V 1 /R 2 /P -44 /O (%s) /U (%s) >>" % (b"o" * 32, b"u" * 32))
            trailer += b"/Encrypt %d 0 R /ID [<aa> <aa>]" % len(objects)
        return _pdf(objects, trailer)

    return make


@pytest.fixture
def make_scan() -> Callable[[bytes, Sequence[int]], bytes]:
    """Function that turns some pages of a PDF, numbered from 0, into pictures."""

    def make(data: bytes, scanned: Sequence[int]) -> bytes:
        import pypdfium2

        source, target, out = pypdfium2.PdfDocument(data), pypdfium2.PdfDocument.new(), io.BytesIO()
        for number in range(len(source)):
            if number not in scanned:
                target.import_pages(source, [number])
                continue
            width, height = source[number].get_size()
            page, picture = target.new_page(width, height), pypdfium2.PdfImage.new(target)
            picture.set_bitmap(source[number].render(scale=2.5))
            picture.set_matrix(pypdfium2.PdfMatrix().scale(width, height))
            page.insert_obj(picture)
            page.gen_content()
        target.save(out)
        return out.getvalue()

    return make
