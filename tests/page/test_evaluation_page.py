"""The page of an evaluation: complete in itself, safe, and bounded."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from mergewise.page.evaluation import (
    EvaluationReport,
    ReportAttempt,
    ReportCell,
    ReportColumn,
    ReportDifference,
    ReportLine,
    ReportQuestion,
    ReportTable,
    evaluation_page,
)
from tests.page import chromium

HOSTILE = "<script>alert(1)</script>\"'&\u202e"
COLUMNS = (ReportColumn("answer", "what the context holds"), ReportColumn("tokens", "of a context", 1, False))
LINES = (
    ReportLine("topk", 128, (ReportCell(0.5, (0.25, 0.75)), ReportCell(120.5, (100.0, 140.0)))),
    ReportLine("weave", 128, (ReportCell(None), ReportCell(119.0, (99.5, 138.0)))),
)
GOOD = ReportAttempt("topk", 128, "held", True)
BAD = ReportAttempt("weave", 128, "missed", False, "I say", (("gold text", "not found"),), (("a.md:7", "first words"),))
QUESTIONS = (
    ReportQuestion("1", "Who?", ("Ada", "Brix"), (GOOD, BAD)),
    ReportQuestion("2", "What?", (), (GOOD, replace(GOOD, strategy="weave"))),
    ReportQuestion("3", "When?", ("1850",), (replace(BAD, strategy="topk"), BAD)),
)
REPORT = EvaluationReport(
    "towns",
    "3 questions",
    (ReportTable("Contexts", COLUMNS, LINES),),
    "topk",
    (
        ReportDifference("weave", 128, "answer", 0.1, (-0.1, 0.3), 0.04, True, 3, 1),
        ReportDifference("weave", 128, "evidence", 0.0, (0.0, 0.0), 1.0, False, 0, 0),
    ),
    ("3 questions are few.",),
    QUESTIONS,
)


class Reader(HTMLParser):
    """The texts of a page, and its elements with their attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self._raw = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._raw = tag in ("style", "script")

    def handle_endtag(self, tag: str) -> None:
        self._raw = False

    def handle_data(self, data: str) -> None:
        if not self._raw:
            self.texts.append(data)


def shown(report: EvaluationReport = REPORT, limit: int = 10**6) -> tuple[str, Reader]:
    page = evaluation_page([report], limit)
    return page, Reader(page)


def test_it_tells_all_that_there_is() -> None:
    _, page = shown()
    text = " ".join(page.texts)
    for part in (
        "Evaluation: towns", "3 questions", "0.500", "0.25 to 0.75", "120.5", "100 to 140", "what the context holds",
        "Differences to topk", "+0.100", "-0.10 to +0.30", "0.040", "no question differs", "3 questions are few.",
        "2 of 3 missed by some", "Ada", "Brix", "no answer in the documents", "✗ missed", "✓ held", "It said: ", "I say",
        "gold text", "not found", "first words", "a.md:7",
    ):  # fmt: skip
        assert part in text, part
    kinds = [attributes["class"] for name, attributes in page.elements if name == "article"]
    assert kinds == ["passage asked missed differ", "passage asked", "passage asked missed"]


def test_nothing_is_fetched_and_one_script_runs() -> None:
    page, read = shown()
    assert [name for name, _ in read.elements].count("script") == 1
    assert not [a for _, a in read.elements if "src" in a or str(a.get("href", "#")).startswith(("http", "//", "file"))]
    assert "@import" not in page and "url(" not in page


def test_texts_of_others_stay_texts() -> None:
    attempt = ReportAttempt(HOSTILE, 1, HOSTILE, False, HOSTILE, ((HOSTILE, HOSTILE),), ((HOSTILE, HOSTILE),))
    hostile = replace(
        REPORT,
        name=HOSTILE,
        facts=HOSTILE,
        first=HOSTILE,
        tables=(ReportTable(HOSTILE, COLUMNS, (replace(LINES[0], strategy=HOSTILE),)),),
        differences=(replace(REPORT.differences[0], strategy=HOSTILE),),
        questions=(ReportQuestion(HOSTILE, HOSTILE, (HOSTILE,), (attempt,)),),
    )
    page = evaluation_page([hostile, hostile])
    assert "<script>alert" not in page and "\u202e" not in page
    assert [name for name, _ in Reader(page).elements].count("script") == 1


def test_where_there_is_no_room_questions_that_nobody_missed_go_first() -> None:
    questions = tuple(replace(QUESTIONS[i % 2], text=f"Question {i}?") for i in range(400))
    report = replace(REPORT, questions=questions)
    whole, _ = shown(report)
    page, read = shown(report, 120_000)
    asked = [text for text in read.texts if text.startswith("Question ") and text.endswith("?")]
    assert len(page) < len(whole) and 0 < len(asked) < 400
    missed = [text for text in asked if int(text[9:-1]) % 2 == 0]
    assert len(missed) == 200 or len(missed) == len(asked)
    assert f"{400 - len(asked)} more questions are in the rows beside this page." in read.texts
    # those that are shown stand in their order
    assert asked == sorted(asked, key=lambda text: int(text[9:-1]))


def test_several_sets_stand_on_one_page() -> None:
    page = Reader(evaluation_page([REPORT, replace(REPORT, name="rivers")]))
    assert [text for text in page.texts if text in ("towns", "rivers")] == ["towns", "rivers"]
    ids = [attributes["id"] for _, attributes in page.elements if attributes.get("id")]
    assert len(ids) == len(set(ids))


@pytest.mark.skipif(chromium.PATH is None, reason="Chromium is not installed")
def test_a_browser_shows_it_without_complaint(tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(shown()[0], encoding="utf-8")
    with chromium.browser() as browser:
        for width in (400, 1280):
            browser.open(file, width=width)
            assert browser.complaints() == [] and browser.requests() == [file.as_uri()]
            # a wide table scrolls within itself
            assert browser.js("document.documentElement.scrollWidth") <= width
            seen = "[...document.querySelectorAll('.asked')].filter(one => one.offsetHeight).length"
            assert browser.js(seen) == 3
            browser.js("document.querySelector('.show-missed').click()")
            assert browser.js(seen) == 2
            browser.js("document.querySelector('.show-differ').click()")
            assert browser.js(seen) == 1
