"""DOCX: order, headings, lists, tables and text in wrappers; unsafe archives."""

from __future__ import annotations

import re
from pathlib import Path

import docx
import pytest
from docx.enum.style import WD_STYLE_TYPE
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls
from tests.readers.documents import Read, Refusal, archive, bytes_of, outline, with_changed_parts
from tests.support import read

from mergewise.errors import ReadError
from mergewise.readers import archive as zip_reader
from mergewise.readers.formulas import formula
from mergewise.readers.numbering import Level, Numbering

MATH = 'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"'


def test_headings_paragraphs_and_tables_in_order(read_bytes: Read) -> None:
    word = docx.Document()
    word.core_properties.title = "Template"
    word.add_heading("The Title", level=0)
    word.add_paragraph("Before.")
    word.add_heading("Section", level=1)
    table = word.add_table(rows=2, cols=3)
    for row in range(2):
        for column in range(3):
            table.cell(row, column).text = f"{row}{column}"
    table.cell(0, 0).merge(table.cell(0, 1)).text = "wide"
    table.cell(0, 2).merge(table.cell(1, 2)).text = "high"
    word.add_heading("Deeper", level=2)
    word.add_paragraph("One line.\nNext line\twith a tab.")
    document = read_bytes("a.docx", bytes_of(word))
    assert document.text == (
        "The Title\n\nBefore.\n\nSection\n\n| wide |  | high |\n| 10 | 11 | high |\n\n"
        "Deeper\n\nOne line.\nNext line with a tab."
    )
    assert outline(document) == [(1, "The Title"), (2, "Section"), (3, "Deeper")]
    assert document.title == "The Title"


def test_headings_by_inherited_style_and_outline_level(read_bytes: Read) -> None:
    word = docx.Document()
    style = word.styles.add_style("Kapitel", WD_STYLE_TYPE.PARAGRAPH)
    style.base_style = word.styles["Heading 1"]
    word.add_paragraph("Kapitel eins", style="Kapitel")
    paragraph = word.add_paragraph("By outline level")
    paragraph._p.get_or_add_pPr().append(parse_xml(f'<w:outlineLvl {nsdecls("w")} w:val="2"/>'))
    assert outline(read_bytes("a.docx", bytes_of(word))) == [(1, "Kapitel eins"), (3, "By outline level")]


def test_lists(read_bytes: Read) -> None:
    word = docx.Document()
    for text, style in [("a", "List Bullet"), ("b", "List Bullet"), ("c", "List Number"), ("d", "List Number")]:
        word.add_paragraph(text, style=style)
    word.add_paragraph("Text")
    assert read_bytes("a.docx", bytes_of(word)).text == "- a\n- b\n1. c\n2. d\n\nText"


def test_text_in_wrappers_is_kept(read_bytes: Read) -> None:
    word = docx.Document()
    xml = f"""<w:body {nsdecls("w")} {MATH} xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"
      xmlns:v="urn:schemas-microsoft-com:vml">
      <w:sdt><w:sdtPr/><w:sdtContent><w:p><w:r><w:t>In a control</w:t></w:r></w:p></w:sdtContent></w:sdt>
      <w:p><w:hyperlink><w:r><w:t>link</w:t></w:r></w:hyperlink>
        <w:ins><w:r><w:t xml:space="preserve"> inserted</w:t></w:r></w:ins>
        <w:del><w:r><w:delText>deleted</w:delText></w:r></w:del>
        <w:r><w:rPr><w:vanish/></w:rPr><w:t>hidden</w:t></w:r>
        <w:r><w:instrText>PAGE</w:instrText></w:r></w:p>
      <w:p><w:r><w:t>Anchor</w:t><mc:AlternateContent>
        <mc:Choice Requires="wps"><w:txbxContent><w:p><w:r><w:t>Box</w:t></w:r></w:p></w:txbxContent></mc:Choice>
        <mc:Fallback><w:pict><v:textbox><w:txbxContent><w:p><w:r><w:t>Box</w:t></w:r></w:p></w:txbxContent></v:textbox>
        </w:pict></mc:Fallback></mc:AlternateContent></w:r></w:p>
      <w:tbl><w:tr><w:tc><w:p><w:r><w:t>Framed</w:t></w:r></w:p></w:tc></w:tr></w:tbl>
      </w:body>"""
    for child in list(parse_xml(xml)):
        word.element.body.append(child)
    assert read_bytes("a.docx", bytes_of(word)).text == "In a control\n\nlink inserted\n\nAnchor\n\nBox\n\nFramed"


def test_strict_documents(read_bytes: Read) -> None:
    word = docx.Document()
    word.add_heading("Heading", level=1)
    word.add_paragraph("Text")
    kinds = re.compile(rb"http://schemas\.openxmlformats\.org/(officeDocument|wordprocessingml)/2006/")
    strict = with_changed_parts(bytes_of(word), lambda _, data: kinds.sub(rb"http://purl.oclc.org/ooxml/\1/", data))
    document = read_bytes("a.docx", strict)
    assert (document.text, outline(document)) == ("Heading\n\nText", [(1, "Heading")])


# --- numbers and formulas


def test_numbers_match_word() -> None:
    numbering = Numbering(
        {"1": "a", "2": "a", "3": "b"},
        {
            ("a", 0): Level("upperRoman", "%1."),
            ("a", 1): Level("lowerLetter", "%1%2)", 3),
            ("b", 0): Level("bullet", "*"),
        },
    )
    labels = [
        numbering.next_label(*item) for item in [("1", 0), ("1", 1), ("2", 1), ("3", 0), ("1", 0), ("1", 1), ("9", 0)]
    ]
    assert labels == ["I.", "Ic)", "Id)", "-", "II.", "IIc)", ""]


@pytest.mark.parametrize(
    ("xml", "expected"),
    [
        ("<m:f><m:num>{a+b}</m:num><m:den>{c}</m:den></m:f>", "(a+b)/c"),
        ("<m:sSup><m:e>{x}</m:e><m:sup>{2}</m:sup></m:sSup>", "x^2"),
        ("<m:sSubSup><m:e>{x}</m:e><m:sub>{i+1}</m:sub><m:sup>{2}</m:sup></m:sSubSup>", "x_(i+1)^2"),
        ("<m:rad><m:deg/><m:e>{x+1}</m:e></m:rad>", "√(x+1)"),
        (
            '<m:nary><m:naryPr><m:chr m:val="∑"/></m:naryPr><m:sub>{i=1}</m:sub><m:sup>{n}</m:sup>'
            "<m:e>{x}</m:e></m:nary>",
            "∑_(i=1)^n x",
        ),
        ("<m:d><m:e>{a}</m:e><m:e>{b}</m:e></m:d>", "(a, b)"),
        ("<m:func><m:fName>{log}</m:fName><m:e><m:d><m:e>{x}</m:e></m:d></m:e></m:func>", "log(x)"),
    ],
)
def test_formulas(xml: str, expected: str) -> None:
    runs = xml.replace("{", "<m:r><m:t>").replace("}", "</m:t></m:r>")
    assert formula(parse_xml(f"<m:oMath {MATH}>{runs}</m:oMath>")) == expected


# --- archives


def test_other_archives_are_refused(refusal: Refusal) -> None:
    assert "not a Word document" in refusal("a.docx", archive({"a": b"x"}))
    assert "zip bomb" in refusal("a.docx", archive({"bomb": bytes(60_000_000)}))


def test_parts_are_read_up_to_a_limit(refusal: Refusal, monkeypatch: pytest.MonkeyPatch) -> None:
    word = docx.Document()
    word.add_paragraph("long " * 1_000)
    monkeypatch.setattr(zip_reader, "MAX_PART", 2_000)
    assert "unpacks to more than" in refusal("a.docx", bytes_of(word))


def test_truncated_and_damaged_archives(refusal: Refusal, tmp_path: Path) -> None:
    word = docx.Document()
    word.add_paragraph("text")
    whole = bytes_of(word)
    assert refusal("a.docx", whole[: len(whole) // 2]) == "damaged or truncated DOCX"
    for place in range(100, len(whole), len(whole) // 40):
        (tmp_path / "b.docx").write_bytes(whole[:place] + b"\xff\xff\xff" + whole[place + 3 :])
        try:
            read(tmp_path / "b.docx")
        except ReadError as error:
            assert "\n" not in error.message


def test_superscripts_are_not_glued_to_numbers(read_bytes: Read) -> None:
    word = docx.Document()
    paragraph = word.add_paragraph("10")
    for text in ("−", "6"):
        paragraph.add_run(text).font.superscript = True
    paragraph.add_run(" m, H")
    paragraph.add_run("2").font.subscript = True
    paragraph.add_run("O, 1")
    paragraph.add_run("st").font.superscript = True
    assert read_bytes("a.docx", bytes_of(word)).text == "10^−6 m, H2O, 1st"


def test_headers_and_footers_come_once_and_pictures_with_their_descriptions(read_bytes: Read) -> None:
    word = docx.Document()
    word.sections[0].header.paragraphs[0].text = "Contract 17"
    word.sections[0].footer.paragraphs[0].text = "Draft of May"
    paragraph = word.add_paragraph("Body.")
    paragraph.add_run()._r.append(
        parse_xml(
            f"<w:drawing {nsdecls('w', 'wp')}><wp:inline><wp:docPr id='1' name='x' descr='A duck on a pond'/></wp:inline>"
            "</w:drawing>"
        )
    )
    section = word.add_section()
    section.header.is_linked_to_previous = False
    section.header.paragraphs[0].text = "Contract 17"
    section.footer.is_linked_to_previous = False
    section.footer.paragraphs[0].text = "2"
    text = read_bytes("a.docx", bytes_of(word)).text
    assert sorted(text.split("\n\n")) == ["A duck on a pond", "Body.", "Contract 17", "Draft of May"]
    assert text.index("Contract 17") < text.index("Body.")
