"""The page in headless Chromium: no requests, no errors, readable and usable in both colour schemes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from mergewise.page import answer_page, comparison_page, context_page
from tests.page import chromium
from tests.page.chromium import Browser
from tests.page.support import CATS, answered, context, hopping, lookup, passage
from tests.page.test_page import NASTY, everywhere

pytestmark = pytest.mark.skipif(chromium.PATH is None, reason=f"none of {', '.join(chromium.NAMES)} is installed")

SCHEMES = ("light", "dark")
READABLE = 4.5  # minimum contrast of text by WCAG 2, level AA

# each text with its colour and the colours behind it, from its own element outwards
COLOURS = """
[...document.querySelectorAll("body *")].filter(e => e.checkVisibility() && e.tagName !== "OPTION"
    && [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())).map(e => {
  const behind = [];
  for (let at = e; at; at = at.parentElement) {
    behind.push(getComputedStyle(at).backgroundColor);
  }
  const style = getComputedStyle(e);
  return [e.tagName + "." + e.className, e.textContent.slice(0, 40), style.color, behind];
})
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium.browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    one, other = hopping(), context([passage(CATS, "Cats eat Kibble.")], strategy="topk")
    made = {
        "answer": answer_page(answered(), document=lookup),
        "context": context_page(hopping(), document=lookup),
        "comparison": comparison_page([(one, 0.1), (other, 0.1)], document=lookup),
    }
    folder = tmp_path_factory.mktemp("pages")
    for name, page in made.items():
        (folder / f"{name}.html").write_text(page, encoding="utf-8")
    return {name: folder / f"{name}.html" for name in made}


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", ["answer", "context", "comparison"])
def test_the_page_makes_no_requests_and_logs_no_errors(
    browser: Browser, pages: dict[str, Path], name: str, scheme: str
) -> None:
    browser.open(pages[name], scheme)
    browser.press("j", "j", "k", "c", "s", "?")
    assert browser.js("document.getElementById('help').open")
    browser.press("Escape")
    assert browser.requests() == [pages[name].as_uri()]
    assert browser.complaints() == []


@pytest.mark.parametrize("nasty", NASTY)
def test_text_of_documents_does_not_run(browser: Browser, tmp_path: Path, nasty: str) -> None:
    answer, document = everywhere(nasty)
    path = tmp_path / "nasty.html"
    path.write_text(answer_page(answer, document=lambda doc_id: document), encoding="utf-8")
    browser.open(path)
    assert browser.requests() == [path.as_uri()]
    assert browser.complaints() == []
    assert browser.js("document.querySelectorAll('img, iframe, object, [onmouseover]').length") == 0
    assert browser.js("getComputedStyle(document.querySelector('.passage')).display") == "block"


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", ["answer", "context", "comparison"])
def test_every_text_has_enough_contrast(browser: Browser, pages: dict[str, Path], name: str, scheme: str) -> None:
    browser.open(pages[name], scheme)
    browser.js("document.querySelectorAll('details').forEach(d => d.open = true)")
    texts = browser.js(COLOURS)
    assert len(texts) > 20
    faint = {(where, words): round(ratio, 2) for where, words, ratio in map(contrast_of, texts) if ratio < READABLE}
    assert faint == {}


def contrast_of(painted: tuple[str, str, str, list[str]]) -> tuple[str, str, float]:
    where, words, colour, behind = painted
    ground: tuple[float, ...] = (255.0, 255.0, 255.0)
    for layer in map(rgba, reversed(behind)):
        ground = over(layer, ground)
    light, dark = sorted((luminance(over(rgba(colour), ground)), luminance(ground)), reverse=True)
    return where, words, (light + 0.05) / (dark + 0.05)


def rgba(colour: str) -> tuple[float, ...]:
    """Parse a CSS colour to red, green, blue (0 to 255) and opacity (0 to 1)."""
    numbers = [float(number) for number in re.findall(r"[\d.]+(?:e-?\d+)?", colour.replace("srgb", ""))]
    if colour == "none":
        return 0, 0, 0, 0
    scale = 255 if colour.startswith("color(") else 1
    red, green, blue = (number * scale for number in numbers[:3])
    return red, green, blue, numbers[3] if len(numbers) > 3 else 1.0


def over(layer: tuple[float, ...], ground: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(layer[3] * above + (1 - layer[3]) * below for above, below in zip(layer[:3], ground[:3], strict=True))


def luminance(colour: tuple[float, ...]) -> float:
    """Return the relative luminance by WCAG 2."""
    parts = [c / 255 for c in colour[:3]]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_contrast_matches_the_standard() -> None:
    assert contrast_of(("", "", "rgb(0, 0, 0)", ["rgb(255, 255, 255)"]))[2] == pytest.approx(21)
    assert contrast_of(("", "", "rgb(119, 119, 119)", ["rgba(0, 0, 0, 0)"]))[2] == pytest.approx(4.48, abs=0.01)


def test_the_two_schemes_differ_and_the_switch_works_without_a_script(browser: Browser, pages: dict[str, Path]) -> None:
    paper = "getComputedStyle(document.body).backgroundColor"
    seen = {}
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        for scheme in SCHEMES:
            browser.open(pages["answer"], scheme)
            seen[scheme] = browser.js(paper)
            assert browser.js("document.getElementById('help-button').hidden")
        browser.js("document.getElementById('scheme-light').checked = true")
        assert browser.js(paper) == seen["light"] != seen["dark"]
        browser.js("document.getElementById('around').checked = false")
        assert not browser.js("document.querySelector('.around').checkVisibility()")
    finally:
        browser.call("Emulation.setScriptExecutionDisabled", value=False)


def test_keys_move_the_focus_through_the_passages(browser: Browser, pages: dict[str, Path]) -> None:
    focused = "document.activeElement.id"
    browser.open(pages["answer"])
    seen = []
    for key in ("j", "j", "j", "k", "k", "a"):
        browser.press(key)
        seen.append(browser.js(focused))
    assert seen == ["p1", "p2", "p2", "p1", "p1", "answer"]
    assert browser.js("getComputedStyle(document.querySelector('#p1')).boxShadow") == "none"
    browser.press("j")
    assert browser.js("getComputedStyle(document.activeElement).boxShadow") != "none"
    browser.press("s")
    assert not browser.js("document.getElementById('around').checked")


def test_tab_reaches_links_with_a_visible_focus(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["answer"])
    reached = set()
    for _ in range(40):
        browser.press("Tab")
        reached.add(
            browser.js("document.activeElement.closest('nav, .answer, .bar, .hops, .passage, .trace')?.className")
        )
        if browser.js("document.activeElement.matches('a, summary')"):
            assert browser.js("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    assert {"answer", "bar", "tree hops", "passage", "trace"} <= reached


def test_a_citation_mark_links_to_the_text(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["answer"], height=300)
    browser.js("document.querySelector('.said a.cite').click()")
    assert browser.js("location.hash") == "#c1"
    assert browser.js("document.querySelector(':target').textContent") == "Kibble was invented in 1860."
    assert browser.js(
        "(r => r.top >= 0 && r.bottom <= innerHeight)(document.querySelector(':target').getBoundingClientRect())"
    )


def test_every_control_and_picture_has_a_name(browser: Browser, pages: dict[str, Path]) -> None:
    for path in pages.values():
        browser.open(path)
        nodes = browser.call("Accessibility.getFullAXTree")["nodes"]
        named = {"link", "button", "radio", "checkbox", "article", "figure", "navigation", "region", "heading"}
        for node in nodes:
            if not node["ignored"] and node["role"]["value"] in named - {"figure"}:
                assert node["name"]["value"].strip(), node


@pytest.mark.parametrize("name", ["answer", "context", "comparison"])
def test_a_narrow_screen_does_not_scroll_sideways(browser: Browser, pages: dict[str, Path], name: str) -> None:
    browser.open(pages[name], width=340)
    assert browser.js("document.documentElement.scrollWidth") <= 340


def test_print_shows_only_the_sources(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["answer"], "dark")
    browser.call(
        "Emulation.setEmulatedMedia", media="print", features=[{"name": "prefers-color-scheme", "value": "dark"}]
    )
    assert not browser.js("document.querySelector('nav').checkVisibility()")
    assert browser.js("document.querySelector('.passage').checkVisibility()")
    assert luminance(rgba(browser.js("getComputedStyle(document.body).color"))) < 0.1


def test_a_notebook_frame_works_inside_another_page(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "notebook.html"
    path.write_text(f"<!doctype html><meta charset=utf-8><title>n</title>{hopping()._repr_html_()}", encoding="utf-8")
    browser.open(path)
    assert browser.complaints() == []
    assert [url for url in browser.requests() if url.startswith("http")] == []
    assert browser.js("document.querySelector('iframe').getBoundingClientRect().height") > 300
