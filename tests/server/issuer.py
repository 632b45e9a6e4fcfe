"""A small issuer on loopback for tests: its description, its keys, and the code flow with PKCE. It counts requests."""

from __future__ import annotations

import json
import time
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

SECRET = "secret of the client"


class Issuer:
    """An issuer. `keys` are published, by their ids, and `user` has the claims of who signs in."""

    def __init__(self) -> None:
        self.url = ""
        self.keys: dict[str, Any] = {"one": rsa.generate_private_key(65537, 2048)}
        self.user: dict[str, Any] = {"sub": "ann", "email": "ann@example.org"}
        self.requests: list[str] = []
        self.codes: dict[str, dict[str, str]] = {}
        self.nonce: str | None = None
        self.signing = "one"

    def token(self, key: str = "one", *, signed_by: Any = None, algorithm: str = "", **claims: Any) -> str:
        """Return a token with these claims instead of the usual ones. A claim of None is left out."""
        own = signed_by if signed_by is not None else self.keys[key]
        usual = {"iss": self.url, "exp": int(time.time()) + 300, "iat": int(time.time()), "sub": "ann"}
        given = {name: value for name, value in {**usual, **claims}.items() if value is not None}
        default = "ES256" if isinstance(own, ec.EllipticCurvePrivateKey) else "RS256"
        return jwt.encode(given, own, algorithm or default, headers={"kid": key})

    def public_pem(self, key: str = "one") -> bytes:
        form = serialization.PublicFormat.SubjectPublicKeyInfo
        pem: bytes = self.keys[key].public_key().public_bytes(serialization.Encoding.PEM, form)
        return pem

    def _key_set(self) -> dict[str, Any]:
        found = []
        for name, key in self.keys.items():
            kind = (
                jwt.algorithms.ECAlgorithm
                if isinstance(key, ec.EllipticCurvePrivateKey)
                else jwt.algorithms.RSAAlgorithm
            )
            found.append({**kind.to_jwk(key.public_key(), as_dict=True), "kid": name, "use": "sig"})
        return {"keys": found}

    def answer(self, path: str, form: dict[str, str], login: str) -> tuple[int, dict[str, str], Any]:
        place = urlsplit(path)
        query = {name: values[0] for name, values in parse_qs(place.query).items()}
        self.requests.append(place.path)
        match place.path:
            case "/.well-known/openid-configuration":
                names = {"authorization_endpoint": "authorize", "token_endpoint": "token", "jwks_uri": "keys"}
                return 200, {}, {"issuer": self.url, **{name: f"{self.url}/{end}" for name, end in names.items()}}
            case "/keys":
                return 200, {}, self._key_set()
            case "/authorize":
                code = f"code {len(self.codes)}"
                self.codes[code] = query
                return (
                    302,
                    {"Location": f"{query['redirect_uri']}?{urlencode({'code': code, 'state': query['state']})}"},
                    {},
                )
            case "/token":
                begun = self.codes.pop(form.get("code", ""), None)
                verifier = (
                    urlsafe_b64encode(sha256(form.get("code_verifier", "").encode()).digest()).rstrip(b"=").decode()
                )
                if (
                    begun is None
                    or begun["code_challenge"] != verifier
                    or begun["redirect_uri"] != form["redirect_uri"]
                ):
                    return 400, {}, {"error": "invalid_grant"}
                if b64decode(login.removeprefix("Basic ")).decode() != f"page:{SECRET}":
                    return 401, {}, {"error": "invalid_client"}
                claims = {"aud": "page", "nonce": self.nonce or begun["nonce"], **self.user}
                return (
                    200,
                    {},
                    {"id_token": self.token(self.signing, **claims), "access_token": "x", "token_type": "Bearer"},
                )
        return 404, {}, {}


@contextmanager
def running_issuer() -> Iterator[Issuer]:
    issuer = Issuer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"] or 0)).decode()
            form = {name: values[0] for name, values in parse_qs(body).items()}
            status, headers, answer = issuer.answer(self.path, form, self.headers["Authorization"] or "")
            content = json.dumps(answer).encode()
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_GET  # noqa: N815

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    issuer.url = f"http://127.0.0.1:{server.server_port}"
    Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield issuer
    finally:
        server.shutdown()
        server.server_close()
