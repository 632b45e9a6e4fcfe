"""Users of an issuer: access tokens for the API and MCP, and the sign-in of the page."""

from __future__ import annotations

import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from mergewise.errors import UsageError
from mergewise.server import sign_in
from mergewise.server.configuration import GrantConfig, IssuerConfig, load_config
from tests.server.conftest import LiveServer
from tests.server.issuer import SECRET, Issuer, running_issuer

BIRDS, SHIPS = "/api/v1/collections/birds", "/api/v1/collections/ships"
OWN = {"type": "eq", "key": "kind", "value": "{user}"}
GRANTS = (
    GrantConfig("docs.admin", scopes=("read", "write", "admin")),
    GrantConfig("sailors", "groups", collections=("ships",)),
    GrantConfig("own", "groups", filter=OWN),
    GrantConfig("docs.read"),
)
AUDIENCE = "https://docs.example.org/mcp"


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with running_issuer() as issuer:
        yield issuer


@pytest.fixture
def live(issuer: Issuer, start_server: Callable[..., LiveServer], monkeypatch: pytest.MonkeyPatch) -> LiveServer:
    monkeypatch.setenv("CLIENT_SECRET", SECRET)
    config = IssuerConfig(issuer.url, GRANTS, AUDIENCE, "kind", "page", "CLIENT_SECRET")
    return start_server(issuer=config)


def statuses(live: LiveServer, token: str) -> tuple[int, int]:
    """Return the statuses of reading the two collections."""
    client = live.client(token)
    return client.get(BIRDS).status_code, client.get(SHIPS).status_code


def user(issuer: Issuer, **claims: Any) -> str:
    return issuer.token(**{"aud": AUDIENCE, "kind": "birds", "scope": "openid docs.read", **claims})


def test_grants_give_scopes_collections_and_filters(issuer: Issuer, live: LiveServer) -> None:
    assert statuses(live, user(issuer)) == (200, 200)
    assert statuses(live, user(issuer, groups=["sailors"])) == (404, 200)
    # the token of a user with a filter sees the own documents only
    own = {"groups": ["x", "own"], "scope": None}
    for name, number in (("birds", 1), ("ships", 0), ("{user}", 0)):
        client = live.client(user(issuer, kind=name, **own))
        assert len(client.get(f"{BIRDS}/documents").json()["items"]) == number
        assert client.post(f"{BIRDS}/documents", json={"documents": [{"id": "x", "text": "x"}]}).status_code == 403
    assert live.client(user(issuer)).get("/api/v1/tokens").status_code == 403
    assert live.client(user(issuer, scope="docs.admin")).get("/api/v1/tokens").status_code == 200
    # no grant, and a word that only contains one
    for scope in ("openid", "docs.reader", None):
        answer = live.client(user(issuer, scope=scope)).get(BIRDS)
        assert (answer.status_code, answer.json()["code"]) == (403, "no-grant")
    # tokens of the server stay
    assert statuses(live, "read") == (200, 200)
    # a user has the own conversations
    asked = {"question": "When does the barn owl hunt?", "conversation": "new"}
    made = live.client(user(issuer)).post(f"{BIRDS}/ask", json=asked).json()["conversation"]
    assert live.client(user(issuer)).get(f"{BIRDS}/conversations/{made}").status_code == 200
    assert live.client(user(issuer, sub="bob")).get(f"{BIRDS}/conversations/{made}").status_code == 404


def test_invalid_tokens_are_refused(issuer: Issuer, live: LiveServer) -> None:
    stranger, now = rsa.generate_private_key(65537, 2048), int(time.time())
    valid = user(issuer)
    head, _, signature = valid.split(".")
    richer = urlsafe_b64encode(b'{"aud":"x"}').rstrip(b"=").decode()
    unsigned = jwt.encode(
        {"iss": issuer.url, "aud": AUDIENCE, "sub": "ann", "exp": now + 60, "scope": "docs.admin"},
        "",
        "none",
        headers={"kid": "one"},
    )
    # the public key as the secret of HMAC; PyJWT does not sign so, so the token is put together here
    confused = hmac_token(
        issuer, {"iss": issuer.url, "aud": AUDIENCE, "sub": "ann", "exp": now + 60, "scope": "docs.admin"}
    )
    tokens = {
        "expired": user(issuer, exp=now - 120),
        "not yet valid": user(issuer, nbf=now + 120),
        "without an end": user(issuer, exp=None),
        "without a user": user(issuer, sub=None),
        "without an audience": user(issuer, aud=None),
        "of another audience": user(issuer, aud="https://other.example.org"),
        "of the page": user(issuer, aud="page"),
        "of another issuer": user(issuer, iss="https://other.example.org"),
        "signed by a stranger": user(issuer, signed_by=stranger),
        "of an unknown key": issuer.token("two", signed_by=stranger, aud=AUDIENCE, scope="docs.read"),
        "unsigned": unsigned,
        "unsigned, with a signature": f"{unsigned}{signature}",
        "HMAC with the public key": confused,
        "changed": f"{head}.{richer}.{signature}",
        "no token": "a.b.c",
        "cut": valid[:-20],
    }
    assert {name: statuses(live, token) for name, token in tokens.items()} == dict.fromkeys(tokens, (401, 401))
    assert statuses(live, valid) == (200, 200)
    # clocks differ by some seconds
    assert statuses(live, user(issuer, exp=now - 20)) == (200, 200)
    assert statuses(live, user(issuer, nbf=now + 20)) == (200, 200)
    # unknown keys cannot make the server ask the issuer again and again
    assert issuer.requests.count("/keys") == 1


def hmac_token(issuer: Issuer, claims: dict[str, Any]) -> str:
    import hashlib
    import hmac
    import json

    def encoded(part: bytes) -> bytes:
        return urlsafe_b64encode(part).rstrip(b"=")

    head = json.dumps({"alg": "HS256", "typ": "JWT", "kid": "one"}).encode()
    signed = encoded(head) + b"." + encoded(json.dumps(claims).encode())
    return (signed + b"." + encoded(hmac.new(issuer.public_pem(), signed, hashlib.sha256).digest())).decode()


def test_keys_are_rotated(issuer: Issuer, live: LiveServer, monkeypatch: pytest.MonkeyPatch) -> None:
    old = user(issuer)
    assert statuses(live, old) == (200, 200)
    monkeypatch.setattr(sign_in, "AGAIN_SECONDS", 0.0)
    issuer.keys["two"] = ec.generate_private_key(ec.SECP256R1())
    new = issuer.token("two", aud=AUDIENCE, scope="docs.read", kind="birds")
    assert (statuses(live, new), statuses(live, old)) == ((200, 200), (200, 200))
    # a key that the issuer withdraws is forgotten after some minutes
    del issuer.keys["one"]
    assert statuses(live, old) == (200, 200)
    monkeypatch.setattr(sign_in, "KEYS_SECONDS", 0.0)
    assert (statuses(live, new), statuses(live, old)) == ((200, 200), (401, 401))


def test_an_issuer_that_fails_keeps_its_keys(issuer: Issuer, live: LiveServer, monkeypatch: pytest.MonkeyPatch) -> None:
    token = user(issuer)
    assert statuses(live, token) == (200, 200)
    monkeypatch.setattr(sign_in, "AGAIN_SECONDS", 0.0)
    monkeypatch.setattr(sign_in, "KEYS_SECONDS", 0.0)
    url, issuer.url = issuer.url, "https://other.example.org"
    assert statuses(live, token) == (200, 200)
    issuer.url = url


def test_the_resource_describes_itself(issuer: Issuer, live: LiveServer) -> None:
    refused = live.client(None).post("/mcp", json={})
    challenge = refused.headers["WWW-Authenticate"]
    address = challenge.partition('resource_metadata="')[2].partition('"')[0]
    assert refused.status_code == 401 and address == f"{live.base}/.well-known/oauth-protected-resource/mcp"
    described = live.client(None).get(urlsplit(address).path).json()
    assert described["resource"] == f"{live.base}/mcp"
    assert [one.rstrip("/") for one in described["authorization_servers"]] == [issuer.url]
    assert described["scopes_supported"] == ["docs.admin", "docs.read"]
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    heads = {"Accept": "application/json, text/event-stream"}
    assert live.client(user(issuer), **heads).post("/mcp", json=call).status_code == 200


def signed_in(live: LiveServer, issuer: Issuer) -> Any:
    """Follow the redirects of a sign-in. Return the client, and the last answer."""
    client = live.client(None)
    begun = client.get("/api/v1/sign-in")
    assert begun.status_code == 302 and begun.headers["Location"].startswith(f"{issuer.url}/authorize?")
    back = client.get(begun.headers["Location"]).headers["Location"]
    return client, back, client.get(back)


def test_a_user_signs_in_on_the_page(issuer: Issuer, live: LiveServer) -> None:
    issuer.user |= {"groups": ["sailors"], "kind": "Ann"}
    client, back, ended = signed_in(live, issuer)
    assert ended.status_code == 302
    secret = parse_qs(urlsplit(ended.headers["Location"]).fragment)["s"][0]
    cookies = ended.headers.get_list("set-cookie")
    assert any("HttpOnly" in one and "SameSite=strict" in one and "mergewise_session" in one for one in cookies)
    heads = {"X-Mergewise": secret}
    assert client.get(SHIPS, headers=heads).status_code == 200
    assert (client.get(BIRDS, headers=heads).status_code, client.get(SHIPS).status_code) == (404, 401)
    # the user is among the tokens, without a known secret, and an admin can end the sessions
    (row,) = [one for one in live.state.tokens.all() if one.id.startswith("user_")]
    assert (row.title, row.collections) == ("Ann", frozenset({"ships"})) and time.time() < (
        row.expires or 0
    ) < time.time() + 50_000
    # another sign-in takes over changed rights, in open sessions too
    issuer.user["groups"] = []
    issuer.user["scope"] = "docs.read"
    signed_in(live, issuer)
    assert client.get(BIRDS, headers=heads).status_code == 200
    # a code works once, and only in the browser that began
    assert client.get(back).status_code == 401
    assert live.client("admin").delete(f"/api/v1/tokens/{row.id}").status_code == 204
    assert client.get(SHIPS, headers=heads).status_code == 401


def test_a_sign_in_after_a_rotation(issuer: Issuer, live: LiveServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sign_in, "AGAIN_SECONDS", 0.0)
    issuer.user |= {"scope": "docs.read", "kind": "Ann"}
    assert signed_in(live, issuer)[2].status_code == 302
    issuer.keys = {"one": issuer.keys["one"], "two": ec.generate_private_key(ec.SECP256R1())}
    monkeypatch.setattr(issuer, "signing", "two")
    assert signed_in(live, issuer)[2].headers["Location"].startswith("/#s=")


def test_a_forged_sign_in_is_refused(issuer: Issuer, live: LiveServer) -> None:
    issuer.user |= {"scope": "docs.read", "kind": "Ann"}
    # the answer to another browser, or with another state
    client = live.client(None)
    place = client.get("/api/v1/sign-in").headers["Location"]
    back = client.get(place).headers["Location"]
    assert live.client(None).get(back).status_code == 401
    other = live.client(None)
    other.get("/api/v1/sign-in")
    assert other.get(back).status_code == 401
    assert client.get(back.replace("state=", "state=x")).status_code == 401
    assert client.get(back).status_code == 302
    assert client.get("/api/v1/sign-in?state=ä&code=x").status_code == 401
    # another nonce, an identity token of another key, and a user without rights
    issuer.nonce = "replayed"
    assert signed_in(live, issuer)[2].status_code == 401
    issuer.nonce = None
    issuer.user["aud"] = AUDIENCE
    assert signed_in(live, issuer)[2].status_code == 401
    issuer.user |= {"aud": "page", "scope": "none"}
    assert signed_in(live, issuer)[2].status_code == 403


def test_a_server_without_a_client_has_no_sign_in(start_server: Callable[..., LiveServer], issuer: Issuer) -> None:
    for config in (None, IssuerConfig(issuer.url, GRANTS, AUDIENCE)):
        live = start_server(issuer=config)
        client = live.client(None)
        assert client.get("/api/v1/sign-in").status_code == 404
        assert "sign_in" not in client.get(BIRDS).headers["WWW-Authenticate"]


def test_the_configuration(tmp_path: Path) -> None:
    text = """
[server]
public_url = "https://docs.example.org"
[issuer]
url = "https://login.example.org"
[[issuer.grants]]
value = "docs.read"
[[issuer.grants]]
claim = "groups"
value = "own"
filter = { type = "eq", key = "owner", value = "{user}" }
"""
    (tmp_path / "serve.toml").write_text(text)
    issuer = load_config(tmp_path, environment={}).issuer
    assert issuer is not None and issuer.grants[0] == GrantConfig("docs.read")
    assert issuer.grants[1].filter == {"type": "eq", "key": "owner", "value": "{user}"}
    for wrong, reason in (
        (text.replace("public_url", "#"), "incomplete settings of the issuer"),
        (text.replace("[issuer]", '[issuer]\naudience = "x"\nclient_id = "x"'), "incomplete settings of the issuer"),
        (text.replace('claim = "groups"', 'scopes = ["write"]'), "only reads"),
        (text.replace('claim = "groups"', 'scopes = ["all"]'), "scope"),
        (text.partition("[[")[0], "missing setting: .*grants"),
    ):
        (tmp_path / "serve.toml").write_text(wrong)
        with pytest.raises(UsageError, match=reason):
            load_config(tmp_path, environment={})
