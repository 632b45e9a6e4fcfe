"""Users of a trusted front end, named by a header: each reads only the documents of its filter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mergewise.errors import UsageError
from mergewise.server.configuration import IdentityConfig, filter_of, load_config
from tests.server.conftest import LiveServer

HEADER = "X-OpenWebUI-User-Email"
OWN = {"type": "eq", "key": "kind", "value": "{user}"}
AT_HOME, ELSEWHERE = ("127.0.0.1",), ("10.0.0.0/24",)
BIRDS = "/api/v1/collections/birds"
OWL = {"question": "When does the barn owl hunt?"}


@pytest.fixture
def serve(start_server: Callable[..., LiveServer]) -> Callable[..., LiveServer]:
    """A function that starts a server with an identity. Its token "front" has all scopes."""

    def serve(*, tokens: bool = False, peers: tuple[str, ...] = ()) -> LiveServer:
        identity = IdentityConfig(HEADER, OWN, peers, ("0",) if tokens else ())
        live = start_server(identity=identity)
        front, live.tokens["front"] = live.state.tokens.add(["read", "write", "admin"], rate=10_000)
        if tokens:
            app: Any = live.uvicorn.config.app
            app._config = replace(live.config, identity=replace(identity, tokens=(front.id,)))
        return live

    return serve


def passages(live: LiveServer, token: str, **headers: str) -> list[Any]:
    answer = live.client(token, **headers).post(f"{BIRDS}/context", json=OWL)
    assert answer.status_code == 200, answer.text
    found: list[Any] = answer.json()["context"]["passages"]
    return found


@pytest.mark.parametrize("place", [{"tokens": True}, {"peers": AT_HOME}, {"tokens": True, "peers": AT_HOME}])
def test_a_user_reads_only_the_own_documents(serve: Callable[..., LiveServer], place: dict[str, Any]) -> None:
    live = serve(**place)
    assert passages(live, "front", **{HEADER: "birds"})
    assert passages(live, "front", **{HEADER: "ships"}) == []
    # a name cannot change the filter
    for user in ("birds' or '1'='1", 'x"}, {"type": "ne", "key": "kind", "value": "', "{user}", "%", "BIRDS"):
        assert passages(live, "front", **{HEADER: user}) == []
    listed = live.client("front", **{HEADER: "someone"}).get(f"{BIRDS}/documents").json()["items"]
    assert listed == []
    assert live.client("front", **{HEADER: "birds"}).get(f"{BIRDS}/documents").json()["items"]


def test_a_user_cannot_write(serve: Callable[..., LiveServer]) -> None:
    client = serve(tokens=True).client("front", **{HEADER: "birds"})
    refused = [
        client.put(f"{BIRDS}/documents/eA", content=b"x"),
        client.post("/v1/files", files={"file": ("x.md", b"x")}),
        client.post("/v1/vector_stores", json={"name": "x"}),
        client.get("/api/v1/tokens"),
        client.post(f"{BIRDS}/jobs", json={"kind": "check"}),
    ]
    assert [answer.status_code for answer in refused] == [403] * len(refused)


@pytest.mark.parametrize("place", [{"tokens": True}, {"peers": AT_HOME}])
@pytest.mark.parametrize("headers", [{}, {HEADER: ""}, {HEADER: "x" * 400}, {HEADER: "a\tb"}])
def test_a_front_end_must_name_a_user(
    serve: Callable[..., LiveServer], place: dict[str, Any], headers: dict[str, str]
) -> None:
    answer = serve(**place).client("front", **headers).post(f"{BIRDS}/context", json=OWL)
    assert answer.status_code == 403 and answer.json()["code"] == "wrong-identity"
    assert "text" not in answer.text


def test_two_users_in_a_request_are_none(serve: Callable[..., LiveServer]) -> None:
    client = serve(tokens=True).client("front")
    answer = client.get("/v1/models", headers=[(HEADER, "birds"), (HEADER, "ships")])
    assert answer.status_code == 403 and answer.json()["error"]["code"] == "wrong-identity"


def test_the_header_of_others_is_refused(serve: Callable[..., LiveServer]) -> None:
    live = serve(tokens=True)
    assert live.client("read", **{HEADER: "birds"}).get("/v1/models").status_code == 403
    assert passages(live, "read")
    elsewhere = serve(peers=ELSEWHERE)
    assert elsewhere.client("front", **{HEADER: "birds"}).get("/v1/models").status_code == 403
    assert passages(elsewhere, "front")


def test_a_token_of_the_front_end_is_valid_only_from_there(serve: Callable[..., LiveServer]) -> None:
    live = serve(tokens=True, peers=ELSEWHERE)
    for headers in ({}, {HEADER: "birds"}):
        assert live.client("front", **headers).get("/v1/models").status_code == 403


def test_a_session_of_the_front_end_needs_the_header_too(serve: Callable[..., LiveServer]) -> None:
    live = serve(tokens=True)
    client = live.client(None)
    own = {"X-Mergewise": client.post("/api/v1/session", json={"token": live.tokens["front"]}).json()["secret"]}
    assert client.get("/v1/models", headers=own).status_code == 403
    assert client.get("/v1/models", headers={**own, HEADER: "birds"}).status_code == 200


def test_the_tools_of_mcp_see_the_user(serve: Callable[..., LiveServer]) -> None:
    live = serve(tokens=True)
    call = {"name": "find", "arguments": {"words": "", "collection": "birds"}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    accept = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}
    for user, is_shown in (("birds", True), ("ships", False)):
        answer = live.client("front", **accept, **{HEADER: user}).post("/mcp", json=body)
        assert answer.status_code == 200 and ("birds.md" in answer.text) is is_shown, answer.text
    assert live.client("front", **accept).post("/mcp", json=body).status_code == 403


def test_users_have_tokens_of_their_own(serve: Callable[..., LiveServer]) -> None:
    live = serve(tokens=True)
    from starlette.datastructures import Headers

    from mergewise.server.guard import token_of_user

    front = next(one for one in live.state.tokens.all() if "admin" in one.scopes and one.title == "")
    config = IdentityConfig(HEADER, OWN, tokens=(front.id,))
    kind = {"type": "eq", "key": "kind", "value": "birds"}
    both = replace(front, filter=kind)
    users = [token_of_user(both, config, Headers({HEADER: user}), {"client": ("::1", 1)}) for user in ("a", "b")]
    assert users[0].id != users[1].id and front.id not in {user.id for user in users}
    assert users[0].scopes == {"read"}
    assert users[0].filter == {"type": "and", "filters": [kind, {**OWN, "value": "a"}]}


def test_addresses_of_peers() -> None:
    config = IdentityConfig(HEADER, OWN, ("10.0.0.0/24", "::1"))
    shown = ("10.0.0.5", "::1", "::ffff:10.0.0.5")
    others = ("10.0.1.5", "::2", "", "localhost", "testclient")
    assert {one: config.is_peer(one) for one in (*shown, *others)} == dict.fromkeys(shown, True) | dict.fromkeys(
        others, False
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('header = "X"\npeers = ["10.0.0.5"]', "missing setting: .*identity.filter"),
        ('header = "X"\nfilter = { type = "eq", key = "k", value = "{user}" }', "identity.peers or identity.tokens"),
        ('header = "X"\nfilter = { type = "eq", key = "k", value = "u" }\npeers = ["10.0.0.5"]', "no {user}"),
        ('header = "X"\nfilter = { type = "is", key = "k", value = "{user}" }\npeers = ["10.0.0.5"]', "filter type"),
        ('header = "X"\nfilter = { type = "eq", key = "k", value = "{user}" }\npeers = ["proxy"]', "identity.peers"),
        ('header = "X"\nname = "y"', "unknown setting"),
    ],
)
def test_an_invalid_identity_is_named(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "serve.toml").write_text(f"[identity]\n{text}\n")
    with pytest.raises(UsageError, match=problem):
        load_config(tmp_path, environment={})


def test_a_valid_identity(tmp_path: Path) -> None:
    table = f'header = "{HEADER}"\ntokens = ["ab12"]\nfilter = {{ type = "in", key = "owner", value = ["all", "{{user}}"] }}'
    (tmp_path / "serve.toml").write_text(f"[identity]\n{table}\n")
    config = load_config(tmp_path, environment={}).identity
    assert config is not None and config.tokens == ("ab12",)
    assert filter_of(config.filter, "ann@x.org") == {"type": "in", "key": "owner", "value": ["all", "ann@x.org"]}
