"""Security checks of every request: host, origin, token, length and rate, before the body is read."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Callable
from typing import Any

import httpx2 as httpx
import pytest

from mergewise.server.guard import host_name
from mergewise.server.web import POLICY
from tests.server.conftest import LiveServer
from tests.support import patience, until

EVERYWHERE = ["/", "/web/api.js", "/livez", "/readyz", "/metrics", "/api/v1/collections", "/api/v1/openapi.json",
              "/v1/models", "/mcp", "/nowhere", "/api/v1/session"]  # fmt: skip
SHIPS = "/api/v1/collections/ships"
OPEN = {"/", "/web/api.js", "/livez", "/readyz"}


@pytest.mark.parametrize("path", EVERYWHERE)
@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "127.0.0.1:80@evil.example", "", "localhost/livez?"]
)
def test_another_host_is_refused(server: LiveServer, path: str, host: str) -> None:
    answer = server.client("admin", Host=host).get(path)
    assert answer.status_code == 421, answer.text
    assert answer.headers["X-Request-Id"].startswith("req_")


def test_host_names() -> None:
    names = {"LocalHost:8077": "localhost", "[::1]:8077": "::1", "127.0.0.1.": "127.0.0.1"}
    wrong = ("a b", "a:b", "a/b", "a,b", "a@b", "a:1:2", "a:123456", "")
    assert {host: host_name(host) for host in (*names, *wrong)} == names | dict.fromkeys(wrong, "")


@pytest.mark.parametrize("path", EVERYWHERE)
@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://127.0.0.1:1", "http://localhost.evil.example"]
)
def test_another_origin_is_refused(server: LiveServer, path: str, origin: str) -> None:
    answer = server.client("admin", Origin=origin).get(path)
    assert answer.status_code == 403
    assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize("path", EVERYWHERE)
@pytest.mark.parametrize("token", [None, "mw_000000000000_" + "a" * 43, "x", "Bearer"])
def test_a_token_is_needed(server: LiveServer, path: str, token: str | None) -> None:
    answer = server.client(token).get(path)
    if path in OPEN:
        assert answer.status_code in (200, 503)
    else:
        assert answer.status_code == 401
        assert answer.headers["WWW-Authenticate"].startswith("Bearer")


@pytest.mark.parametrize(
    "path",
    ["//livez", "/livez/", "/livez%2f", "/LIVEZ", "/livez;x", "/web/../api/v1/collections", "/web/%2e%2e/api/v1/collections",
     "/livez/../metrics", "/web/nothing.js", "/web/", "/api/v1/session/", "/mcp/", "/api/v1/collections/ships/documents:remove"],
)  # fmt: skip
def test_path_variants_do_not_bypass_the_token(server: LiveServer, path: str) -> None:
    for method in ("GET", "POST", "OPTIONS", "HEAD"):
        status, _ = ask_raw(server, f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
        assert status == 401, method


@pytest.mark.parametrize("scheme", ["Basic {}", "bearer", "Token {}", "{}"])
def test_only_bearer_tokens_are_accepted(server: LiveServer, scheme: str) -> None:
    answer = server.client(None, Authorization=scheme.format(server.tokens["read"])).get("/v1/models")
    assert answer.status_code == 401
    # OpenAI's clients need OpenAI's error format
    assert answer.json()["error"]["type"] == "authentication_error"


def test_a_removed_or_expired_token_is_refused_at_once(server: LiveServer) -> None:
    token, secret = server.state.tokens.add(["read"])
    client = server.client(secret)
    assert client.get("/api/v1/collections").status_code == 200
    server.state.tokens.remove(token.id)
    assert client.get("/api/v1/collections").status_code == 401
    _, late = server.state.tokens.add(["read"], expires=time.time() - 1)
    assert server.client(late).get("/api/v1/collections").status_code == 401


def test_two_tokens_are_refused(server: LiveServer) -> None:
    twice = [("Authorization", f"Bearer {server.tokens['read']}")] * 2
    assert server.client(None).get("/api/v1/collections", headers=twice).status_code == 401


def ask_raw(server: LiveServer, sent: str | bytes) -> tuple[int, bytes]:
    """Send bytes on a new connection. Return the status and the whole answer; status 0 if it closes without an answer."""
    with socket.create_connection(server.address, timeout=20) as connection:
        connection.sendall(sent.encode() if isinstance(sent, str) else sent)
        answer = b""
        while b"\r\n\r\n" not in answer and (piece := connection.recv(65536)):
            answer += piece
    return (int(answer.split(b" ", 2)[1]) if answer else 0), answer


@pytest.mark.parametrize(
    ("head", "status"),
    [
        ("POST /api/v1/collections/ships/ask HTTP/1.1\r\nHost: evil\r\n", 421),
        ("POST /api/v1/collections/ships/ask HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil\r\n", 403),
        ("POST /api/v1/collections/ships/ask HTTP/1.1\r\nHost: localhost\r\n", 401),
        ("POST /mcp HTTP/1.1\r\nHost: localhost\r\n", 401),
        ("POST /v1/files HTTP/1.1\r\nHost: localhost\r\n", 401),
        ("POST /api/v1/collections HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {read}\r\n", 403),
        ("POST /api/v1/collections/nothing/ask HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {read}\r\n", 404),
    ],
)
def test_a_refusal_does_not_read_the_body(server: LiveServer, head: str, status: int) -> None:
    """The declared body is never sent, so reading it would block."""
    declared = "Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n"
    assert ask_raw(server, head.format(**server.tokens) + declared)[0] == status


@pytest.mark.parametrize(
    ("path", "kind", "length"),
    [
        *((f"{SHIPS}/{path}", "application/json", 2_000_001) for path in ("ask", "documents")),
        *((path, "application/json", 2_000_001) for path in ("/mcp", "/api/v1/session")),
        ("/v1/chat/completions", "application/json", 10**18),
        *((path, "multipart/form-data; boundary=x", 100_000_001) for path in (f"{SHIPS}/documents", "/v1/files")),
    ],
)
def test_a_long_body_is_refused_by_its_length(server: LiveServer, path: str, kind: str, length: int) -> None:
    token = server.tokens["write"]
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nContent-Type: {kind}\r\n"
    assert ask_raw(server, f"{head}Content-Length: {length}\r\n\r\n")[0] == 413


def test_a_body_in_chunks_is_bounded_too(start_server: Callable[..., LiveServer]) -> None:
    server = start_server(limits={"json_bytes": 10_000, "body_bytes": 20_000})
    client = server.client("write")

    def status(method: str, path: str, kind: str, size: int) -> int:
        content = (b" " * 1000 for _ in range(size // 1000))
        return client.request(method, path, content=content, headers={"Content-Type": kind}).status_code

    for path in ("/api/v1/collections/ships/ask", "/mcp", "/api/v1/session", "/v1/chat/completions"):
        assert status("POST", path, "application/json", 11_000) == 413, path
        # a login is shorter
        size = 1000 if path.endswith("session") else 9000
        assert status("POST", path, "application/json", size) not in (200, 413)
    assert status("PUT", "/api/v1/collections/ships/documents/bmV3", "text/plain", 19_000) == 202
    assert status("PUT", "/api/v1/collections/ships/documents/bmV3", "text/plain", 21_000) == 413
    assert not list(server.config.spool.glob("*"))


def test_a_body_that_does_not_come_is_not_waited_for(start_server: Callable[..., LiveServer]) -> None:
    server = start_server(limits={"idle_seconds": 0.2, "body_seconds": 0.5, "head_seconds": 0.3})
    token = server.tokens["write"]
    head = f"POST /api/v1/collections/ships/ask HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
    declared = head + "Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n"
    assert ask_raw(server, declared + "{")[0] == 408
    # a byte now and then does not extend the time limit of a body or a head
    for begun, status in ((declared, 408), (head, 0)):
        with socket.create_connection(server.address, timeout=20) as connection:
            connection.sendall(begun.encode())
            answer, began = b"", time.monotonic()
            connection.settimeout(0.1)
            # the server resets the connection if a byte arrives after it has closed
            with contextlib.suppress(ConnectionResetError, BrokenPipeError):
                while time.monotonic() < began + patience(15) and b"\r\n\r\n" not in answer:
                    try:
                        if not (piece := connection.recv(65536)):
                            break
                        answer += piece
                    except TimeoutError:
                        connection.sendall(b" " if status else b"X")
            assert (int(answer.split(b" ", 2)[1]) if answer else 0) == status
            assert time.monotonic() < began + patience(10)


@pytest.mark.parametrize("request_line", ["POST /api/v1/session", "GET /livez", "HEAD /"])
def test_a_path_without_a_token_reads_little_and_not_for_long(
    start_server: Callable[..., LiveServer], request_line: str
) -> None:
    server = start_server(limits={"head_seconds": 0.5})
    head = f"{request_line} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    assert ask_raw(server, head + "Content-Length: 2001\r\n\r\n")[0] == 413
    connections = [socket.create_connection(server.address, timeout=20) for _ in range(100)]
    for connection in connections:
        connection.sendall(f"{head}Content-Length: 2000\r\n\r\n".encode())
    began = time.monotonic()
    while connections and time.monotonic() < began + 15:
        time.sleep(0.1)
        closed = [connection for connection in connections if not takes_a_byte(connection)]
        for connection in closed:
            connection.close()
            connections.remove(connection)
    for connection in connections:
        connection.close()
    assert not connections


def test_an_idle_connection_without_a_token_ends_soon(start_server: Callable[..., LiveServer]) -> None:
    server = start_server(limits={"head_seconds": 1})
    token = f"Authorization: Bearer {server.tokens['read']}\r\n"
    closed = []
    for path, known in (("/livez", ""), ("/api/v1/collections", ""), ("/api/v1/collections", token)):
        with socket.create_connection(server.address, timeout=4) as connection:
            connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{known}\r\n".encode())
            try:
                while connection.recv(65536):
                    pass
                closed.append(path)
            except TimeoutError:
                assert known
    assert closed == ["/livez", "/api/v1/collections"]


def takes_a_byte(connection: socket.socket) -> bool:
    """Send a byte of a body, and drop what the server has sent. Return False if the connection is closed."""
    try:
        connection.send(b" ")
        while connection.recv(65536, socket.MSG_DONTWAIT):
            pass
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


@pytest.mark.parametrize("origin", ["http://[", "http://[::1", "http://[x]"])
def test_an_origin_that_is_none_is_refused(server: LiveServer, origin: str) -> None:
    answer = server.client("admin", Origin=origin).get("/api/v1/collections")
    assert answer.status_code == 400 and answer.json()["code"] == "invalid-origin"


def test_a_long_head_is_refused(server: LiveServer) -> None:
    status, _ = ask_raw(server, "GET /livez HTTP/1.1\r\nHost: localhost\r\nX: " + "a" * 40_000 + "\r\n\r\n")
    assert status == 431


def test_a_token_over_its_rate_must_wait(server: LiveServer) -> None:
    _, secret = server.state.tokens.add(["read"], rate=2)
    answers = [server.client(secret).get("/api/v1/models") for _ in range(4)]
    assert [answer.status_code for answer in answers[:2]] == [200, 200]
    refused = next(answer for answer in answers if answer.status_code == 429)
    assert int(refused.headers["Retry-After"]) == 1 and 0 < float(refused.headers["retry-after-ms"]) <= 1000
    assert refused.json()["code"] == "rate" and refused.json()["retry_after"] <= 1
    # another token is not affected
    assert server.client("read").get("/api/v1/models").status_code == 200


def test_the_page_exchanges_its_token_for_a_cookie(server: LiveServer) -> None:
    page = server.client(None, Origin=server.base)
    assert page.post("/api/v1/session", json={"token": "mw_wrong"}).status_code == 401
    opened = page.post("/api/v1/session", json={"token": server.tokens["write"]})
    assert opened.status_code == 200 and opened.headers["Cache-Control"] == "no-store"
    cookie, ours = opened.headers["Set-Cookie"].lower(), {"X-Mergewise": opened.json()["secret"]}
    assert cookie.startswith(f"mergewise_session_{server.config.port}=") and ours["X-Mergewise"].lower() not in cookie
    assert "httponly" in cookie and "samesite=strict" in cookie and "path=/" in cookie
    assert server.tokens["write"].lower() not in cookie
    # a cookie reaches every port of the host, so it is not enough
    assert page.get("/api/v1/collections").status_code == 401
    assert page.get("/api/v1/collections", headers={"X-Mergewise": "1"}).status_code == 401
    assert page.get("/api/v1/collections", headers=ours).status_code == 200
    body = {"documents": [{"id": "by-page", "text": "x"}]}
    path = "/api/v1/collections/birds/documents"
    assert page.post(path, json=body).status_code == 401
    assert page.post(path, json=body, headers={**ours, "Origin": "http://evil.example"}).status_code == 403
    no_origin = httpx.Client(base_url=server.base, cookies=dict(page.cookies), headers=ours, verify=False)
    assert no_origin.post(path, json=body).status_code == 403
    no_origin.close()
    assert page.post(path, json=body, headers=ours).status_code == 202
    # a token takes precedence over the cookie
    assert page.get("/api/v1/collections", headers={"Authorization": "Bearer x"}).status_code == 401
    assert page.request("DELETE", "/api/v1/session", headers=ours).status_code == 204
    left = {"Cookie": opened.headers["Set-Cookie"].partition(";")[0]}
    assert server.client(None, **left, **ours).get("/api/v1/collections").status_code == 401


def test_an_expired_or_removed_token_ends_its_streams(server: LiveServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mergewise.server.streams.TOKEN_SECONDS", 0.05)
    for expires in (time.time() + 0.4, None):
        token, secret = server.state.tokens.add(["read", "write"], expires=expires)
        job = server.state.jobs.enqueue("check", "birds", token=token.id)
        page = server.client(None, Origin=server.base)
        ours = {"X-Mergewise": page.post("/api/v1/session", json={"token": secret}).json()["secret"]}
        path = f"/api/v1/jobs/{job.id}/events"
        with server.client(secret).stream("GET", path) as by_token, page.stream("GET", path, headers=ours) as by_page:
            assert by_token.status_code == by_page.status_code == 200
            if expires is None:
                server.state.tokens.remove(token.id)
            for stream in (by_token, by_page):
                last = stream.read().decode().strip().split("\n\n")[-1]
                assert last.startswith("event: error") and '"status":401' in last
        assert server.client(secret).get("/api/v1/collections").status_code == 401
        assert page.get("/api/v1/collections", headers=ours).status_code == 401
        assert server.client(None).post("/api/v1/session", json={"token": secret}).status_code == 401
        server.state.jobs.cancel(job.id)


def test_a_cookie_under_tls_is_secure(start_server: Callable[..., LiveServer]) -> None:
    server = start_server(public_url="https://docs.example.org")
    opened = server.client(None, Host="docs.example.org").post("/api/v1/session", json={"token": server.tokens["read"]})
    assert "secure" in opened.headers["Set-Cookie"].lower()
    assert opened.headers["Strict-Transport-Security"]
    client = server.client("read", Host="docs.example.org", Origin="https://docs.example.org")
    assert client.get("/api/v1/collections").status_code == 200


def test_mcp_accepts_the_origin_of_an_address_with_a_path(start_server: Callable[..., LiveServer]) -> None:
    server = start_server(public_url="https://docs.example.org/docs/")
    client = server.client("read", Host="docs.example.org", Origin="https://docs.example.org")
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    answer = client.post("/mcp", json=asked, headers={"Accept": "application/json, text/event-stream"})
    assert answer.status_code == 200, answer.text


def test_cors_allows_only_configured_origins(start_server: Callable[..., LiveServer]) -> None:
    server = start_server(allowed_origins=("https://app.example",), needs_token=True)
    asks = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
    path = "/api/v1/collections/ships/ask"
    before = server.client(None, Origin="https://app.example", **asks).options(path)
    assert before.status_code == 200 and before.headers["Access-Control-Allow-Origin"] == "https://app.example"
    assert server.client(None, Origin="https://evil.example", **asks).options(path).status_code == 403
    answer = server.client("read", Origin="https://app.example").get("/api/v1/collections")
    assert answer.headers["Access-Control-Allow-Origin"] == "https://app.example"
    # cookies are not allowed from there, and preflight headers do not open other methods
    assert "Access-Control-Allow-Credentials" not in answer.headers
    assert server.client(None, Origin="https://app.example", **asks).get(path).status_code == 401


def test_without_tokens_everything_is_open_to_this_machine(start_server: Callable[..., LiveServer]) -> None:
    server = start_server(needs_token=False)
    assert server.client(None).get("/api/v1/tokens").status_code == 200
    assert server.client(None, Host="evil.example").get("/api/v1/tokens").status_code == 421


@pytest.mark.parametrize("path", [*EVERYWHERE, "/api/v1/collections/nothing"])
def test_every_answer_has_security_headers(server: LiveServer, path: str) -> None:
    # `/mcp` is an endless stream
    with server.client("read").stream("GET", path) as answer:
        headers = answer.headers
    assert headers["Content-Security-Policy"] == POLICY
    assert headers["X-Content-Type-Options"] == "nosniff" and headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert headers["Cache-Control"] == ("no-cache" if path.startswith(("/web", "/?")) or path == "/" else "no-store")
    assert headers["X-Request-Id"] and "server" not in headers


def test_what_nobody_foresaw_says_nothing(server: LiveServer, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object) -> None:
        raise RuntimeError("/srv/secret/index: SELECT * FROM tokens")

    monkeypatch.setattr(server.service.collections, "all", fail)
    answer = server.client("read").get("/api/v1/collections")
    assert answer.status_code == 500 and answer.headers["Content-Type"] == "application/problem+json"
    problem = answer.json()
    assert problem["code"] == "internal" and problem["instance"] == answer.headers["X-Request-Id"]
    assert "secret" not in answer.text and "SELECT" not in answer.text and "Traceback" not in answer.text
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("proxies", [(), ("127.0.0.1",), ("192.0.2.1",)])
def test_the_access_log_has_client_addresses_with_trusted_proxies(
    start_server: Callable[..., LiveServer], caplog: pytest.LogCaptureFixture, proxies: tuple[str, ...]
) -> None:
    caplog.set_level("INFO", "mergewise.server.access")
    live = start_server(trusted_proxies=proxies)
    live.client("read", **{"X-Forwarded-For": "203.0.113.9"}).get("/api/v1/collections")

    def lines() -> list[Any]:
        return [vars(record)["fields"] for record in caplog.records if record.name == "mergewise.server.access"]

    assert until(lambda: bool(lines()))
    expected = {(): None, ("127.0.0.1",): "203.0.113.9", ("192.0.2.1",): "127.0.0.1"}
    assert lines()[-1].get("client") == expected[proxies]


def test_the_access_log_holds_no_question_and_no_key(server: LiveServer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "mergewise.server.access")
    server.client("read").post("/api/v1/collections/ships/context?secret=1", json={"question": "a private question"})

    def lines_of_log() -> list[Any]:
        return [vars(record)["fields"] for record in caplog.records if record.name == "mergewise.server.access"]

    # the line is written after the answer
    assert until(lambda: bool(lines_of_log()))
    lines = lines_of_log()
    assert lines[-1]["route"] == "/api/v1/collections/{c}/context" and lines[-1]["status"] == 200
    assert not [line for line in lines if "private" in json.dumps(line) or "secret" in json.dumps(line)]
    assert server.tokens["read"] not in caplog.text
