"""Real files of every format, compared with what a person sees in them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.readers.documents import outline, titles
from tests.support import read

from mergewise.readers import find_files
from mergewise.types import Document

FILES = (Path(__file__).parents[2] / "../shared/data/files").resolve()
pytestmark = pytest.mark.skipif(not FILES.is_dir(), reason=f"no sample files in {FILES}")
Check = Callable[[Document], Document]


def formats() -> list[Path]:
    return list(find_files([FILES / "formats"])) if FILES.is_dir() else []


@pytest.mark.parametrize("path", formats(), ids=lambda path: path.name)
def test_every_file_is_read(path: Path, checked: Check) -> None:
    document = checked(read(path))
    for heading in document.outline or ():
        assert path.suffix == ".md" or heading.title in document.text[heading.start : heading.end]
    assert document == read(path)


def test_all_manuals_are_read(checked: Check) -> None:
    documents = [checked(read(path)) for path in find_files([FILES / "manuals"])]
    assert len(documents) > 190
    assert sum(bool(document.outline) for document in documents) > 0.9 * len(documents)


def test_markdown_as_seen() -> None:
    document = read(FILES / "formats/md/duck.md")
    assert titles(document) == ["Swimming in the lake", "Let’s swim!", "Let’s eat"]


def test_the_same_document_as_docx() -> None:
    document = read(FILES / "formats/docx/word_sample.docx")
    assert titles(document) == ["Swimming in the lake", "Let’s swim!", "Let’s eat"]
    assert "| Leaves | Ash, Elm, Maple | 50 |" in document.text


def test_docx_headings_as_seen() -> None:
    document = read(FILES / "formats/docx/unit_test_headers.docx")
    assert outline(document) == [
        (1, "Test Document"),
        (2, "Section 1"),
        (3, "Section 1.1"),
        (3, "Section 1.2"),
        (4, "Section 1.2.3"),
        (2, "Section 2"),
        (4, "Section 2.1.1"),
        (3, "Section 2.1"),
    ]
    assert "2.1.1. Section 2.1.1" in titles(read(FILES / "formats/docx/unit_test_headers_numbered.docx"))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Strict.docx", "Some text"),
        ("content_control_with_picture.docx", "COVER TITLE INSIDE SDT"),
        ("textbox.docx", "Student falls ill"),
        ("equations.docx", "a^2+b^2=c^2"),
        ("docx_list_resumed_numbering.docx", "- bullet two\n3. Third ordered item"),
    ],
)
def test_docx_texts_in_wrappers(name: str, text: str) -> None:
    assert read(FILES / "formats/docx" / name).text.count(text) >= 1


def test_html_as_seen() -> None:
    document = read(FILES / "formats/html/wiki_duck.html")
    assert document.title == "Duck - Wikipedia"
    assert titles(document)[:5] == ["Duck", "Etymology", "Taxonomy", "Morphology", "Distribution and habitat"]
    assert "Duck is the common name for numerous species of waterfowl" in document.text
    for noise in ("mw.", "function(", "Jump to", "Create account", "[edit]", "Toggle", "Bahasa", "{display"):
        assert noise not in document.text


def test_jats_as_seen() -> None:
    document = read(FILES / "formats/jats/pntd.0008301.nxml")
    assert document.title.startswith("Risk factors associated with failing pre-transmission assessment surveys")
    assert [heading.title for heading in document.outline or () if heading.level == 2] == [
        "Abstract",
        "Author summary",
        "Introduction",
        "Methods",
        "Results",
        "Discussion",
        "Acknowledgements",
    ]
    assert document.metadata["doi"] == "10.1371/journal.pntd.0008301"


def test_pdf_as_seen() -> None:
    document = read(FILES / "formats/pdf/2305.03393v1-pg9.pdf")
    assert titles(document) == ["5.1 Hyper Parameter Optimization", "5.2 Quantitative Results"]
    assert len(document.pages) == 1
    evolution = read(FILES / "formats/pdf/multi_page.pdf")
    assert evolution.title == "The Evolution of the Word Processor"
    assert "The Modern Era (1990s - Present)" in titles(evolution)
    assert len(evolution.pages) == 5
