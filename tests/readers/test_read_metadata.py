"""Title and metadata of each format, in one vocabulary."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import docx
import pytest
from tests.readers.documents import Read, bytes_of, outline, units, with_changed_parts

import mergewise as mw
from mergewise.readers.front_matter import yaml_pairs
from mergewise.readers.metadata import iso_date, metadata_from
from mergewise.readers.titles import real_title, title_among
from mergewise.types import FileMetadata, Heading


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2020-05-01", "2020-05-01"),
        ("2020-05-01T10:00:00+02:00", "2020-05-01"),
        ("2020-5-1", "2020-05-01"),
        ("2020/05/01", "2020-05-01"),
        ("2020-05", "2020-05"),
        ("2020", "2020"),
        ("D:20200501120000Z", "2020-05-01"),
        ("D:2020", "2020"),
        ("12-Jul-2001", "2001-07-12"),
        ("5 July 2001", "2001-07-05"),
        ("July 5th, 2001", "2001-07-05"),
        ("Mon, 01 Jun 2020 10:00:00 +0000", "2020-06-01"),
        ("1. März 2020", "2020-03-01"),
        ("1.3.2020", "2020-03-01"),
        ("2 de enero de 2019", "2019-01-02"),
        ("14 juillet 1989", "1989-07-14"),
        ("May 2020", "2020-05"),
        ("$Date: 2007-06-28 19:53:41 +0200$", "2007-06-28"),
        ("2020-02-31", ""),
        ("2020-13-01", ""),
        ("soon", ""),
        ("Spring 2019", ""),
        ("05/06/2020", ""),  # nobody can tell the month
        ("20200501", ""),
        ("", ""),
    ],
)
def test_dates(text: str, expected: str) -> None:
    assert iso_date(text) == expected


@pytest.mark.parametrize(
    "rubbish",
    [
        "Microsoft Word - x.doc",
        "untitled",
        "Untitled 1",
        "Unbenannt",
        "Document1",
        "PowerPoint Presentation",
        "PowerPoint-Präsentation".replace("-", " - ") + ".ppt",
        "thesis.dvi",
        "Report final.docx",
        "Slide 1",
        "  ",
        "123-4",
    ],
)
def test_titles_from_programs_are_ignored(rubbish: str) -> None:
    assert real_title(rubbish) == ""


@pytest.mark.parametrize(
    "title", ["On Ducks", "1984", "Documents of the vanished", "A title of nobody", "Book of Kells"]
)
def test_titles_from_people_are_kept(title: str) -> None:
    assert real_title(title) == ("" if title == "1984" else title)


@pytest.mark.parametrize(
    ("headings", "title"),
    [
        ([(1, "Ducks"), (2, "Food")], "Ducks"),
        ([(1, "Ducks"), (1, "Introduction"), (1, "Food")], "Ducks"),
        ([(1, "Abstract"), (1, "Motivation")], ""),
        ([(1, "1. Introduction"), (1, "2. Food")], ""),
        ([(1, "1. Ducks"), (1, "2. Food")], ""),
        ([(1, "1. Ducks"), (2, "Food")], "1. Ducks"),
        ([(2, "Ducks"), (3, "Food")], "Ducks"),
        ([(2, "Ducks"), (2, "Geese")], ""),
        ([(3, "Note"), (2, "Ducks")], ""),
        ([(2, "Note"), (1, "Ducks")], "Ducks"),
        ([(1, "Inhaltsverzeichnis")], ""),
        ([], ""),
    ],
)
def test_title_among_headings(headings: list[tuple[int, str]], title: str) -> None:
    assert title_among([Heading(level, name, n, n + 1) for n, (level, name) in enumerate(headings)]) == title


# --- reStructuredText and plain text

PEP = """PEP: 8
Title: Style Guide for
       Python Code
Author: Guido van Rossum <guido@python.org>,
        Barry Warsaw <barry@python.org>
Status: Active
Python-Version: 3.10
Requires: 234
Created: 05-Jul-2001
Post-History:

Abstract
========

Text: with a colon.

Motivation
==========
"""


@pytest.mark.parametrize("name", ["pep-0008.rst", "pep-0008.txt"])
def test_a_header_block(read_bytes: Read, name: str) -> None:
    document = read_bytes(name, PEP)
    assert document.text == PEP
    assert document.title == "PEP 8: Style Guide for Python Code"
    assert document.metadata == {
        "pep": 8,
        "author": "Guido van Rossum <guido@python.org>, Barry Warsaw <barry@python.org>",
        "status": "Active",
        "python_version": "3.10",
        "requires": "234",
        "date": "2001-07-05",
    }


@pytest.mark.parametrize("name", ["pep-0008.rst", "pep-0008.txt", "pep-0008.md"])
def test_each_header_field_is_a_unit(read_bytes: Read, name: str) -> None:
    assert units(read_bytes(name, PEP))[:4] == [
        "PEP: 8",
        "Title: Style Guide for\n       Python Code",
        "Author: Guido van Rossum <guido@python.org>,\n        Barry Warsaw <barry@python.org>",
        "Status: Active",
    ]


RFC = """


Internet Engineering Task Force (IETF)                       R. Fielding, Ed.
Request for Comments: 9110                                              Adobe
STD: 97                                                    J. Reschke, Ed.
Obsoletes: 2818, 7230                                               greenbytes
Category: Standards Track                                            June 2022
ISSN: 2070-1721


                             HTTP Semantics

Abstract

   The Hypertext Transfer Protocol (HTTP) is stateless.
"""


def test_a_header_block_of_two_columns(read_bytes: Read) -> None:
    document = read_bytes("rfc9110.txt", RFC)
    assert document.title == "RFC 9110: HTTP Semantics"
    assert document.metadata == {
        "rfc": 9110,
        "author": "R. Fielding, Ed., J. Reschke, Ed.",
        "organization": "Adobe",
        "std": "97",
        "obsoletes": "2818, 7230",
        "category": "Standards Track",
        "date": "2022-06",
        "issn": "2070-1721",
    }
    assert units(document)[1:8] == [
        "Author: R. Fielding, Ed.",
        "Request for Comments: 9110",
        "Organization: Adobe",
        "STD: 97",
        "Author: J. Reschke, Ed.",
        "Obsoletes: 2818, 7230",
        "Organization: greenbytes",
    ]
    assert document.text.count("\n") == RFC.count("\n")


CONTROL = """Source: otterlog
Maintainer: Ines Falk <ines@example.org>
Build-Depends: debhelper

# the program
Package: otterlog
Depends: libfen2 (>= 2.4),
 ocket
Description: log viewer
 Follows log files.
 .
 In colour.
"""


def test_records_are_headed_by_their_first_fields(read_bytes: Read) -> None:
    document = read_bytes("control", CONTROL)
    assert document.text == CONTROL
    assert outline(document) == [(1, "otterlog"), (1, "otterlog")]
    assert units(document)[2:] == [
        "Depends: libfen2 (>= 2.4),\n ocket",
        "Description: log viewer\n Follows log files.\n .\n In colour.",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "Anna: hello\nBob: hi\n\nAnna: bye\nBob: bye\n",
        "Q: What?\nA: That.\n\nQ: Why?\nA: So.\n",
        "Red Mill      open\nOld Forge     closed\n\nText",
        "Name: x        12 May 2020\nOther: y       B. Marsh\n\nText",
    ],
)
def test_texts_that_are_no_records(read_bytes: Read, text: str) -> None:
    document = read_bytes("notes.txt", text)
    assert (document.text, document.outline, document.units) == (text, (), ())


@pytest.mark.parametrize(
    ("block", "fields"),
    [
        (
            "---\ntitle: Guide\ntags: [a, b]\nby:\n  - Otto\n  - Pia\nempty:\n---\n",
            ["title: Guide", "tags: [a, b]", "by:\n  - Otto\n  - Pia"],
        ),
        ('+++\ntitle = "Guide"\ndraft = false\n+++\n', ['title = "Guide"', "draft = false"]),
    ],
)
def test_each_field_of_front_matter_is_a_unit(read_bytes: Read, block: str, fields: list[str]) -> None:
    document = read_bytes("a.md", f"{block}\nBoats enter by the north gate.\n")
    assert document.title == "Guide"
    assert units(document) == fields


@pytest.mark.parametrize(
    "text",
    [
        "Note: read this.\nWarning: and this.\n\nText",
        "Title: alone\n\nText",
        "Title: x\nAuthor: y\nand then text without a break",
        "text\n\nTitle: x\nAuthor: y\n",
        "12:30: tea\n12:40: cake\n",
    ],
)
def test_text_without_header_block(read_bytes: Read, text: str) -> None:
    document = read_bytes("notes.txt", text)
    assert (document.title, document.metadata) == ("notes", {})


@pytest.mark.parametrize(
    "above", ["", "Ducks\n=====\n\n", ".. comment\n\n.. _anchor:\n\nDucks\n=====\n\nA study\n-------\n\n"]
)
def test_a_field_list_at_the_top(read_bytes: Read, above: str) -> None:
    fields = ":Authors: - Ann\n          - Bob\n:Date: $Date: 2020-05-01 $\n:Version: 2\n:orphan:\n:tocdepth: 2\n"
    document = read_bytes("study.rst", f"{above}{fields}\nText.\n")
    assert document.title == ("Ducks" if above else "study")
    assert document.metadata == {"author": "Ann, Bob", "date": "2020-05-01", "version": "2", "tocdepth": "2"}


def test_later_field_list_is_not_metadata(read_bytes: Read) -> None:
    assert read_bytes("a.rst", "Text.\n\n:Author: Ann\n\nTitle\n=====\n").metadata == {}


def test_a_title_field_wins(read_bytes: Read) -> None:
    assert read_bytes("a.rst", ":title: Real\n:author: Ann\n\nHeading\n=======\n").title == "Real"


# --- front matter


def test_yaml(read_bytes: Read) -> None:
    source = """---
id: intro
_hidden: 1
Title: Ducks & geese
authors:
  - name: Ann
  - Bob
date: 2020-05-01 10:00:00
updated: May 3, 2020
tags:
- pond
- 'river: bank'
lang: no
version: 1.10
sidebar_position: 3
"2fa": yes
quoted: "3"
nothing: ~
---

Text
"""
    document = read_bytes("a.md", source)
    assert document.text == source
    assert document.title == "Ducks & geese"
    assert document.metadata == {
        "identifier": "intro",
        "hidden": 1,
        "author": "Ann, Bob",
        "date": "2020-05-01",
        "modified": "2020-05-03",
        "keywords": "pond, river: bank",
        "language": "no",
        "version": "1.10",
        "sidebar_position": 3,
        "fa": "yes",
        "quoted": "3",
    }


def test_broken_yaml_gives_its_readable_lines(read_bytes: Read) -> None:
    document = read_bytes("a.md", "---\ntitle: Ducks: a study\nauthor: 'Ann'\nweight: 2\nx: [a\n---\n# Other\n")
    assert (document.title, document.metadata) == ("Ducks: a study", {"author": "Ann", "weight": 2})


def test_aliases_do_not_multiply(read_bytes: Read) -> None:
    rows = "\n".join(f"k{n}: &k{n} [{', '.join([f'*k{n - 1}'] * 9) if n else 'x'}]" for n in range(30))
    assert read_bytes("a.md", f"---\n{rows}\n---\nText\n").metadata == {"k0": "x"}


def test_front_matter_without_mapping_has_no_keys(read_bytes: Read) -> None:
    assert [yaml_pairs(source) for source in ("- a\n- b\n", "words\n", "")] == [[], [], []]
    assert read_bytes("a.md", "---\n- a\n- b\n---\nText\n").metadata == {}


@pytest.mark.parametrize("block", ["---\nauthor: Ann\nx: {}\n---\n", "+++\nx = {}\n+++\n"])
def test_deeply_nested_front_matter_is_harmless(read_bytes: Read, block: str) -> None:
    assert read_bytes("a.md", block.format("[" * 20_000) + "# Heading\n").title == "Heading"


def test_toml(read_bytes: Read) -> None:
    block = 'title = "Ducks"\ndate = 2020-05-01T10:00:00Z\ndraft = false\n[taxonomies]\ntags = ["a", "b"]\n'
    source = f"+++\n{block}+++\n\n# Heading\n"
    document = read_bytes("a.md", source)
    assert document.text == source
    assert document.title == "Ducks"
    assert document.metadata == {"date": "2020-05-01", "draft": False, "keywords": "a, b"}
    assert [(h.title, document.text[h.start : h.end]) for h in document.outline or ()] == [("Heading", "# Heading")]
    assert read_bytes("b.md", "+++\nbroken\n+++\n# Heading\n").title == "Heading"


def test_a_markdown_header_block(read_bytes: Read) -> None:
    document = read_bytes("a.md", "Title: Ducks\nAuthor: Ann\n\n# Heading\n")
    assert (document.title, document.metadata) == ("Ducks", {"author": "Ann"})


def test_long_metadata_is_bounded(read_bytes: Read) -> None:
    many = "\n".join(f"key{n}: v" for n in range(500))
    document = read_bytes("a.md", f"---\ndescription: {'word ' * 2_000}\n{many}\n---\nText\n")
    assert len(document.metadata) == 40
    assert 900 < len(str(document.metadata["description"])) <= 1_000


def test_numbers_too_large_for_the_store_are_dropped() -> None:
    assert metadata_from([("a", 2**70), ("b", 2**62)]) == {"b": 2**62}


# --- HTML, PDF, DOCX


def test_html(read_bytes: Read) -> None:
    page = """<html lang="de"><head><title>Untitled</title>
    <meta property="og:title" content="Enten"><meta name="author" content="Ann">
    <meta property="article:author" content="https://x.org/ann"><meta name="DC.creator" content="Bob">
    <meta property="article:published_time" content="2020-05-01T08:00:00Z">
    <meta property="article:modified_time" content="2020-06-01"><meta name="keywords" content="Teich, Ente">
    <meta property="og:description" content="Über Enten"><meta name="viewport" content="width=device-width">
    <meta name="generator" content="x"></head><body><h1>Kopf</h1><p>Text</p></body></html>"""
    document = read_bytes("a.html", page)
    assert document.title == "Enten"
    assert document.metadata == {
        "author": "Ann, Bob",
        "date": "2020-05-01",
        "modified": "2020-06-01",
        "keywords": "Teich, Ente",
        "description": "Über Enten",
        "language": "de",
    }


def test_html_without_title_element_gets_its_heading_as_title(read_bytes: Read) -> None:
    page = "<svg><title>icon</title></svg><h1>Ducks</h1><p>Text</p>"
    assert read_bytes("a.html", page).title == "Ducks"


def test_pdf(read_bytes: Read, make_pdf: Callable[..., bytes]) -> None:
    info = {"Author": "Ann", "CreationDate": "D:20200501120000+02'00'", "Keywords": "pond", "Producer": "x"}
    lines = [("F1", 10, 50, 700 - 12 * n, f"line {n} of the body") for n in range(5)]
    abstract = [("F2", 18, 50, 760, "Abstract"), *lines]
    document = read_bytes("a.pdf", make_pdf([abstract], title="On Ducks", info=info))
    assert document.title == "On Ducks"
    assert document.metadata == {"author": "Ann", "date": "2020-05-01", "keywords": "pond"}
    assert read_bytes("b.pdf", make_pdf([abstract], title="Microsoft Word - x.doc")).title == "b"


def test_docx(read_bytes: Read) -> None:
    word = docx.Document()
    word.core_properties.title = "Microsoft Word - x.doc"
    word.core_properties.author = "Ann"
    word.core_properties.subject = "Ducks"
    word.core_properties.comments = ""
    word.add_heading("Contents", level=1)
    word.add_paragraph("Text")
    document = read_bytes("minutes.docx", bytes_of(word))
    assert document.title == "minutes"
    assert {"author": "Ann", "subject": "Ducks"}.items() <= document.metadata.items()


def test_properties_of_python_docx_template_are_ignored(read_bytes: Read) -> None:
    word = docx.Document()
    word.add_paragraph("Text")
    assert read_bytes("a.docx", bytes_of(word)).metadata == {}


@pytest.mark.parametrize("core", [b"<broken", b'<!DOCTYPE x [<!ENTITY a "b">]><x>&a;</x>'])
def test_damaged_properties_keep_the_text(read_bytes: Read, core: bytes) -> None:
    word = docx.Document()
    word.add_paragraph("Text")
    damaged = with_changed_parts(bytes_of(word), lambda name, data: core if name == "docProps/core.xml" else data)
    document = read_bytes("a.docx", damaged)
    assert (document.text, document.title, document.metadata) == ("Text", "a", {})


# --- in an index


def test_folder_with_conflicting_metadata_is_indexed(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    values = [
        "rank: 1",
        "rank: 2a",
        "rank: 2.5",
        "rank: true",
        "rank: [1, 2]",
        "title: [x]",
        "id: 3",
        "_x: 1\nx y: 2",
        "1: 2",
    ]
    for number, value in enumerate(values):
        (docs / f"{number}.md").write_text(
            f"---\n{value}\ndate: 20{number}0-01-01\n---\n# Ducks {number}\n\nDucks swim.\n"
        )
    index = mw.open(tmp_path / "index", embedder="none")
    report = index.add(docs)
    assert (report.added, report.failed) == (len(values), ())
    ranks = {info.title: info.metadata.get("rank") for info in index.documents()}
    assert [ranks[f"Ducks {number}"] for number in range(5)] == [1, None, None, None, None]
    late = index.context("Do ducks swim?", where="date >= '2060' and date < '2070'")
    assert {passage.title for passage in late.passages} == {"Ducks 6"}


def test_conflicting_metadata_of_a_caller_are_refused(tmp_path: Path) -> None:
    index = mw.open(tmp_path / "index", embedder="none")
    report = index.add(
        [
            mw.Document(id="a", text="Ducks swim.", metadata=FileMetadata({"rank": 1})),
            mw.Document(id="b", text="Geese swim.", metadata=FileMetadata({"rank": "x"})),
            mw.Document(id="c", text="Swans swim.", metadata={"rank": "x"}),
        ]
    )
    assert report.added == 2
    assert [failure.source for failure in report.failed] == ["c"]
