"""EPUB: chapters in reading order, names from the table of contents, properties of the package."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from tests.readers.documents import Read, Refusal, archive

CONTAINER_NAME = "META-INF/container.xml"
CONTAINER = """<?xml version="1.0"?><container xmlns="urn:oasis:names:tc:opendocument:xmlns:container" version="1.0">
<rootfiles><rootfile full-path="OEBPS/book.opf" media-type="application/oebps-package+xml"/></rootfiles></container>"""
OPF = """<?xml version="1.0"?><package xmlns="http://www.idpf.org/2007/opf" version="3.0"
xmlns:dc="http://purl.org/dc/elements/1.1/"><metadata><dc:title>Von Enten</dc:title><dc:creator>Ann</dc:creator>
<dc:creator>Bob</dc:creator><dc:date>2020-05-01</dc:date><dc:language>de</dc:language><dc:subject>Teich</dc:subject>
<dc:subject>Ente</dc:subject></metadata>
<manifest>{contents}<item id="c1" href="Text/one.xhtml" media-type="application/xhtml+xml"/>
<item id="c2" href="Text/two%20b.xhtml" media-type="application/xhtml+xml"/>
<item id="p" href="pic.xhtml" media-type="application/xhtml+xml"/>
<item id="css" href="a.css" media-type="text/css"/></manifest>
<spine><itemref idref="nav"/><itemref idref="c2"/><itemref idref="p"/><itemref idref="c1"/><itemref idref="gone"/></spine>
</package>"""
NAV = '<item id="nav" href="nav.xhtml" properties="nav" media-type="application/xhtml+xml"/>'
NCX = '<item id="ncx" href="toc.ncx" media-type="application/x-dtbncx+xml"/>'
CHAPTERS = {
    "OEBPS/nav.xhtml": "<html xmlns='http://www.w3.org/1999/xhtml'><body><nav><ol>"
    "<li><a href='Text/two%20b.xhtml#x'>Zwei</a></li></ol></nav></body></html>",
    "OEBPS/toc.ncx": "<ncx xmlns='http://www.daisy.org/z3986/2005/ncx/'><navMap><navPoint><navLabel><text>Zwei</text></navLabel>"
    "<content src='Text/two%20b.xhtml'/></navPoint></navMap></ncx>",
    "OEBPS/Text/one.xhtml": "<html><body><h1>Eins</h1><p>Gänse.</p><h2>Mehr</h2><p>Text.</p></body></html>",
    "OEBPS/Text/two b.xhtml": "<html><body><p>Enten schwimmen.</p></body></html>",
    "OEBPS/pic.xhtml": "<html><body><img src='x.png'/></body></html>",
}


def book(parts: Mapping[str, str], contents: str = NAV) -> bytes:
    opf = OPF.replace("{contents}", contents)
    return archive({"mimetype": "application/epub+zip", CONTAINER_NAME: CONTAINER, "OEBPS/book.opf": opf, **parts})


@pytest.mark.parametrize("contents", [NAV, NCX])
def test_a_book(read_bytes: Read, contents: str) -> None:
    document = read_bytes("a.epub", book(CHAPTERS, contents))
    assert document.text == "Zwei\n\nEnten schwimmen.\n\nEins\n\nGänse.\n\nMehr\n\nText."
    assert [(h.level, h.title, document.text[h.start : h.end]) for h in document.outline or ()] == [
        (1, "Zwei", "Zwei"),
        (1, "Eins", "Eins"),
        (2, "Mehr", "Mehr"),
    ]
    assert document.title == "Von Enten"
    assert document.metadata == {
        "author": "Ann, Bob",
        "date": "2020-05-01",
        "language": "de",
        "keywords": "Teich, Ente",
    }


def test_a_broken_table_of_contents_does_no_harm(read_bytes: Read) -> None:
    document = read_bytes("a.epub", book({**CHAPTERS, "OEBPS/nav.xhtml": "<html><nav>"}))
    assert document.text.startswith("Enten schwimmen.\n\nEins")


def encryption(name: str) -> dict[str, str]:
    xml = f"<encryption><EncryptedData><CipherData><CipherReference URI='{name}'/></CipherData></EncryptedData></encryption>"
    return {**CHAPTERS, "META-INF/encryption.xml": xml}


def test_protected_books(read_bytes: Read, refusal: Refusal) -> None:
    assert refusal("a.epub", book(encryption("OEBPS/Text/two%20b.xhtml"))) == "protected against copying (DRM)"
    assert read_bytes("b.epub", book(encryption("OEBPS/font.otf"))).text


def test_a_book_without_text(refusal: Refusal) -> None:
    assert refusal("a.epub", book({"OEBPS/pic.xhtml": CHAPTERS["OEBPS/pic.xhtml"]})) == "no text"


def test_a_book_without_its_package(refusal: Refusal) -> None:
    assert refusal("a.epub", archive({CONTAINER_NAME: CONTAINER})) == "damaged EPUB: its package file is missing"


def test_entities_are_not_expanded(refusal: Refusal) -> None:
    bomb = '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]>'
    broken = CONTAINER.replace('<?xml version="1.0"?>', bomb).replace("<rootfiles>", "<rootfiles>&b;")
    assert "aaaa" not in refusal("a.epub", archive({CONTAINER_NAME: broken}))


def test_notes_and_boxes_of_a_chapter_are_content(read_bytes: Read) -> None:
    chapter = (
        "<html><body><section class='navigation'><h1>Enten</h1><p>Sie schwimmen.</p></section>"
        "<aside epub:type='footnote'><p>Selten.</p></aside><aside class='sidebar'><p>Kasten.</p></aside></body></html>"
    )
    document = read_bytes("a.epub", book({**CHAPTERS, "OEBPS/Text/one.xhtml": chapter}))
    assert "Enten\n\nSie schwimmen.\n\nSelten.\n\nKasten." in document.text
