"""ODT: order, headings, lists, tables and notes, as odfpy writes them."""

from __future__ import annotations

from odf import dc, meta, office, opendocument, style, table, text
from tests.readers.documents import Read, Refusal, bytes_of, outline


def row(*cells: object) -> object:
    line = table.TableRow()
    for cell in cells:
        if isinstance(cell, str):
            field = table.TableCell()
            field.addElement(text.P(text=cell))
            cell = field
        line.addElement(cell)
    return line


def test_a_text(read_bytes: Read) -> None:
    odt = opendocument.OpenDocumentText()
    for element in (
        dc.Title(text="Untitled 1"),
        dc.Creator(text="Ann"),
        dc.Language(text="de"),
        meta.Keyword(text="Teich"),
    ):
        odt.meta.addElement(element)
    title = style.Style(name="P1", family="paragraph", parentstylename="Title")
    odt.automaticstyles.addElement(title)
    numbers = text.ListStyle(name="L1")
    numbers.addElement(text.ListLevelStyleNumber(level="1", numformat="1"))
    odt.automaticstyles.addElement(numbers)
    body = odt.text
    body.addElement(text.P(stylename=title, text="Von Enten"))
    body.addElement(text.H(outlinelevel=1, text="Nahrung"))
    paragraph = text.P(text="Enten essen")
    paragraph.addElement(text.S(c=2))
    paragraph.addElement(text.Span(text="Gras"))
    paragraph.addElement(text.LineBreak())
    paragraph.addText("und Brot.")
    note = text.Note(noteclass="footnote")
    note.addElement(text.NoteCitation(text="1"))
    inside = text.NoteBody()
    inside.addElement(text.P(text="Selten."))
    note.addElement(inside)
    paragraph.addElement(note)
    body.addElement(paragraph)
    bullets = text.List()
    for word in ("eins", "zwei"):
        item = text.ListItem()
        item.addElement(text.P(text=word))
        if word == "zwei":
            inner = text.List()
            deeper = text.ListItem()
            deeper.addElement(text.P(text="tiefer"))
            inner.addElement(deeper)
            item.addElement(inner)
        bullets.addElement(item)
    body.addElement(bullets)
    ordered = text.List(stylename=numbers)
    for word in ("a", "b"):
        item = text.ListItem()
        item.addElement(text.P(text=word))
        ordered.addElement(item)
    body.addElement(text.P(text="Dann:"))
    body.addElement(ordered)
    section = text.Section(name="s")
    section.addElement(text.H(outlinelevel=2, text="Zahlen"))
    grid = table.Table()
    head = table.TableHeaderRows()
    head.addElement(row("Teich", "Enten", "Gänse"))
    grid.addElement(head)
    grid.addElement(row("A", table.TableCell(numbercolumnsrepeated=2)))
    section.addElement(grid)
    body.addElement(section)
    document = read_bytes("a.odt", bytes_of(odt))
    assert document.text == (
        "Von Enten\n\nNahrung\n\nEnten essen Gras\nund Brot.\n\nSelten.\n\n- eins\n- zwei\n  - tiefer\n\nDann:\n\n"
        "1. a\n2. b\n\nZahlen\n\n| Teich | Enten | Gänse |\n| A |  |  |"
    )
    assert outline(document) == [(1, "Von Enten"), (2, "Nahrung"), (3, "Zahlen")]
    assert document.title == "Von Enten"
    assert {"author": "Ann", "language": "de", "keywords": "Teich"}.items() <= document.metadata.items()


def test_deleted_text_and_comments_are_left_out(read_bytes: Read) -> None:
    odt = opendocument.OpenDocumentText()
    changes = text.TrackedChanges()
    region = text.ChangedRegion(check_grammar=False)
    deletion = text.Deletion()
    deletion.addElement(text.P(text="deleted"))
    region.addElement(deletion)
    changes.addElement(region)
    odt.text.addElement(changes)
    kept = text.P(text="kept")
    comment = office.Annotation()
    comment.addElement(text.P(text="said"))
    kept.addElement(comment)
    odt.text.addElement(kept)
    assert read_bytes("a.odt", bytes_of(odt)).text == "kept"


def test_an_empty_text(refusal: Refusal) -> None:
    assert refusal("a.odt", bytes_of(opendocument.OpenDocumentText())) == "no text"


def test_spreadsheet_is_refused(refusal: Refusal) -> None:
    sheet = bytes_of(opendocument.OpenDocumentSpreadsheet())
    assert refusal("a.odt", sheet) == "an office file or ZIP archive, but not an OpenDocument text"


def test_named_lists_have_their_numbers_and_styles_their_scripts(read_bytes: Read) -> None:
    odt = opendocument.OpenDocumentText()
    letters = text.ListStyle(name="Numbering_20_A")
    letters.addElement(text.ListLevelStyleNumber(level="1", numformat="A", numsuffix=")"))
    letters.addElement(text.ListLevelStyleNumber(level="2", numformat="1", numsuffix=".", displaylevels="2"))
    odt.styles.addElement(letters)
    raised = style.Style(name="T1", family="text")
    raised.addElement(style.TextProperties(textposition="super 58%"))
    odt.automaticstyles.addElement(raised)
    for _ in range(2):
        outer = text.List(stylename=letters)
        for word in ("one", "two"):
            item = text.ListItem()
            item.addElement(text.P(text=word))
            item.addElement(text.P(text="more"))
            inner = text.List()
            deeper = text.ListItem()
            deeper.addElement(text.P(text="in"))
            inner.addElement(deeper)
            item.addElement(inner)
            outer.addElement(item)
        odt.text.addElement(outer)
    paragraph = text.P(text="10")
    paragraph.addElement(text.Span(stylename=raised, text="6"))
    odt.text.addElement(paragraph)
    one = "A) one\n  more\n  A.1. in\nB) two\n  more\n  B.1. in"
    assert read_bytes("a.odt", bytes_of(odt)).text == f"{one}\n{one}\n\n10^6"
