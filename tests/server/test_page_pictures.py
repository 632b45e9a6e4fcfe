"""Pages of PDFs as pictures, code in contexts, and the default budget: parts of the API that the page shows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import httpx2 as httpx
import pytest

import mergewise as mw
from mergewise.defaults import DEFAULT_BUDGET
from mergewise.readers import read_file
from mergewise.server.collections import key_of
from mergewise.server.configuration import CollectionConfig
from tests.page import chromium
from tests.readers import conftest as readers
from tests.server.conftest import LiveServer, record_of
from tests.server.test_web_page import ask, go, until, visit_address

make_pdf = readers.make_pdf

LINES = ["Terns fly far each year, to the south.", "Owls hunt at night, and hear a mouse under snow."]
PDF, NOTES = "birds/guide.pdf", "notes.md"
INDENTED_ID = "nests.rst"
INDENTED = (
    "Nests\n=====\n\nCount the nests with a script:\n\n.. code-block:: python\n\n    for nest in nests:\n        count(nest)\n\n"
    "Then write their number down.\n"
)
CODED = "# Nests\n\nCount the nests with a script:\n\n```python\nnests = count(birds)\n```\n\nThen write their number down.\n"


@pytest.fixture
def library(start_server: Callable[..., LiveServer], make_pdf: Callable[..., bytes], tmp_path: Path) -> LiveServer:
    """A server with an uploaded PDF of two pages and a Markdown document without an original."""
    live = start_server(with_chat=False)
    path = tmp_path / "guide.pdf"
    path.write_bytes(make_pdf([[("/F1", 12, 60, 700, line)] for line in LINES]))
    record = record_of(live.config, "library")
    live.state.collections.add(record)
    with mw.open(record.path) as index:
        index.add([read_file(path, id=PDF).document, mw.Document(NOTES, CODED, "Nests")])
    # no writer runs: the job of the upload stays queued
    assert live.client("write").put(address(PDF), content=path.read_bytes()).status_code == 202
    return live


def address(doc_id: str, rest: str = "") -> str:
    return f"/api/v1/collections/library/documents/{key_of(doc_id)}{rest}"


def picture(client: httpx.Client, rest: str) -> bytes:
    answer = client.get(address(PDF, rest))
    assert answer.status_code == 200 and answer.headers["Content-Type"] == "image/png", answer.text
    assert answer.headers["Content-Security-Policy"] and answer.headers["X-Content-Type-Options"] == "nosniff"
    return answer.content


def test_a_page_is_a_picture_with_the_place_marked(library: LiveServer) -> None:
    client = library.client()
    text = client.get(address(PDF, "/text")).json()["text"]
    start = text.index("Owls")
    plain = picture(client, "/pages/2")
    assert picture(client, f"/pages/2?start={start}&end={start + 4}") != plain
    # a place on another page marks nothing
    assert picture(client, f"/pages/2?start=0&end={start - 1}") == plain
    for rest in ("/pages/3", "/pages/0", "/pages/x"):
        assert client.get(address(PDF, rest)).status_code in (404, 422)
    assert client.get(address(NOTES, "/pages/1")).status_code == 404
    _, secret = library.state.tokens.add(["read"], filter={"type": "eq", "key": "id", "value": NOTES})
    assert library.client(secret).get(address(PDF, "/pages/1")).status_code == 404


def test_a_picture_that_cannot_be_drawn_is_a_problem(library: LiveServer) -> None:
    (blob,) = (
        path for path in library.config.data.rglob("blobs/**/*") if path.is_file() and path.read_bytes()[:4] == b"%PDF"
    )
    blob.chmod(0o600)
    blob.write_bytes(b"%PDF-1.4 broken")
    answer = library.client().get(address(PDF, "/pages/1"))
    assert answer.status_code == 404 and answer.json()["hint"] == "download the original"


def test_a_file_of_a_folder_is_shown_while_it_has_the_indexed_bytes(
    start_server: Callable[..., LiveServer], make_pdf: Callable[..., bytes], tmp_path: Path
) -> None:
    folder, other = tmp_path / "manual", tmp_path / "other"
    for place in (folder, other):
        place.mkdir()
        (place / f"{place.name} 1.pdf").write_bytes(make_pdf([[("/F1", 12, 60, 700, line)] for line in LINES]))
    collections = {"library": CollectionConfig(folders=(folder,))}
    live = start_server(with_chat=False, collections=collections)
    record = record_of(live.config, "library")
    live.state.collections.add(record)
    with mw.open(record.path, root={"": folder}) as index:
        index.sync(folder)
        # no folder of the configuration has this file
        index.add(other / "other 1.pdf")
    client = live.client()
    guide, foreign = folder / "manual 1.pdf", (other / "other 1.pdf").as_posix()

    def status(doc_id: str, rest: str) -> int:
        return client.get(address(doc_id, rest)).status_code

    assert [status(guide.name, rest) for rest in ("/pages/2", "/pages/3")] == [200, 404]
    assert status(foreign, "/pages/1") == 404
    content = guide.read_bytes()
    guide.write_bytes(content + b" ")
    assert status(guide.name, "/pages/1") == 404
    # a link out of the folder, to the same bytes
    guide.unlink()
    guide.symlink_to(other / "other 1.pdf")
    assert status(guide.name, "/pages/1") == 404
    guide.unlink()
    assert status(guide.name, "/pages/1") == 404
    guide.write_bytes(content)
    assert status(guide.name, "/pages/1") == 200
    _, secret = live.state.tokens.add(["read"], filter={"type": "eq", "key": "id", "value": foreign})
    assert live.client(secret).get(address(guide.name, "/pages/1")).status_code == 404


def test_a_context_tells_the_kinds_of_its_parts(library: LiveServer) -> None:
    question = {"question": "How are the nests counted?", "strategy": "topk"}
    client = library.client()
    context = client.post("/api/v1/collections/library/context", json={**question, "include": ["kinds"]}).json()[
        "context"
    ]
    (code,) = context["kinds"]
    assert CODED[code["start"] : code["end"]] == "```python\nnests = count(birds)\n```" and code["doc"] == NOTES
    assert (
        code["kind"] == "code"
        and "kinds" not in client.post("/api/v1/collections/library/context", json=question).json()["context"]
    )
    asked = {**question, "include": ["kinds"], "conversation": "new"}
    talk = client.post("/api/v1/collections/library/ask", json=asked).json()["conversation"]
    (turn,) = client.get(f"/api/v1/collections/library/conversations/{talk}").json()["items"]
    assert code in turn["context"]["kinds"]


def start_with_nests(start_server: Callable[..., LiveServer]) -> LiveServer:
    """Start a server with a document whose code is indented."""
    live = start_server(with_chat=False)
    record = record_of(live.config, "library")
    live.state.collections.add(record)
    with mw.open(record.path) as index:
        index.add(mw.Document(INDENTED_ID, INDENTED, "Nests"))
    return live


def test_spans_tell_their_margin_by_which_code_keeps_its_indentation(start_server: Callable[..., LiveServer]) -> None:
    live = start_with_nests(start_server)
    asked = {"question": "How are the nests counted?", "include": ["kinds"]}
    answer = live.client().post("/api/v1/collections/library/ask", json=asked).json()
    cited = [one["span"] for one in answer["citations"]]
    spans = [*cited, *(span for passage in answer["context"]["passages"] for span in passage["spans"])]
    code = INDENTED.index("for nest")
    assert code in [span["start"] for span in cited]
    assert all(span["margin"] == (4 * " " if span["start"] == code else "") for span in spans)
    del asked["include"]
    plain = live.client().post("/api/v1/collections/library/ask", json=asked).json()
    assert "margin" not in plain["citations"][0]["span"]


def test_collections_tell_their_default_budget(library: LiveServer) -> None:
    client = library.client("admin")
    defaults = client.get("/api/v1/collections/library").json()["defaults"]
    assert defaults == {"strategy": "weave", "budget": DEFAULT_BUDGET}
    client.patch("/api/v1/collections/library", json={"defaults": {"budget": 900}})
    assert client.get("/api/v1/collections/library").json()["defaults"] == {**defaults, "budget": 900}


@pytest.mark.skipif(chromium.PATH is None, reason=f"none of {', '.join(chromium.NAMES)} is installed")
def test_code_without_a_fence_is_code_after_a_reload(start_server: Callable[..., LiveServer]) -> None:
    live = start_with_nests(start_server)
    shown = "[...document.querySelectorAll('.quotation pre, .sources pre')].map(one => one.textContent.trim())"
    with chromium.browser() as browser:
        visit_address(browser, live.base, live.tokens["read"])
        go(browser, "#/c/library/ask", "textarea")
        ask(browser, "How are the nests counted?")
        until(browser, "!!document.querySelector('.foot')")
        assert browser.js(shown) == 2 * ["for nest in nests:\n    count(nest)"]
        browser.call("Page.reload")
        until(browser, "!!document.querySelector('.foot')")
        assert browser.js(shown) == 2 * ["for nest in nests:\n    count(nest)"]


@pytest.mark.skipif(chromium.PATH is None, reason=f"none of {', '.join(chromium.NAMES)} is installed")
def test_the_printed_page_stands_next_to_the_text(library: LiveServer) -> None:
    text = library.client().get(address(PDF, "/text")).json()["text"]
    start = text.index("Owls")
    with chromium.browser() as browser:
        visit_address(browser, library.base, library.tokens["read"])
        go(browser, f"#/c/library/d/{key_of(PDF)}?s={start}-{start + 4}", "#place")
        until(browser, "document.querySelector('.printed canvas')?.width > 1000")
        assert browser.js("document.querySelector('.printed canvas').ariaLabel") == "Page 2 as printed"
        assert browser.complaints() == []
        count_marked = """(() => {
          const canvas = document.querySelector(".printed canvas");
          const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
          let count = 0;
          for (let at = 0; at < data.length; at += 4) if (data[at] + 20 < data[at + 2]) count += 1;
          return count;
        })()"""
        until(browser, f"{count_marked} > 200")
        assert browser.js("document.querySelector('.printed').getBoundingClientRect().left") > browser.js(
            "document.querySelector('#place').getBoundingClientRect().right"
        )
        browser.js("document.querySelector('.printed [aria-label=\"Previous page\"]').click()")
        until(browser, "document.querySelector('.printed canvas').ariaLabel === 'Page 1 as printed'")
        until(browser, f"{count_marked} === 0")
