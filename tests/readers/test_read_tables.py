"""CSV, TSV and XLSX: each row is a unit with the names of its columns."""

from __future__ import annotations

import datetime
import io
import re
from collections.abc import Callable

import openpyxl
import pytest
from tests.readers.documents import Read, Refusal, archive, bytes_of, titles, units, with_changed_parts

from mergewise.errors import ReadError
from mergewise.readers import table, xlsx
from mergewise.readers.builder import Builder

# --- CSV


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_delimiters(read_bytes: Read, delimiter: str) -> None:
    rows = [["Name", "Note", "Price"], ["Duck", "swims", "3.5"], ["Goose", "", "7"]]
    document = read_bytes("a.csv", "\n".join(delimiter.join(row) for row in rows))
    assert units(document) == ["Name: Duck; Note: swims; Price: 3.5", "Name: Goose; Price: 7"]
    assert document.text == "\n\n".join(units(document))
    assert document.title == "a"


def test_a_comma_in_numbers_does_not_divide(read_bytes: Read) -> None:
    document = read_bytes("a.csv", "Name;Preis\nEnte;3,50\nGänse;7,25\n".encode("cp1252"))
    assert units(document) == ["Name: Ente; Preis: 3,50", "Name: Gänse; Preis: 7,25"]


def test_a_delimiter_of_few_rows_is_better_than_none(read_bytes: Read) -> None:
    rows = ["name;town", "Ada;Delft", *(f"Nobody {letter}" for letter in "abcdefgh")]
    assert units(read_bytes("a.csv", "\n".join(rows)))[0] == "name: Ada; town: Delft"


def test_tabs_win_in_a_tsv(read_bytes: Read) -> None:
    assert units(read_bytes("a.tsv", "a, b\tc\n1, 2\t3\n")) == ["a, b: 1, 2; c: 3"]


def test_the_delimiter_that_excel_declares(read_bytes: Read) -> None:
    assert units(read_bytes("a.csv", "sep=|\na,b|c\n1,2|3\n")) == ["a,b: 1,2; c: 3"]


def test_quoted_fields(read_bytes: Read) -> None:
    document = read_bytes("a.csv", 'a,b\n"x, ""y""\nz",2\n3,4\n')
    assert units(document) == ['a: x, "y" z; b: 2', "a: 3; b: 4"]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("1,2\n3,4\n", ["1; 2", "3; 4"]),  # numbers are not names
        ("a,a\nb,c\n", ["a; a", "b; c"]),  # equal texts are not names either
        ("Country,2020,2021\nFrance,1,2\n", ["Country: France; 2020: 1; 2021: 2"]),  # but years may be names
        (",a,b\nx,1,2\n", ["x; a: 1; b: 2"]),
        ("a,b\n1,2,3\n4\n", ["a: 1; b: 2; 3", "a: 4"]),
        ("word\nother\n", ["word", "other"]),
        ("Key,Label,Label\nP-1,a,b\nP-2,c,\n", ["Key: P-1; Label: a; Label: b", "Key: P-2; Label: c"]),
        ("x,y,y\nz,y,x\n", ["x; y; y", "z; y; x"]),  # values recur, names do not
        (f"Day,{'How good is it? ' * 8}\nMon,Very\n", [f"Day: Mon; {('How good is it? ' * 8).strip()}: Very"]),
        (
            f"{'It is long. ' * 9},b\n{'It is longer. ' * 9},d\n",
            [f"{('It is long. ' * 9).strip()}; b", f"{('It is longer. ' * 9).strip()}; d"],
        ),
        ("Hour,0,1,2\nMon,5,3,7\n", ["Hour: Mon; 0: 5; 1: 3; 2: 7"]),
        ("Ada,0,1,2\nBob,3,4,5\n", ["Ada; 0; 1; 2", "Bob; 3; 4; 5"]),
        ("Name,2024-01,2024-02\nAda,3,4\n", ["Name: Ada; 2024-01: 3; 2024-02: 4"]),
        ("Ada,2024-01-02\nBob,2024-03-04\n", ["Ada; 2024-01-02", "Bob; 2024-03-04"]),
        ("Name:,,,Ada\nDate:,,,3 May\n", ["Name: Ada", "Date: 3 May"]),
        (",,,\nName:,,,Ada\n\n,,Due,,,4 May\n", ["Name: Ada", "Due; 4 May"]),
        (
            ",Sales,,Cost,\nTown,Q1,Q2,Q1,Q2\nEly,1,2,3,4\n",
            ["Town: Ely; Sales Q1: 1; Sales Q2: 2; Cost Q1: 3; Cost Q2: 4"],
        ),
        ("Name,1,2,3\nAda,x,,x\n", ["Name: Ada; 1: x; 3: x"]),
        ("Name,Age\nAda,5\n\nCity,Mayor\nEly,Bob\n", ["Name: Ada; Age: 5", "City: Ely; Mayor: Bob"]),
        ("Name,Age\nAda,5\n\nBob,6\nEve,7\n", ["Name: Ada; Age: 5", "Name: Bob; Age: 6", "Name: Eve; Age: 7"]),
        # empty rows: another table, or a gap within one
        ("Name,Role\nAda,Chair\n\nRoom,Seats\nBlue,12\n", ["Name: Ada; Role: Chair", "Room: Blue; Seats: 12"]),
        (
            "Name,Role\nAda,Chair\n\nBob,Clerk\nEve,Cook\n",
            ["Name: Ada; Role: Chair", "Name: Bob; Role: Clerk", "Name: Eve; Role: Cook"],
        ),
        ("Name,Age\n\nAda,5\n\nBob,6\n", ["Name: Ada; Age: 5", "Name: Bob; Age: 6"]),
        (
            "Name,Role\nAda,Chair\n\nRoom,Hue,Floor\nBlue,sky,low\n",
            ["Name: Ada; Role: Chair", "Room: Blue; Hue: sky; Floor: low"],
        ),
        ("Name:,B\nx,y\n", ["Name: x; B: y"]),
    ],
)
def test_headers(read_bytes: Read, source: str, expected: list[str]) -> None:
    assert units(read_bytes("a.csv", source)) == expected


def test_rows_above_the_header_are_text(read_bytes: Read) -> None:
    document = read_bytes("a.csv", "Report of May,,\n\nName,Price,Note\nDuck,3,x\nGoose,4,y\n")
    assert document.text.startswith("Report of May\n\nName: Duck")
    assert units(document) == ["Name: Duck; Price: 3; Note: x", "Name: Goose; Price: 4; Note: y"]


def test_a_comment_is_no_header(read_bytes: Read) -> None:
    document = read_bytes("a.csv", "# Export, of June\nName,Price\nDuck,3\n# The end\n")
    assert document.text == "# Export of June\n\nName: Duck; Price: 3\n\nName: # The end"
    assert units(read_bytes("a.tsv", "#CHROM\tPOS\nx\t3\n")) == ["#CHROM: x; POS: 3"]


def test_notes_below_a_table_are_text(read_bytes: Read) -> None:
    document = read_bytes("a.csv", "Name,Role\nAda,Chair\n\nNotes\nAll of May\n")
    assert document.text == "Name: Ada; Role: Chair\n\nNotes\n\nAll of May" and len(document.units) == 1


def test_a_title_begins_another_table(read_bytes: Read) -> None:
    document = read_bytes("a.csv", "Staff\nName,Role\nAda,Chair\n\nRooms\n\nRoom,Colour\nBlue,sky\n")
    assert document.text.split("\n\n") == ["Staff", "Name: Ada; Role: Chair", "Rooms", "Room: Blue; Colour: sky"]


def test_narrow_row_above_the_header_is_not_the_header(read_bytes: Read) -> None:
    document = read_bytes("a.csv", "Report,May\nName,Price,Note,Town,Since\nDuck,3,x,Ely,1\nGoose,4,y,Ely,2\n")
    assert document.text.startswith("Report May\n\nName: Duck; Price: 3")
    assert len(document.units) == 2


def test_wide_row_is_split_into_units_with_its_first_cell(read_bytes: Read) -> None:
    header = ",".join(["Name", *(f"c{n}" for n in range(1_000))])
    document = read_bytes("a.csv", f"{header}\n{','.join(['Duck', *(f'v{n}' for n in range(1_000))])}\n")
    texts = units(document)
    assert len(texts) > 5
    assert all(text.startswith("Name: Duck; c") and len(text) <= table.MAX_UNIT for text in texts)
    assert "; c999: v999" in texts[-1]


def test_a_long_table(read_bytes: Read) -> None:
    document = read_bytes("a.csv", "id,word\n" + "".join(f"{n},w{n}\n" for n in range(20_000)))
    assert len(document.units) == 20_000
    assert units(document)[-1] == "id: 19999; word: w19999"


def test_limits(refusal: Refusal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "MAX_ROWS", 10)
    assert refusal("a.csv", "a,b\n" * 11) == "a table of more than 10 rows: split it"
    monkeypatch.setattr(table, "MAX_CELLS", 1_000_000)
    with pytest.raises(ReadError, match="more than 1 million cells"):
        table.write_rows([["x"] * 600_000] * 2, Builder())
    monkeypatch.setattr(table, "MAX_CHARACTERS", 1_000_000)
    with pytest.raises(ReadError, match="more than 1 million characters"):
        table.write_rows([["x" * 600_000]] * 3, Builder())


def test_unclosed_quotation_mark(refusal: Refusal) -> None:
    assert "unclosed quotation mark" in refusal("a.csv", 'a,b\n1,"' + "x" * 200_000)


# --- XLSX


def test_a_workbook(read_bytes: Read) -> None:
    workbook = openpyxl.Workbook()
    workbook.properties.title, workbook.properties.creator = "Price list", "Ann"
    ducks = workbook.active
    ducks.title = "Ducks"
    for row in [
        ["Prices of May"],
        [],
        ["Name", "Price", "Since", "Share", "Sold", None],
        ["Mallard", 3.1, datetime.date(2020, 5, 1), 0.125, True],
        ["Eider", 0.1 + 0.2, datetime.datetime(2020, 5, 1, 12, 30), None, False, "rare"],
        [None, None, "#N/A"],
    ]:
        ducks.append(row)
    ducks["D4"].number_format = "0.0%"
    ducks["C6"].data_type = "e"
    hidden = workbook.create_sheet("hidden")
    hidden.append(["secret"])
    hidden.sheet_state = "hidden"
    workbook.create_sheet("nothing")
    geese = workbook.create_sheet("Gänse")
    geese.append(["a", 1])
    geese.append(["b", 2])
    document = read_bytes("a.xlsx", bytes_of(workbook))
    assert document.text.split("\n\n") == [
        "Ducks",
        "Prices of May",
        "Name: Mallard; Price: 3.1; Since: 2020-05-01; Share: 12.5%; Sold: true",
        "Name: Eider; Price: 0.3; Since: 2020-05-01 12:30; Sold: false; rare",
        "Gänse",
        "a; 1",
        "b; 2",
    ]
    assert titles(document) == ["Ducks", "Gänse"]
    assert len(document.units) == 4
    assert document.title == "Price list"
    assert document.metadata["author"] == "Ann"


def test_default_name_of_the_only_sheet_is_not_a_heading(read_bytes: Read) -> None:
    workbook = openpyxl.Workbook()
    workbook.active.append(["word", "other"])
    workbook.active.append(["x", "y"])
    document = read_bytes("list.xlsx", bytes_of(workbook))
    assert (document.text, document.outline, document.title) == ("word: x; other: y", (), "list")


def test_a_long_narrow_sheet(read_bytes: Read) -> None:
    workbook = openpyxl.Workbook(write_only=True)
    sheet = workbook.create_sheet("Ducks")
    sheet.append(["id", "name"])
    for number in range(6_000):
        sheet.append([number, f"duck {number}"])
    assert units(read_bytes("a.xlsx", bytes_of(workbook)))[-1] == "id: 5999; name: duck 5999"


def test_formulas_give_their_last_result_or_their_text(read_bytes: Read) -> None:
    workbook = openpyxl.Workbook()
    workbook.active.append(["Part", "Price", "Total"])
    workbook.active.append(["Bolt", 2, "=B2*2"])
    bare = bytes_of(workbook)  # openpyxl stores no result
    assert units(read_bytes("a.xlsx", bare)) == ["Part: Bolt; Price: 2; Total: =B2*2"]
    stored = with_part(bare, "xl/worksheets/sheet1.xml", lambda data: re.sub(rb"<v ?/>|<v></v>", b"<v>4</v>", data))
    assert units(read_bytes("a.xlsx", stored)) == ["Part: Bolt; Price: 2; Total: 4"]


@pytest.mark.parametrize(
    ("value", "number_format", "shown"),
    [
        (1234, "00000", "01234"),
        (123456789, "000-00-0000", "123-45-6789"),
        (1234567, "000-000", "1234567"),
        (0.155, "0.0%;[Red]-0.0%", "15.5%"),
        (-0.155, "0.0%;[Red]-0.0%", "-15.5%"),
        (0.5, "0%", "50%"),
        (0.1234, '_(* 0.00%_);_(* \\(0.00%\\);_(* "-"??_)', "12.34%"),
        (1234.5, "#,##0.00", "1234.5"),
        (1.5, "00", "1.5"),
        (7, "General", "7"),
        ("a_x000D_\nb_x005F_c", "General", "a b_c"),
    ],
)
def test_numbers_as_excel_shows_them(read_bytes: Read, value: object, number_format: str, shown: str) -> None:
    workbook = openpyxl.Workbook()
    workbook.active.append(["Name", "Value"])
    workbook.active.append(["a", value])
    workbook.active["B2"].number_format = number_format
    assert units(read_bytes("a.xlsx", bytes_of(workbook))) == [f"Name: a; Value: {shown}"]


def test_each_row_of_a_merged_cell_has_its_text(read_bytes: Read) -> None:
    workbook = openpyxl.Workbook()
    sheet = workbook.active
    for row in [
        ["Region", "2023", None, "2024"],
        [None, "Q1", "Q2", "Q1", "Q2"],
        ["North", 1, 2, 3, 4],
        [None, 5, 6, 7, 8],
        ["South", 9, 10, 11, 12],
        ["Total of all", None, 13],
    ]:
        sheet.append(row)
    for merged in ("A1:A2", "B1:C1", "D1:E1", "A3:A4", "A6:B6"):
        sheet.merge_cells(merged)
    assert units(read_bytes("a.xlsx", bytes_of(workbook))) == [
        "Region: North; 2023 Q1: 1; 2023 Q2: 2; 2024 Q1: 3; 2024 Q2: 4",
        "Region: North; 2023 Q1: 5; 2023 Q2: 6; 2024 Q1: 7; 2024 Q2: 8",
        "Region: South; 2023 Q1: 9; 2023 Q2: 10; 2024 Q1: 11; 2024 Q2: 12",
        "Region: Total of all; 2023 Q2: 13",
    ]


def test_a_formatted_last_row_is_no_row(read_bytes: Read) -> None:
    far = with_part(
        small(),
        "xl/worksheets/sheet1.xml",
        lambda data: data.replace(b"</sheetData>", b'<row r="1048576" ht="9"/></sheetData>'),
    )
    assert units(read_bytes("a.xlsx", far)) == ["a: 1; b: 2"]


def with_part(content: bytes, name: str, change: Callable[[bytes], bytes]) -> bytes:
    return with_changed_parts(content, lambda entry, data: change(data) if entry == name else data)


def small() -> bytes:
    workbook = openpyxl.Workbook()
    workbook.active.append(["a", "b"])
    workbook.active.append([1, 2])
    return bytes_of(workbook)


def test_entities_are_refused(refusal: Refusal) -> None:
    bomb = b'<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>'
    declared = with_part(small(), "xl/worksheets/sheet1.xml", lambda data: bomb + data)
    assert refusal("a.xlsx", declared) == "xl/worksheets/sheet1.xml declares XML entities"


def test_a_sheet_of_empty_rows_is_bounded(refusal: Refusal, read_bytes: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    far = with_part(small(), "xl/worksheets/sheet1.xml", lambda data: data.replace(b'r="2"', b'r="5000"'))
    assert read_bytes("a.xlsx", far).text
    monkeypatch.setattr(xlsx, "_MAX_GRID", 1_000)
    assert refusal("a.xlsx", far) == "a sheet of more than 1000 rows: split it"


def test_wide_rows_without_text_count(refusal: Refusal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each row has 16,384 cells, but the file stores only one."""
    wide = with_part(
        small(),
        "xl/worksheets/sheet1.xml",
        lambda data: data.replace(b"<sheetData>", b'<sheetData><row><c r="XFD1"/></row>'),
    )
    monkeypatch.setattr(xlsx, "MAX_CELLS", 10_000)
    assert refusal("a.xlsx", wide) == "a workbook of more than 0 million cells: split it"


def test_sheets_are_bounded_and_each_part_is_read_once(
    read_bytes: Read, refusal: Refusal, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix = b'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'
    twice = b'<sheet %s name="Again" sheetId="2" r:id="rId1"/></sheets>' % prefix
    again = with_part(small(), "xl/workbook.xml", lambda data: data.replace(b"</sheets>", twice))
    assert openpyxl.load_workbook(io.BytesIO(again), read_only=True).sheetnames == ["Sheet", "Again"]
    assert read_bytes("a.xlsx", again).text == read_bytes("b.xlsx", small()).text
    workbook = openpyxl.Workbook()
    workbook.create_sheet("Second")
    monkeypatch.setattr(xlsx, "_MAX_SHEETS", 1)
    assert refusal("a.xlsx", bytes_of(workbook)) == "more than 1 sheets: split it"


@pytest.mark.parametrize("suffix", ["xlsx", "pptx", "epub", "odt"])
def test_other_archives_are_refused(refusal: Refusal, suffix: str) -> None:
    other = refusal(f"a.{suffix}", archive({"a": b"x"}))
    assert "ZIP archive, but not an" in other.replace("not a P", "not an P")
    assert "zip bomb" in refusal(f"a.{suffix}", archive({"bomb": bytes(60_000_000)}))
    assert "looks like text" in refusal(f"a.{suffix}", b"just words")
    assert "damaged or truncated" in refusal(f"a.{suffix}", b"PK\x03\x04 cut off")
    assert (
        refusal(f"a.{suffix}", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "EncryptedPackage".encode("utf-16-le"))
        == "encrypted"
    )


def test_reason_names_old_formats(refusal: Refusal) -> None:
    assert refusal("a.xlsx", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600)) == "an old Excel file (.xls)"
    assert refusal("a.pptx", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600)) == "an old PowerPoint file (.ppt)"


def test_a_damaged_workbook(refusal: Refusal) -> None:
    whole = small()
    assert refusal("a.xlsx", whole[: len(whole) // 2]) == "damaged or truncated XLSX"
    broken = with_part(whole, "xl/worksheets/sheet1.xml", lambda data: data[: len(data) // 2])
    assert refusal("a.xlsx", broken).startswith("damaged or not supported: ")
