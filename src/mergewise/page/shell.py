"""The frame of every page: head, styles, scripts and controls.

The page's Content-Security-Policy forbids all requests, and allows only the page's own scripts by their hashes. All text of
documents is escaped; the policy is a second line of defence against a mistake there.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files

from mergewise.page.markup import Child, Markup, shorten, tag, void

KEYS = (
    ("j", "next passage"),
    ("k", "previous passage"),
    ("a", "answer, or question"),
    ("s", "surrounding text on or off"),
    ("c", "colours: system, light, dark"),
    ("?", "this help"),
)
_HELP = "Keyboard help"


@cache
def asset(name: str, package: str = "mergewise.page") -> str:
    return files(package).joinpath(name).read_text(encoding="utf-8")


@cache
def _policy(scripts: tuple[str, ...]) -> str:
    digests = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    named = (f"'sha256-{digest}'" for digest in digests)
    return (
        "default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
        f"script-src {' '.join(named)}; base-uri 'none'; form-action 'none'"
    )


def html_page(title: str, body: Child, *, surroundings: bool, script: str = "") -> str:
    """Return a complete page with the given body, and optionally with one more script."""
    scripts = tuple(filter(None, (asset("page.js"), script)))
    head = tag(
        "head",
        void("meta", charset="utf-8"),
        void("meta", http_equiv="Content-Security-Policy", content=_policy(scripts)),
        void("meta", name="viewport", content="width=device-width, initial-scale=1"),
        void("meta", name="color-scheme", content="light dark"),
        void("meta", name="generator", content="mergewise"),
        void("link", rel="icon", href="data:,"),
        tag("title", shorten(title, 120)),
        tag("style", Markup(asset("shared.css") + asset("page.css"))),
    )
    run = [tag("script", Markup(one)) for one in scripts]
    keys = [tag("div", tag("dt", tag("kbd", key)), tag("dd", meaning)) for key, meaning in KEYS]
    close = tag("form", tag("button", "Close", type="submit"), method="dialog")
    help = tag("dialog", tag("h2", "Keys", id="keys"), tag("dl", *keys), close, id="help", aria_labelledby="keys")
    around = tag("label", void("input", type="checkbox", id="around", checked=True), "Surrounding text")
    choices = []
    for name in ("auto", "light", "dark"):
        choice = void("input", type="radio", name="scheme", id=f"scheme-{name}", value=name, checked=name == "auto")
        choices.append(tag("label", choice, tag("span", name.capitalize())))
    controls = tag(
        "nav",
        tag("a", "Skip to the sources", href="#sources", class_="skip"),
        tag("span", "mergewise", class_="brand"),
        around if surroundings else None,
        tag("fieldset", tag("legend", "Colours", class_="sr"), *choices, class_="schemes"),
        tag("button", "?", id="help-button", type="button", aria_label=_HELP, title=_HELP, hidden=True),
        aria_label="Page",
    )
    page = tag("body", controls, tag("main", body, id="main"), help, *run)
    return "<!doctype html>\n" + tag("html", head, page, lang="en") + "\n"
