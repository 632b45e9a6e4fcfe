"""An endpoint on loopback that follows a script and records its requests."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler
from typing import Any, TypeAlias

from tests.chat_server import LoopbackServer

Reply: TypeAlias = tuple[int, object, Mapping[str, str]]
"""Status, content as bytes or as a JSON value, and headers. The status 0 closes the connection."""

Script: TypeAlias = Callable[[dict[str, Any]], Reply]


class HTTPEndpoint(LoopbackServer):
    """An endpoint that uses the replies of `script` in turn, the last one repeatedly. A context manager."""

    def __init__(self, *script: Script) -> None:
        super().__init__(_Handler)
        self.script = list(script)
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.paths: list[str] = []
        self.url = f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: HTTPEndpoint

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
        self.server.requests.append(body)
        self.server.keys.append(self.headers.get("Authorization", ""))
        self.server.paths.append(self.path)
        script = self.server.script
        status, answer, headers = script[min(len(self.server.requests), len(script)) - 1](body)
        if status == 0:
            return
        content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(content)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def do_GET(self) -> None:
        self.do_POST()

    def log_message(self, *args: object) -> None:
        """Do not log."""
