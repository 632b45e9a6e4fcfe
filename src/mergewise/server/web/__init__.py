"""The page of the server: files that the browser runs without a build step, and the security headers.

Each view is a JavaScript module. There is one style sheet, and Preact with hooks and htm as one vendored module. The page shares
colours, marks and cards (`shared.css`) with the static pages of `mergewise.page`, and tables with the page of an evaluation.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types mergewise"
)
"""The Content-Security-Policy of every response."""
SECURITY_HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Frame-Options": "DENY",
}
"""The headers of every response of a server."""

_TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
}
_SHARED = {"shared.css": "mergewise.page", "evaluation.css": "mergewise.evaluate.drawing"}


class PageFile(NamedTuple):
    """A file of the page: its bytes, its media type, and an ETag that follows from its bytes."""

    body: bytes
    media_type: str
    etag: str

    @property
    def headers(self) -> dict[str, str]:
        """The headers of the response. A browser revalidates each time, and gets 304 for an unchanged file."""
        return {"Content-Type": self.media_type, "Cache-Control": "no-cache", "ETag": self.etag, **SECURITY_HEADERS}

    async def response(self, request: Request) -> Response:
        unchanged = request.headers.get("if-none-match") == self.etag
        return Response(b"" if unchanged else self.body, 304 if unchanged else 200, self.headers)


@cache
def page_files() -> Mapping[str, PageFile]:
    """Map URL paths to files: the page at `/`, the rest under `/web/`. No file needs a token."""
    own = files(__name__)
    served = {f"/web/{entry.name}": entry for entry in own.iterdir() if entry.name.endswith((".js", ".css", ".svg"))}
    served["/web/vendor/preact.js"] = own / "vendor" / "preact.js"
    served |= {f"/web/{name}": files(package) / name for name, package in _SHARED.items()}
    served["/"] = own / "index.html"
    found = {}
    for path, entry in served.items():
        body = entry.read_bytes()
        etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
        found[path] = PageFile(body, _TYPES[entry.name.rpartition(".")[2]], etag)
    return MappingProxyType(found)
