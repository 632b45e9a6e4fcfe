"""Pages of a site, listed in its `sitemap.xml` or `llms.txt`: `https://HOST/FOLDER`, or the address of such a list.

`robots.txt` names the lists of a folder, or they are in the folder. Only its pages are read, and for a list those of its host.
The rules may also forbid pages and ask for pauses. Redirects are followed within the host. A page is asked for by its ETag and
its date, which its version holds with a digest of the content. A page that is gone is left out, and a page that fails keeps its
document. Several failures in a row end the site.
"""

from __future__ import annotations

import mimetypes
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from email.message import Message
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection, HTTPException, IncompleteRead, responses
from pathlib import PurePosixPath
from socket import create_connection
from ssl import create_default_context
from typing import NamedTuple
from urllib.parse import quote, urldefrag, urljoin, urlsplit
from urllib.robotparser import RobotFileParser

from mergewise.errors import ReadError
from mergewise.log import log
from mergewise.readers import SUFFIXES, digest_of, unpack
from mergewise.readers.xml import descendants, local, parse_xml
from mergewise.sources import SourceFile, addresses_of
from mergewise.types import Failure

AGENT = "mergewise"
PAGES = 10_000
"""Largest number of addresses of a site, with its lists."""
BYTES, PAGE_BYTES = 1_000_000_000, 20_000_000
"""Largest size of all answers of a site, and of one, in bytes."""
PAUSE, LONGEST_PAUSE = 0.25, 10.0
"""Seconds between two requests without a rule of `robots.txt`, and the most that a rule gets."""
WAIT_SECONDS, ANSWER_SECONDS = 30.0, 120.0
"""Longest time without a byte, and for a whole answer."""
HOPS = 6
"""Number of requests for a page with its redirects."""
FAILURES = 5
_GONE = (404, 410)


def entries(address: str, known: Mapping[str, str], takes: Callable[[str], bool]) -> Iterator[SourceFile | Failure]:
    """Yield the pages of a site. Their ids are their listed addresses, and their metadata have the `url` that answers."""
    site, done, failures = _Site(address), set[str](), 0
    for url in site.pages():
        path, version = PurePosixPath(urlsplit(url).path.strip("/") or "index"), known.get(url, "")
        # most pages have no suffix, or one of a program
        if not takes(str(path) if path.suffix.lower() in SUFFIXES else f"{path}.html"):
            continue
        try:
            page = site.get(url, version)
            if page.status in _GONE:
                log.warning("page not found: %s", url)
            elif page.url not in done:
                done.add(page.url)
                yield page.entry(url, path, version)
            failures = 0
        except (ReadError, OSError, HTTPException, ValueError) as error:
            failures += 1
            yield Failure(url, str(error) or type(error).__name__)
        if failures == FAILURES or site.left < 0:
            raise ReadError(f"{failures} pages in a row failed" if failures else f"more than {BYTES:,} bytes")


class _SitePage(NamedTuple):
    """An answer at its last address."""

    url: str
    status: int
    headers: Message
    body: bytes

    def check(self) -> None:
        """Raise ReadError if the answer is an error."""
        if self.status not in (200, 304):
            raise ReadError(f"{self.url}: {self.status} {responses.get(self.status, '')}")

    def entry(self, url: str, path: PurePosixPath, version: str) -> SourceFile:
        """Return the page as an entry."""
        self.check()
        digest, tag, date = digest_of(self.body), self.headers.get("ETag", ""), self.headers.get("Last-Modified", "")
        if self.status == 304 or version.startswith(digest):
            return SourceFile(url, version, None)
        kind = self.headers.get_content_type()
        suffix = path.suffix.lower() if path.suffix.lower() in SUFFIXES else mimetypes.guess_extension(kind) or kind
        suffix = ".html" if kind in ("text/html", "application/xhtml+xml") else suffix
        if suffix not in SUFFIXES:
            raise ReadError(f"no reader for {kind}")
        modified = parsedate_to_datetime(date).timestamp() if date else None
        version = "\n".join((digest, tag, date))
        return SourceFile(url, version, self.body, path.stem + suffix, modified, {"url": self.url})

    def links(self) -> Iterator[tuple[str, bool]]:
        """Yield the addresses of a sitemap or of Markdown. True marks another sitemap."""
        body = unpack(self.body) if self.body.startswith(b"\x1f\x8b") else self.body
        if body.lstrip().startswith(b"<"):
            places = descendants(parse_xml(body), "loc")
            found = [((place.text or "").strip(), local(place.getparent()) == "sitemap") for place in places]
        else:
            text = body.decode("utf-8", "replace")
            found = [(link, False) for link in re.findall(r"(?:\]\(\s*<?|^(?=https?:))([^)>\s]+)", text, re.MULTILINE)]
        for link, is_list in found:
            yield urljoin(self.url, link), is_list


class _Connection(HTTPConnection):
    """A connection to an address that `addresses_of` allows. With `is_safe`, it uses TLS."""

    is_safe = False

    def connect(self) -> None:
        self.sock = create_connection((addresses_of(self.host, self.port)[0], self.port), self.timeout)
        if self.is_safe:
            self.sock = create_default_context().wrap_socket(self.sock, server_hostname=self.host)


class _Site:
    """The lists and pages of a site. `left` is the number of bytes that it may still send."""

    def __init__(self, address: str) -> None:
        self._address, self._host = address, urlsplit(address)
        self.left, self._next, self._pause = BYTES, 0.0, PAUSE
        self._robots = RobotFileParser()
        # no rule holds for the rules themselves
        self._robots.parse([])
        rules = self.get(urljoin(address, "/robots.txt"))
        if rules.status == 200:
            self._robots.parse(rules.body.decode("utf-8", "replace").splitlines())
        elif rules.status >= 500:
            rules.check()
        self._pause = min(float(self._robots.crawl_delay(AGENT) or PAUSE), LONGEST_PAUSE)

    def pages(self) -> Iterator[str]:
        """Yield the listed addresses, each once. Raises ReadError for an unreadable list, and without addresses."""
        is_list = self._address.endswith((".xml", ".txt", ".gz"))
        below = urljoin(self._address, "/") if is_list else f"{self._address}/"
        own = [one for one in self._robots.site_maps() or () if urlsplit(one).netloc == self._host.netloc]
        guesses = [own, [f"{below}sitemap.xml"], [f"{below}llms.txt"]]
        seen: set[str] = set()
        for lists in [[self._address]] if is_list else guesses:
            # a list of lists grows while it is read
            for address in lists:
                page = self.get(address)
                # some sites answer with a page for people
                if not is_list and (page.status in _GONE or page.headers.get_content_type() == "text/html"):
                    continue
                page.check()
                for link, is_another in page.links():
                    parts = urlsplit(link)
                    url = parts._replace(scheme=self._host.scheme, fragment="").geturl()
                    if parts.netloc != self._host.netloc or url in seen or url in lists:
                        continue
                    seen.add(url)
                    if len(seen) > PAGES:
                        raise ReadError(f"more than {PAGES:,} addresses")
                    if is_another:
                        lists.append(url)
                    elif f"{url}/".startswith(below) and self._robots.can_fetch(AGENT, url):
                        yield url
            if seen:
                return
        raise ReadError("no addresses in sitemap.xml and llms.txt")

    def get(self, url: str, version: str = "") -> _SitePage:
        """Return a page, or the status 304 if it has not changed since a version. Raises ReadError outside of the host."""
        _, tag, date = f"{version}\n\n".split("\n")[:3]
        headers = {"User-Agent": AGENT, "If-None-Match": tag, "If-Modified-Since": date}
        for _ in range(HOPS):
            parts = urlsplit(url)
            if parts.scheme not in ("http", "https") or parts.netloc != self._host.netloc:
                raise ReadError(f"leads to another host: {url}")
            if not self._robots.can_fetch(AGENT, url):
                raise ReadError(f"robots.txt forbids {url}")
            page = self._request(url, {name: value for name, value in headers.items() if value})
            if page.status not in (301, 302, 303, 307, 308):
                return page
            url = urldefrag(urljoin(url, page.headers.get("Location", "")))[0]
        raise ReadError("redirects without end")

    def _request(self, url: str, headers: Mapping[str, str]) -> _SitePage:
        time.sleep(max(0.0, self._next - time.monotonic()))
        self._next = time.monotonic() + self._pause
        parts = urlsplit(url)
        is_safe = parts.scheme == "https"
        port = parts.port or (443 if is_safe else 80)
        with closing(_Connection(parts.hostname or "", port, timeout=WAIT_SECONDS)) as connection:
            connection.is_safe = is_safe
            target = parts._replace(scheme="", netloc="", path=parts.path or "/").geturl()
            connection.request("GET", quote(target, safe="/?%:@!$&'()*+,;=~"), headers=dict(headers))
            answer = connection.getresponse()
            until, body = time.monotonic() + ANSWER_SECONDS, bytearray()
            while part := answer.read1(65_536):
                body += part
                self.left -= len(part)
                if len(body) > PAGE_BYTES or time.monotonic() > until:
                    raise ReadError(f"larger than {PAGE_BYTES:,} bytes, or slower than {ANSWER_SECONDS:.0f} s")
            if answer.length:
                raise IncompleteRead(bytes(body), answer.length)
            return _SitePage(url, answer.status, answer.headers, bytes(body))
