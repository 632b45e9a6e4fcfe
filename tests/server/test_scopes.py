"""Access to every route by every scope. The routes come from the OpenAPI document, so new routes are tested too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from mergewise.server.records import Scope, Token
from tests.server.conftest import LiveServer

METHODS = {"get", "post", "put", "patch", "delete"}
SCOPES: tuple[Scope, ...] = ("read", "write", "admin")


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
        made[scope] = server.state.add_token([scope], rate=10_000)
        made[f"{scope} of birds"] = server.state.add_token([scope], collections=["birds"], rate=10_000)
    yield {name: secret for name, (_, secret) in made.items()}
    for token, _ in made.values():
        server.state.remove_token(token.id)


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
    assert opened == {("get", "/livez"), ("get", "/readyz"), ("post", "/api/v1/session")}
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
    server.state.enqueue("check", "ships")
    assert {job["collection"] for job in client.get("/api/v1/jobs").json()["items"]} <= {"birds"}
    assert client.get("/api/v1/jobs?collection=ships").json()["items"] == []
    models = client.get("/v1/models").json()["data"]
    assert {model["id"].partition(":")[0] for model in models} == {"birds", "minilm"}


def test_a_forced_filter_hides_documents(server: LiveServer) -> None:
    condition = {"type": "eq", "key": "kind", "value": "nothing"}
    _, secret = server.state.add_token(["read", "write"], filter=condition, rate=10_000)
    client = server.client(secret)
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
