"""Sites as sources: lists, changes, redirects, errors, rules, bounds, and what is refused."""

from __future__ import annotations

import gzip
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import mergewise as mw
from mergewise.errors import Cancelled
from mergewise.sources import site as module
from tests.sources.serving import Answer, Counted, site

DATE = "Wed, 01 May 2024 10:00:00 GMT"


def page(text: str, tag: str = "", date: str = "") -> Answer:
    body = f"<html><head><title>T</title></head><body><main><h1>{text}</h1><p>The page says {text}.</p></main></body></html>"
    return Answer(body.encode(), tag=tag, date=date)


def sitemap(base: str, *paths: str, kind: str = "url") -> Answer:
    places = "".join(f"<{kind}><loc>{path if ':' in path else base + path}</loc></{kind}>" for path in paths)
    root = "urlset" if kind == "url" else "sitemapindex"
    text = f'<?xml version="1.0"?><{root} xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{places}</{root}>'
    return Answer(text.encode(), kind="application/xml")


Pages = dict[str, Answer]


@pytest.fixture
def pages() -> Pages:
    return {}


@pytest.fixture
def served(pages: Pages, monkeypatch: pytest.MonkeyPatch) -> Iterator[Counted]:
    monkeypatch.setenv("MERGEWISE_PRIVATE_SOURCES", "127.0.0.0/8")
    monkeypatch.setattr(module, "PAUSE", 0.0)
    with site(pages) as counted:
        yield counted


@pytest.fixture
def index(tmp_path: Path) -> mw.Index:
    return mw.open(tmp_path / "index", embedder="none")


def ids(index: mw.Index) -> set[str]:
    return {info.id for info in index.documents()}


def test_a_site_of_two_hundred_pages_twice(pages: Pages, served: Counted, index: mw.Index) -> None:
    base = served.base
    names = [f"/docs/{number}" for number in range(200)]
    # three kinds of pages: with an ETag, with a date, with neither
    for number, name in enumerate(names):
        pages[name] = page(f"number {number}", *(("", ""), (f'"{number}"', ""), ("", DATE))[number % 3])
        pages[name].body += b"<p>More and more words.</p>" * 100
    pages["/docs/moved"] = Answer(status=301, location="/docs/3")
    pages["/docs/loop"] = Answer(status=302, location="/docs/loop2")
    pages["/docs/loop2"] = Answer(status=302, location="/docs/loop")
    pages["/docs/away"] = Answer(status=302, location="http://127.0.0.2:9/x")
    pages["/docs/error"] = Answer(status=500)
    odd = ["/docs/moved", "/docs/loop", "/docs/away", names[0], "/docs/error", "/docs/missing", "https://example.org/x"]
    pages["/robots.txt"] = Answer(b"User-agent: *\nDisallow: /docs/7\n", kind="text/plain")
    # a list that lists itself
    pages["/docs/sitemap.xml"] = sitemap(base, "/docs/a.xml", "/docs/b.xml.gz", "/docs/sitemap.xml", kind="sitemap")
    pages["/docs/a.xml"] = sitemap(base, *names[:100], *odd)
    pages["/docs/b.xml.gz"] = sitemap(base, *names[100:], "/other/page")
    pages["/docs/b.xml.gz"].body = gzip.compress(pages["/docs/b.xml.gz"].body)
    report = index.add(base + "/docs/")
    forbidden = {name for name in names if name.startswith("/docs/7")}
    # the address that redirects comes later than the page
    assert ids(index) == {base + name for name in names if name not in forbidden}
    assert {one.source.removeprefix(base): one.reason for one in report.failed} == {
        "/docs/loop": "redirects without end",
        "/docs/away": "leads to another host: http://127.0.0.2:9/x",
        "/docs/error": f"{base}/docs/error: 500 Internal Server Error",
    }
    paths, first = served.take()
    # six requests for the loop, and the target of a redirect a second time
    assert len(paths) == len(set(paths)) + 4 + 1
    document = index.document(base + "/docs/1")
    assert document.metadata == {"url": base + "/docs/1", "source": base + "/docs"}
    context = index.context("What does the page number 1 say?")
    assert {place.url for place in index.locations(context).values()} <= ids(index)
    # the second run asks as often, and gets only pages without ETag and date
    pages["/docs/1"] = page("changed", '"new"')
    pages["/docs/4"].tag = '"the same content"'
    report = index.sync(base + "/docs")
    again, second = served.take()
    assert (report.replaced, report.unchanged, report.added, report.removed) == (1, 188, 0, 0)
    assert len(again) == len(paths) and second < 0.45 * first
    assert "changed" in index.document(base + "/docs/1").text
    # a page that is gone leaves, and a page that fails stays
    del pages["/docs/1"]
    pages["/docs/2"].status = 503
    report = index.sync(base + "/docs")
    assert report.removed == 1 and base + "/docs/1" not in ids(index) and base + "/docs/2" in ids(index)
    # a site that fails keeps what there was
    for name in names[100:106]:
        pages[name].status = 500
    del pages["/docs/3"]
    report = index.sync(base + "/docs")
    assert report.removed == 0 and report.failed[-1] == mw.types.Failure(base + "/docs", "5 pages in a row failed")
    pages["/docs/sitemap.xml"] = Answer(status=500)
    report = index.sync(base + "/docs")
    assert (report.removed, len(report.failed), len(index)) == (0, 1, 188)


def test_an_llms_txt_and_its_kinds_of_pages(pages: Pages, served: Counted, index: mw.Index) -> None:
    pages["/sitemap.xml"] = Answer(b"<html>Not here</html>")
    text = f"# Site\n\n- [Guide](guide.md): all\n- [Plain]({served.base}/plain)\n- [Away](https://example.org/)\n- [P](p.png)\n"
    pages["/llms.txt"] = Answer(text.encode(), kind="text/plain")
    pages["/guide.md"] = Answer(b"# Guide\n\nThe guide.\n", kind="application/octet-stream")
    pages["/plain"] = Answer(b"Plain words.\n", kind="text/plain; charset=utf-8")
    pages["/p.png"] = Answer(b"\x89PNG", kind="image/png")
    report = index.add(served.base)
    assert ids(index) == {served.base + "/guide.md", served.base + "/plain"}
    assert [one.reason for one in report.failed] == ["no reader for image/png"]
    assert index.document(served.base + "/guide.md").title == "Guide"
    # the list by its own address
    assert index.add(served.base + "/llms.txt").added == 2


def test_lists_of_robots_and_patterns(pages: Pages, served: Counted, index: mw.Index) -> None:
    rules = f"Sitemap: https://elsewhere.example.org/s.xml\nSitemap: {served.base}/maps/one.xml\n"
    pages["/robots.txt"] = Answer(rules.encode(), kind="text/plain")
    # a list of addresses with another scheme, and one that leads elsewhere
    safe = served.base.replace("http:", "https:")
    pages["/maps/one.xml"] = sitemap(safe, "/a.html", "/b/c", "/", "/d.php#part", "https://elsewhere.example.org/")
    for name in ("/a.html", "/b/c", "/", "/d.php"):
        pages[name] = page(name)
    report = index.add(served.base, exclude=["b/"])
    assert ids(index) == {served.base + name for name in ("/a.html", "/", "/d.php")} and report.excluded == 1


@pytest.mark.parametrize("bound, value", [("PAGES", 5), ("BYTES", 3000), ("PAGE_BYTES", 2000)])
def test_bounds(
    pages: Pages, served: Counted, index: mw.Index, monkeypatch: pytest.MonkeyPatch, bound: str, value: int
) -> None:
    names = [f"/{number}" for number in range(10)]
    pages |= {name: page("x" * 300) for name in names}
    pages["/3"] = page("x" * 2000)
    pages["/sitemap.xml"] = sitemap(served.base, *names)
    index.add(served.base)
    before = ids(index)
    monkeypatch.setattr(module, bound, value)
    report = index.sync(served.base)
    assert report.failed and report.removed == 0 and ids(index) == before


def test_private_addresses_are_refused(
    pages: Pages, served: Counted, index: mw.Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MERGEWISE_PRIVATE_SOURCES", "10.0.0.0/8")
    port = served.base.rpartition(":")[2]
    resolve = socket.getaddrinfo

    def rebound(host: str, *rest: Any, **more: Any) -> Any:
        return resolve("127.0.0.1" if host == "docs.example.org" else host, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", rebound)
    for host in (
        "127.0.0.1",
        "localhost",
        "docs.example.org",
        "169.254.169.254",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "0.0.0.0",
        "2130706433",
    ):
        (failure,) = index.add(f"http://{host}:{port}").failed
        assert "has a private address" in failure.reason, failure
    assert served.paths == []
    (failure,) = index.add(f"http://ann:secret@docs.example.org:{port}").failed
    assert "user" in failure.reason


def test_the_pause_of_robots_is_kept(
    pages: Pages, served: Counted, index: mw.Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr("mergewise.sources.site.time.sleep", slept.append)
    pages["/robots.txt"] = Answer(b"User-agent: *\nCrawl-delay: 3\n", kind="text/plain")
    pages["/sitemap.xml"] = sitemap(served.base, "/a", "/b")
    pages |= {"/a": page("a"), "/b": page("b")}
    assert index.add(served.base).added == 2
    assert sum(2.5 < seconds <= 3 for seconds in slept) == 2


def test_a_broken_list_fails_the_site_alone(pages: Pages, served: Counted, index: mw.Index) -> None:
    pages["/robots.txt"] = Answer(f"Sitemap: {served.base}/s.xml.gz\n".encode(), kind="text/plain")
    for body in (gzip.compress(b"<urlset>" + b"x" * 1000)[:-20], b"<urlset><url>", b"\x1f\x8bno gzip"):
        pages["/s.xml.gz"] = Answer(body, kind="application/gzip")
        report = index.add(served.base, mw.Document("own", "A text."))
        assert [one.source for one in report.failed] == [served.base] and len(index) == 1


def test_progress_and_cancelling(pages: Pages, served: Counted, index: mw.Index) -> None:
    names = [f"/{number}" for number in range(20)]
    pages |= {name: page(name) for name in names} | {"/sitemap.xml": sitemap(served.base, *names)}
    told: list[str] = []
    with pytest.raises(Cancelled):
        index.add(
            served.base, progress=lambda done, total, name: told.append(name), cancel=lambda: len(served.paths) > 8
        )
    assert len(served.paths) < 12 and told[0].endswith("//" + served.base + "/0") and len(index) == 0


def test_no_list_and_no_server(served: Counted, index: mw.Index) -> None:
    (failure,) = index.add(served.base).failed
    assert failure.reason == "no addresses in sitemap.xml and llms.txt"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        (failure,) = index.add(f"http://127.0.0.1:{free.getsockname()[1]}").failed
    assert "refused" in failure.reason
