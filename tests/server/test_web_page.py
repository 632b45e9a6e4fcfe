"""The live page in headless Chromium with a scripted server: use, attacks, and accessibility checks by axe-core.

With `MERGEWISE_ATTACK=1`, each view is tested in both schemes at both widths, otherwise each scheme and each width once.
"""

from __future__ import annotations

import gzip
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import mergewise as mw
from mergewise.server.configuration import CollectionConfig
from mergewise.server.evaluations import questions_of
from mergewise.server.records import JobProgress
from tests.page import chromium
from tests.page.chromium import Browser
from tests.server.conftest import LiveServer, record_of
from tests.server.web_stub import (
    FALLS,
    HOSTILE,
    HOSTILE_WORDS,
    QUESTION,
    SECRET,
    TOKEN,
    Stub,
    evaluation_job,
    hostile_stub,
    key_of,
    serving,
)
from tests.support import patience
from tests.support import until as holds

pytestmark = pytest.mark.skipif(chromium.PATH is None, reason=f"none of {', '.join(chromium.NAMES)} is installed")

LONG = os.environ.get("MERGEWISE_ATTACK") == "1"
LOOKS = [("light", 1280), ("dark", 320), *([("light", 320), ("dark", 1280)] if LONG else [])]
AXE = gzip.decompress(Path(__file__).with_name("axe.min.js.gz").read_bytes()).decode()
# WCAG 2.2 AA, and axe-core's best practices
RUN_AXE = """
axe.run(document, {resultTypes: ["violations"]}).then(found => JSON.stringify(
  found.violations.map(one => [one.id, one.nodes.length, one.nodes[0].html.slice(0, 300), one.nodes[0].failureSummary])))
"""
# elements that no document may add to the page
FOREIGN = "#app :is(script, img, iframe, object, embed, form[action], [onerror], [onload])"
# chooses the file of a question set
CHOOSE_SET = """{
const chosen = new DataTransfer();
chosen.items.add(new File(['{"question": "Why?"}'], "set.jsonl"));
const field = document.querySelector("#set");
field.files = chosen.files;
field.dispatchEvent(new Event("change"));
}"""
PATIENCE = 10.0
_visits = iter(range(1_000_000))


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium.browser() as opened:
        yield opened


def until(browser: Browser, expression: str) -> Any:
    """Wait until an expression is truthy, and return its value."""
    end = time.monotonic() + patience(PATIENCE)
    while not (value := browser.js(expression)):
        assert time.monotonic() < end, (expression, browser.js("document.body.innerText")[:600])
        time.sleep(0.03)
    return value


def visit(browser: Browser, stub: Stub, scheme: str = "light", width: int = 1280, token: str = TOKEN) -> None:
    """Open the page at the address that the server prints."""
    visit_address(browser, stub.address, token, scheme, width)


def visit_address(browser: Browser, address: str, token: str, scheme: str = "light", width: int = 1280) -> None:
    browser.call("Network.clearBrowserCookies")
    browser.open(f"{address}/?{next(_visits)}#t={token}", scheme, width, 800)
    until(browser, "document.querySelector('h1')?.textContent")


@contextmanager
def open_stub(browser: Browser, stub: Stub) -> Iterator[Stub]:
    """Serve the stub and open its page."""
    with serving(stub):
        visit(browser, stub)
        yield stub


def go(browser: Browser, place: str, ready: str) -> None:
    browser.js(f"location.hash = {json.dumps(place)}")
    until(browser, f"!!document.querySelector({json.dumps(ready)})")


def write(browser: Browser, selector: str, words: str) -> None:
    until(browser, f"!!document.querySelector({json.dumps(selector)})")
    browser.js(f"document.querySelector({json.dumps(selector)}).focus()")
    browser.call("Input.insertText", text=words)


def click(browser: Browser, selector: str) -> None:
    until(browser, f"!!document.querySelector({json.dumps(selector)})")
    browser.js(f"document.querySelector({json.dumps(selector)}).click()")


def ask(browser: Browser, words: str = QUESTION) -> None:
    write(browser, "textarea", words)
    browser.press("Enter")


def text(browser: Browser, selector: str) -> str:
    return str(until(browser, f"document.querySelector({json.dumps(selector)})?.textContent"))


def assert_no_complaints(browser: Browser, stub: Stub) -> None:
    assert browser.complaints() == []
    assert [url for url in browser.requests() if not url.startswith(stub.address)] == []


def views(browser: Browser, stub: Stub) -> Iterator[str]:
    """Visit each view, filled with content."""
    name = next(iter(stub.texts))
    yield "start"
    ask(browser)
    until(browser, "!!document.querySelector('.foot')")
    yield "ask"
    go(browser, "#/c/cats/merge", ".tree li")
    browser.js("document.querySelectorAll('details').forEach(d => d.open = true)")
    yield "merge"
    span = stub.span(*stub.quotes[0])
    go(browser, f"#/c/cats/d/{key_of(name)}?s={span.start}-{span.end}", "#place")
    yield "source"
    go(browser, "#/c/cats/compare", ".composer button[type=submit]:not(:disabled)")
    click(browser, ".composer button[type=submit]")
    until(browser, "document.querySelectorAll('.column .budget').length === 3")
    yield "compare"
    go(browser, "#/c/cats/documents", ".row.failed")
    yield "documents"
    go(browser, "#/c/cats/evaluate", ".evaluation table")
    browser.js("document.querySelectorAll('details').forEach(d => d.open = true)")
    yield "evaluate"
    go(browser, "#/settings", ".facts-list + h3, .setting:nth-last-child(2) .facts-list")
    until(browser, "document.querySelectorAll('.setting .rows').length > 2 && !document.querySelector('.waiting')")
    browser.js("document.querySelectorAll('details').forEach(d => d.open = true)")
    yield "settings"


def full_stub() -> Stub:
    stub = Stub(collections=["cats", "dogs"], jobs=[evaluation_job()])
    stub.failures = {
        "papers/scan-1987.pdf": {"code": "no_text", "detail": "the file has no text", "hint": "use the extra ocr"}
    }
    stub.tokens = [
        {"id": "t1", "title": "", "scopes": ["read"], "collections": ["cats"], "expires": None, "rate": 20.0}
    ]
    return stub


@pytest.mark.parametrize(("scheme", "width"), LOOKS)
def test_every_view_is_accessible_and_makes_no_foreign_requests(browser: Browser, scheme: str, width: int) -> None:
    with serving(full_stub()) as stub:
        visit(browser, stub, scheme, width)
        browser.js(AXE)
        for view in views(browser, stub):
            assert json.loads(browser.js(RUN_AXE)) == [], view
            assert browser.js("document.documentElement.scrollWidth") <= width, view
            assert browser.js("document.querySelectorAll('h1').length") == 1, view
        assert_no_complaints(browser, stub)


def test_axe_finds_faults_and_the_policy_is_in_force(browser: Browser) -> None:
    with open_stub(browser, Stub()):
        browser.js(AXE)
        browser.js("document.querySelector('main').append(document.createElement('button'))")
        assert [found[0] for found in json.loads(browser.js(RUN_AXE))] == ["button-name"]
        with pytest.raises(RuntimeError, match="TrustedHTML"):
            browser.js("document.body.innerHTML = '<b>x</b>'")
        browser.js("document.body.append(Object.assign(new Image(), {src: 'http://127.0.0.1:9/x.png'}))")
        refused = "Content Security Policy"
        assert holds(lambda: browser.js("0") == 0 and any(refused in line for line in browser.complaints()), PATIENCE)


@pytest.mark.parametrize(
    ("width", "suffix"), [(320, ""), (1280, ".md"), *([(320, ".rst"), (1280, ".py")] if LONG else [])]
)
def test_hostile_documents_stay_text(browser: Browser, width: int, suffix: str) -> None:
    stub = hostile_stub(suffix)
    stub.jobs = [evaluation_job()]
    with serving(stub):
        visit(browser, stub, "light", width)
        for view in views(browser, stub):
            assert "stolen" not in browser.js("document.title"), view
            assert browser.js(f"document.querySelectorAll({json.dumps(FOREIGN)}).length") == 0, view
            assert browser.js(
                "[...document.querySelectorAll('#app a')].every(a => /^(#|api\\/v1\\/)/.test(a.getAttribute('href')))"
            ), view
            assert "\u202e" not in browser.js("document.body.innerText"), view
            assert browser.js("document.documentElement.scrollWidth") <= width, view
        assert_no_complaints(browser, stub)


def test_a_token_in_the_url_becomes_a_cookie(browser: Browser) -> None:
    with open_stub(browser, Stub()) as stub:
        assert "t=" not in browser.js("location.hash")
        assert TOKEN not in browser.js(
            "location.href + document.cookie + JSON.stringify(localStorage) + JSON.stringify(sessionStorage)"
        )
        until(browser, "!!document.querySelector('textarea')")
        assert not any(TOKEN in path for _, path, _, _ in stub.requests)
        visit(browser, stub, token="mw_wrong")
        assert "Unknown or expired token" in text(browser, "[role=alert]")
        write(browser, "#token", TOKEN)
        browser.press("Enter")
        until(browser, "!!document.querySelector('textarea')")
        go(browser, "#/settings", ".setting:last-child button")
        browser.js("document.querySelector('.setting:last-child button').click()")
        until(browser, "document.querySelector('h1').textContent === 'Welcome'")


def test_sources_come_before_the_answer_and_marks_link_to_them(browser: Browser) -> None:
    with open_stub(browser, Stub(pause=0.02)) as stub:
        ask(browser)
        until(browser, "document.querySelectorAll('.sources .passage').length === 3")
        assert browser.js("document.querySelector('.foot')") is None
        until(browser, "!!document.querySelector('.foot')")
        assert browser.js("[...document.querySelectorAll('.said .cite')].map(e => e.textContent).join()") == "1,2,2,3"
        browser.js("document.querySelectorAll('.said .cite')[1].focus()")
        assert text(browser, ".passage.active .number") == "2"
        browser.js("document.querySelectorAll('.said .cite')[1].click()")
        assert browser.js("document.activeElement.querySelector('.number').textContent") == "2"
        assert text(browser, ".passage.active .cited") == stub.quotes[1][1]
        marked = "[...document.querySelectorAll('.unverified')].map(e => e.textContent).join('')"
        assert browser.js(marked) == "The front half turns about another axis than the rear half .They wear parachutes."
        assert "2 sentences (underlined) are not supported" in text(browser, "[role=note]")
        assert text(browser, "[aria-live=polite]").endswith("They wear parachutes.")
        until(browser, "document.querySelector('.sources h3 a').getAttribute('href').startsWith('#/c/cats/d/')")
        assert_no_complaints(browser, stub)


def test_stopping_an_answer_and_history_of_a_follow_up(browser: Browser) -> None:
    with open_stub(browser, Stub(pause=0.05)) as stub:
        ask(browser)
        click(browser, "[aria-label=Stop]")
        assert text(browser, ".answer .note") == "Stopped."
        assert holds(lambda: stub.hangups == 1, PATIENCE)
        stub.pause = 0.0
        ask(browser, "And then?")
        until(browser, "!!document.querySelector('.foot')")
        ask(browser, "Why?")
        until(browser, "document.querySelectorAll('.foot').length === 2")
        forms = [json.loads(body) for method, path, _, body in stub.requests if path.endswith("/ask")]
        assert [turn["role"] for turn in forms[-1]["history"]][-2:] == ["user", "assistant"]
        assert forms[-1]["history"][-1]["content"] == stub.answer
        assert forms[0]["history"] == [] and forms[0]["stream"] is True


def test_the_searched_question_of_a_follow_up_is_shown_and_can_be_changed(browser: Browser) -> None:
    with open_stub(browser, Stub()) as stub:
        ask(browser)
        until(browser, "!!document.querySelector('.foot')")
        assert browser.js("document.querySelector('.searched')") is None
        ask(browser, "And dogs?")
        until(browser, "document.querySelectorAll('.foot').length === 2")
        assert browser.js("document.querySelector('.searched input').value") == QUESTION
        assert browser.js("document.querySelector('.searched button')") is None
        browser.js("document.querySelector('.searched input').select()")
        write(browser, ".searched input", "How do dogs land?")
        browser.press("Enter")
        until(browser, "document.querySelectorAll('.foot').length === 3")
        assert browser.js("document.querySelectorAll('.turn .asked')[2].textContent") == "How do dogs land?"
        forms = [json.loads(body) for method, path, _, body in stub.requests if path.endswith("/ask")]
        assert forms[-1]["question"] == "How do dogs land?" and forms[-1]["history"] == []


def test_a_missing_answer_is_said_once(browser: Browser, start_server: Callable[..., LiveServer]) -> None:
    live = start_server(with_chat=False)
    visit_address(browser, live.base, live.tokens["read"])
    go(browser, "#/c/birds/ask", "textarea")
    ask(browser, "What is the boiling point of caesium?")
    until(browser, "!!document.querySelector('.foot')")
    shown = "document.querySelector('.sides').innerText"
    assert browser.js(f"{shown}.match(/probably|closest/gi).length") == 1
    assert text(browser, ".answer.nothing .said p").startswith("Probably not in these documents. Nearest places:")
    assert browser.js("document.querySelector('[role=note]')") is None
    ask(browser, "What does clause 9.9.9 say?")
    until(browser, "document.querySelectorAll('.foot').length === 2")
    said = browser.js("[...document.querySelectorAll('.answer.nothing')].at(-1).querySelector('.said p').textContent")
    assert said.startswith("'9.9.9' does not occur in these documents.")


def test_a_long_quotation_folds_and_opens_by_its_button_and_by_the_keyboard(browser: Browser) -> None:
    long = "Cats survive falls from great heights. " * 16
    quotes = ("a.md", "Most cats survive."), ("b.md", long)
    answer = "\n\n".join(f"“{words}” [{n}]" for n, (_, words) in enumerate(quotes, 1))
    texts = {name: (words, name) for name, words in quotes}
    with open_stub(browser, Stub(texts=texts, answer=answer, quotes=quotes, quoted=True, unverified=())) as stub:
        ask(browser)
        until(browser, "!!document.querySelector('.foot')")
        folded = "document.querySelector('.said .folded')"
        assert browser.js("document.querySelectorAll('.said .folded').length") == 1
        is_cut = f"{folded}.clientHeight < {folded}.scrollHeight / 1.5"
        assert browser.js(is_cut)
        browser.js("document.querySelector('.said button[aria-expanded]').click()")
        until(browser, f"!{folded}")
        browser.js("document.querySelector('.said button[aria-expanded]').click()")
        until(browser, f"!!{folded} && {is_cut}")
        assert_no_complaints(browser, stub)


def test_quotations_look_like_their_documents(browser: Browser, start_server: Callable[..., LiveServer]) -> None:
    texts = {
        "client.rst": "Client\n======\n\n.. function:: open_session(name)\n\n   Opens a session. Use it so::\n\n"
        "       with open_session(a_name) as session:\n           session.run()\n\n   .. note::\n\n"
        "      A session is not safe for threads.\n",
        "retries.md": "# Retries\n\nIt accepts these settings:\n\n| setting | default |\n| --- | --- |\n"
        "| `max_retries` | 3 |\n| `retry_delay` | 0.5 |\n",
        "mill.txt": "The mill of the town\n\n# Description\n\nThe mill_wheel grinds rye for the valley.\n",
    }
    live = start_server(with_chat=False)
    record = record_of(live.config, "library")
    live.state.collections.add(record)
    with mw.open(record.path) as index:
        index.add([mw.Document(name, text) for name, text in texts.items()])
    visit_address(browser, live.base, live.tokens["read"])
    go(browser, "#/c/library/ask", "textarea")
    said = "[...document.querySelectorAll('.said')].at(-1)"

    def asked(question: str) -> None:
        before = browser.js("document.querySelectorAll('.foot').length")
        ask(browser, question)
        until(browser, f"document.querySelectorAll('.foot').length > {before}")

    asked("How is a session opened?")
    assert browser.js(f"{said}.querySelector('.quotation pre').textContent.trim()") == (
        "with open_session(a_name) as session:\n    session.run()"
    )
    assert "not safe" not in browser.js(f"{said}.textContent")
    assert browser.js(f"getComputedStyle({said}.querySelector('.quotation pre')).fontFamily").startswith("ui-monospace")
    assert "session.run()" in browser.js("document.querySelector('.sources .excerpt pre').textContent")
    asked("What is the default of max_retries?")
    assert browser.js(f"{said}.querySelectorAll('.quotation td').length") == 4
    region = "document.querySelector('[aria-live=polite]')"
    browser.js(
        f"window.spoken = ''; new MutationObserver(() => {{ spoken += {region}.textContent; }})"
        f".observe({region}, {{childList: true, characterData: true, subtree: true}})"
    )
    asked("What does the mill_wheel grind?")
    assert (
        browser.js(f"{said}.querySelector('.quotation').textContent")
        .strip()
        .endswith("mill_wheel grinds rye for the valley.")
    )
    assert browser.js(f"{said}.querySelector('.quotation .heading')") is None
    # screen readers hear names as they are
    until(browser, "spoken.includes('mill_wheel grinds')")
    assert browser.complaints() == []


def test_a_session_by_the_keyboard_alone(browser: Browser, start_server: Callable[..., LiveServer]) -> None:
    live = start_server(with_chat=False)
    visit_address(browser, live.base, live.tokens["read"])
    go(browser, "#/c/ships/ask", "textarea")

    def tab_to(selector: str) -> None:
        for _ in range(40):
            if browser.js(f"document.activeElement.matches({json.dumps(selector)})"):
                return
            browser.press("Tab")
        raise AssertionError((selector, browser.js("document.activeElement.outerHTML")))

    tab_to("textarea")
    browser.call("Input.insertText", text="When was the Aurora built?")
    browser.press("Enter")
    until(browser, "!!document.querySelector('.foot')")
    tree = browser.call("Accessibility.getFullAXTree")["nodes"]
    named = {(node["role"]["value"], node.get("name", {}).get("value", "")) for node in tree if "role" in node}
    assert any(role == "blockquote" for role, _ in named)
    assert ("heading", "When was the Aurora built?") in named
    assert any(role == "button" and name.startswith("Source 1: ") for role, name in named)
    browser.js("document.querySelector('.turn').scrollIntoView(); document.activeElement.blur()")
    tab_to(".quotation .cite")
    browser.press("Enter")
    assert browser.js("document.activeElement.id") == "t1p1"
    tab_to(".passage h3 a")
    browser.press("Enter")
    until(browser, "!!document.querySelector('#place')")
    tab_to(".document .where a")
    browser.press("Enter")
    until(browser, "!!document.querySelector('.turn')")
    browser.press("/")
    tab_to("textarea")
    assert browser.complaints() == []


def test_cited_sources_come_first_and_others_are_folded(browser: Browser) -> None:
    with open_stub(browser, Stub(answer="Most cats survive [3].", unverified=())) as stub:
        ask(browser)
        until(browser, "!!document.querySelector('.uncited')")
        assert text(browser, ".sources h3") == "1 cited source"
        assert text(browser, ".uncited summary") == "2 sources not cited"
        cards = "[...document.querySelectorAll('.passage')].filter(e => e.checkVisibility())"
        shown = f"{cards}.map(e => e.querySelector('.number').textContent).join()"
        assert browser.js(shown) == "3"
        browser.js("document.querySelector('.uncited summary').click()")
        until(browser, f"{shown} === '3,1,2'")
        stub.answer = "No marks."
        ask(browser, "And?")
        until(browser, "document.querySelectorAll('.foot').length === 2")
        assert browser.js("[...document.querySelectorAll('.sources h3.label')].at(-1).textContent") == "3 sources"


def test_sources_open_at_the_cited_sentence(browser: Browser) -> None:
    with open_stub(browser, Stub(is_whole=True)):
        ask(browser)
        until(browser, "!!document.querySelector('#t1p2 .cited')")
        inside = """(() => {
          const box = document.querySelector("#t1p2 .excerpt").getBoundingClientRect();
          const cited = document.querySelector("#t1p2 .cited").getBoundingClientRect();
          return cited.top >= box.top && cited.top < box.top + box.height / 2;
        })()"""
        until(browser, inside)
        assert browser.js("document.querySelector('#t1p2 .excerpt').scrollTop") > 0
        # headings, code and tables of the source are elements, without their marks
        assert text(browser, "#t1p2 .heading") == "How cats land"
        assert text(browser, "#t1p2 th") == "phase" and browser.js("document.querySelectorAll('#t1p2 td').length") == 6
        assert "#" not in browser.js("document.querySelector('#t1p2').textContent")
        click(browser, "#t1p2 > .plain")
        until(browser, "(e => e.scrollHeight === e.clientHeight)(document.querySelector('#t1p2 .excerpt'))")


def test_the_keyboard_asks_stops_and_walks_through_sources(browser: Browser) -> None:
    with open_stub(browser, Stub(pause=0.05)) as stub:
        until(browser, "!!document.querySelector('textarea')")
        browser.js("document.activeElement.blur()")
        browser.press("/")
        assert browser.js("document.activeElement.id") == "question-field"
        assert browser.js("document.activeElement.value") == ""
        browser.call("Input.insertText", text="a/b")
        browser.press("Enter")
        until(browser, "!!document.querySelector('.sources .passage')")
        browser.press("Escape")
        assert text(browser, ".answer .note") == "Stopped."
        stub.pause = 0.0
        ask(browser)
        until(browser, "!!document.querySelector('#t2p3') && !!document.querySelector('.foot')")
        browser.js("document.querySelector('#t2p1').focus()")
        for key, card in (("ArrowDown", "t2p2"), ("ArrowDown", "t2p3"), ("ArrowDown", "t2p3"), ("ArrowUp", "t2p2")):
            browser.press(key)
            assert browser.js("document.activeElement.id") == card
        browser.press("Escape")
        assert browser.js("document.activeElement.id") == "question-field"
        go(browser, "#/c/cats/documents", ".row")
        browser.press("/")
        until(browser, "document.activeElement.id === 'question-field'")


def test_arrow_keys_go_from_one_cited_place_to_the_next(browser: Browser) -> None:
    with open_stub(browser, Stub()) as stub:
        ask(browser)
        until(browser, "!!document.querySelector('.foot')")
        browser.js("document.querySelector('#t1p1 h3 a').click()")
        assert text(browser, "#place") == stub.quotes[0][1].partition("*")[0]
        assert "Source 1: 1 of 3" in text(browser, ".cited-places")
        for key, quote in (("ArrowRight", 1), ("ArrowRight", 2), ("ArrowRight", 2), ("ArrowLeft", 1)):
            browser.press(key)
            until(browser, f"document.querySelector('.cited-places')?.textContent.includes('Source {quote + 1}:')")
            until(browser, f"document.querySelector('#place')?.textContent === {json.dumps(stub.quotes[quote][1])}")
        click(browser, ".document .where a")
        until(browser, "!!document.querySelector('.turn')")


@pytest.mark.parametrize("width", [320, 360])
def test_the_field_does_not_cover_sources(browser: Browser, width: int) -> None:
    with serving(Stub(is_whole=True)) as stub:
        visit(browser, stub, "light", width)
        ask(browser)
        until(browser, "!!document.querySelector('.foot')")
        browser.js("document.activeElement.blur()")
        assert browser.js("document.querySelector('.composer').getBoundingClientRect().height") < 80
        for mark in (1, 2, 3):
            browser.js(
                f"document.querySelector('#t1p{mark}').focus(); document.querySelector('#t1p{mark} > .plain')?.focus()"
            )
            assert browser.js(
                "(field => document.activeElement.getBoundingClientRect().bottom <= field.getBoundingClientRect().top)"
                "(document.querySelector('.composer'))"
            )


def test_strategies_are_in_the_lab_and_the_budget_is_the_servers(browser: Browser) -> None:
    with open_stub(browser, Stub()):
        assert (
            browser.js("[...document.querySelectorAll('header nav a')].map(e => e.textContent).join()")
            == "Ask,Documents,Lab"
        )
        browser.js("document.querySelector('.ways').open = true")
        assert "Strategy" not in text(browser, ".choices") and "weave" not in text(browser, "main")
        budgets = [browser.js("document.querySelector('.choices input').placeholder")]
        click(browser, "header nav a:last-of-type")
        until(browser, "!!document.querySelector('.lab')")
        assert (
            browser.js("[...document.querySelectorAll('.lab a')].map(e => e.textContent).join()")
            == "Merge,Compare,Evaluate"
        )
        assert browser.js("document.querySelector('header nav [aria-current]').textContent") == "Lab"
        budgets.append(browser.js("document.querySelector('.choices input').placeholder"))
        assert "Strategy" in text(browser, ".choices")
        go(browser, "#/c/cats/compare", ".pills")
        chosen = "[...document.querySelectorAll('.pills button')].map(e => e.textContent.trim()).join()"
        budgets.append(browser.js("document.querySelector('.choices input').placeholder"))
        assert browser.js(chosen) == "weave,topk,auto-merge"
        click(browser, "[aria-label='Remove topk']")
        until(browser, "document.querySelectorAll('.pills button').length === 2")
        browser.js(
            "(e => { e.value = 'sentence'; e.dispatchEvent(new Event('change')); })(document.querySelector('.pills select'))"
        )
        until(browser, "document.querySelectorAll('.pills button')[2]?.textContent.trim() === 'sentence'")
        go(browser, "#/c/cats/evaluate", "#sizes")
        budgets.append(browser.js("document.querySelector('#sizes').value"))
        assert budgets == ["1200"] * 4


def test_a_busy_server_is_retried_and_errors_show_hints(browser: Browser) -> None:
    problem = {"status": 429, "code": "queue_full", "detail": "many questions at once", "hint": "ask again"}
    with open_stub(browser, Stub(refusals=[(429, {"Retry-After": "1"}, problem)])) as stub:
        ask(browser)
        assert "retry in 1 second" in text(browser, ".ribbon")
        until(browser, "!!document.querySelector('.foot')")
        assert browser.js("document.querySelector('.ribbon')") is None
        stub.refusals = [
            (
                502,
                {},
                {"status": 502, "code": "model", "detail": "the model does not answer", "hint": "look at its address"},
            )
        ]
        ask(browser, "Again?")
        alert = text(browser, "[role=alert]")
        assert "The model does not answer." in alert and "Look at its address." in alert
        click(browser, "[role=alert] button")
        until(browser, "document.querySelectorAll('.foot').length === 2")


def test_the_page_waits_for_a_restarted_server(browser: Browser) -> None:
    with open_stub(browser, Stub()) as stub:
        until(browser, "!!document.querySelector('textarea')")
        port = int(stub.address.rpartition(":")[2])
    browser.js("location.hash = '#/c/cats/documents'")
    assert "does not answer" in text(browser, ".ribbon")
    bottom, top = (f"document.querySelector('{part}').getBoundingClientRect()" for part in (".ribbon", "h1"))
    assert browser.js(f"{bottom}.bottom <= {top}.top")
    with serving(stub, port):
        until(browser, "document.querySelectorAll('.row').length === 4 && !document.querySelector('.ribbon')")


def test_a_link_to_the_api_downloads_with_the_secret(browser: Browser, tmp_path: Path) -> None:
    with open_stub(browser, Stub()) as stub:
        browser.call("Page.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
        go(browser, f"#/c/cats/d/{key_of(next(iter(stub.texts)))}", ".actions a")
        click(browser, ".actions a[href$='/original']")
        end = time.monotonic() + patience(PATIENCE)
        while not [one for one in tmp_path.iterdir() if not one.name.endswith(".crdownload")]:
            assert time.monotonic() < end
            time.sleep(0.03)
        (sent,) = [headers for _, path, headers, _ in stub.requests if path.endswith("/original")]
        assert sent["X-Mergewise"] == SECRET
        stub.cut = True
        click(browser, ".actions a[href$='/original']")
        assert text(browser, ".actions [role=alert]").endswith("Connection lost.Download the file again.")
        # the secret survives a reload, and ends with the session
        assert SECRET in browser.js("localStorage.getItem('mergewise-session')")


def test_a_read_only_collection_offers_no_changes(browser: Browser) -> None:
    failures = {"scan.pdf": {"code": "no_text", "detail": "the file has no text", "hint": "use the extra ocr"}}
    with open_stub(browser, Stub(read_only=True, failures=failures)) as stub:
        go(browser, "#/c/cats/documents", ".row")
        assert text(browser, ".fixed").startswith("Read-only here: documents are added and removed where")
        assert not browser.js("document.querySelector('.drop, #files, .row button')")
        stub.texts.clear()
        stub.failures.clear()
        visit(browser, stub)
        go(browser, "#/c/cats/ask", ".holdings")
        assert text(browser, ".holdings") == "No documents yet."
        go(browser, "#/c/cats/documents", ".fixed")
        until(browser, "document.querySelector('.fixed').textContent.startsWith('This collection is empty. Read-only')")
        assert_no_complaints(browser, stub)


def test_files_are_uploaded_indexed_and_removed(browser: Browser, tmp_path: Path) -> None:
    note = tmp_path / "note 👍.txt"
    note.write_text("Cats purr. " * 40)
    with open_stub(browser, Stub(texts={})) as stub:
        go(browser, "#/c/cats/documents", ".drop.large")
        root = browser.call("DOM.getDocument")["root"]["nodeId"]
        field = browser.call("DOM.querySelector", nodeId=root, selector="#files")["nodeId"]
        browser.call("DOM.setFileInputFiles", nodeId=field, files=[str(note)])
        until(browser, "document.querySelector('.row .state')?.textContent === 'indexing'")
        until(browser, "document.querySelector('.row .state')?.textContent === 'indexed'")
        (sent,) = [
            headers for method, path, headers, _ in stub.requests if method == "POST" and path.endswith("/documents")
        ]
        assert sent["X-Mergewise"] == SECRET and len(sent["Idempotency-Key"]) == 32
        click(browser, ".row [aria-label^=Remove]")
        click(browser, ".confirm .danger")
        until(browser, "!!document.querySelector('.drop.large')")
        assert_no_complaints(browser, stub)


def test_spans_are_right_after_surrogate_pairs(browser: Browser) -> None:
    stub = hostile_stub()
    with serving(stub):
        visit(browser, stub)
        start = HOSTILE.index("after.")
        go(browser, f"#/c/cats/d/{key_of(next(iter(stub.texts)))}?s={start}-{start + 6}", "#place")
        assert text(browser, "#place") == "after."
        # Open WebUI appends the first and the last word of the passage
        go(browser, f"#/c/cats/d/{key_of(next(iter(stub.texts)))}?s={start}-{start + 5}#:~:text=after", "#place")
        until(browser, "document.querySelector('#place').textContent === 'after'")
        assert HOSTILE_WORDS[:20] in text(browser, ".paper .text")


def test_a_long_document_is_read_in_windows(browser: Browser) -> None:
    with open_stub(browser, Stub()) as stub:
        name = "papers/long-report.pdf"
        words = stub.texts[name][0]
        start = words.index("Paragraph 3000.")
        go(browser, f"#/c/cats/d/{key_of(name)}?s={start}-{start + 15}", "#place")
        assert text(browser, "#place") == "Paragraph 3000."
        assert browser.js(
            "(r => r.top > 0 && r.bottom < innerHeight)(document.querySelector('#place').getBoundingClientRect())"
        )
        assert text(browser, ".path").startswith("Page ")
        # the server has no file of this document
        until(browser, "!document.querySelector('.printed, .with-page')")
        before = browser.js("document.querySelector('#place').getBoundingClientRect().top")
        shown = browser.js("document.querySelector('.paper .text').textContent.length")
        assert shown < 60_000
        click(browser, ".more button")
        until(browser, f"document.querySelector('.paper .text').textContent.length > {shown}")
        assert abs(browser.js("document.querySelector('#place').getBoundingClientRect().top") - before) < 2
        other = words.index("Paragraph 17.")
        browser.js(f"location.hash = '#/c/cats/d/{key_of(name)}?s={other}-{other + 13}'")
        until(browser, "document.querySelector('#place')?.textContent === 'Paragraph 17.'")
        until(
            browser,
            "(r => r.top > 0 && r.bottom < innerHeight)(document.querySelector('#place').getBoundingClientRect())",
        )


def test_text_begins_at_a_heading_and_never_within_code(browser: Browser) -> None:
    code = "```\n" + "line *of* code\n" * 900 + "```\n\n"
    guide = f"# Guide\n\n## Long\n\n{code}## Goal\n\nThe *cited* place.\n"
    with open_stub(browser, Stub(texts={"guide.md": (guide, "Guide")})):
        start = guide.index("place.")
        go(browser, f"#/c/cats/d/{key_of('guide.md')}?s={start}-{start + 6}", "#place")
        assert browser.js("document.querySelectorAll('.paper pre').length") == 1
        assert browser.js("document.querySelector('.paper p:has(#place) em').textContent") == "cited"
        assert "```" not in text(browser, ".paper .text")


def test_the_trace_is_a_tree_with_steps(browser: Browser) -> None:
    with open_stub(browser, Stub()):
        ask(browser)
        until(browser, "!!document.querySelector('.foot')")
        go(browser, "#/c/cats/merge", ".tree li")
        chips = browser.js("[...document.querySelectorAll('.tree .chip')].map(e => e.textContent)")
        assert {"merged", "hit", "hop", "“high-rise syndrome”"} <= set(chips)
        assert "The minimum height" in until(browser, "document.querySelector('.leftover .quote')?.textContent.trim()")
        assert "left out: 22 tokens, 9 left" in text(browser, ".leftover")
        assert browser.js("document.querySelectorAll('.tree .later').length") == 0
        browser.js("document.querySelector('.stepper button').focus()")
        for _ in range(7):
            browser.press("Enter")
        until(browser, "document.querySelectorAll('.tree .later').length > 0")
        assert FALLS.splitlines()[6].startswith("In a study")


def test_missing_features_and_scopes_have_a_note(browser: Browser) -> None:
    with open_stub(browser, Stub(evaluations=False, scopes=frozenset({"read"}))):
        go(browser, "#/c/cats/evaluate", ".panel")
        browser.js(CHOOSE_SET)
        assert "does not run evaluations" in text(browser, ".panel .note")
        go(browser, "#/settings", ".setting")
        until(
            browser,
            "[...document.querySelectorAll('.setting .where')].filter(e => e.textContent.includes('scope admin')).length === 2",
        )
        go(browser, "#/c/nowhere/ask", ".empty")
        assert "Collection not found" in text(browser, ".empty")


def test_evaluations_read_the_files_of_the_command_line(
    browser: Browser, start_server: Callable[..., LiveServer]
) -> None:
    live = start_server(with_chat=False)
    tutorial = Path(__file__).parents[2].joinpath("docs/tutorials/evaluate.md").read_text()
    table = tutorial.partition("questions.csv -->\n```text\n")[2].partition("```")[0]
    visit_address(browser, live.base, live.tokens["admin"])
    go(browser, "#/c/birds/evaluate", ".panel")

    def choose(name: str, content: str) -> None:
        browser.js(CHOOSE_SET.replace("""'{"question": "Why?"}'""", json.dumps(content)).replace("set.jsonl", name))

    choose("questions.csv", table)
    until(browser, "document.querySelector('.panel .where').textContent === '8 questions'")
    click(browser, ".panel .primary")
    until(browser, "document.querySelectorAll('.rows .row').length === 1")
    (job,) = live.state.jobs.find(kinds=["evaluate"])
    assert len(questions_of(job.request).questions) == 8 and job.request["name"] == "questions.csv"
    # the reason of a wrong file is shown at once
    choose("questions.csv", "question,reply\nWhy?,so\n")
    assert "Missing columns question and answer" in text(browser, ".panel [role=alert]")
    choose("set.jsonl", '{"question": "Why?", "answers": ["so"]}\nnone\n')
    until(browser, "document.querySelector('.panel [role=alert]').textContent.includes('line 2')")
    assert browser.js("document.querySelector('.panel .primary').disabled")


@pytest.mark.parametrize("width", [1280, 320])
def test_the_page_shows_how_far_indexing_is(
    browser: Browser, start_server: Callable[..., LiveServer], width: int
) -> None:
    live = start_server(with_chat=False)
    job = live.state.jobs.enqueue("sync", "ships")
    live.state.jobs.claim()
    live.state.jobs.set_progress(job.id, JobProgress(22, 100, document="fleet/old ships.md"))
    visit_address(browser, live.base, live.tokens["admin"], width=width)
    browser.js(AXE)
    go(browser, "#/c/ships/ask", ".unfinished .meter[aria-valuenow='22']")
    notice = "Indexing is at 22 %: answers may be incomplete. Now: fleet/old ships.md"
    assert text(browser, ".unfinished p") == notice
    ask(browser, "When was the Aurora built?")
    until(browser, "!!document.querySelector('.foot')")
    assert browser.js("document.querySelector('main').innerText.match(/answers may be incomplete/g).length") == 1
    assert not browser.js("document.querySelector('.note')")
    assert json.loads(browser.js(RUN_AXE)) == []
    assert browser.js("document.documentElement.scrollWidth") <= width
    live.state.jobs.set_progress(job.id, JobProgress(57, 100))
    until(browser, "!!document.querySelector('.unfinished .meter[aria-valuenow=\"57\"]')")
    go(browser, "#/c/ships/documents", ".job .meter")
    assert "Indexing folders" in text(browser, ".job") and not browser.js("document.querySelector('.unfinished')")
    live.state.jobs.finish(job.id, "done")
    go(browser, "#/c/ships/ask", "textarea")
    until(browser, "!document.querySelector('.unfinished')")
    assert text(browser, ".note") == "Not all documents were indexed when you asked: ask again."
    assert browser.complaints() == []


def test_documents_whose_vectors_wait_are_searchable_by_words(
    browser: Browser, start_server: Callable[..., LiveServer]
) -> None:
    live = start_server(with_chat=False)
    record = record_of(live.config, "waits")
    live.state.collections.add(record)
    with mw.open(record.path) as index:
        index.add(mw.Document("first.md", "# First\n\nHas vectors.\n"))
        index.add(mw.Document("second.md", "# Second\n\nHas none yet.\n"), embed="later")
    listed = live.client().get("/api/v1/collections/waits/documents").json()["items"]
    assert [one["waits_for_vectors"] for one in listed] == [False, True]
    visit_address(browser, live.base, live.tokens["read"])
    go(browser, "#/c/waits/documents", ".row .state")
    states = "[...document.querySelectorAll('.row .state')].map(one => one.textContent).join()"
    assert browser.js(states) == "indexed,searchable by words"
    with mw.open(record.path) as index:
        index.embed()
    assert (
        not live.client().get(f"/api/v1/collections/waits/documents/{key_of('second.md')}").json()["waits_for_vectors"]
    )


def test_an_empty_collection_says_how_to_fill_it(
    browser: Browser, start_server: Callable[..., LiveServer], tmp_path: Path
) -> None:
    live = start_server(collections={"folders": CollectionConfig(folders=(tmp_path,))})
    for name in ("bare", "folders"):
        live.state.collections.add(record_of(live.config, name))
    failed = live.state.jobs.enqueue("sync", "folders")
    live.state.jobs.finish(failed.id, "failed", error={"code": "usage", "detail": "docs does not exist"})
    visit_address(browser, live.base, live.tokens["admin"])
    go(browser, "#/c/bare/ask", ".holdings a")
    assert text(browser, ".holdings") == "No documents yet. Add documents first."
    go(browser, "#/c/folders/ask", ".unfinished button")
    assert text(browser, ".unfinished p") == "The folders of this collection could not be indexed: docs does not exist."
    assert not browser.js("document.querySelector('.holdings')")
    click(browser, ".unfinished button")
    until(browser, "document.querySelector('.unfinished p').textContent.startsWith('Indexing is at 0 %')")
    assert [(job.kind, job.state) for job in live.state.jobs.find()] == [("sync", "queued"), ("sync", "failed")]
    go(browser, "#/c/folders/documents", ".job .meter")
    assert not browser.js("document.querySelector('.drop.large')")


def test_the_page_works_with_the_real_server(browser: Browser, server: LiveServer) -> None:
    visit_address(browser, server.base, server.tokens["admin"])
    go(browser, "#/c/ships/ask", "textarea")
    ask(browser, "When was the Aurora built?")
    until(browser, "!!document.querySelector('.foot')")
    assert "built in Lyme in 1871" in text(browser, ".said")
    cited = browser.js("[...document.querySelectorAll('.sources .passage .cited')].map(e => e.textContent)")
    assert "It was built in Lyme in 1871." in cited
    browser.js("document.querySelector('.said .cite').click()")
    browser.js("document.querySelector('.passage.active h3 a').click()")
    assert text(browser, "#place") == cited[0]
    assert text(browser, ".path").startswith("The Aurora")
    go(browser, "#/c/ships/merge", ".tree .chip.hit")
    assert "take" in text(browser, ".steps")
    go(browser, "#/c/ships/compare", ".composer button[type=submit]:not(:disabled)")
    click(browser, ".composer button[type=submit]")
    until(browser, "document.querySelectorAll('.column .passage').length >= 3")
    go(browser, "#/c/birds/documents", ".row .state.indexed")
    assert "birds.md" in text(browser, ".row")
    go(browser, "#/c/birds/evaluate", ".empty")
    go(browser, "#/settings", ".facts-list")
    until(
        browser,
        "document.querySelectorAll('.setting').length === 7 && document.querySelectorAll('.waiting').length === 0",
    )
    assert browser.complaints() == []
    assert [url for url in browser.requests() if not url.startswith(server.base)] == []
