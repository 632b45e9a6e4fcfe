"""Scanned pages: they are reported, or read by text recognition. The models are not always installed."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import mergewise as mw
from mergewise.cli.main import app
from mergewise.errors import MissingExtra, ReadError, UsageError, install_command
from mergewise.readers import read_file, recognition
from mergewise.readers.pdf import read_pdf
from mergewise.readers.recognition import Recognition, TextBox, rows_in_order
from mergewise.readers.sandbox import Limits, SandboxedReader, reader_within

MakePdf = Callable[..., bytes]
MakeScan = Callable[[bytes, Sequence[int]], bytes]

needs_models = pytest.mark.skipif(find_spec("rapidocr") is None, reason="text recognition is not installed")
ENGLISH = ["Owls hunt at night and sleep by day.", "Their hearing finds mice under snow."]
STORKS = ["Storks fly over rivers and fields, 3,000 km a year.", "They come back in spring (or not)."]


def lines(*texts: str, top: float = 700) -> list[tuple[str, float, float, float, str]]:
    return [("F1", 14, 50, top - 20 * row, text) for row, text in enumerate(texts)]


@pytest.fixture
def scan(make_pdf: MakePdf, make_scan: MakeScan) -> bytes:
    """PDF with a page of text, a scan, an empty page, and a scan."""
    return make_scan(make_pdf([lines("Text of the first page."), lines(*ENGLISH), [], lines(*STORKS)]), [1, 3])


def test_pages_without_text_are_reported(tmp_path: Path, scan: bytes, make_pdf: MakePdf, make_scan: MakeScan) -> None:
    parsed = read_pdf(scan)
    assert parsed.textless == (2, 4) and parsed.text == "Text of the first page." and len(parsed.pages) == 4
    (tmp_path / "a.pdf").write_bytes(scan)
    read = read_file(tmp_path / "a.pdf")
    with reader_within(Limits()) as reader:
        assert reader(tmp_path / "a.pdf") == read and read.textless == (2, 4)
    with pytest.raises(ReadError, match=r"no text on any of its 2 pages \(--ocr reads scans\)"):
        read_pdf(make_scan(make_pdf([lines("One."), lines("Two.")]), [0, 1]))


def test_the_report_names_file_and_pages(tmp_path: Path, scan: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("docs").mkdir()
    Path("docs/a.pdf").write_bytes(scan)
    run = CliRunner().invoke
    shown = run(app, ["index", "docs", "--embedder", "none"], catch_exceptions=False).stdout
    assert "no text on pages 2, 4 (a scan?): docs/a.pdf" in shown and "add `--ocr` to read scans" in shown
    Path("docs/b.pdf").write_bytes(scan)
    report = json.loads(run(app, ["index", "docs", "--json"], catch_exceptions=False).stdout)
    assert report["textless"] == [{"source": "docs/b.pdf", "pages": [2, 4]}] and report["unchanged"] == 1
    with pytest.raises(UsageError, match="requires the sandbox"):
        run(app, ["index", "docs", "--ocr"], env={"MERGEWISE_SANDBOX": "false"}, catch_exceptions=False)


def test_missing_extra_fails_before_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recognition, "find_spec", lambda _: None)
    with pytest.raises(MissingExtra) as error, reader_within(Limits(ocr_pages=1)):
        pass
    assert error.value.hint == install_command("ocr")


# -- order of recognised lines


def boxes(*texts: str, left: float, top: float, width: float = 400) -> list[TextBox]:
    return [TextBox(text, left, top + 30 * row, left + width, top + 30 * row + 20) for row, text in enumerate(texts)]


def order(given: Sequence[TextBox]) -> list[str]:
    return [" ".join(box.text for box in row) for row in rows_in_order(given)]


def test_columns_of_prose_are_read_one_after_the_other() -> None:
    left, right = boxes(*"abcd", left=0, top=100), boxes(*"efgh", left=450, top=105)
    title, foot = TextBox("title", 100, 0, 700, 40), TextBox("foot", 300, 900, 500, 920)
    below_left, below_right = boxes(*"ijk", left=0, top=500), boxes(*"lmn", left=450, top=500)
    middle = TextBox("middle", 0, 400, 850, 420)
    assert order([*right, title, *left, foot]) == ["title", *"abcdefgh", "foot"]
    assert order([*below_right, *below_left, middle, *left, *right]) == [*"abcdefgh", "middle", *"ijklmn"]
    three = [*left, *right, *boxes(*"pqrs", left=900, top=100)]
    assert order(three[::-1]) == list("abcdefghpqrs")


def test_rows_of_a_table_stay_together() -> None:
    names = [TextBox(name, 0, 30 * row, 10 + 60 * (row % 3), 30 * row + 20) for row, name in enumerate("abcdef")]
    values = [TextBox(str(row), 300, 30 * row + 2, 320, 30 * row + 22) for row in range(6)]
    assert order([*values, *names]) == ["a 0", "b 1", "c 2", "d 3", "e 4", "f 5"]
    assert order([]) == []


class Engine:
    """Fake models that return texts with confidences, one page after another."""

    def __init__(self, *pages: Sequence[tuple[str, float]]) -> None:
        self.pages = list(pages)
        self.asked = 0

    def __call__(self, image: Any) -> list[TextBox]:
        assert image.ndim == 3 and max(image.shape[:2]) in (2000, 2001)
        self.asked += 1
        texts = self.pages.pop(0)
        return [TextBox(text, 150, 200 + 60 * n, 900, 240 + 60 * n, score) for n, (text, score) in enumerate(texts)]


def test_recognised_pages_are_pages_of_the_document(scan: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine(
        [("Owls hunt.", 0.99), ("Rubbish", 0.4), ("They sleep.", 0.95)], [("A", 0.9), (". ,", 0.9), ("B", 0.3)]
    )
    monkeypatch.setattr(recognition, "text_boxes", engine)
    parsed = read_pdf(scan, Recognition(pages=10, seconds=1000))
    # in the second scan, the models were sure of less than half of the lines
    assert parsed.text == "Text of the first page.\n\nOwls hunt.\nThey sleep." and parsed.textless == (4,)
    page = parsed.pages[1]
    assert parsed.text[page.start : page.end].strip() == "Owls hunt.\nThey sleep." and not parsed.outline
    assert engine.asked == 2


@pytest.mark.parametrize(("pages", "seconds", "asked"), [(1, 1000, 1), (0, 1000, 0), (10, 0, 0)])
def test_pages_beyond_the_limits_are_reported(
    scan: bytes, monkeypatch: pytest.MonkeyPatch, pages: int, seconds: float, asked: int
) -> None:
    engine = Engine([("Owls hunt.", 1.0)], [("Storks fly.", 1.0)])
    monkeypatch.setattr(recognition, "text_boxes", engine)
    parsed = read_pdf(scan, Recognition(pages, seconds))
    assert engine.asked == asked and parsed.textless == ((4,) if asked else (2, 4))


def test_digest_marks_untried_pages(tmp_path: Path, scan: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.pdf").write_bytes(scan)
    content = read_file(tmp_path / "a.pdf").digest.removesuffix(" untried beyond 0")
    for pages, read, digest in [(1, ["Owls."], f"{content} untried beyond 1"), (2, ["Owls.", "Storks."], content)]:
        monkeypatch.setattr(recognition, "text_boxes", Engine(*([(text, 1.0)] for text in read)))
        assert read_file(tmp_path / "a.pdf", recognition=Recognition(pages, 1000)).digest == digest
    # a page that was tried without result is not tried again
    monkeypatch.setattr(recognition, "text_boxes", Engine([], [("Storks.", 1.0)]))
    file = read_file(tmp_path / "a.pdf", recognition=Recognition(2, 1000))
    assert file.digest == content and file.textless == (2,)


def test_failure_on_one_page_keeps_the_others(scan: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine([("Storks fly.", 1.0)])

    def fails_first(image: Any) -> list[TextBox]:
        monkeypatch.setattr(recognition, "text_boxes", engine)
        raise ValueError("a strange picture")

    monkeypatch.setattr(recognition, "text_boxes", fails_first)
    parsed = read_pdf(scan, Recognition(pages=10, seconds=1000))
    assert parsed.textless == (2,) and parsed.text.endswith("Storks fly.")


def test_recognition_without_result_is_reported(
    make_pdf: MakePdf, make_scan: MakeScan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recognition, "text_boxes", Engine([]))
    with pytest.raises(ReadError, match=r"no text on its page \(text recognition found none"):
        read_pdf(make_scan(make_pdf([lines("One.")]), [0]), Recognition(1, 1000))


# -- with the models


@needs_models
def test_scans_are_read_in_the_sandbox(tmp_path: Path, scan: bytes) -> None:
    (tmp_path / "a.pdf").write_bytes(scan)
    reader = SandboxedReader(Limits(ocr_pages=5, seconds=300))
    try:
        document, _, textless = reader.read(tmp_path / "a.pdf")
    finally:
        reader.close()
    assert textless == () and all(line in document.text for line in (*ENGLISH, *STORKS)), document.text


@needs_models
def test_existing_documents_are_read_again_with_recognition(tmp_path: Path, scan: bytes) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "a.pdf").write_bytes(scan)
    (docs / "b.md").write_text("Bats eat moths.\n")
    index = mw.open(tmp_path / "index", embedder="none")
    assert [pages.pages for pages in index.add(docs).textless] == [(2, 4)]
    assert index.sync(docs).unchanged == 2
    report = index.sync(docs, limits=Limits(ocr_pages=5, seconds=300))
    assert (report.replaced, report.unchanged, report.textless) == (1, 1, ())
    assert "mice under snow" in index.document("docs/a.pdf").text
    for limits in (None, Limits(), Limits(ocr_pages=5)):
        assert index.sync(docs, limits=limits).unchanged == 2
    assert index.check() == []
