"""A folder of 300 files in fourteen formats: indexed, synchronised after moves, edits and deletions, and checked."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from email.message import EmailMessage
from pathlib import Path

import pytest

import mergewise as mw
from mergewise.types import DocumentInfo


def bird(number: int) -> tuple[str, str]:
    return f"Bird {number}", f"The bird with the number {number} lays {number + 3} eggs in the reeds."


def _docx(path: Path, title: str, text: str) -> None:
    import docx

    document = docx.Document()
    document.add_heading(title, 1)
    document.add_paragraph(text)
    document.save(str(path))


def _pptx(path: Path, title: str, text: str) -> None:
    import pptx

    deck = pptx.Presentation()
    slide = deck.slides.add_slide(deck.slide_layouts[1])
    slide.shapes.title.text, slide.placeholders[1].text = title, text
    deck.save(str(path))


def _xlsx(path: Path, title: str, text: str) -> None:
    import openpyxl

    book = openpyxl.Workbook()
    for row in (["Name", "About"], [title, text]):
        book.active.append(row)
    book.save(path)


def _odt(path: Path, title: str, text: str) -> None:
    from odf.opendocument import OpenDocumentText
    from odf.text import H, P

    document = OpenDocumentText()
    document.text.addElement(H(outlinelevel=1, text=title))
    document.text.addElement(P(text=text))
    document.save(str(path))


def _eml(path: Path, title: str, text: str) -> None:
    message = EmailMessage()
    message["Subject"], message["From"], message["To"] = title, "a@example.org", "b@example.org"
    message.set_content(text)
    path.write_bytes(bytes(message))


def _ipynb(path: Path, title: str, text: str) -> None:
    cells = [{"cell_type": "markdown", "metadata": {}, "source": [f"# {title}\n", "\n", text]}]
    path.write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))


def _written(template: str) -> Callable[[Path, str, str], None]:
    return lambda path, title, text: path.write_text(template.format(title=title, text=text), encoding="utf-8") and None


WRITERS: dict[str, Callable[[Path, str, str], None]] = {
    ".csv": _written("Name,About\n{title},{text}\n"),
    ".docx": _docx,
    ".eml": _eml,
    ".html": _written("<html><body><h1>{title}</h1><p>{text}</p></body></html>"),
    ".ipynb": _ipynb,
    ".jsonl": _written('{{"title": "{title}", "text": "{text}"}}\n'),
    ".md": _written("# {title}\n\n{text}\n"),
    ".odt": _odt,
    ".pptx": _pptx,
    ".py": _written('def bird():\n    """{title}. {text}"""\n'),
    ".rst": _written("{title}\n==========\n\n{text}\n"),
    ".tsv": _written("Name\tAbout\n{title}\t{text}\n"),
    ".txt": _written("{title}\n\n{text}\n"),
    ".xlsx": _xlsx,
}


def write(folder: Path, number: int) -> Path:
    suffix = sorted(WRITERS)[number % len(WRITERS)]
    path = folder / f"part{number % 7}" / f"bird{number}{suffix}"
    path.parent.mkdir(parents=True, exist_ok=True)
    WRITERS[suffix](path, *bird(number))
    return path


@pytest.fixture(scope="module")
def birds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("many") / "docs"
    for number in range(300):
        write(folder, number)
    (folder / "picture.png").write_bytes(b"\x89PNG")
    return folder


def test_a_folder_of_many_formats_is_followed(birds: Path) -> None:
    index = mw.open(birds.parent / "index", embedder="none")
    report = index.add(birds)
    assert (report.added, report.failed, dict(report.left_out)) == (300, (), {".png": 1})
    assert {Path(info.id).suffix for info in index.documents()} == WRITERS.keys()
    for number in range(14):  # one of each format
        assert (
            bird(number)[1].rstrip(".") in index.context(f"eggs of the bird with the number {number}", budget=200).text
        )

    chance = random.Random(5)
    files = sorted(path for path in birds.rglob("*") if path.is_file() and path.suffix != ".png")
    chance.shuffle(files)
    moved, edited, deleted = files[:40], files[40:70], files[70:100]
    (birds / "elsewhere").mkdir()
    for path in moved:
        shutil.move(path, birds / "elsewhere" / path.name)
    for path in edited:
        WRITERS[path.suffix](path, "Changed", f"The file {path.name} now tells of dragons.")
    for path in deleted:
        path.unlink()

    planned = index.sync(birds, dry_run=True)
    assert (planned.moved, planned.replaced, planned.removed, planned.added) == (40, 30, 30, 0)
    assert len(index) == 300
    done = index.sync(birds)
    assert (done.moved, done.replaced, done.removed, done.added, done.failed) == (40, 30, 30, 0, ())
    assert index.check() == [] and index.sync(birds).unchanged == 270

    fresh = mw.open(birds.parent / "fresh", embedder="none")
    fresh.add(birds)

    def told(info: DocumentInfo) -> tuple[object, ...]:
        return info.id, info.title, dict(info.metadata), info.characters, info.leaves

    assert sorted(map(told, index.documents()), key=str) == sorted(map(told, fresh.documents()), key=str)
