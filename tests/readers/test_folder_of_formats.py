"""A folder with files of many formats is searched, read and indexed."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import openpyxl
import pytest
from tests.support import read

import mergewise as mw
from mergewise.inputs import Input
from mergewise.readers import SUFFIXES, find_files, walked_suffixes
from mergewise.types import Document

FILES = {
    "a.md": "---\nauthor: Ann\ndate: 2020-05-01\n---\n# Mallards\n\nMallards dabble in shallow water.\n",
    "b.rst": "Geese\n=====\n\n:Author: Bob\n:Date: 2021-06-01\n\nGeese graze on meadows.\n",
    "c.csv": "Bird,Weight\nEider,2.2 kg\nTeal,0.3 kg\n",
    "d.jsonl": json.dumps({"question": "What do swans eat?", "text": "Swans eat water plants."}) + "\n",
    "e.eml": "Subject: Herons\nFrom: Eve\nDate: Fri, 01 May 2020 10:00:00 +0000\n\nHerons stand still for hours.\n",
    "f.ipynb": json.dumps(
        {"cells": [{"cell_type": "markdown", "source": "# Coots\n\nCoots dive for food."}], "metadata": {}}
    ),
    "g.html": "<title>Storks</title><p>Storks nest on chimneys.</p>",
    "h.txt": "Cranes dance in spring.\n",
    "i.py": "class Bird:\n    def sing(self, loud: bool = False) -> str:\n        return 'Larks rise at dawn.'\n",
    "j.json": '{"name": "package"}',
    "k.yaml": "a:\n  b: c\n",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    docs = tmp_path / "docs"
    docs.mkdir()
    for name, text in FILES.items():
        (docs / name).write_text(text)
    workbook = openpyxl.Workbook()
    for row in (["Bird", "Colour"], ["Kingfisher", "blue"], ["Robin", "red"]):
        workbook.active.append(row)
    workbook.properties.created = workbook.properties.modified = datetime(2019, 5, 1)
    workbook.save(docs / "l.xlsx")
    return docs


def test_folder_search_skips_configuration(folder: Path) -> None:
    names = [path.name for path in find_files([folder])]
    assert names == [*"a.md b.rst c.csv d.jsonl e.eml f.ipynb g.html h.txt i.py l.xlsx".split()]
    assert SUFFIXES.keys() > walked_suffixes()
    assert [path.name for path in find_files([folder / "k.yaml", folder / "j.json"])] == ["k.yaml", "j.json"]


def test_each_format_is_found_by_a_question(folder: Path, tmp_path: Path) -> None:
    index = mw.open(tmp_path / "index", embedder="none")
    report = index.add([folder, *(folder / name for name in ("j.json", "k.yaml"))])
    assert (report.added, report.failed) == (12, ())
    for question, words in {
        "Where do mallards dabble?": "shallow water",
        "What is the weight of the Teal?": "Bird: Teal; Weight: 0.3 kg",
        "What do swans eat?": "water plants",
        "What colour is the kingfisher?": "Bird: Kingfisher; Colour: blue",
        "When do larks rise?": "Larks rise at dawn",
    }.items():
        assert words in index.context(question, budget=60).text
    assert {i.title for i in index.documents() if str(i.metadata.get("date", "")) > "2020-05-02"} == {"Geese"}
    bird = index.context("When do larks rise?", budget=60).passages[0]
    assert bird.headings == ("class Bird", "def sing(self, loud: bool = False) -> str")
    assert index.check() == []


def test_index_accepts_units_of_tables(folder: Path) -> None:
    for path in (folder / "c.csv", folder / "d.jsonl", folder / "l.xlsx"):
        document = Input(path.as_posix(), path).read().document
        assert document.units == read(path).units != ()


@pytest.mark.parametrize("suffix", sorted(SUFFIXES))
def test_binary_files_of_any_suffix_are_refused(refusal: Callable[[str, bytes], str], suffix: str) -> None:
    assert refusal(f"a{suffix}", b"\x89PNG\r\n\x1a\n" + bytes(600)).endswith("a PNG image")


def test_a_text_in_utf16(read_bytes: Callable[[str, bytes], Document]) -> None:
    for suffix, text in ((".csv", "a,ö\n1,2\n"), (".jsonl", '{"text": "ö"}'), (".py", "def ö():\n    pass\n")):
        assert "ö" in read_bytes(f"a{suffix}", b"\xff\xfe" + text.encode("utf-16-le")).text
