"""Generators of hostile files of about a given size, on which a non-linear parser takes too long."""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from collections.abc import Callable

Shape = Callable[[int], bytes]


def repeated(piece: str, before: str = "", after: str = "") -> Shape:
    """Repeat `piece`. `{i}` in it becomes its number."""

    def shape(size: int) -> bytes:
        if "{i}" in piece:
            count = max(1, size // (len(piece) + 2))
            middle = "".join(piece.replace("{i}", str(i)) for i in range(count))
        else:
            middle = piece * max(1, size // len(piece.encode()))
        return f"{before}{middle}{after}".encode()

    return shape


def archive(parts: dict[str, bytes], packing: int = zipfile.ZIP_STORED) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", packing) as file:
        for name, content in parts.items():
            file.writestr(name, content)
    return held.getvalue()


# --- office files, built by hand ---------------------------------------------------------------------------------

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
_RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_OOXML = "application/vnd.openxmlformats-officedocument"


def relations(*targets: tuple[str, str]) -> bytes:
    rows = "".join(
        f'<Relationship Id="rId{i}" Type="{_RELATIONS}/{kind}" Target="{target}"/>'
        for i, (kind, target) in enumerate(targets, start=1)
    )
    return f'<Relationships xmlns="{_PACKAGE}/relationships">{rows}</Relationships>'.encode()


def content_types(**overrides: str) -> bytes:
    rows = "".join(
        f'<Override PartName="/{name.replace("__", "/")}.xml" ContentType="{_OOXML}.{kind}+xml"/>'
        for name, kind in overrides.items()
    )
    return (
        f'<Types xmlns="{_PACKAGE}/content-types"><Default Extension="rels" '
        f'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        f'<Default Extension="xml" ContentType="application/xml"/>{rows}</Types>'
    ).encode()


def docx(body: str, styles: str = "", numbering: str = "", footnotes: str = "") -> bytes:
    parts = {
        "_rels/.rels": relations(("officeDocument", "word/document.xml")),
        "word/document.xml": f"<w:document {W}><w:body>{body}</w:body></w:document>".encode(),
        "word/_rels/document.xml.rels": relations(
            *((kind, f"{kind}.xml") for kind in ("styles", "numbering", "footnotes"))
        ),
    }
    for kind, content in (("styles", styles), ("numbering", numbering), ("footnotes", footnotes)):
        parts[f"word/{kind}.xml"] = f"<w:{kind} {W}>{content}</w:{kind}>".encode()
    return archive(parts)


def paragraph(text: str, properties: str = "") -> str:
    return f"<w:p>{f'<w:pPr>{properties}</w:pPr>' if properties else ''}<w:r><w:t>{text}</w:t></w:r></w:p>"


def chained_styles(size: int) -> bytes:
    """Base each style on the previous one."""
    count = size // 80
    styles = "".join(
        f'<w:style w:type="paragraph" w:styleId="s{i}"><w:name w:val="s{i}"/><w:basedOn w:val="s{i - 1}"/></w:style>'
        for i in range(count)
    )
    return docx(paragraph("Owls eat mice.", f'<w:pStyle w:val="s{count - 1}"/>'), styles)


def circular_styles(size: int) -> bytes:
    """Base styles on each other in one circle."""
    count = size // 60
    styles = "".join(
        f'<w:style w:styleId="s{i}"><w:basedOn w:val="s{(i + 1) % count}"/></w:style>' for i in range(count)
    )
    return docx(paragraph("Owls eat mice.", '<w:pStyle w:val="s0"/>'), styles)


def deep_numbers(size: int) -> bytes:
    """Build a list with a level per paragraph, the deepest at a million."""
    count = size // 150
    levels = "".join(
        f'<w:lvl w:ilvl="{i * 1000}"><w:start w:val="1"/><w:lvlText w:val="%1."/></w:lvl>' for i in range(count)
    )
    numbering = (
        f'<w:abstractNum w:abstractNumId="0">{levels}</w:abstractNum>'
        '<w:num w:numId="1"><w:abstractNumId w:val="0"/></w:num>'
    )
    body = "".join(
        paragraph("x", f'<w:numPr><w:ilvl w:val="{i * 1000}"/><w:numId w:val="1"/></w:numPr>') for i in range(count)
    )
    return docx(body, numbering=numbering)


def long_labels(size: int) -> bytes:
    """Give every paragraph a label as long as the whole text."""
    numbering = (
        f'<w:abstractNum w:abstractNumId="0"><w:lvl w:ilvl="0"><w:lvlText w:val="{"%1." * (size // 6)}"/></w:lvl>'
        '</w:abstractNum><w:num w:numId="1"><w:abstractNumId w:val="0"/></w:num>'
    )
    item = paragraph("x", '<w:numPr><w:ilvl w:val="0"/><w:numId w:val="1"/></w:numPr>')
    return docx(item * (size // 2 // len(item)), numbering=numbering)


def footnotes(size: int) -> bytes:
    """Build one long footnote with an equal amount of references to it."""
    reference = '<w:p><w:r><w:footnoteReference w:id="7"/></w:r></w:p>'
    return docx(
        reference * (size // 2 // len(reference)),
        footnotes=f'<w:footnote w:id="7">{paragraph("owl " * (size // 8))}</w:footnote>',
    )


def circular_footnotes(size: int) -> bytes:
    """Put ten references in each footnote to the next one, in a circle."""
    count = max(2, size // 600)
    notes = "".join(
        f'<w:footnote w:id="{i}"><w:p><w:r><w:t>note {i}</w:t>'
        + f'<w:footnoteReference w:id="{(i + 1) % count}"/>' * 10
        + "</w:r></w:p></w:footnote>"
        for i in range(count)
    )
    return docx('<w:p><w:r><w:t>Owls</w:t><w:footnoteReference w:id="0"/></w:r></w:p>', footnotes=notes)


def wide_rows(size: int) -> bytes:
    """Build rows of two cells that span a million columns."""
    cell = '<w:tc><w:tcPr><w:gridSpan w:val="1000000"/></w:tcPr><w:p><w:r><w:t>x</w:t></w:r></w:p></w:tc>'
    row = f"<w:tr>{cell * 2}</w:tr>"
    return docx(f"<w:tbl>{row * (size // len(row))}</w:tbl>")


def docx_of(piece: str, before: str = "", after: str = "") -> Shape:
    return lambda size: docx(before + piece * max(1, size // len(piece)) + after)


ODF = "urn:oasis:names:tc:opendocument:xmlns"
_ODT = (
    f'xmlns:office="{ODF}:office:1.0" xmlns:text="{ODF}:text:1.0" xmlns:table="{ODF}:table:1.0" '
    f'xmlns:style="{ODF}:style:1.0"'
)


def odt(body: str, styles: str = "") -> bytes:
    content = (
        f"<office:document-content {_ODT}><office:automatic-styles>{styles}</office:automatic-styles>"
        f"<office:body><office:text>{body}</office:text></office:body></office:document-content>"
    )
    return archive({"mimetype": b"application/vnd.oasis.opendocument.text", "content.xml": content.encode()})


def odt_of(piece: str, before: str = "", after: str = "") -> Shape:
    return lambda size: odt(before + piece * max(1, size // len(piece)) + after)


S = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'


def xlsx(rows: str, strings: str = "", sheets: int = 1, same: bool = False, styles: str = "") -> bytes:
    """Build a workbook of `sheets` sheets with these rows. With `same`, all sheets are one part."""
    names = "".join(f'<sheet name="s{i}" sheetId="{i}" r:id="rId{1 if same else i}"/>' for i in range(1, sheets + 1))
    files = ["worksheets/sheet1.xml"] if same else [f"worksheets/sheet{i}.xml" for i in range(1, sheets + 1)]
    workbook = f'<workbook {S} xmlns:r="{_RELATIONS}"><sheets>{names}</sheets></workbook>'
    sheet = f'<worksheet {S}><dimension ref="A1:XFD1048576"/><sheetData>{rows}</sheetData></worksheet>'.encode()
    overrides = {f"xl__{name[:-4].replace('/', '__')}": "spreadsheetml.worksheet" for name in files}
    kinds = content_types(
        xl__workbook="spreadsheetml.sheet.main",
        xl__sharedStrings="spreadsheetml.sharedStrings",
        xl__styles="spreadsheetml.styles",
        **overrides,
    )
    parts = {
        "[Content_Types].xml": kinds,
        "_rels/.rels": relations(("officeDocument", "xl/workbook.xml")),
        "xl/workbook.xml": workbook.encode(),
        "xl/_rels/workbook.xml.rels": relations(
            *(("worksheet", name) for name in files), ("sharedStrings", "sharedStrings.xml"), ("styles", "styles.xml")
        ),
        "xl/sharedStrings.xml": f"<sst {S}>{strings}</sst>".encode(),
        "xl/styles.xml": f"<styleSheet {S}>{styles}</styleSheet>".encode(),
    }
    return archive(parts | {f"xl/{name}": sheet for name in files})


def xlsx_of(row: str, strings: str = "") -> Shape:
    return lambda size: xlsx(row * max(1, size // len(row)), strings)


P = (
    'xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main" '
    f'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" xmlns:r="{_RELATIONS}"'
)


def pptx(shapes: str, repeats: int = 1) -> bytes:
    """Build a presentation of one slide, listed `repeats` times."""
    tree = f'<p:nvGrpSpPr><p:cNvPr id="1" name=""/><p:cNvGrpSpPr/><p:nvPr/></p:nvGrpSpPr><p:grpSpPr/>{shapes}'
    ids = "".join(f'<p:sldId id="{256 + i}" r:id="rId1"/>' for i in range(repeats))
    layout = "<p:cSld><p:spTree><p:nvGrpSpPr/><p:grpSpPr/></p:spTree></p:cSld>"
    return archive(
        {
            "[Content_Types].xml": content_types(
                ppt__presentation="presentationml.presentation.main",
                ppt__slides__slide1="presentationml.slide",
                ppt__slideLayouts__slideLayout1="presentationml.slideLayout",
            ),
            "_rels/.rels": relations(("officeDocument", "ppt/presentation.xml")),
            "ppt/presentation.xml": f"<p:presentation {P}><p:sldIdLst>{ids}</p:sldIdLst></p:presentation>".encode(),
            "ppt/_rels/presentation.xml.rels": relations(("slide", "slides/slide1.xml")),
            "ppt/slides/slide1.xml": f"<p:sld {P}><p:cSld><p:spTree>{tree}</p:spTree></p:cSld></p:sld>".encode(),
            "ppt/slides/_rels/slide1.xml.rels": relations(("slideLayout", "../slideLayouts/slideLayout1.xml")),
            "ppt/slideLayouts/slideLayout1.xml": f"<p:sldLayout {P}>{layout}</p:sldLayout>".encode(),
        }
    )


def shape_of(text: str) -> str:
    return (
        '<p:sp><p:nvSpPr><p:cNvPr id="2" name="x"/><p:cNvSpPr/><p:nvPr/></p:nvSpPr><p:spPr/>'
        f"<p:txBody><a:bodyPr/>{text}</p:txBody></p:sp>"
    )


SLIDE_LINE = "<a:p><a:r><a:t>Owls eat mice.</a:t></a:r></a:p>"


SLIDE_CELL = f"<a:tc><a:txBody><a:bodyPr/>{SLIDE_LINE}</a:txBody></a:tc>"


def slide_of_table(rows: str) -> bytes:
    return pptx(
        '<p:graphicFrame><p:nvGraphicFramePr><p:cNvPr id="3" name="t"/><p:cNvGraphicFramePr/><p:nvPr/>'
        '</p:nvGraphicFramePr><p:xfrm/><a:graphic><a:graphicData uri="http://schemas.openxmlformats.org/drawingml/2006/'
        f'table"><a:tbl><a:tblGrid/>{rows}</a:tbl></a:graphicData></a:graphic></p:graphicFrame>'
    )


def slide_table(size: int) -> bytes:
    row = f'<a:tr h="1">{SLIDE_CELL * 2}</a:tr>'
    return slide_of_table(row * max(1, size // len(row)))


def slide_row(size: int) -> bytes:
    return slide_of_table(f'<a:tr h="1">{SLIDE_CELL * max(1, size // len(SLIDE_CELL))}</a:tr>')


def slide_groups(size: int) -> bytes:
    opening = '<p:grpSp><p:nvGrpSpPr><p:cNvPr id="4" name=""/><p:cNvGrpSpPr/><p:nvPr/></p:nvGrpSpPr><p:grpSpPr/>'
    depth = 19
    inner = shape_of(SLIDE_LINE)
    return pptx(opening * depth + inner * max(1, size // len(inner)) + "</p:grpSp>" * depth)


def epub(chapters: dict[str, str], spine: str, manifest: str = "", more: dict[str, bytes] | None = None) -> bytes:
    items = "".join(f'<item id="{name}" href="{name}.xhtml" media-type="application/xhtml+xml"/>' for name in chapters)
    package = (
        '<package xmlns="http://www.idpf.org/2007/opf"><metadata xmlns:dc="http://purl.org/dc/elements/1.1/">'
        f"<dc:title>Owls</dc:title></metadata><manifest>{items}{manifest}</manifest><spine>{spine}</spine></package>"
    )
    container = (
        '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
        '<rootfile full-path="book.opf"/></rootfiles></container>'
    )
    parts = {"META-INF/container.xml": container.encode(), "book.opf": package.encode()}
    parts |= {f"{name}.xhtml": f"<html><body>{text}</body></html>".encode() for name, text in chapters.items()}
    return archive(parts | (more or {}))


def pdf(*objects: bytes) -> bytes:
    """Build a PDF file from objects. The first one is the catalogue."""
    body = b"%PDF-1.4\n"
    offsets = []
    for number, content in enumerate(objects, start=1):
        offsets.append(len(body))
        body += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    head = b"xref\n0 %d\n0000000000 65535 f \n%s" % (len(objects) + 1, table)
    return (
        body + head + b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, len(body))
    )


def stream(content: bytes, packed: bool = False) -> bytes:
    data = zlib.compress(content) if packed else content
    return b"<< /Length %d %s >>\nstream\n%s\nendstream" % (len(data), b"/Filter /FlateDecode" if packed else b"", data)


PDF_PAGE = (
    b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents 4 0 R /Resources << /Font << /F1 3 0 R >> >> >>"
)
PDF_FONT = b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"


def pdf_of(line: bytes, before: bytes = b"", after: bytes = b"", packed: bool = False) -> Shape:
    """Build one page that repeats a line."""

    def shape(size: int) -> bytes:
        content = before + line * max(1, size // len(line)) + after
        pages = b"<< /Type /Pages /Count 1 /Kids [5 0 R] >>"
        return pdf(b"<< /Type /Catalog /Pages 2 0 R >>", pages, PDF_FONT, stream(content, packed), PDF_PAGE)

    return shape


def pdf_bookmarks(size: int) -> bytes:
    """Build as many bookmarks as lines on the one page. The bookmarks' titles do not appear there."""
    count = max(2, size // 120)
    lines = b"".join(b"BT /F1 9 Tf 10 %d Td (line %d of owls) Tj ET\n" % (800 - i % 800, i) for i in range(count))
    marks = [
        b"<< /Title (bookmark %d) /Parent 6 0 R /Dest [5 0 R /Fit] %s >>"
        % (i, b"/Next %d 0 R" % (8 + i) if i + 1 < count else b"")
        for i in range(count)
    ]
    catalogue = b"<< /Type /Catalog /Pages 2 0 R /Outlines 6 0 R >>"
    pages = b"<< /Type /Pages /Count 1 /Kids [5 0 R] >>"
    outlines = b"<< /Type /Outlines /First 7 0 R /Last %d 0 R >>" % (6 + count)
    return pdf(catalogue, pages, PDF_FONT, stream(lines), PDF_PAGE, outlines, *marks)


def pdf_pages(size: int) -> bytes:
    """Build pages that all show one stream, which is as long as all pages together."""
    count = max(1, size // 2 // len(PDF_PAGE))
    kids = b" ".join(b"%d 0 R" % (5 + i) for i in range(count))
    line = b"BT /F1 9 Tf 10 700 Td (owls eat mice) Tj ET\n"
    pages = b"<< /Type /Pages /Count %d /Kids [%s] >>" % (count, kids)
    shown = stream(line * max(1, size // 2 // len(line)))
    return pdf(b"<< /Type /Catalog /Pages 2 0 R >>", pages, PDF_FONT, shown, *[PDF_PAGE] * count)


# --- mail --------------------------------------------------------------------------------------------------------


def mail(head: Shape, body: str = "Owls eat mice.\n") -> Shape:
    return lambda size: head(size) + f"\n\n{body}".encode()


def many_parts(size: int) -> bytes:
    part = "--b\nContent-Type: text/plain; charset=utf-8\nContent-Disposition: attachment; filename=a.txt\n\nx\n"
    head = "Subject: parts\nContent-Type: multipart/mixed; boundary=b\n\n"
    return f"{head}{part * max(1, size // len(part))}--b--\n".encode()


def heads_of_parts(size: int) -> bytes:
    """Build parts with a thousand quotation marks in each head."""
    marks = '"' * 700
    part = f"--b\nContent-Type: text/plain; name={marks}\nContent-Disposition: attachment; filename={marks}\n\nx\n"
    head = "Subject: parts\nContent-Type: multipart/mixed; boundary=b\n\n"
    return f"{head}{part * max(1, size // len(part))}--b--\n".encode()


def open_bounds(size: int) -> bytes:
    """Nest parts in the first third, then add lines that could be the boundary of each part."""
    count = max(1, size // 3 // 60)
    heads = "".join(f"Content-Type: multipart/mixed; BOUNDARY*0=b{i}\n\n--b{i}\n" for i in range(min(count, 400)))
    return f"Subject: deep\n{heads}\n{'--x' + chr(10)}".encode() + b"--y\n" * (size // 6)


def continued_parameters(size: int) -> bytes:
    parameters = ";\n ".join(f"name*{i}=x" for i in range(max(1, size // 14)))
    return f"Subject: x\nContent-Type: text/plain; {parameters}\n\nOwls eat mice.\n".encode()


def rich_mail(piece: str) -> Shape:
    return lambda size: (
        b"Subject: x\nContent-Type: text/html\n\n<p>Owls eat mice." + (piece * (size // len(piece))).encode()
    )


ENCODED = "=?utf-8?q?a=C3=A9?="
FIELD_PIECES = {
    "quotes": '"', "brackets": "(", "angles": "<", "commas": "a,", "semicolons": ";a=", "quoted": '"a" ', "words": "a ",
    "encoded": f"{ENCODED} ", "broken words": "=?utf-8?q?", "dots": "a.", "escapes": "\\", "colons": "a:", "ats": "a@",
    "rows": "a,\n b", "percents": "%'",
}  # fmt: skip

MAIL: dict[str, Shape] = {
    **{
        f"{name} {field}.eml": mail(repeated(piece, f"Subject: x\n{field}: "))
        for field in ("To", "Subject", "Date", "Content-Type", "Content-Disposition", "Content-Language")
        for name, piece in FIELD_PIECES.items()
    },
    "addresses To.eml": mail(repeated("Ann Owl {i} <ann{i}@example.org>, ", "Subject: x\nTo: ")),
    "named addresses To.eml": mail(repeated('"Owl, Ann {i}" <ann{i}@example.org>,\n ', "Subject: x\nTo: ")),
    "coded addresses To.eml": mail(repeated(f"{ENCODED} <ann{{i}}@example.org>,\n ", "Subject: x\nTo: ")),
    "groups To.eml": mail(repeated("g{i}: a@b, c@d;, ", "Subject: x\nTo: ")),
    "references.eml": mail(repeated("<a{i}@b> ", "Subject: x\nReferences: ")),
    "fields.eml": mail(repeated("X-Field-{i}: x\n", "Subject: x\n")),
    "same fields.eml": mail(repeated("To: a@b\n", "Subject: x\n")),
    "no head.eml": repeated("a: b", "Subject: x\n\n"),
    "continued parameters.eml": continued_parameters,
    "parts.eml": many_parts,
    "heads of parts.eml": heads_of_parts,
    "open bounds.eml": open_bounds,
    "quotations.eml": mail(repeated("X: y\n", "Subject: x\n"), "> > > a\n" * 100),
    "html quotes.eml": rich_mail('"'),
    "html tags.eml": rich_mail("<b>"),
    "messages.mbox": repeated("From a\nSubject: x\n\nOwls\n\n"),
    "no messages.mbox": repeated("From \n\n", "From a\nSubject: x\n\n"),
    "from from.mbox": repeated("From ", "From a\nSubject: x\n\n\n"),
    "escaped from.mbox": repeated(">", "From a\nSubject: x\n\n\n"),
}

# --- text --------------------------------------------------------------------------------------------------------

PIECES = {
    "quotes": '"', "escaped quotes": '\\"', "apostrophes": "'", "backticks": "`", "backtick words": "`a ",
    "backtick runs {i}": "`` a ` ", "brackets": "[", "closing brackets": "]", "images": "![",
    "linked images": "[![a](b", "open links": "[a](b ", "pictures": "![a](data:", "angles": "<", "tags": "<b>",
    "open tags": "<a ", "end tags": "</a>", "ampersands": "&", "entities": "&amp;", "numbered entities": "&#x",
    "comments": "<!--", "sections": "<![CDATA[", "declarations": "<!A ", "instructions": "<?", "pipes": "|",
    "pipe rows": "|a\n", "table": "|a|b|\n|-|-|\n", "hashes": "#", "headings": "# a\n\n",
    "headings {i}": "## Heading {i}\n\nText {i}.\n\n", "underlines": "a\n=\n\n", "lone underlines": "=\n",
    "stars": "*", "star words": "*a ", "strong": "**a ", "strong mix": "*a **b _c ", "underscores": "_a ",
    "tildes": "~", "fences": "```\n", "tilde fences": "~~~ a\n", "nested quotes": "> ", "quote lines": "> a\n",
    "lazy quotes": "> a\nb\n", "lists": "- ", "list lines": "- a\n", "numbered lines": "1. a\n",
    "nested list": "- a\n  - b\n    - c\n", "definitions {i}": "[a{i}]: b\n", "long definition": "[a]: b\n",
    "footnotes {i}": "[^{i}]: a\n\n", "colons": ":", "roles": ":a:`b ", "role marks": ":a:",
    "directives": ".. a::\n", "code directives": ".. code::\n\n", "comments rst": "..\n",
    "explicit": ".. _a: b\n", "substitutions": "|a| ", "targets": "a_ ", "anonymous": "`a`__ ",
    "named links": "`a <b", "option list": "-a b  c\n", "field list": ":a: b\n", "definition list": "a\n  b\n",
    "braces": "{", "anchors": "{#a ", "parentheses": "(", "closing parentheses": ")", "equals": "=",
    "dashes": "-", "dash lines": "---\n", "plus lines": "+++\n", "yaml": "a: [", "yaml keys {i}": "a{i}: b\n",
    "blanks": " ", "blank lines": "\n", "wide lines": " " * 200 + "\n", "blank ends": "a" + " " * 200 + "\n",
    "tabs": "\t", "tab lines": "\t- a\n", "controls": "a\x1b\x07", "replaced": "\ufffd", "marks": "\u0301",
    "wide": "漢字。", "commas": ",", "comma rows": "a,b\n", "semicolons": ";", "slashes": "/",
    "slash comments": "/*", "line comments": "//", "heads": "f(a) {", "calls": "a(\n",
    "classes {i}": "class A{i}:\n", "functions {i}": "def f{i}(a):\n  pass\n", "else": "if a:\n  b\nel",
    "objects": '{"a":', "lists json": "[[],", "json lines": '{"text": "a", "b": [1, "c"]}\n', "numbers": "1 ",
    "digits": "7", "versions": "1.", "dots": ".", "full stops": "a. ", "letters": "a", "words": "owl ",
    "dates": "1 May ", "admonitions": "!!! a\n", "default": "default ", "label": "**a**:\n\n",
    "questions": "a?\n\n", "announced": "a:\n\n", "literal": "a::\n\n",
}  # fmt: skip
TEXT_SUFFIXES = (".md", ".rst", ".html", ".txt", ".csv", ".py", ".js", ".c", ".rb", ".sql", ".yaml")
TEXT: dict[str, Shape] = {
    f"{name.replace(' {i}', '')}{suffix}": repeated(piece) for suffix in TEXT_SUFFIXES for name, piece in PIECES.items()
}


def front(piece: str, mark: str = "---", before: str = "") -> Shape:
    return repeated(piece, f"{mark}\n{before}", f"\n{mark}\n\nOwls eat mice.\n")


def article_of(piece: str, before: str = "", after: str = "") -> Shape:
    return repeated(piece, f"<article><body>{before}", f"{after}</body></article>")


def one_run(before: str, character: str, after: str = "") -> Shape:
    return lambda size: f"{before}{character * size}{after}".encode()


SPECIAL: dict[str, Shape] = {
    # --- Markdown and reStructuredText
    **{f"front {name}.md": front(piece) for name, piece in PIECES.items() if "{i}" not in name},
    **{f"toml {name}.md": front(piece, "+++", "a = 1\n") for name, piece in PIECES.items() if "{i}" not in name},
    **{f"heading {name}.md": repeated(piece, "# ") for name, piece in PIECES.items() if "\n" not in piece},
    **{f"header {name}.md": repeated(piece, "Title: a\nAuthor: ") for name, piece in PIECES.items()},
    "blank before link.rst": one_run("`a", " ", "<"),
    "blank in role.rst": one_run(":a:`b", " ", "<"),
    "blank after mark.rst": one_run(".. ", " ", "|a"),
    "absent titles.rst": repeated("x\n\nA*b*\n====\n\n"),
    "two titles.rst": repeated("A {i}\n===\n\nB\n---\n\n"),
    "same titles.rst": repeated("A\n=\n\n"),
    "titles in directives.rst": repeated(".. note::\n\n   A\n   =\n\n   b\n\n"),
    "grid.rst": lambda size: ("+---+---+\n" + "| a | b |\n+---+---+\n" * (size // 20)).encode(),
    "grid row.rst": lambda size: (
        "+" + "-+" * (size // 6) + "\n|" + "a|" * (size // 6) + "\n+" + "-+" * (size // 6) + "\n"
    ).encode(),
    "simple table.rst": lambda size: ("=== ===\na   b\n=== ===\n" + "c   d\n" * (size // 6) + "=== ===\n").encode(),
    "stairs.md": lambda size: "".join(f"{'  ' * i}- a\n" for i in range(int(size**0.5))).encode(),
    "stairs.rst": lambda size: "".join(f"{' ' * i}a\n" for i in range(int((2 * size) ** 0.5))).encode(),
    "stairs.py": lambda size: "".join(f"{' ' * (i % 90)}if a:\n" for i in range(size // 50)).encode(),
    "quoted stairs.md": lambda size: "".join(f"{'>' * i} a\n" for i in range(int((2 * size) ** 0.5))).encode(),
    # --- HTML and XML
    "attributes.html": repeated("a{i}='b' ", "<p ", ">Owls</p>"),
    "same attributes.html": repeated("a=b ", "<p ", ">Owls</p>"),
    "class words.html": repeated("nav ", "<div class='", "'>Owls</div>"),
    "style.html": one_run("<p style='display", " ", "'>Owls</p>"),
    "open paragraphs.html": repeated("<p>a<div>"),
    "open formats.html": repeated("<b><i>a"),
    "closed elsewhere.html": lambda size: ("<div>" * (size // 9) + "Owls" + "</p>" * (size // 9)).encode(),
    "ended spans.html": lambda size: ("<span>" * 200 + "Owls" + "</b>" * (size // 4)).encode(),
    "deep lists.html": lambda size: ("<ul><li>" * 100 + "<p>Owls</p>" * (size // 11)).encode(),
    "deep tables.html": lambda size: ("<table><tr><td>" * 60 + "<p>Owls</p>" * (size // 11)).encode(),
    "deep links.html": lambda size: (
        f"<p>{'Owls eat mice. ' * 400}</p>" + "<div>" * 200 + "<a href=x>Owls</a>" * (size // 18)
    ).encode(),
    "rows.html": repeated("<tr><td>a<td>b", "<table>"),
    "spans.html": repeated("<tr><td colspan=9999 rowspan=9999>a<td>b", "<table>"),
    "one row.html": repeated("<td>a", "<table><tr>"),
    "options.html": repeated("<option>a", "<select>"),
    "meta.html": repeated("<meta name=author content='Ann {i}'>", "<head>", "</head><p>Owls"),
    "titles.html": repeated("<h1>a</h1>"),
    "marks.html": repeated("<sup><a href='#a'>1</a></sup>", "<p>Owls"),
    "deep marks.html": lambda size: ("<sup>" * 200 + "<a href='#a'>1</a>" * (size // 18)).encode(),
    "bare entities.xml": article_of("&a;", "<p>", "</p>"),
    "paragraphs.xml": article_of("<p>a</p>"),
    "attributes.xml": article_of("a{i}='b' ", "<p ", ">Owls</p>"),
    "names.xml": article_of("xmlns:a{i}='b' ", "<p ", ">Owls</p>"),
    "name in name.xml": article_of("<p xmlns:a{i}='b{i}'>a</p>"),
    "sections.xml": article_of("<sec><title>a</title><p>b</p></sec>"),
    "cdata.xml": article_of("<![CDATA[a]]>", "<p>", "</p>"),
    "comments.xml": article_of("<!-- a -->", "<p>Owls", "</p>"),
    "deep figures.xml": article_of("<p>Owls</p>", "<boxed-text>" * 200, "</boxed-text>" * 200),
    "floats.xml": article_of("<p>Owls</p>", "<p><list><list-item>" * 60, "</list-item></list></p>" * 60),
    "deep tables.xml": article_of(
        "<p>Owls</p>", "<table-wrap>" + "<table><tr><td>" * 60, "</td></tr></table>" * 60 + "</table-wrap>"
    ),
    "alternatives.xml": article_of("<math>a</math>", "<p>" + "<alternatives>" * 120, "</alternatives>" * 120 + "</p>"),
    "people.xml": repeated(
        "<contrib><name><surname>A{i}</surname></name></contrib>",
        "<article><front><article-meta><contrib-group>",
        "</contrib-group></article-meta></front><body><p>Owls</p></body></article>",
    ),
    # --- records, tables, notebooks
    "long record.json": lambda size: json.dumps({"a": "owl " * (size // 4)}).encode(),
    "long line.jsonl": lambda size: json.dumps({"a": "x" * size}).encode(),
    "fields.json": lambda size: json.dumps({f"a{i}": "x" for i in range(size // 12)}).encode(),
    "records.jsonl": repeated('{"a": "b", "text": "owls"}\n'),
    "long key.json": lambda size: json.dumps({"k" * (size // 2): [{"a": 1} for _ in range(size // 20)]}).encode(),
    "long outer key.json": lambda size: json.dumps(
        [{"k" * (size // 2): [{"a": 1} for _ in range(size // 20)]}]
    ).encode(),
    "lists.json": lambda size: json.dumps([[[["a"]]]] * (size // 12)).encode(),
    "strings.json": lambda size: json.dumps(["a"] * (size // 5)).encode(),
    "number.json": one_run("[", "7", "]"),
    "escapes.json": repeated("\\u00e9", '["', '"]'),
    "surrogates.json": repeated("\\ud800", '["', '"]'),
    **{
        f"cells {name}.ipynb": lambda size, piece=piece: json.dumps(  # type: ignore[misc]
            {"cells": [{"cell_type": "markdown", "source": piece * (size // len(piece))}]}
        ).encode()
        for name, piece in PIECES.items()
        if "{i}" not in name
    },
    "many cells.ipynb": lambda size: json.dumps(
        {"cells": [{"cell_type": "markdown", "source": "# a"}] * (size // 50)}
    ).encode(),
    "lines.ipynb": lambda size: json.dumps(
        {"cells": [{"cell_type": "code", "source": ["a\n"] * (size // 8)}]}
    ).encode(),
    "outputs.ipynb": lambda size: json.dumps(
        {"cells": [{"cell_type": "code", "source": "a", "outputs": [{"text": ["b\n"]}] * (size // 20)}]}
    ).encode(),
    "quoted.csv": repeated('"a",', "", '"b"\n'),
    "open quote.csv": repeated("a,b\n", 'a,b\n1,"'),
    "doubled quotes.csv": repeated('""', 'a,b\n"', '",c\n'),
    "columns.csv": lambda size: (",".join(f"c{i}" for i in range(size // 8)) + "\n" + ",1" * (size // 8)).encode(),
    "ragged.csv": lambda size: "".join("a," * (i % 300) + "b\n" for i in range(size // 300)).encode(),
    # --- office files
    "paragraphs.docx": docx_of(paragraph("Owls eat mice.")),
    "runs.docx": docx_of("<w:r><w:t>a</w:t></w:r>", "<w:p>", "</w:p>"),
    "tabs.docx": docx_of("<w:tab/>", "<w:p><w:r><w:t>a</w:t>", "</w:r></w:p>"),
    "breaks.docx": docx_of("<w:br/>", "<w:p><w:r><w:t>a</w:t>", "</w:r></w:p>"),
    "formulas.docx": docx_of(
        "<m:f><m:num><m:r><m:t>a</m:t></m:r></m:num><m:den/></m:f>",
        '<w:p><m:oMath xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math">',
        "</m:oMath></w:p>",
    ),
    "bookmarks.docx": docx_of('<w:bookmarkStart w:id="1" w:name="a"/>', "<w:p><w:r><w:t>a</w:t></w:r>", "</w:p>"),
    "deep tables.docx": docx_of(paragraph("a"), "<w:tbl><w:tr><w:tc>" * 40, "</w:tc><w:tc/></w:tr></w:tbl>" * 40),
    "deep boxes.docx": docx_of(paragraph("a"), "<w:p><w:r><w:txbxContent>" * 60, "</w:txbxContent></w:r></w:p>" * 60),
    "chained styles.docx": chained_styles,
    "circular styles.docx": circular_styles,
    "deep numbers.docx": deep_numbers,
    "long labels.docx": long_labels,
    "footnotes.docx": footnotes,
    "circular footnotes.docx": circular_footnotes,
    "wide rows.docx": wide_rows,
    "paragraphs.odt": odt_of("<text:p>Owls eat mice.</text:p>"),
    "blanks.odt": odt_of('<text:s text:c="1000000000"/>', "<text:p>a", "b</text:p>"),
    "columns.odt": odt_of(
        '<table:table-row><table:table-cell table:number-columns-repeated="1000000"><text:p>a</text:p>'
        "</table:table-cell></table:table-row>",
        "<table:table>",
        "</table:table>",
    ),
    "rows.odt": odt_of(
        '<table:table-row table:number-rows-repeated="1000000"><table:table-cell><text:p>a</text:p></table:table-cell>'
        "</table:table-row>",
        "<table:table>",
        "</table:table>",
    ),
    "levels.odt": odt_of('<text:h text:outline-level="999999999999">a</text:h>'),
    "deep lists.odt": odt_of(
        "<text:p>a</text:p>", "<text:list><text:list-item>" * 60, "</text:list-item></text:list>" * 60
    ),
    "notes.odt": odt_of(
        "<text:note><text:note-body><text:p>a</text:p></text:note-body></text:note>", "<text:p>b", "</text:p>"
    ),
    "deep notes.odt": odt_of(
        "<text:p>a</text:p>", "<text:p><text:note><text:note-body>" * 40, "</text:note-body></text:note></text:p>" * 40
    ),
    "rows.xlsx": xlsx_of('<row><c t="inlineStr"><is><t>a</t></is></c><c><v>1</v></c></row>'),
    "last column.xlsx": xlsx_of('<row><c r="XFD1"/></row>'),
    "last column with text.xlsx": xlsx_of('<row><c r="A1"><v>1</v></c><c r="XFD1"/></row>'),
    "last row.xlsx": lambda size: xlsx(
        '<row r="1"><c><v>1</v></c></row><row r="1048576"><c><v>1</v></c></row>', sheets=max(1, size // 1000)
    ),
    "strings.xlsx": lambda size: xlsx('<row><c t="s"><v>0</v></c></row>', "<si><t>a</t></si>" * (size // 17)),
    "runs.xlsx": lambda size: xlsx('<row><c t="s"><v>0</v></c></row>', f"<si>{'<r><t>a</t></r>' * (size // 15)}</si>"),
    "long string.xlsx": lambda size: xlsx(
        '<row><c t="s"><v>0</v></c></row>' * (size // 64), f"<si><t>{'owl ' * (size // 8)}</t></si>"
    ),
    "one part.xlsx": lambda size: xlsx(
        "<row><c><v>1</v></c></row>" * (size // 54), sheets=max(1, size // 100), same=True
    ),
    "empty cells.xlsx": xlsx_of("<row>" + "<c/>" * 100 + "</row>"),
    "lines.pptx": lambda size: pptx(shape_of(SLIDE_LINE * (size // len(SLIDE_LINE)))),
    "shapes.pptx": lambda size: pptx(shape_of(SLIDE_LINE) * (size // len(shape_of(SLIDE_LINE)))),
    "groups.pptx": slide_groups,
    "table.pptx": slide_table,
    "row.pptx": slide_row,
    "one slide.pptx": lambda size: pptx(shape_of(SLIDE_LINE * (size // 2 // len(SLIDE_LINE))), max(1, size // 70)),
    "one chapter.epub": lambda size: epub(
        {"a": "<p>Owls eat mice.</p>" * (size // 2 // 21)}, '<itemref idref="a"/>' * (size // 2 // 20)
    ),
    "contents.epub": lambda size: epub(
        {"a": "<p>Owls</p>"},
        '<itemref idref="a"/>',
        '<item id="n" href="n.xhtml" properties="nav" media-type="application/xhtml+xml"/>' * (size // 2 // 80),
        {"n.xhtml": b"<html>" + b"<a href='a.xhtml'>A</a>" * (size // 2 // 23) + b"</html>"},
    ),
    "protected.epub": lambda size: epub(
        {f"c{i}": "<p>Owls</p>" for i in range(size // 500)},
        "".join(f'<itemref idref="c{i}"/>' for i in range(size // 500)),
        "",
        {
            "META-INF/encryption.xml": b"<encryption>%s</encryption>"
            % (b'<CipherReference URI="a.ttf"/>' * (size // 2 // 40))
        },
    ),
    "lines.pdf": pdf_of(b"BT /F1 9 Tf 10 700 Td (Owls eat mice) Tj ET\n"),
    "packed lines.pdf": pdf_of(b"BT /F1 9 Tf 10 700 Td (Owls eat mice) Tj ET\n", packed=True),
    "one text.pdf": pdf_of(b"Owls eat mice ", b"BT /F1 9 Tf 10 700 Td (", b") Tj ET"),
    "one letter each.pdf": pdf_of(b"(a) Tj ", b"BT /F1 9 Tf 10 700 Td ", b" ET"),
    "places.pdf": pdf_of(b"1 -1 Td (a) Tj ", b"BT /F1 9 Tf 10 700 Td ", b" ET"),
    "states.pdf": pdf_of(b"q ", b"", b"BT /F1 9 Tf 10 700 Td (Owls eat mice) Tj ET"),
    "arrays.pdf": pdf_of(b"[", b"", b"BT /F1 9 Tf 10 700 Td (Owls eat mice) Tj ET"),
    "paths.pdf": pdf_of(b"1 1 m 2 2 l S ", b"BT /F1 9 Tf 10 700 Td (Owls eat mice) Tj ET\n"),
    "bookmarks.pdf": pdf_bookmarks,
    "pages.pdf": pdf_pages,
}

SHAPES: dict[str, Shape] = {**MAIL, **TEXT, **SPECIAL}
