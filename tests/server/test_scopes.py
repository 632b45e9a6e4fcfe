"""Access to every route by every scope. The routes come from the OpenAPI document, so new routes are tested too."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, get_args

import pytest

from mergewise.errors import UsageError
from mergewise.server.records import Scope, Token
from tests.server.conftest import LiveServer

METHODS = {"get", "post", "put", "patch", "delete"}
SCOPES: tuple[Scope, ...] = get_args(Scope)


@pytest.fixture(scope="module")
def operations(server: LiveServer) -> list[tuple[str, str, str]]:
    """Method, path and scope of each operation."""
    paths = server.client("read").get("/api/v1/openapi.json").json()["paths"]
    found = [(m, path, one["x-scope"]) for path, ways in paths.items() for m, one in ways.items() if m in METHODS]
    assert len(found) > 50
    return found


@pytest.fixture(scope="module")
def tokens(server: LiveServer) -> Iterator[dict[str, str]]:
    made: dict[str, tuple[Token, str]] = {}
    for scope in SCOPES:
        made[scope] = server.state.tokens.add([scope], rate=10_000)
        made[f"{scope} of birds"] = server.state.tokens.add([scope], collections=["birds"], rate=10_000)
    yield {name: secret for name, (_, secret) in made.items()}
    for token, _ in made.values():
        server.state.tokens.remove(token.id)


def status(server: LiveServer, token: str | None, method: str, path: str, collection: str = "ships") -> tuple[int, Any]:
    """Send a request without a body, to a missing document, job or token. Return the status, and the text of a refusal."""
    filled = path.replace("{c}", collection)
    for name in ("{key}", "{id}", "{model}"):
        filled = filled.replace(name, "bm9uZQ")
    with server.client(token).stream(method.upper(), filled) as answer:
        return answer.status_code, (answer.read(), answer.text)[1] if answer.status_code in (401, 403, 404) else ""


def test_every_operation_declares_its_scope(operations: list[tuple[str, str, str]]) -> None:
    assert {scope for _, _, scope in operations} == {"none", *SCOPES}
    opened = {(method, path) for method, path, scope in operations if scope == "none"}
    assert opened == {("get", "/livez"), ("get", "/readyz"), ("post", "/api/v1/session"), ("get", "/api/v1/sign-in")}
    for method, path, scope in operations:
        # conversations and ratings belong to the token
        is_own = "/conversations/" in path or path.endswith("/feedback")
        assert method == "get" or scope != "read" or is_own or path.endswith(
            ("/context", "/ask", "/compare", "/search", "/completions", "/embeddings", "/rerank", "/session",
             "/responses", "/responses/{id}")
        ), f"{method} {path} changes something"  # fmt: skip


def test_operations_without_a_token_are_refused(server: LiveServer, operations: list[tuple[str, str, str]]) -> None:
    for method, path, scope in operations:
        if scope != "none":
            assert status(server, None, method, path)[0] == 401, f"{method} {path}"


def test_every_operation_requires_exactly_its_scope(
    server: LiveServer, operations: list[tuple[str, str, str]], tokens: dict[str, str]
) -> None:
    for method, path, needed in operations:
        for scope in SCOPES:
            got, text = status(server, tokens[scope], method, path)
            refused = got == 403
            assert refused == (needed not in ("none", scope)), f"{method} {path} by {scope}: {got} {text}"


def test_a_collection_that_is_not_the_tokens_is_not_there(
    server: LiveServer, operations: list[tuple[str, str, str]], tokens: dict[str, str]
) -> None:
    for method, path, needed in operations:
        if "{c}" not in path:
            continue
        hidden = status(server, tokens[f"{needed} of birds"], method, path, "ships")
        absent = status(server, tokens[f"{needed} of birds"], method, path, "nothing")
        own = status(server, tokens[f"{needed} of birds"], method, path, "birds")
        assert hidden[0] == absent[0] == 404, f"{method} {path}"
        # the two answers differ only in the request id
        assert [len(hidden[1]), "ships" in hidden[1]] == [len(absent[1]), False], f"{method} {path}"
        assert own[0] != 403 and "collection" not in own[1], f"{method} {path}: {own}"


def test_an_admin_of_some_collections_is_none_of_the_server(
    server: LiveServer, operations: list[tuple[str, str, str]], tokens: dict[str, str]
) -> None:
    """A restricted admin who could create tokens would gain access to all collections."""
    for method, path, needed in operations:
        if needed == "admin" and "{c}" not in path:
            assert status(server, tokens["admin of birds"], method, path)[0] == 403, f"{method} {path}"


def test_lists_show_only_visible_collections(server: LiveServer, tokens: dict[str, str]) -> None:
    client = server.client(tokens["read of birds"])
    assert [one["name"] for one in client.get("/api/v1/collections").json()["items"]] == ["birds"]
    server.state.jobs.enqueue("check", "ships")
    assert {job["collection"] for job in client.get("/api/v1/jobs").json()["items"]} <= {"birds"}
    assert client.get("/api/v1/jobs?collection=ships").json()["items"] == []
    models = client.get("/v1/models").json()["data"]
    assert {model["id"].partition(":")[0] for model in models} == {"birds", "minilm"}


def test_a_forced_filter_hides_documents(server: LiveServer) -> None:
    condition = {"type": "eq", "key": "kind", "value": "nothing"}
    client = server.client(server.old_token("read", "write", filter=condition))
    assert client.get("/api/v1/collections/birds/documents").json()["items"] == []
    assert client.get("/api/v1/collections/birds/documents/YmlyZHMubWQ").status_code == 404
    assert client.get("/api/v1/collections/birds/documents/YmlyZHMubWQ/text").status_code == 404
    removal = client.post("/api/v1/collections/birds/documents:remove", json={"prefix": "b", "dry_run": True})
    assert removal.status_code == 403 and "filter" in removal.json()["hint"]
    body = {"question": "How old do terns get?"}
    # the same question is cached for another token, and must not be reused
    assert server.client("read").post("/api/v1/collections/birds/context", json=body).json()["context"]["passages"]
    filtered = client.post("/api/v1/collections/birds/context", json=body).json()
    assert filtered["context"]["passages"] == []
    wide = {**body, "where": {"type": "or", "filters": [{"type": "ne", "key": "kind", "value": "x"}, condition]}}
    assert client.post("/api/v1/collections/birds/context", json=wide).json()["context"]["passages"] == []


@pytest.mark.parametrize("path", ["context", "ask", "search"])
def test_an_empty_filter_shows_nothing(server: LiveServer, path: str) -> None:
    """A token stored before filters were checked."""
    token, secret = server.state.tokens.add(
        ["read"], filter={"type": "eq", "key": "kind", "value": "birds"}, rate=10_000
    )
    with server.state.database.change() as rows:
        rows.execute("UPDATE tokens SET filter = '{}' WHERE id = ?", [token.id])
    client = server.client(secret)
    if path == "search":
        answer = client.post("/v1/vector_stores/birds/search", json={"query": "How old do terns get?"})
    else:
        answer = client.post(f"/api/v1/collections/birds/{path}", json={"question": "How old do terns get?"})
    assert answer.status_code == 422 and "tern" not in answer.text
    server.state.tokens.remove(token.id)


def nested(levels: int) -> dict[str, Any]:
    filter: dict[str, Any] = {"type": "eq", "key": "kind", "value": "birds"}
    for _ in range(levels - 1):
        filter = {"type": "and", "filters": [filter]}
    return filter


@pytest.mark.parametrize(
    "filter",
    [
        {},
        {"typ": "eq", "key": "kind", "value": "birds"},
        {"type": "equals", "key": "kind", "value": "birds"},
        {"type": "eq", "key": "kind", "values": ["birds"]},
        {"type": "eq", "key": "_number", "value": 1},
        {"type": "eq", "key": "kidn", "value": "birds"},
        {"type": "gt", "key": "kind", "value": 3},
        {"type": "in", "key": "kind", "value": "birds"},
        nested(6),
        nested(50),
        nested(200),
    ],
    ids=lambda filter: str(filter)[:60],
)
def test_a_token_gets_only_valid_filters(server: LiveServer, filter: dict[str, Any]) -> None:
    admin = server.client("admin")
    before = admin.get("/api/v1/tokens?limit=200").json()["items"]
    made = admin.post("/api/v1/tokens", json={"scopes": ["read"], "filter": filter})
    assert made.status_code == 422 and made.json()["code"] == "invalid"
    listed = admin.get("/api/v1/tokens?limit=200")
    assert listed.status_code == 200 and listed.json()["items"] == before
    if "kidn" not in str(filter) and filter.get("value") != 3:
        # without an index, its keys and their types are unknown
        with pytest.raises(UsageError, match=r"invalid|filter"):
            server.state.tokens.add(["read"], filter=filter)


@pytest.mark.parametrize("scope", ["write", "admin", "feedback"])
def test_a_token_with_a_filter_only_reads(server: LiveServer, scope: str) -> None:
    form = {"scopes": ["read", scope], "filter": nested(1)}
    refused = server.client("admin").post("/api/v1/tokens", json=form)
    assert refused.status_code == 422 and "only reads" in refused.text


def test_a_valid_filter_is_accepted(server: LiveServer) -> None:
    admin = server.client("admin")
    for filter in (nested(5), {"type": "eq", "key": "id", "value": "birds.md"}):
        made = admin.post("/api/v1/tokens", json={"scopes": ["read"], "filter": filter}).json()
        assert made["filter"] == filter
        listing = server.client(made["secret"]).get("/api/v1/collections/birds/documents").json()["items"]
        assert [one["id"] for one in listing] == ["birds.md"]
        assert admin.delete(f"/api/v1/tokens/{made['id']}").status_code == 204


def test_a_stored_filter_that_is_invalid_breaks_no_list(server: LiveServer) -> None:
    token, _ = server.state.tokens.add(["read"])
    with server.state.database.change() as rows:
        rows.execute("UPDATE tokens SET filter = ? WHERE id = ?", [json.dumps(nested(200)), token.id])
    listed = server.client("admin").get("/api/v1/tokens?limit=200")
    (shown,) = [one for one in listed.json()["items"] if one["id"] == token.id]
    assert shown["filter"] == {"type": "invalid"}
    server.state.tokens.remove(token.id)
