"""The page of an evaluation: self-contained, safe and of limited size. A browser sorts, filters, opens and reads it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mergewise.evaluate.drawing import evaluation_page
from mergewise.evaluate.exports import markdown
from mergewise.evaluate.judged import LostStage, LostText
from mergewise.evaluate.measured import measured_runs
from mergewise.evaluate.presets import preset
from mergewise.evaluate.report import evaluation_report
from mergewise.evaluate.report_records import EvaluationReport
from mergewise.evaluate.runs.run_folder import memory_run
from mergewise.evaluate.runs.run_row import RunRow
from tests.evaluate.measured_runs import COUNT, HOSTILE, question, saved_run
from tests.page import chromium
from tests.page.chromium import Browser
from tests.page.support import Page
from tests.page.test_browser import COLOURS, READABLE, contrast_of

in_a_browser = pytest.mark.skipif(chromium.PATH is None, reason="Chromium is not installed")


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> EvaluationReport:
    measured = measured_runs([saved_run(tmp_path_factory.mktemp("runs") / "one")])
    return evaluation_report(measured, [preset("mrag-2")])


def read(report: EvaluationReport) -> Page:
    return Page(evaluation_page(report))


def test_tables_and_figures_work_without_a_script(report: EvaluationReport) -> None:
    page = read(report)
    captions = [one.text for one in page.all("caption")]
    assert captions[:3] == ["M-RAG, Table 2: contexts only", "M-RAG, Table 2", "All sets: evidence"]
    text = page.one("main").text
    for part in (
        "Evaluation: 2wiki, towns", "At 128 tokens weave has the highest evidence: 0.950", "128 tokens", "6.60 ± 0.00",
        "Only 20 questions", "No model answered, so these are scores of contexts", "Provenance",
    ):  # fmt: skip
        assert part in text, part
    assert len(page.all("svg")) == 3 and "Pairs" in text and "Browsing the questions needs JavaScript" in text
    ids = page.ids()
    assert len(ids) == len(set(ids)) and set(page.targets()) - {""} <= set(ids)


def test_the_policy_allows_only_own_scripts_and_no_requests(report: EvaluationReport) -> None:
    page = read(report)
    scripts = [one for one in page.all("script") if one.attributes.get("type") is None]
    assert len(scripts) == 2
    policy = next(e.attributes["content"] for e in page.all("meta") if e.attributes.get("http-equiv"))
    assert policy is not None and policy.count("sha256-") == 2 and "default-src 'none'" in policy
    assert not [e for e in page.elements if "src" in e.attributes]
    assert all((link.attributes["href"] or "").startswith("#") for link in page.all("a"))


def test_hostile_texts_are_escaped(report: EvaluationReport) -> None:
    row = replace(report.parts[1].tables[0].rows[0], name=HOSTILE, about=HOSTILE, section=HOSTILE, note=HOSTILE)
    table = replace(
        report.parts[1].tables[0], title=HOSTILE, about=HOSTILE, rows=(row,), notes=(HOSTILE,), source=HOSTILE
    )
    figure = report.parts[2].figures[0]
    curves = tuple(replace(curve, name=HOSTILE) for curve in figure.curves)
    drawn = replace(figure, title=HOSTILE, curves=curves)
    hostile = replace(
        report,
        title=HOSTILE,
        headline=(HOSTILE,),
        remarks=(HOSTILE,),
        parts=(replace(report.parts[1], title=HOSTILE, tables=(table,), figures=(drawn,)),),
        pairs=(replace(report.pairs[0], title=HOSTILE, names=(HOSTILE,) * len(report.pairs[0].names)),),
        provenance=((HOSTILE, ((HOSTILE, HOSTILE),)),),
        data=(),
    )  # fmt: skip
    page = Page(evaluation_page(hostile))
    assert not page.all("img") and len([e for e in page.all("script") if e.attributes.get("type") is None]) == 2


def test_a_scripted_model_is_a_watermark(report: EvaluationReport) -> None:
    marked = read(replace(report, warning="plumbing, not quality"))
    assert marked.one("div", "marked").attributes["data-warning"] == "plumbing, not quality"
    assert marked.one("p", "plumbing").text == "plumbing, not quality"
    assert not read(report).all("div", "marked")


# -- in a browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium.browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def file(report: EvaluationReport, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "page.html"
    path.write_text(evaluation_page(replace(report, warning="plumbing, not quality")), encoding="utf-8")
    return path


def open_page(browser: Browser, path: Path | str, scheme: str = "light", width: int = 1280) -> None:
    """Open the page and wait for its questions."""
    # a URL that differs only in its fragment would not load the page again
    browser.open("about:blank")
    browser.open(path, scheme, width)
    wait_for(browser, "document.querySelector('#asked').dataset.ready !== undefined")


def wait_for(browser: Browser, condition: str) -> None:
    for _ in range(300):
        if browser.js(condition):
            return
        time.sleep(0.02)
    raise AssertionError(condition)


@in_a_browser
@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 1280), ("light", 320)])
def test_the_page_works_offline_without_errors_and_is_readable(
    browser: Browser, file: Path, scheme: str, width: int
) -> None:
    open_page(browser, file, scheme, width)
    browser.js("document.querySelectorAll('details').forEach(one => { one.open = true })")
    browser.js("document.querySelector('.ask').click()")
    wait_for(browser, "document.querySelectorAll('.column').length === 2")
    assert browser.complaints() == [] and browser.requests() == [file.as_uri()]
    assert browser.js("document.documentElement.scrollWidth") <= width
    assert browser.js("window.hacked") is None and browser.js("document.querySelectorAll('img').length") == 0
    if width > 320:
        texts = browser.js(COLOURS)
        faint = {where: round(ratio, 2) for where, _, ratio in map(contrast_of, texts) if ratio < READABLE}
        assert len(texts) > 200 and faint == {}


NAMES = "[...document.querySelectorAll('#table-sets tbody')[0].rows].slice(1).map(row => row.cells[0].firstChild.data)"


@in_a_browser
def test_tables_are_sorted_by_any_column(browser: Browser, file: Path) -> None:
    open_page(browser, file)
    assert browser.js(NAMES) == ["topk", "weave", "dos", "auto-merge"]
    press = "document.querySelectorAll('#table-sets thead .sort')[{}].click()"
    browser.js(press.format(3))
    assert browser.js(NAMES) == ["weave", "topk", "auto-merge", "dos"]
    browser.js(press.format(3))
    assert browser.js(NAMES) == ["dos", "topk", "auto-merge", "weave"]
    browser.js(press.format(0))
    assert browser.js(NAMES) == ["auto-merge", "dos", "topk", "weave"]
    assert browser.js("document.querySelectorAll('#table-sets [aria-sort]').length") == 1
    # sections stay where they are
    assert browser.js("document.querySelector('#table-sets tbody').rows[0].textContent") == "128 tokens"


@in_a_browser
def test_tables_are_copied_as_markdown(browser: Browser, file: Path, report: EvaluationReport) -> None:
    open_page(browser, file)
    browser.js(
        "Object.defineProperty(navigator, 'clipboard', {value: {writeText: async (text) => { window.copied = text; }}})"
    )
    browser.js("document.querySelector('#table-sets [data-copy]').click()")
    copied = browser.js("window.copied")
    # the same text as in the report's Markdown
    assert copied.strip() in markdown(report) and "| method | 2wiki | towns | mean |" in copied


def choose(browser: Browser, label: str, value: str) -> None:
    """Choose a value of the control with this label."""
    labels = "[...document.querySelectorAll('.controls label')]"
    select = f"{labels}.find(one => one.firstChild.textContent === {label!r}).querySelector('select')"
    browser.js(f"(one => {{ one.value = {value!r}; one.dispatchEvent(new Event('change')); }})({select})")


@in_a_browser
def test_questions_are_filtered_and_ordered(browser: Browser, file: Path) -> None:
    open_page(browser, file)
    count = "document.querySelector('#asked .facts').textContent"
    choose(browser, "Budget", "128")
    assert browser.js(count) == f"{2 * COUNT} questions: A better in 18, B in 0"
    choose(browser, "Show", "onlyA")
    assert browser.js(count).startswith("18 questions")
    choose(browser, "Set", "towns")
    assert browser.js(count).startswith("9 questions")
    choose(browser, "Hops", "2")
    assert browser.js(count).startswith("0 questions")
    choose(browser, "Hops", "1")
    choose(browser, "Show", "none")
    assert browser.js(count).startswith("1 question:")
    choose(browser, "Show", "all")
    browser.js(
        "(i => { i.value = 'TOWN 7'; i.dispatchEvent(new Event('input')); })(document.querySelector('[type=search]'))"
    )
    assert browser.js(count).startswith("0 questions")
    choose(browser, "Hops", "")
    assert browser.js("document.querySelector('.question h3').textContent") == "28When was town 7 founded?"


@in_a_browser
def test_an_opened_question_shows_gold_and_losses_and_has_a_url(browser: Browser, file: Path) -> None:
    open_page(browser, file)
    choose(browser, "Budget", "128")
    choose(browser, "Set", "towns")
    browser.js("document.querySelector('.ask').click()")
    wait_for(browser, "document.querySelectorAll('.column').length === 2")
    first, second = "document.querySelectorAll('.column')[0]", "document.querySelectorAll('.column')[1]"
    gold = f"{first}.querySelector('mark.gold').textContent"
    # characters outside the basic plane do not shift the marks
    assert browser.js(gold) == f"Town 2 was founded in 1502 by 🏰 Ann. {HOSTILE}"
    assert "missing" in browser.js(f"{second}.querySelector('.lost').textContent")
    assert browser.js(f"{second}.querySelector('.lost .where').textContent") == " a candidate that did not fit"
    address = browser.js("location.hash")
    assert address == "#q=towns%2Fq2&m=weave,topk&b=128"
    open_page(browser, f"{file.as_uri()}#q=towns%2Fq3&m=dos,weave,topk&b=384")
    wait_for(browser, "document.querySelectorAll('.column').length === 3")
    names = "[...document.querySelectorAll('.column h4')].map(one => one.textContent)"
    assert browser.js(names) == ["dos", "weave", "topk"]
    assert browser.js("document.querySelector('.question.opened h3').textContent") == "24When was town 3 founded?"
    assert browser.js("document.querySelector('.column .where + .text mark.gold, .column .text mark.gold') !== null")
    # a fourth method can be added, a fifth cannot
    browser.js("[...document.querySelectorAll('.picker input')].find(box => !box.checked).click()")
    wait_for(browser, "document.querySelectorAll('.column').length === 4")
    browser.js("document.querySelector('.opened .ask').click()")
    assert browser.js("location.hash") == "#sources"
    assert browser.complaints() == []


@in_a_browser
def test_rows_in_memory_have_the_same_page(browser: Browser, tmp_path: Path) -> None:
    asked = [question(number) for number in range(8)]
    rows = [
        RunRow(
            "own", one.id, "", method, "spec", 60, tokens=50, scores=dict.fromkeys(("answer", "evidence", "all"), score),
            lost=() if score else (LostText("gold text", LostStage.UNFOUND),),
        )
        for method, score in (("topk", 0.0), ("weave", 1.0)) for one in asked
    ]  # fmt: skip
    page = evaluation_page(evaluation_report(measured_runs([memory_run(rows, {"own": asked})])))
    (tmp_path / "page.html").write_text(page, encoding="utf-8")
    open_page(browser, tmp_path / "page.html")
    browser.js("document.querySelector('.ask').click()")
    wait_for(browser, "document.querySelectorAll('.column').length === 2")
    columns = "[...document.querySelectorAll('.column')].map(one => one.textContent)"
    weave, topk = browser.js(columns)
    assert "Nothing is missing." in weave and "gold text not among the candidates" in topk
    assert browser.complaints() == []
