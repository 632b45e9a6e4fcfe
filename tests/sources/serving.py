"""Servers on loopback for tests of sources, which count requests and bytes: a site of pages in memory, and Git repositories."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any


@dataclass
class Answer:
    """An answer of a site. `tag` is its ETag and `date` its Last-Modified."""

    body: bytes = b""
    status: int = 200
    kind: str = "text/html"
    tag: str = ""
    date: str = ""
    location: str = ""


@dataclass
class Counted:
    """A running server: its base address, the paths of all requests, and the bytes of all answers with their heads."""

    base: str
    paths: list[str] = field(default_factory=list)
    bytes: int = 0

    def take(self) -> tuple[list[str], int]:
        """Return the paths and bytes since the last call."""
        taken = self.paths, self.bytes
        self.paths, self.bytes = [], 0
        return taken


@contextmanager
def _serving(answer: Callable[[Any], tuple[int, list[tuple[str, str]], bytes]]) -> Iterator[Counted]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, headers, body = answer(self)
            counted.paths.append(self.path)
            self.send_response(status)
            for name, value in headers:
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            heads: list[bytes] = vars(self)["_headers_buffer"]
            counted.bytes += len(body) + sum(map(len, heads))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET  # noqa: N815

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    counted = Counted(f"http://127.0.0.1:{server.server_port}")
    Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield counted
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def site(pages: dict[str, Answer]) -> Iterator[Counted]:
    """Serve pages by path. A page with an ETag or a date answers 304 to a request that names it."""

    def answer(request: Any) -> tuple[int, list[tuple[str, str]], bytes]:
        page = pages.get(request.path, Answer(status=404))
        asked = (request.headers["If-None-Match"], request.headers["If-Modified-Since"])
        if page.status == 200 and ((page.tag and page.tag == asked[0]) or (page.date and page.date == asked[1])):
            return 304, [("ETag", page.tag)], b""
        named = {"Content-Type": page.kind, "ETag": page.tag, "Last-Modified": page.date, "Location": page.location}
        return page.status, [(name, value) for name, value in named.items() if value], page.body

    with _serving(answer) as counted:
        yield counted


@contextmanager
def repositories(folder: Path) -> Iterator[Counted]:
    """Serve the Git repositories in a folder by `git http-backend`."""

    def answer(request: Any) -> tuple[int, list[tuple[str, str]], bytes]:
        path, _, query = request.path.partition("?")
        headers = request.headers
        body = request.rfile.read(int(headers["Content-Length"] or 0))
        environment = {
            "GIT_PROJECT_ROOT": str(folder),
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REQUEST_METHOD": request.command,
            "CONTENT_TYPE": headers["Content-Type"] or "",
            "HTTP_CONTENT_ENCODING": headers["Content-Encoding"] or "",
            "GIT_PROTOCOL": headers["Git-Protocol"] or "",
        }
        done = subprocess.run(
            ["git", "http-backend"], env={**os.environ, **environment}, input=body, stdout=subprocess.PIPE
        )
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        pairs = [line.split(": ", 1) for line in head.decode().split("\r\n")]
        status = next((int(value.split()[0]) for name, value in pairs if name == "Status"), 200)
        return status, [(name, value) for name, value in pairs if name != "Status"], content

    with _serving(answer) as counted:
        yield counted


def git(folder: Path, *arguments: str) -> str:
    """Run git in a folder."""
    user = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org", "-c", "init.defaultBranch=main")
    done = subprocess.run(["git", *user, *arguments], cwd=folder, check=True, capture_output=True)
    return done.stdout.decode().strip()
