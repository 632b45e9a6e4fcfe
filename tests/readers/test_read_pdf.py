"""PDF: pages, headings from type and from bookmarks, and unreadable files."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.readers.documents import Read, outline
from tests.support import read

from mergewise.errors import ReadError

MakePdf = Callable[..., bytes]


def body(*texts: str, top: float = 700) -> list[tuple[str, float, float, float, str]]:
    return [("F1", 10, 50, top - 12 * row, text) for row, text in enumerate(texts)]


def test_pages_paragraphs_and_headings_by_type(read_bytes: Read, make_pdf: MakePdf) -> None:
    first = [
        ("F2", 18, 50, 760, "The Title"),
        *body("A first line of the text,", "and a second one.", top=720),
        *body("A new paragraph after a gap.", top=670),
        ("F2", 10, 50, 630, "A Bold Heading"),
        *body("More text under it.", top=612),
    ]
    document = read_bytes("a.pdf", make_pdf([first, [], body("The last page.")]))
    assert document.text == (
        "The Title\n\nA first line of the text,\nand a second one.\n\nA new paragraph after a gap.\n\n"
        "A Bold Heading\n\nMore text under it.\n\nThe last page."
    )
    assert outline(document) == [(1, "The Title"), (2, "A Bold Heading")]
    assert [document.text[page.start : page.end] for page in document.pages][1:] == ["", "The last page."]
    assert document.title == "The Title"


def test_running_heads_and_sentences_are_not_headings(read_bytes: Read, make_pdf: MakePdf) -> None:
    pages = [
        [
            ("F2", 10, 50, 780, f"Annual report {number}"),
            ("F2", 10, 50, 750, "This is a bold sentence."),
            *body("Some text of this page that is long enough to be the body."),
        ]
        for number in range(4)
    ]
    assert outline(read_bytes("a.pdf", make_pdf(pages))) == []


def test_bookmarks_win_over_type(read_bytes: Read, make_pdf: MakePdf) -> None:
    pages = [
        body("1 Introduction", "Words."),
        body("2 Results", "More words.", "Large"),
        [("F1", 20, 50, 700, "LARGE")],
    ]
    document = read_bytes("a.pdf", make_pdf(pages, bookmarks=[("Introduction", 0), ("results", 1), ("Gone", 1)]))
    assert outline(document) == [(1, "1 Introduction"), (1, "2 Results")]


def test_one_bookmark_is_not_enough_for_an_outline(read_bytes: Read, make_pdf: MakePdf) -> None:
    pages = [
        [*body("File name", "Words and words and words."), ("F2", 14, 50, 600, "Real Heading"), *body("x", top=580)]
    ]
    document = read_bytes("a.pdf", make_pdf(pages, bookmarks=[("File name", 0)]))
    assert outline(document) == [(1, "Real Heading")]


def test_declared_title_counts_if_the_page_shows_it(read_bytes: Read, make_pdf: MakePdf) -> None:
    pages = [[("F2", 18, 50, 760, "Ducks"), *body("A study of ponds", "and of their ducks")]]
    assert read_bytes("a.pdf", make_pdf(pages, title="A Study of Ponds")).title == "A Study of Ponds"
    assert read_bytes("a.pdf", make_pdf(pages, title="Microsoft Word - x.doc")).title == "Ducks"


def test_single_numbered_heading_is_the_title(read_bytes: Read, make_pdf: MakePdf) -> None:
    alone = [("F2", 18, 50, 760, "1 Ponds"), *body("A study of ponds", "and of their ducks")]
    assert read_bytes("a.pdf", make_pdf([alone], title="On Rivers")).title == "1 Ponds"
    two = [*alone, ("F2", 18, 50, 600, "2 Ducks"), *body("Ducks swim", "on ponds", top=560)]
    assert read_bytes("b.pdf", make_pdf([two], title="On Rivers")).title == "On Rivers"


def test_heading_of_a_later_page_is_not_the_title(read_bytes: Read, make_pdf: MakePdf) -> None:
    pages = [
        body("Words of a page without a heading,", "and more of them, line by line."),
        [("F2", 18, 50, 760, "Later"), *body("Words of the page that has one.", top=720)],
    ]
    document = read_bytes("a.pdf", make_pdf(pages))
    assert outline(document) == [(1, "Later")] and document.title == "Later"


def refusal(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    with pytest.raises(ReadError) as caught:
        read(path)
    return caught.value.message


def test_unreadable_files(tmp_path: Path, make_pdf: MakePdf) -> None:
    path = tmp_path / "a.pdf"
    assert refusal(path, make_pdf([[]])) == "no text on its page"
    assert refusal(path, make_pdf([body("secret")], encrypted=True)) == "encrypted"
    assert refusal(path, b"%PDF-1.4\n1 0 obj\n<< /Type") == "damaged PDF"


def test_reading_in_threads(tmp_path: Path, make_pdf: MakePdf) -> None:
    path = tmp_path / "a.pdf"
    path.write_bytes(make_pdf([body("one", "two")] * 20))
    with ThreadPoolExecutor(4) as pool:
        texts = set(pool.map(lambda _: read(path).text, range(16)))
    assert len(texts) == 1


def field(kind: str, left: int, bottom: int, more: str, width: int = 100) -> str:
    return f"/Subtype /Widget /FT /{kind} /Rect [{left} {bottom} {left + width} {bottom + 14}] {more}"


def test_values_of_a_form_are_beside_or_below_their_labels(read_bytes: Read, make_pdf: MakePdf) -> None:
    lines = [
        ("F1", 10, 50, 700, "Name:"),
        ("F1", 10, 300, 700, "Town:"),
        ("F1", 10, 50, 660, "Street"),
        ("F1", 10, 80, 620, "I agree"),
        ("F1", 10, 80, 600, "I do not"),
    ]
    annotations = [
        field("Tx", 90, 697, "/T (a) /V (Ada Stone)"),
        field("Ch", 340, 697, "/T (b) /Opt [(Rome) (Ulm)] /V (Ulm) /Ff 131072"),
        field("Tx", 50, 640, "/T (c) /V (Long Lane)", 200),
        field("Btn", 60, 617, "/T (d) /V /Yes /AS /Yes /AP << /N << /Yes null >> >>", 14),
        field("Btn", 60, 597, "/T (e) /V /Off /AS /Off", 14),
        field("Tx", 90, 300, "/T (f) /TU (Remarks) /V (None yet)"),
        "/Subtype /FreeText /Rect [90 200 200 214] /Contents (Typed) /DA (/F1 10 Tf)",
        "/Subtype /Text /Rect [10 10 20 20] /Contents (Check this)",
        "/Subtype /Text /F 2 /Rect [10 10 20 20] /Contents (hidden)",
    ]
    text = read_bytes("a.pdf", make_pdf([lines], annotations=annotations)).text
    rows = [" ".join(row.split()) for row in text.split("\n")]
    assert {"Street Long Lane", "☒ I agree", "☐ I do not"} <= set(rows)
    assert "Name: Ada Stone Town: Ulm" in " ".join(rows)
    assert text.endswith("Remarks: None yet\n\nTyped\n\nComment: Check this")


def test_a_form_without_printed_text(read_bytes: Read, make_pdf: MakePdf) -> None:
    assert (
        read_bytes("a.pdf", make_pdf([[]], annotations=[field("Tx", 9, 9, "/T (Name) /V (Ada)")])).text == "Name: Ada"
    )


def test_words_that_lines_break(read_bytes: Read, make_pdf: MakePdf) -> None:
    texts = (
        "A well-",
        "known fact and infor-",
        "mation on COVID-",
        "19 in Nord-",
        "Sued, the key-",
        "stone of the keystone",
    )
    expected = "A well-known fact and information on COVID-19 in Nord-Sued, the keystone of the keystone"
    assert read_bytes("a.pdf", make_pdf([body(*texts)])).text == expected


@pytest.mark.parametrize(
    ("letter", "rest", "expected"),
    [("T", "he keeper came", "The keeper came"), ("A", "man came", "A man came"), ("A", "fter noon", "After noon")],
)
def test_a_large_first_letter_is_part_of_its_text(
    read_bytes: Read, make_pdf: MakePdf, letter: str, rest: str, expected: str
) -> None:
    lines = [("F1", 36, 50, 690, letter), ("F1", 12, 80, 708, rest), ("F1", 12, 80, 694, "and wrote it down.")]
    document = read_bytes("a.pdf", make_pdf([lines]))
    assert document.text.startswith(expected) and document.outline == ()


def test_the_letters_of_an_index_are_no_part_of_a_word(read_bytes: Read, make_pdf: MakePdf) -> None:
    lines = [("F1", 36, 50, 690, "A"), ("F1", 12, 50, 660, "aardvark 5"), ("F1", 12, 50, 646, "apple 7")]
    assert "A\naardvark" in read_bytes("a.pdf", make_pdf([lines])).text
