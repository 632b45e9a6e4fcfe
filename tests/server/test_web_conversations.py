"""Conversations, feedback and suggestions on the live page, in headless Chromium with a real server."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.page import chromium
from tests.page.chromium import Browser
from tests.server.conftest import LiveServer, live_server, make_collection
from tests.server.test_web_page import AXE, FOREIGN, RUN_AXE, ask, click, go, text, until, visit_address, write
from tests.server.web_stub import HOSTILE_WORDS
from tests.support import until as holds

pytestmark = pytest.mark.skipif(chromium.PATH is None, reason=f"none of {', '.join(chromium.NAMES)} is installed")

QUESTION = "When was the Aurora built?"
OPENER = ".composer [aria-haspopup]"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium.browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory, scripted_key: None) -> Iterator[LiveServer]:
    with live_server(tmp_path_factory.mktemp("page")) as started:
        yield started


@pytest.fixture
def token(live: LiveServer) -> str:
    return live.state.tokens.add(["read"], rate=10_000)[1]


def arrive(browser: Browser, live: LiveServer, token: str, width: int = 1280, scheme: str = "light") -> None:
    """Open the page in a fresh tab: signed in, without settings of an earlier visit."""
    visit_address(browser, live.base, token, scheme, width)
    browser.js("sessionStorage.clear()")
    visit_address(browser, live.base, token, scheme, width)
    go(browser, "#/c/ships/ask", "textarea")
    # the first visit may have lost its cookie during a request
    time.sleep(0.1)
    browser.js("1")
    browser.events.clear()


def answers(browser: Browser, count: int) -> None:
    until(browser, f"document.querySelectorAll('.foot').length === {count}")


def reload(browser: Browser) -> None:
    browser.events.clear()
    browser.call("Page.reload")
    until(browser, "!!document.querySelector('.foot, textarea')")


def drawer_says(browser: Browser, words: str) -> None:
    until(browser, f"document.querySelector('.drawer').textContent.includes({json.dumps(words)})")


def open_actions(browser: Browser) -> None:
    click(browser, ".talks li:first-child .more-acts")
    until(browser, "!!document.querySelector('.talks .actions')")


def press(browser: Browser, label: str) -> None:
    """Click the button with this text in the drawer."""
    wanted = f"[...document.querySelectorAll('.drawer button')].find(one => one.textContent === {json.dumps(label)})"
    until(browser, f"!!{wanted}")
    browser.js(f"{wanted}.click()")


def axe(browser: Browser) -> Any:
    browser.js(AXE)
    return json.loads(browser.js(RUN_AXE))


def test_a_conversation_survives_a_reload_and_another_browser(browser: Browser, live: LiveServer, token: str) -> None:
    arrive(browser, live, token)
    ask(browser, QUESTION)
    answers(browser, 1)
    ask(browser, "And then?")
    answers(browser, 2)
    reload(browser)
    answers(browser, 2)
    assert text(browser, ".asked") == QUESTION and "built in Lyme in 1871" in text(browser, ".said")
    assert browser.js("document.querySelectorAll('.sources .passage').length") >= 2
    ask(browser, "And now?")
    answers(browser, 3)
    (one,) = live.client(token).get("/api/v1/collections/ships/conversations").json()["items"]
    assert one["turns"] == 3
    arrive(browser, live, token)
    assert not browser.js("document.querySelector('.foot')")
    click(browser, OPENER)
    assert text(browser, ".talks .where").endswith("3 questions")
    click(browser, ".talks .name")
    answers(browser, 3)
    assert not browser.js("document.querySelector('dialog')")
    assert browser.complaints() == []


def test_the_drawer_searches_renames_and_deletes(browser: Browser, live: LiveServer, token: str) -> None:
    arrive(browser, live, token)
    for question in (QUESTION, "Which ship sank near Skye?"):
        ask(browser, question)
        answers(browser, 1)
        browser.js("[...document.querySelectorAll('.beneath-acts button')].at(-1).click()")
        until(browser, "!document.querySelector('.foot')")
    click(browser, OPENER)
    names = "[...document.querySelectorAll('.talks .name')].map(one => one.textContent).join('|')"
    until(browser, f"{names} === 'Which ship sank near Skye?|{QUESTION}'")
    write(browser, ".drawer [type=search]", "AURORA b")
    until(browser, f"{names} === '{QUESTION}'")
    open_actions(browser)
    press(browser, "Rename")
    browser.js("document.querySelector('.talks [type=text]').select()")
    write(browser, ".talks [type=text]", "The Aurora built when?")
    browser.press("Enter")
    until(browser, f"{names} === 'The Aurora built when?'")
    open_actions(browser)
    press(browser, "Delete")
    click(browser, ".confirm .danger")
    drawer_says(browser, "No conversation contains these words.")
    browser.press("Escape")
    until(browser, "!document.querySelector('dialog')")
    titles = [one["title"] for one in live.client(token).get("/api/v1/collections/ships/conversations").json()["items"]]
    assert titles == ["Which ship sank near Skye?"] and browser.complaints() == []


def test_deleting_the_shown_conversation_clears_the_view(browser: Browser, live: LiveServer, token: str) -> None:
    arrive(browser, live, token)
    ask(browser, QUESTION)
    answers(browser, 1)
    click(browser, OPENER)
    until(browser, "!!document.querySelector('.talks [aria-current]')")
    open_actions(browser)
    press(browser, "Delete")
    click(browser, ".confirm .danger")
    until(browser, "!document.querySelector('.foot') && document.querySelector('h1').textContent.includes('know')")


def test_exports_have_the_text_and_the_sources(browser: Browser, live: LiveServer, token: str, tmp_path: Path) -> None:
    arrive(browser, live, token)
    browser.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    ask(browser, QUESTION)
    answers(browser, 1)
    click(browser, OPENER)
    open_actions(browser)
    press(browser, "Markdown")
    press(browser, "JSON")
    name = "When was the Aurora built "
    saved = [tmp_path / f"{name}.{kind}" for kind in ("md", "json")]
    assert holds(lambda: all(path.exists() and path.stat().st_size for path in saved), 10.0), list(tmp_path.iterdir())
    markdown = saved[0].read_text()
    assert markdown.startswith(f"# {QUESTION}\n\n> {QUESTION}\n\nThe Aurora was built in Lyme in 1871 [1].\n\n- [1] ")
    assert f"{live.base}/#/c/ships/d/" in markdown
    (own,) = live.client(token).get("/api/v1/collections/ships/conversations").json()["items"]
    kept = live.client(token).get(f"/api/v1/collections/ships/conversations/{own['id']}").json()
    assert json.loads(saved[1].read_text()) == kept
    assert browser.complaints() == []


def test_hostile_names_stay_text(browser: Browser, live: LiveServer, token: str) -> None:
    arrive(browser, live, token, 320)
    ask(browser, HOSTILE_WORDS[:400])
    answers(browser, 1)
    click(browser, ".thumb")
    write(browser, ".feedback [type=text]", HOSTILE_WORDS[:200])
    browser.press("Enter")
    until(browser, "!document.querySelector('.feedback form')")
    click(browser, OPENER)
    open_actions(browser)
    assert browser.js(f"document.querySelectorAll({json.dumps(FOREIGN)}).length") == 0
    assert "stolen" not in browser.js("document.title")
    assert "\u202e" not in browser.js("document.body.innerText")
    # a closed keyboard hides the buttons below the field, but not the drawer
    assert browser.js("document.querySelector('.drawer').getBoundingClientRect().width") == 320
    assert browser.js("document.querySelector('.drawer').scrollWidth") <= 320 and axe(browser) == []
    assert browser.complaints() == []


def test_an_answer_is_copied_with_its_sources(browser: Browser, live: LiveServer, token: str) -> None:
    arrive(browser, live, token)
    ask(browser, QUESTION)
    answers(browser, 1)
    browser.js("navigator.clipboard.writeText = words => { window.copied = words; return Promise.resolve() }")
    browser.js("[...document.querySelectorAll('.foot button')].find(one => one.textContent === 'Copy').click()")
    copied = until(browser, "window.copied")
    assert copied.startswith(
        "The Aurora was built in Lyme in 1871 [1].\n\nSources:\n[1] ships/fleet.md › The Aurora, line "
    )
    assert f"{live.base}/#/c/ships/d/" in copied


@pytest.mark.parametrize("width", [1280, 320])
def test_a_link_is_opened_by_others(browser: Browser, live: LiveServer, token: str, width: int) -> None:
    arrive(browser, live, token, width)
    ask(browser, QUESTION)
    answers(browser, 1)
    click(browser, OPENER)
    open_actions(browser)
    press(browser, "Share")
    link = until(browser, "document.querySelector('.talks [readonly]')?.value")
    assert link.startswith(f"{live.base}/#/c/ships/shared?id=")
    assert axe(browser) == [] and browser.js("document.documentElement.scrollWidth") <= width
    hash = link.partition("#")[2]
    arrive(browser, live, live.state.tokens.add(["read"], rate=10_000)[1], width)
    go(browser, hash, ".foot")
    assert text(browser, "h1") == QUESTION and "built in Lyme" in text(browser, ".said")
    assert not browser.js("document.querySelector('textarea, .thumbs')")
    assert axe(browser) == [] and browser.js("document.documentElement.scrollWidth") <= width
    condition = {"type": "eq", "key": "kind", "value": "nothing"}
    arrive(browser, live, live.state.tokens.add(["read"], filter=condition, rate=10_000)[1], width)
    go(browser, hash, ".note")
    assert "you may not see them" in text(browser, ".note") and "Lyme" not in browser.js("document.body.innerText")
    go(browser, "#/c/ships/shared?id=nothing", ".empty")
    assert "stopped sharing" in text(browser, ".empty")


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 320)])
def test_feedback_is_given_noted_and_withdrawn(
    browser: Browser, live: LiveServer, token: str, scheme: str, width: int
) -> None:
    arrive(browser, live, token, width, scheme)
    ask(browser, QUESTION)
    answers(browser, 1)
    click(browser, ".thumb.down")
    write(browser, ".feedback [type=text]", "It was 1872.")
    assert axe(browser) == [] and browser.js("document.documentElement.scrollWidth") <= width
    browser.press("Enter")
    until(browser, "!document.querySelector('.feedback form')")
    (own,) = live.client(token).get("/api/v1/collections/ships/conversations").json()["items"]

    def rating() -> Any:
        path = f"/api/v1/collections/ships/conversations/{own['id']}"
        return live.client(token).get(path).json()["items"][0]["feedback"]

    assert rating() == {"good": False, "note": "It was 1872."}
    reload(browser)
    until(browser, "document.querySelector('.thumb.down')?.getAttribute('aria-pressed') === 'true'")
    click(browser, ".thumb.down")
    until(browser, "document.querySelector('.thumb.down').getAttribute('aria-pressed') === 'false'")
    assert rating() is None and browser.complaints() == []


def test_a_suggested_question_is_asked(browser: Browser, start_server: Callable[..., LiveServer]) -> None:
    live = start_server()
    terns = "# Terns\n\nA bird.\n\n## How far do terns fly each year?\n\nFar.\n\n## More on terns and gulls\n\nNo.\n"
    make_collection(live.config, live.state, "terns", {"terns.md": terns})
    visit_address(browser, live.base, live.tokens["read"])
    go(browser, "#/c/terns/ask", ".suggestions button")
    assert axe(browser) == []
    assert text(browser, ".suggestions button").startswith("How far do terns fly each year?")
    click(browser, ".suggestions button")
    answers(browser, 1)
    assert text(browser, ".asked") == "How far do terns fly each year?" and not browser.js(
        "document.querySelector('.suggestions')"
    )


def test_the_drawer_waits_for_a_lost_server(
    browser: Browser, start_server: Callable[..., LiveServer], tmp_path: Path
) -> None:
    live = start_server()
    arrive(browser, live, live.tokens["read"])
    click(browser, OPENER)
    drawer_says(browser, "No conversations yet.")
    live.uvicorn.should_exit = True
    live.thread.join(20)
    write(browser, ".drawer [type=search]", "x")
    drawer_says(browser, "come back with it")
    assert browser.js("document.querySelector('.drawer [type=search]').disabled")
    assert axe(browser) == []
    browser.press("Escape")
    until(browser, "!document.querySelector('dialog')")


def test_a_server_that_keeps_none_says_so(browser: Browser, start_server: Callable[..., LiveServer]) -> None:
    live = start_server(limits={"conversations": 0})
    arrive(browser, live, live.tokens["read"])
    ask(browser, QUESTION)
    answers(browser, 1)
    assert not browser.js("document.querySelector('.thumbs')")
    click(browser, OPENER)
    drawer_says(browser, "keeps no conversations")


def test_another_conversation_is_opened_during_an_answer(
    browser: Browser, start_server: Callable[..., LiveServer]
) -> None:
    live = start_server()
    arrive(browser, live, live.tokens["read"])
    ask(browser, QUESTION)
    browser.js("[...document.querySelectorAll('.beneath-acts button')].at(-1).click()")
    until(browser, "!document.querySelector('.turn')")
    time.sleep(0.3)
    assert not browser.js("document.querySelector('.turn')")
