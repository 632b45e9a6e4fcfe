"""PPTX: slides as pages, in the order of the presentation."""

from __future__ import annotations

import sys

import pytest
from pptx import Presentation
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.presentation import Presentation as Deck
from pptx.util import Inches
from tests.readers.documents import Read, Refusal, bytes_of, titles, with_changed_parts

from mergewise.errors import install_command
from mergewise.readers import pptx as reader

TITLE_AND_BODY, TITLE_ONLY, BLANK = 1, 5, 6


def box(slide: object, text: str) -> object:
    shape = slide.shapes.add_textbox(Inches(1), Inches(1), Inches(2), Inches(1))  # type: ignore[attr-defined]
    shape.text_frame.text = text
    return shape


def deck() -> Deck:
    deck = Presentation()
    deck.core_properties.title, deck.core_properties.author = "PowerPoint Presentation", "Ann"
    slide = deck.slides.add_slide(deck.slide_layouts[TITLE_AND_BODY])
    slide.shapes.title.text = "On ducks"
    frame = slide.placeholders[1].text_frame
    frame.text = "They swim"
    deeper = frame.add_paragraph()
    deeper.text, deeper.level = "in ponds", 1
    slide.notes_slide.notes_text_frame.text = "Say hello.\nSmile."
    return deck


def test_slides(read_bytes: Read) -> None:
    presentation = deck()
    slide = presentation.slides.add_slide(presentation.slide_layouts[TITLE_ONLY])
    slide.shapes.title.text = "Größe"
    table = slide.shapes.add_table(2, 3, Inches(1), Inches(1), Inches(4), Inches(1)).table
    for row in range(2):
        for column in range(3):
            table.cell(row, column).text = f"{row}{column}"
    table.cell(0, 0).merge(table.cell(0, 1))
    group = slide.shapes.add_group_shape()
    group.shapes.add_textbox(Inches(1), Inches(1), Inches(1), Inches(1)).text_frame.text = "in a group"
    hidden = presentation.slides.add_slide(presentation.slide_layouts[BLANK])
    box(hidden, "secret")
    hidden.element.set("show", "0")
    box(presentation.slides.add_slide(presentation.slide_layouts[BLANK]), "Nameless")
    document = read_bytes("a.pptx", bytes_of(presentation))
    assert document.text == (
        "On ducks\n\n- They swim\n  - in ponds\n\nNotes: Say hello.\nSmile.\n\n"
        "Größe\n\n| 00 01 |  | 02 |\n| 10 | 11 | 12 |\n\nin a group\n\nSlide 4\n\nNameless"
    )
    assert titles(document) == ["On ducks", "Größe", "Slide 4"]
    pages = [document.text[page.start : page.end].split("\n")[0] for page in document.pages]
    assert pages == ["On ducks", "Größe", "", "Slide 4"]
    assert document.title == "On ducks"
    assert document.metadata["author"] == "Ann"


def test_a_deck_of_pictures(refusal: Refusal) -> None:
    presentation = Presentation()
    presentation.slides.add_slide(presentation.slide_layouts[BLANK])
    assert refusal("a.pptx", bytes_of(presentation)) == "no text"


def test_too_many_slides(refusal: Refusal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_MAX_SLIDES", 0)
    assert refusal("a.pptx", bytes_of(deck())) == "more than 0 slides"


def test_entities_are_refused(refusal: Refusal) -> None:
    bomb = b'<!DOCTYPE x [<!ENTITY a "aaaa">]>'
    declared = with_changed_parts(
        bytes_of(deck()), lambda name, data: bomb + data if name == "ppt/slides/slide1.xml" else data
    )
    assert refusal("a.pptx", declared) == "ppt/slides/slide1.xml declares XML entities"


def test_a_damaged_deck(refusal: Refusal) -> None:
    whole = bytes_of(deck())
    assert refusal("a.pptx", whole[: len(whole) // 2]) == "damaged or truncated PPTX"


def test_missing_extra_is_reported(refusal: Refusal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pptx", None)
    expected = f"reading PPTX: python-pptx is not installed: {install_command('pptx')}"
    assert refusal("a.pptx", bytes_of(deck())) == expected


def test_titles_order_charts_and_pictures(read_bytes: Read) -> None:
    presentation = Presentation()
    slide = presentation.slides.add_slide(presentation.slide_layouts[TITLE_ONLY])
    slide.shapes.title.text = "On\vducks"
    for text, left, top in (("below", 1, 4), ("right", 5, 2), ("left", 1, 2.1)):
        shape = slide.shapes.add_textbox(Inches(left), Inches(top), Inches(2), Inches(0.5))
        shape.text_frame.text = text
    data = CategoryChartData()
    data.categories = ["2023", "2024"]
    data.add_series("Ducks", (4.4, 5))
    chart = slide.shapes.add_chart(XL_CHART_TYPE.PIE, Inches(1), Inches(5), Inches(3), Inches(1), data).chart
    chart.has_title = True
    chart.chart_title.text_frame.text = "Counts"
    document = read_bytes("a.pptx", bytes_of(presentation))
    assert document.text == (
        "On ducks\n\nleft\n\nright\n\nbelow\n\nCounts\n\n|  | Ducks |\n| 2023 | 4.4 |\n| 2024 | 5 |"
    )
    assert titles(document) == ["On ducks"]
