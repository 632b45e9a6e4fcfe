"""The option `--html FILE`."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.command import run_in as run
from tests.page import chromium
from tests.page.support import Page
from tests.support import until

COMMAND = Path(sys.executable).parent / "mergewise"
QUESTION = "How long do cats sleep?"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    (folder / "docs").mkdir()
    text = "# Cats\n\n## Sleep\n\nCats sleep sixteen hours a day. Kittens sleep more.\n\n## Food\n\nCats eat fish.\n"
    (folder / "docs" / "cats.md").write_text(text, encoding="utf-8")
    assert run(folder, "index", "docs", "--embedder", "none").returncode == 0
    return folder


@pytest.mark.parametrize("command", ["ask", "context", "compare"])
def test_the_page_is_written_in_addition_to_the_output(home: Path, command: str) -> None:
    done = run(home, command, QUESTION, "--html", f"{command}.html", "--budget", "60")
    assert done.returncode == 0, done.stderr
    assert "sixteen hours" in done.stdout and f"page: {command}.html" in done.stderr
    page = Page((home / f"{command}.html").read_text(encoding="utf-8"))
    assert page.one("h1").text == QUESTION
    assert "docs/cats.md:5" in page.elements[0].text
    assert len(page.all("section", "column")) == (3 if command == "compare" else 0)


@pytest.mark.parametrize("command", ["ask", "context"])
def test_the_page_is_written_even_if_the_output_pipe_closes(home: Path, command: str) -> None:
    read, write = os.pipe()
    os.close(read)
    words = [str(COMMAND), command, QUESTION, "--html", f"unread-{command}.html"]
    unbuffered = {**os.environ, "PYTHONUNBUFFERED": "1"}
    subprocess.run(words, cwd=home, stdout=write, stderr=subprocess.PIPE, env=unbuffered, check=False)
    os.close(write)
    assert Page((home / f"unread-{command}.html").read_text(encoding="utf-8")).one("h1").text == QUESTION


def test_json_is_unchanged_with_a_page(home: Path) -> None:
    plain = run(home, "context", QUESTION, "--json")
    assert run(home, "context", QUESTION, "--json", "--html", "c.html").stdout == plain.stdout


def test_an_unwritable_file_is_an_error(home: Path) -> None:
    done = run(home, "context", QUESTION, "--html", "nowhere/page.html")
    assert done.returncode == 2
    assert "nowhere/page.html: No such file or directory" in done.stderr
    assert "name a file in an existing folder" in done.stderr


HOSTILE = (
    "<script>top.stolen=1</script><img src=https://evil.invalid/a.png onerror=top.stolen=1>"
    "</style></title></script></textarea>]]><!--<svg onload=top.stolen=1><iframe src=//evil.invalid></iframe>"
    '" onmouseover="top.stolen=1" style="background:url(//evil.invalid/b)" x=\''
    "[go](javascript:top.stolen=1) ![see](https://evil.invalid/c.png) &lt;b&gt; \u202eevil\u202c \u2066\u200f"
)
HOSTILE_NAME = '"><img src=x onerror=top.stolen=1> javascript:alert(1) \u202egnp.md'
# the policy alone would also stop scripts and requests, so each page is opened without it too
POLICY = re.compile('<meta http-equiv="Content-Security-Policy"[^>]*>')


@pytest.fixture(scope="module")
def hostile_pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The pages of all commands for documents, questions and metadata from an attacker."""
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "docs").mkdir()
    front = json.dumps({"title": HOSTILE, "url": "javascript:top.stolen=1", "author": HOSTILE}, ensure_ascii=False)
    text = f"# Cats {HOSTILE}\n\n## Sleep {HOSTILE}\n\nCats {HOSTILE} sleep sixteen hours a day. {HOSTILE}\n"
    (folder / "docs" / HOSTILE_NAME).write_text(f"---\n{front[1:-1]}\n---\n\n{text}", encoding="utf-8")
    (folder / "docs" / "plain.md").write_text("# Cats\n\nCats eat fish, and sleep sixteen hours a day.\n")
    question = f"How long do cats sleep? {HOSTILE}"
    gold = {"question": question, "answers": [f"sixteen hours {HOSTILE}"], "id": HOSTILE}
    (folder / "set <b>.jsonl").write_text(json.dumps(gold) + "\n")
    assert run(folder, "index", "docs", "--embedder", "none").returncode == 0
    commands: dict[str, tuple[str, ...]] = {name: (name, question) for name in ("ask", "context", "compare")}
    commands["eval"] = ("eval", "set <b>.jsonl", "-s", "topk,weave", "-b", "60")
    pages = {}
    for name, words in commands.items():
        done = run(folder, *words, "--html", f"{name}.html")
        assert done.returncode == 0, done.stderr
        pages[name] = (folder / f"{name}.html").read_text(encoding="utf-8")
        # a page of `eval` holds its questions as compressed data
        assert name == "eval" or "evil.invalid" in pages[name]
    return pages


@pytest.mark.parametrize("name", ["ask", "context", "compare", "eval"])
def test_hostile_documents_add_no_element_and_no_link(hostile_pages: dict[str, str], name: str) -> None:
    page = Page(hostile_pages[name])
    assert not [
        e for e in page.elements if e.name in ("img", "iframe", "svg", "object", "embed") and "src" in e.attributes
    ]
    assert not [e for e in page.elements if any(key.startswith("on") for key in e.attributes)]
    assert not [e for e in page.elements if "url(" in (e.attributes.get("style") or "")]
    links = [e.attributes.get("href") or "" for e in page.elements if "href" in e.attributes]
    assert links and all(link.startswith(("#", "file:///", "data:,")) for link in links)
    assert POLICY.search(hostile_pages[name])


@pytest.mark.skipif(chromium.PATH is None, reason=f"none of {', '.join(chromium.NAMES)} is installed")
def test_hostile_documents_run_and_load_nothing_in_a_browser(hostile_pages: dict[str, str], tmp_path: Path) -> None:
    with chromium.browser() as browser:
        for name, page in hostile_pages.items():
            for kind, text in (("with", page), ("without", POLICY.sub("", page))):
                path = tmp_path / f"{name}-{kind}.html"
                path.write_text(text, encoding="utf-8")
                browser.open(path)
                browser.js("document.querySelectorAll('details').forEach(d => d.open = true)")
                browser.js("document.querySelectorAll('summary, button, tr, [tabindex]').forEach(e => e.click())")
                assert until(lambda: browser.js("document.body.textContent.includes('evil.invalid')")), path.name
                assert browser.requests() == [path.as_uri()], path.name
                assert browser.js("typeof top.stolen") == "undefined", path.name
                assert (
                    browser.js("document.querySelectorAll('img, iframe, [onload], [onerror], [onmouseover]').length")
                    == 0
                )
                assert browser.complaints() == [], path.name
                assert browser.js("[...document.links].filter(a => a.protocol === 'javascript:').length") == 0
