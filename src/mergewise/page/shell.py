"""The frame of every page: head, styles, scripts and controls.

The page's Content-Security-Policy forbids all requests, and allows only the page's own scripts by their hashes. All text of
documents is escaped; the policy is a second line of defence against a mistake there.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files
from string import Template

from mergewise.page.markup import Child, Markup, join, shorten, tag, text, void


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


@cache
def _template() -> Template:
    """Return the page with its controls. Blanks between its elements would be shown, so they are only in the file."""
    doctype, *lines = map(str.strip, asset("page.html").splitlines())
    return Template(f"{doctype}\n{''.join(lines)}\n")


def html_page(title: str, body: Child, *, surroundings: bool, script: str = "") -> str:
    """Return a complete page with the given body, and optionally with one more script."""
    scripts = tuple(filter(None, (asset("page.js"), script)))
    around = tag("label", void("input", type="checkbox", id="around", checked=True), "Surrounding text")
    return _template().substitute(
        policy=text(_policy(scripts)),
        title=text(shorten(title, 120)),
        style=asset("shared.css") + asset("page.css"),
        around=around if surroundings else "",
        main=tag("main", body, id="main"),
        scripts=join(tag("script", Markup(one)) for one in scripts),
    )
