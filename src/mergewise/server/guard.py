"""Security checks of every request: ASGI middleware around the whole application, with its files and mounted applications.

The checks, in this order:

1. the Host is allowed (421)
2. an Origin is allowed (403)
3. the token is valid (401), and a trusted front end names its user (403)
4. the declared length is within the limit (413)
5. the token is within its rate (429)

All of them need only the head, and run before the body is read. They use `scope["path"]`, which also routes the request; a URL
built from headers may differ.

The body is then limited too: its bytes, also if it comes in chunks, and its time. Paths that need no token get `OPEN_BYTES` and
the time of a head.

A trusted front end sends the names of its users in a header (`IdentityConfig`). A request is the front end's if it has one of its
tokens or, without tokens in the configuration, comes from one of its addresses. Then the header is required, and the token is
replaced with one that only reads the documents of this user. The header from anybody else is refused: it shows a front end that
the configuration does not name, whose users would all have the rights of its token.
"""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
from collections import OrderedDict
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from hashlib import sha256
from time import monotonic, perf_counter
from typing import Any
from urllib.parse import urlsplit

import h11
from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from mergewise.extend import in_thread, remote_parent, span
from mergewise.server.configuration import IdentityConfig, ServeLimits, ServerConfig, filter_of
from mergewise.server.logs import request_fields
from mergewise.server.metrics import Metrics
from mergewise.server.problems import HTTPProblem, log_failure, problem_of, problem_response
from mergewise.server.records import SCOPES, Token
from mergewise.server.state import State
from mergewise.server.web import SECURITY_HEADERS

access = logging.getLogger("mergewise.server.access")

SECRET_HEADER = "X-Mergewise"
"""Header with the secret of the page's session. A cookie alone is worthless, because it reaches every port of the host."""
# paths that accept file uploads; other bodies are JSON and have a smaller limit
_UPLOADS = re.compile(r"/api/v1/collections/[^/]+/documents(?:/[^/]+)?|/v1/files")
# size of a body that needs no token: a login
OPEN_BYTES = 2000
# limits of reading the rest of a refused body
_LINGER_BYTES, _LINGER_SECONDS = 1_000_000, 0.5
METADATA_PATH = "/.well-known/oauth-protected-resource/mcp"
OPEN_PATHS = ("/livez", "/readyz", "/api/v1/livez", "/api/v1/readyz", "/api/v1/sign-in", METADATA_PATH)
NOBODY = Token("nobody", frozenset())
EVERYBODY = Token("everybody", frozenset(SCOPES), title="no token is needed", rate=1e6)


class SecurityMiddleware:
    """The application behind the security checks. `page` are the paths of files that need no token."""

    def __init__(
        self, app: ASGIApp, config: ServerConfig, state: State, metrics: Metrics, page: Collection[str]
    ) -> None:
        self._app, self._config, self._state, self._metrics = app, config, state, metrics
        self._page = frozenset(page)
        self._hosts = config.hosts
        self._issuer = None
        if config.issuer is not None:
            from mergewise.server.sign_in import Issuer

            self._issuer = Issuer(config.issuer, f"{config.url}/mcp")
        public = urlsplit(config.public_url or "")
        self._origins = {*config.allowed_origins}
        if config.public_url:
            self._origins.add(f"{public.scheme}://{public.netloc}")
        self._buckets, own = _Buckets(config.workers), config.limits
        most, seconds = min(OPEN_BYTES, own.json_bytes), min(own.head_seconds, own.body_seconds)
        self._open_limits = replace(own, json_bytes=most, body_seconds=seconds)
        self._headers = {name.lower(): value for name, value in SECURITY_HEADERS.items()}
        if config.tls_certificate is not None or public.scheme == "https":
            self._headers["strict-transport-security"] = "max-age=31536000"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            # the server has no WebSocket routes
            await send({"type": "websocket.close", "code": 1008})
            return
        began = perf_counter()
        scope["mergewise.request_id"] = request_id = f"req_{secrets.token_hex(12)}"
        scope["mergewise.token"] = NOBODY
        caching = "no-cache" if scope["path"] in self._page else "no-store"
        headers = {**self._headers, "cache-control": caching, "x-request-id": request_id}
        exchange, sent = _Exchange(scope, receive, send, headers), Headers(scope=scope)
        fields = request_fields({})
        try:
            if self._issuer is not None:
                scope["mergewise.issuer"] = self._issuer
                if self._issuer.lacks_key(_bearer(sent)):
                    await in_thread(self._issuer.update)
            exchange.limit_body(*self._check(scope, sent))
            with (
                remote_parent(sent),
                span(f"{scope['method']} request", {"http.request.method": scope["method"]}) as note,
            ):
                await self._app(scope, exchange.receive, exchange.send)
                note({"http.response.status_code": exchange.status, "http.route": self._route(scope)})
        except HTTPProblem as problem:
            await exchange.refuse(problem)
        except Exception as error:
            # a body refused halfway can make the application fail: that is not the server's failure
            if exchange.refusal is None and not exchange.status:
                log_failure(error, problem_of(error), request_id)
            await exchange.refuse(exchange.refusal or problem_of(error))
        else:
            if exchange.refusal is not None:
                await exchange.refuse(exchange.refusal)
        finally:
            self._record(scope, exchange.status, perf_counter() - began, fields)

    def _check(self, scope: Scope, headers: Headers) -> tuple[ServeLimits, int]:
        """Check the head of a request. Return the limits and the largest size of its body in bytes.

        Raises HTTPProblem if the request is refused.
        """
        limits, path, method = self._config.limits, scope["path"], scope["method"]
        if sum(len(name) + len(value) for name, value in scope["headers"]) > limits.header_bytes:
            raise HTTPProblem(431, "long-head", "headers too long", "send fewer or shorter headers")
        host = _single(headers, "host") or ""
        if host_name(host) not in self._hosts:
            raise HTTPProblem(421, "wrong-host", "host not allowed", "add the host to allowed_hosts")
        origin = _single(headers, "origin")
        if origin is not None and origin not in self._origins:
            try:
                site = urlsplit(origin).netloc
            except ValueError:
                raise HTTPProblem(400, "invalid-origin", "invalid Origin", "send a scheme and a host") from None
            if site != host:
                raise HTTPProblem(
                    403, "foreign-origin", "requests from other sites are refused", "add the site to allowed_origins"
                )

        # health checks, the page's files, the login and CORS preflight requests need no token
        reads_page = method in ("GET", "HEAD") and (path in OPEN_PATHS or path in self._page)
        is_login = method == "POST" and path == "/api/v1/session"
        is_preflight = method == "OPTIONS" and "access-control-request-method" in headers and origin in self._origins
        is_open = reads_page or is_login or is_preflight
        if is_open:
            limits = self._open_limits
        elif self._state.draining.is_set():
            raise HTTPProblem(503, "draining", "server shutting down", "try again", retry_after=1.0)
        else:
            # a stream checks again whether its token is still valid
            scope["mergewise.check_token"] = check = partial(self._token, scope, headers, origin)
            scope["mergewise.token"] = check()

        is_json = (_single(headers, "content-type") or "").startswith("application/json")
        longest = limits.body_bytes if _UPLOADS.fullmatch(path) and not is_json else limits.json_bytes
        declared = _single(headers, "content-length")
        if declared is not None and "transfer-encoding" in headers:
            raise HTTPProblem(400, "two-lengths", "two lengths of the body", "send only one of the two headers")
        if declared is not None and (not declared.isdecimal() or int(declared[:20]) > longest):
            raise too_large(longest)

        token: Token = scope["mergewise.token"]
        if not is_open and (wait := self._buckets.wait(token.id, token.rate or limits.rate)) > 0:
            self._metrics.rejected.labels("rate").inc()
            raise HTTPProblem(429, "rate", "too many requests with this token", "send fewer requests", retry_after=wait)
        return limits, longest

    def _token(self, scope: Scope, headers: Headers, origin: str | None) -> Token:
        """Return the token of the request, or that of the user for whom a trusted front end sends it."""
        authorization, identity, token = _single(headers, "authorization"), self._config.identity, None
        if not self._config.needs_token:
            token = EVERYBODY
        elif authorization is not None:
            token = self._state.tokens.authenticate(_bearer(headers))
            if token is None and self._issuer is not None:
                token = self._issuer.token(_bearer(headers))
        elif cookie := cookie_parser("; ".join(headers.getlist("cookie"))).get(cookie_name(headers)):
            token = self._state.tokens.of_session(cookie, _single(headers, SECRET_HEADER) or "")
            if token is not None and scope["method"] not in ("GET", "HEAD", "OPTIONS") and origin is None:
                detail = "a write with a cookie must come from the page"
                raise HTTPProblem(403, "foreign-request", detail, "send the header Origin")
        if token is None:
            hint = "send a token: Authorization: Bearer mw_..."
            challenge = 'Bearer realm="mergewise"'
            if self._issuer is not None:
                challenge += f', resource_metadata="{self._config.url}{METADATA_PATH}"'
                challenge += ', sign_in="/api/v1/sign-in"' if self._issuer.config.client_id else ""
            detail, named = "missing, invalid or expired token", {"WWW-Authenticate": challenge}
            raise HTTPProblem(401, "unauthorized", detail, hint, headers=named)
        return token if identity is None else token_of_user(token, identity, headers, scope)

    def _route(self, scope: Scope) -> str:
        path: str | None = getattr(scope.get("route"), "path", None)
        return path or ("page" if scope["path"] in self._page else "none")

    def _record(self, scope: Scope, status: int, seconds: float, asked: Mapping[str, object]) -> None:
        """Count and log the request, without its question, texts and keys. `asked` are the fields of a question."""
        route = self._route(scope)
        self._metrics.requests.labels(route, status).inc()
        fields = {
            "request": scope["mergewise.request_id"],
            "token": scope["mergewise.token"].id,
            "method": scope["method"],
            "route": route,
            "status": status,
            "ms": round(1000 * seconds, 1),
        }
        if self._config.trusted_proxies:
            # uvicorn has replaced the address of a trusted proxy
            fields["client"] = (scope.get("client") or [""])[0]
        is_slow = bool(asked) and seconds > self._config.limits.slow_seconds
        level, said = (logging.WARNING, "slow question") if is_slow else (logging.INFO, "request")
        access.log(level, said, extra={"fields": {**fields, **asked}})


def token_of_user(token: Token, config: IdentityConfig, headers: Headers, scope: Scope) -> Token:
    """Return the token of the user that the request names, or the given token for a request of no front end.

    Raises HTTPProblem 403 for a missing or invalid header, and for a header that does not come from the front end.
    """
    named = headers.getlist(config.header)
    from_peer = config.is_peer((scope.get("client") or [""])[0])
    from_front_end = token.id in config.tokens if config.tokens else from_peer
    if from_front_end and config.peers and not from_peer:
        raise _refusal("this token is not valid from this address", "send the request from the front end")
    if not from_front_end:
        if named:
            raise _refusal(f"the header {config.header} is not trusted from here", "ask an admin to add the front end")
        return token
    user = named[0].strip() if len(named) == 1 else ""
    if not user or len(user) > 320 or not user.isprintable():
        raise _refusal(f"missing or invalid header {config.header}", "let the front end send the user's name")
    own = filter_of(config.filter, user)
    both = own if token.filter is None else {"type": "and", "filters": [token.filter, own]}
    id = f"{token.id}-{sha256(user.encode()).hexdigest()[:16]}"
    return replace(token, id=id, scopes=token.scopes & {"read"}, filter=both)


def _refusal(detail: str, hint: str) -> HTTPProblem:
    return HTTPProblem(403, "wrong-identity", detail, hint)


def _single(headers: Headers, name: str) -> str | None:
    """Return the value of a header, or None without the header. A repeated header gets a value that no check accepts."""
    values = headers.getlist(name)
    return None if not values else values[0].strip() if len(values) == 1 else "twice"


def _bearer(headers: Headers) -> str:
    """Return the secret after `Bearer`, or an empty text."""
    kind, _, secret = (_single(headers, "authorization") or "").partition(" ")
    return secret.strip() if kind.lower() == "bearer" else ""


def host_name(host: str) -> str:
    """Return the name in a Host header, in lower case, without the port. Empty for an invalid header."""
    match = re.fullmatch(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(?::\d{1,5})?", host)
    return match[1].lower().strip("[]").rstrip(".") if match else ""


def cookie_name(headers: Headers) -> str:
    """Name the page's cookie after the port, so that several servers on a host keep their own sessions."""
    port = re.search(r":(\d{1,5})\Z", _single(headers, "host") or "")
    return f"mergewise_session_{port[1]}" if port else "mergewise_session"


def too_large(longest: int) -> HTTPProblem:
    return HTTPProblem(413, "too-large", f"body too large (expected up to {longest:,} bytes)", "send less at once")


class _Buckets:
    """Token buckets that limit the rate of each token. Workers share no counts, so each gets an even part of the rate."""

    def __init__(self, workers: int) -> None:
        self._workers = max(1, workers)
        self._full: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, token: str, rate: float) -> float:
        """Count a request and return 0, or return the seconds to wait if the token is over its rate. Allow bursts of a second."""
        rate, now = rate / self._workers, monotonic()
        most = max(1.0, rate)
        left, then = self._full.pop(token, (most, now))
        left = min(most, left + rate * (now - then))
        wait = 0.0 if left >= 1 else (1 - left) / rate
        self._full[token] = (left - (wait == 0), now)
        # the least recently used is dropped first
        if len(self._full) > 10_000:
            self._full.popitem(last=False)
        return wait


class _Exchange:
    """A request with a body within its limits, and its answer with the server's headers.

    The body is limited in bytes, total seconds, and seconds without a byte. A refused body is answered with its problem.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send, headers: Mapping[str, str]) -> None:
        self._scope, self._receive, self._send = scope, receive, send
        self._headers = [(name.encode(), value.encode()) for name, value in headers.items()]
        self.status = 0
        self.refusal: HTTPProblem | None = None

    def limit_body(self, limits: ServeLimits, longest: int) -> None:
        self._longest = self._left = longest
        self._idle, self._until = limits.idle_seconds, monotonic() + limits.body_seconds
        self._complete = False

    async def receive(self) -> Message:
        if self._complete:
            return await self._receive()
        try:
            async with asyncio.timeout(min(self._idle, self._until - monotonic())):
                message = await self._receive()
        except TimeoutError:
            self.refusal = HTTPProblem(408, "slow-body", "body not received in time", "send the body faster")
            raise self.refusal from None
        self._left -= len(message.get("body", b""))
        if self._left < 0:
            self.refusal = too_large(self._longest)
            raise self.refusal
        self._complete = message["type"] != "http.request" or not message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        if self.refusal is not None and self.status == 0:
            # the application answers a truncated body here: drop that answer
            return
        if message["type"] == "http.response.start":
            self.status = message["status"]
            own = {name.lower() for name, _ in message.get("headers", [])}
            # FastAPI sends no-cache with streams: our cache-control wins
            kept = [(name, value) for name, value in message.get("headers", []) if name.lower() != b"cache-control"]
            ours = [(name, value) for name, value in self._headers if name == b"cache-control" or name not in own]
            message = {**message, "headers": [*kept, *ours]}
        await self._send(message)

    async def refuse(self, problem: HTTPProblem) -> None:
        """Answer with the problem. If an answer has begun, do nothing, so that it just ends."""
        if self.status:
            return
        self.refusal = None
        response = problem_response(problem, self._scope["path"], self._scope["mergewise.request_id"])
        response.headers["connection"] = "close"
        await self.send(
            {"type": "http.response.start", "status": response.status_code, "headers": response.raw_headers}
        )
        await self.send({"type": "http.response.body", "body": response.body, "more_body": True})

        # read some of the body: a client whose connection closes while it still sends would not see the answer
        names = {name for name, _ in self._scope["headers"]}
        left = _LINGER_BYTES if b"expect" not in names and names & {b"content-length", b"transfer-encoding"} else 0
        with suppress(TimeoutError):
            async with asyncio.timeout(_LINGER_SECONDS):
                while left > 0:
                    message = await self._receive()
                    left -= len(message.get("body", b""))
                    if not message.get("more_body", False):
                        break
        await self.send({"type": "http.response.body", "body": b""})


class BoundedHeadProtocol(H11Protocol):
    """uvicorn's HTTP/1.1 protocol with a time limit for the head of a request, and for a body that nobody reads.

    An idle connection between two requests has the longer time limit of `timeout_keep_alive` if it has shown a token.
    """

    # overridden by the subclass in `uvicorn_options`
    head_seconds = 10.0
    _due: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._watch_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch_head()

    def on_response_complete(self) -> None:
        # an idle connection that has shown no token ends earlier
        is_open = self.scope.get("mergewise.token", NOBODY) is NOBODY
        self.timeout_keep_alive = max(1, round(self.head_seconds)) if is_open else self.config.timeout_keep_alive
        super().on_response_complete()
        self._watch_head()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._due is not None:
            self._due.cancel()

    def _watch_head(self) -> None:
        """Run the timer while the protocol waits for a head, or for the rest of a body after the answer."""
        has_begun = self.cycle is None or bool(self.conn.trailing_data[0])
        is_unread = self.conn.our_state is h11.DONE and self.conn.their_state is h11.SEND_BODY
        is_awaited = is_unread or (self.conn.their_state is h11.IDLE and has_begun)
        if is_awaited and self._due is None:
            self._due = self.loop.call_later(self.head_seconds, self.transport.close)
        elif not is_awaited and self._due is not None:
            self._due.cancel()
            self._due = None
