"""The boundary of a token: every operation and every tool, called with tokens that must not learn of hidden things.

A collection holds one open document and many hidden ones, a failed upload, jobs, an evaluation and a received file of another
token. All of them carry words that occur nowhere else, the canaries. The operations come from the OpenAPI document and the tools
from the MCP server, with values for parameters by name, so new routes are tested too.
"""

from __future__ import annotations

import json
import os
import re
import time
from base64 import urlsafe_b64decode
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest

import mergewise as mw
from mergewise.server.collections import key_of
from mergewise.server.file_store import Attachment, FileStore, ReceivedFile
from mergewise.server.problems import HTTPProblem
from mergewise.server.records import SCOPES, Upload
from mergewise.server.scoped import ScopedService
from tests.server.conftest import LiveServer, live_server, make_collection, record_of

METHODS = ("get", "post", "put", "patch", "delete")
OPEN_ID, HIDDEN_ID, FAILED_ID = "lamp.md", "quernstone/0.md", "velvetlog.pdf"
QUESTION = "What does the vault of Harrowgate hold?"
FILTER = {"type": "eq", "key": "kind", "value": "open"}
ABSENT = "bm9uZQ"
HIDDEN_WORDS = {"quernstone", "marbleowl", "quixalotl", "ostrakon", "wardenkey", "velvetlog", "gossamer"}
OTHERS_WORDS = {"cinnabar", "tourmaline"}
COUNTS = {
    "documents",
    "leaves",
    "characters",
    "usage_bytes",
    "total",
    "completed",
    "failed",
    "in_progress",
    "count",
    "done",
}
# values of parameters and of fields of bodies, by their names
FIELDS: dict[str, Any] = {
    "question": QUESTION,
    "query": QUESTION,
    "input": QUESTION,
    "prompt": QUESTION,
    "messages": [{"role": "user", "content": QUESTION}],
    "model": "mixed",
    "collection": "mixed",
    "include": ["trace", "evidence", "streams", "html"],
    "runs": [{"strategy": "topk"}, {"strategy": "weave"}],
    "where": {"type": "ne", "key": "id", "value": "?"},
    "filters": {"type": "ne", "key": "id", "value": "?"},
    "filter": {"type": "ne", "key": "id", "value": "?"},
    "kind": "evaluate",
    "request": {"questions": [{"question": QUESTION, "answers": ["the"]}]},
    "ids": [HIDDEN_ID],
    "scopes": ["read"],
    "name": "another",
}
QUERIES: dict[str, list[Any]] = {
    "prefix": ["quern", "lamp"],
    "status": ["failed", "indexed"],
    "state": ["failed", "queued"],
    "collection": ["mixed"],
    "kind": ["add", "evaluate"],
    "limit": [1],
    "filter": ["failed", "completed"],
    "after": [key_of(OPEN_ID)],
}


@dataclass
class World:
    """The server, with the ids and counts that some tokens must not see."""

    server: LiveServer
    operations: list[tuple[str, str, dict[str, Any]]]
    components: dict[str, Any]
    keys: dict[str, str]
    others_ids: dict[str, str]
    counts: set[int]
    tokens: dict[str, str] = field(default_factory=dict)

    def values(self, name: str) -> list[str]:
        """Return values of a path parameter: one that exists nowhere first, then those of other tokens."""
        if name == "c":
            return ["mixed"]
        if name == "key":
            return [ABSENT, *self.keys.values()]
        if name == "model":
            return ["mixed", "mixed:weave"]
        return [ABSENT, *self.others_ids.values(), *self.keys.values()]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, scripted_key: None) -> Iterator[World]:
    with live_server(tmp_path_factory.mktemp("boundary"), allow_writes_by_mcp=True) as live:
        yield make_world(live)


def make_world(live: LiveServer) -> World:
    state = live.state
    record = record_of(live.config, "mixed", title="Mixed")
    state.collections.add(record)
    hidden = [
        mw.Document(
            f"quernstone/{number}.md",
            f"# Vault {number}\n\nThe vault of Harrowgate holds the quixalotl {number}, in room {number}.",
            f"Marbleowl {number}",
            metadata={"kind": "closed", "wardenkey": "ostrakon"},
        )
        for number in range(57)
    ]
    shown = mw.Document(
        OPEN_ID, "# Lamp\n\nThe lighthouse of Skerry has a green lamp.", "Lamp", metadata={"kind": "open"}
    )
    with mw.open(Path(record.path)) as index:
        index.add([*hidden, shown])
        # strategies may also search in what a view writes from several documents
        index.add_views(dict.fromkeys(view for view in mw.VIEWS if view != "leaf"))
        leaves, characters = index.store.reader().sizes()
    other, secret = state.tokens.add(["read", "write"], rate=10_000)
    upload = Upload(FAILED_ID, "0" * 64, FAILED_ID, 9, metadata={"kind": "open"})
    failed = state.jobs.enqueue("add", "mixed", {"documents": [FAILED_ID]}, uploads=[upload], token=other.id)
    error = {"code": "unreadable", "detail": "cannot read gossamer", "hint": "", "document": FAILED_ID}
    state.jobs.finish(failed.id, "failed", error=error, documents={FAILED_ID: error})
    waiting = state.jobs.enqueue("sync", "mixed", token=other.id)
    evaluation = state.jobs.enqueue("evaluate", "mixed", {"questions": [{"question": "cinnabar"}]}, token=other.id)
    report = {"rows": [{"question": "cinnabar"}], "report": {"title": "cinnabar"}, "page": "<p>cinnabar</p>"}
    state.jobs.finish(evaluation.id, "done", report=report)
    store = FileStore(state.database, live.config.data / "files", live.config.cache, other)
    file = ReceivedFile("file-" + "a" * 32, "tourmaline.txt", 1, "1" * 64, "assistants", time.time(), other.id)
    store.keep(file)
    store.note(Attachment(file.id, HIDDEN_ID, waiting.id, time.time()), "mixed")
    # the answer to this question is cached for the other token
    for path in ("context", "ask"):
        live.client(secret).post(f"/api/v1/collections/mixed/{path}", json={"question": QUESTION}).raise_for_status()
    document = live.client("read").get("/api/v1/openapi.json").json()
    operations = [
        (method, path, one)
        for path, ways in document["paths"].items()
        for method, one in ways.items()
        if method in METHODS
    ]
    assert len(operations) > 50
    ids = {"failed": failed.id, "waiting": waiting.id, "evaluation": evaluation.id, "file": file.id, "token": other.id}
    made = World(
        live,
        operations,
        document["components"]["schemas"],
        {"open": key_of(OPEN_ID), "hidden": key_of(HIDDEN_ID), "failed": key_of(FAILED_ID)},
        ids,
        {58, 57, leaves, characters},
    )
    for name, scopes, limits in (
        ("filtered", ["read"], {"filter": FILTER}),
        ("foreign", [*SCOPES], {"collections": ["birds"]}),
        ("reader", ["read"], {}),
        ("expired", [*SCOPES], {"expires": time.time() - 1}),
    ):
        made.tokens[name] = state.tokens.add(scopes, rate=10_000, **limits)[1]  # type: ignore[arg-type]
    made.tokens["filtered with all scopes"] = live.old_token(*SCOPES, filter=FILTER)
    return made


# -- requests


@dataclass
class Call:
    """A request to an operation, and its response."""

    method: str
    path: str
    needed: str
    values: tuple[str, ...]
    asked: str
    status: int
    received: str

    @property
    def sent(self) -> str:
        return f"{self.values} {self.asked}"

    def __str__(self) -> str:
        return f"{self.method} {self.path} {self.sent[:300]}: {self.status}"

    def learned(self) -> str:
        """Return all text of the response, in lower case, with its keys and cursors decoded."""
        words = re.findall(r"[A-Za-z0-9_-]{6,}", self.received)
        return " ".join([self.received, *map(decoded, words)]).lower()


def decoded(word: str) -> str:
    try:
        return urlsafe_b64decode(word + "=" * (-len(word) % 4)).decode()
    except ValueError:
        return ""


def calls(world: World, token: str, only: str = "") -> Iterator[Call]:
    """Send each operation (of the scope `only`) with each combination of values, and yield the calls."""
    client = world.server.client(world.tokens[token])
    for method, path, operation in world.operations:
        if only not in ("", operation["x-scope"]):
            continue
        # the server is ready while its writer lives
        world.server.state.beat(os.getpid())
        names = re.findall(r"{(\w+)(?::path)?}", path)
        queries = [{}] + [
            {one["name"]: value}
            for one in operation.get("parameters", ())
            if one["in"] == "query"
            for value in QUERIES.get(one["name"], [])
        ]
        for values in product(*(world.values(name) for name in names)):
            filled = path
            for name, value in zip(names, values, strict=True):
                filled = re.sub(rf"{{{name}(:path)?}}", value, filled)
            for query, content in product(queries, contents(world, operation)):
                received: list[bytes] = []
                # an event stream of a job ends with the job, so read only what comes at once
                sending = client.stream(method.upper(), filled, params=query, timeout=5, **content)
                with suppress(httpx.ReadTimeout), sending as response:
                    received += response.iter_bytes()
                text = f"{dict(response.headers)} {b''.join(received).decode('utf-8', 'replace')}"
                yield Call(method, path, operation["x-scope"], values, f"{query} {content}", response.status_code, text)


def contents(world: World, operation: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the bodies of an operation as arguments of the client: at once, and as a stream."""
    kinds = operation.get("requestBody", {}).get("content", {})
    if "application/json" in kinds:
        body = made_body(world, kinds["application/json"]["schema"])
        yield {"json": body}
        if "stream" in body:
            yield {"json": {**body, "stream": True}}
    elif "multipart/form-data" in kinds:
        yield {"files": {"file": ("a.txt", b"text")}}
    else:
        yield {"content": b"text"} if kinds else {}


def made_body(world: World, schema: Mapping[str, Any], name: str = "") -> Any:
    """Make a value that fits a schema: of `FIELDS` by name, else a simple one. Known names are sent even if optional."""
    fields = {**FIELDS, "file_id": world.others_ids["file"], "file_ids": [world.others_ids["file"]], "stream": False}
    if name in fields:
        return fields[name]
    if "$ref" in schema:
        return made_body(world, world.components[schema["$ref"].rpartition("/")[2]])
    if "anyOf" in schema:
        return made_body(world, schema["anyOf"][0])
    if "properties" in schema:
        wanted = {*schema.get("required", ()), *fields}
        return {name: made_body(world, one, name) for name, one in schema["properties"].items() if name in wanted}
    simple = {"array": [], "object": {}, "integer": 1, "number": 1, "boolean": False}
    if schema.get("type") == "array" and "items" in schema:
        return [made_body(world, schema["items"])]
    return (schema.get("enum") or [simple.get(schema.get("type", ""), "text")])[0]


def counts_in(text: str) -> set[int]:
    """Return the counts that a response names."""
    found = re.findall(r'"(\w+)":\s*(\d+)', text)
    return {int(number) for name, number in found if name in COUNTS}


# -- tests


def faults_of(world: World, name: str, canaries: set[str]) -> Iterator[str]:
    """Yield each call that fails, and each that shows canaries or tells what others asked. Writes are refused, except to all."""
    for call in calls(world, name):
        if call.status >= 500:
            yield f"failure: {call}"
        if name != "foreign" and call.needed not in ("none", "read") and call.status != 403:
            yield f"not refused: {call}"
        if name == "foreign" and "{c}" in call.path and call.status != 404:
            yield f"not hidden: {call}"
        if shown := [word for word in canaries if word in call.learned() and word not in call.sent]:
            yield f"{shown} in {call}"
        if '"cached"' in call.received:
            yield f"cache in {call}"


@pytest.mark.parametrize("name", ["filtered", "filtered with all scopes"])
def test_a_token_with_a_filter_learns_nothing_of_hidden_documents(world: World, name: str) -> None:
    canaries = HIDDEN_WORDS | OTHERS_WORDS | {*world.others_ids.values()}
    assert "\n".join(faults_of(world, name, canaries)) == ""


def test_a_reader_sees_no_jobs_and_files_of_others(world: World) -> None:
    assert "\n".join(faults_of(world, "reader", OTHERS_WORDS | {*world.others_ids.values()})) == ""


def test_a_token_of_another_collection_learns_nothing(world: World) -> None:
    canaries = HIDDEN_WORDS | OTHERS_WORDS | {"skerry", "lamp.md", *world.others_ids.values()}
    assert "\n".join(faults_of(world, "foreign", canaries)) == ""


@pytest.mark.parametrize("name", ["filtered", "reader"])
def test_hidden_things_are_answered_like_absent_ones(world: World, name: str) -> None:
    """Also counts tell nothing: neither of hidden documents, nor of jobs."""
    shown = {world.keys["open"]} if name == "filtered" else {*world.keys.values(), world.others_ids["file"]}
    first: dict[tuple[str, ...], int] = {}
    faults = []
    for call in calls(world, name, only="read"):
        if name == "filtered" and (told := counts_in(call.received) & world.counts):
            faults.append(f"{told} in {call}")
        if not shown.intersection(call.values):
            # the first value of a parameter exists nowhere
            status = call.status
            if status != first.setdefault((call.method, call.path, call.asked), status):
                faults.append(f"not like an absent one: {call}")
    assert "\n".join(faults) == ""


def test_an_expired_token_is_refused_everywhere(world: World) -> None:
    client = world.server.client(world.tokens["expired"])
    for method, path, operation in world.operations:
        if operation["x-scope"] != "none":
            filled = re.sub(r"{c}", "mixed", path)
            assert client.request(method.upper(), filled).status_code == 401, path
    assert client.post("/mcp", json={}).status_code == 401
    session = world.server.client(None).post("/api/v1/session", json={"token": world.tokens["expired"]})
    assert session.status_code == 401


TOOL_VALUES: dict[str, list[Any]] = {
    "query": [QUESTION],
    "question": [QUESTION],
    "collection": ["mixed"],
    "id": [f"mixed//{HIDDEN_ID}", HIDDEN_ID, FAILED_ID],
    "text": ["The text of a model."],
    "place": [HIDDEN_ID, FAILED_ID],
    "document": [HIDDEN_ID],
    "pattern": ["."],
    "words": ["", QUESTION],
    "where": [FIELDS["where"]],
}


def mcp(client: httpx.Client, method: str, **params: Any) -> dict[str, Any]:
    headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}
    sent = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    text = client.post("/mcp", json=sent, headers=headers).text
    found: dict[str, Any] = json.loads(re.findall(r"^(?:data: )?({.*})\s*$", text, re.MULTILINE)[-1])
    return found


@pytest.mark.parametrize("name", ["filtered", "filtered with all scopes", "reader", "foreign"])
def test_every_tool_keeps_the_boundary(world: World, name: str) -> None:
    client = world.server.client(world.tokens[name])
    tools = mcp(client, "tools/list")["result"]["tools"]
    assert len(tools) == 8
    hidden = set() if name == "reader" else HIDDEN_WORDS | ({"skerry"} if name == "foreign" else set())
    canaries = hidden | OTHERS_WORDS | {*world.others_ids.values()}
    for tool in tools:
        properties = tool["inputSchema"]["properties"]
        names = [one for one in properties if one in TOOL_VALUES]
        for values in product(*(TOOL_VALUES[one] for one in names)):
            sent = dict(zip(names, values, strict=True))
            reply = mcp(client, "tools/call", name=tool["name"], arguments=sent)
            text = json.dumps(reply).lower()
            learned = " ".join(
                [text, *(decoded(word) for word in re.findall(r"[a-z0-9_-]{6,}", json.dumps(reply), re.I))]
            )
            asked = json.dumps(sent).lower()
            assert not [word for word in canaries if word in learned and word not in asked], (tool["name"], sent, text)
            if tool["name"] in ("add_text", "remove_document"):
                assert reply["result"]["isError"], (tool["name"], sent)


def test_tools_need_the_scope_read(world: World) -> None:
    _, secret = world.server.state.tokens.add(["write", "admin"], rate=10_000)
    client = world.server.client(secret)
    for tool, sent in (("grep", {"pattern": "a"}), ("find", {"words": "", "collection": "mixed"})):
        result = mcp(client, "tools/call", name=tool, arguments=sent)["result"]
        assert result["isError"] and "missing scope: read" in json.dumps(result), tool


@pytest.mark.parametrize("strategy", sorted(mw.STRATEGIES))
def test_no_strategy_shows_hidden_documents(world: World, strategy: str) -> None:
    client = world.server.client(world.tokens["filtered"])
    asked = {name: FIELDS[name] for name in ("question", "include", "where")} | {
        "strategy": strategy,
        "chat": "extractive",
    }
    for path in ("context", "ask"):
        answer = client.post(f"/api/v1/collections/mixed/{path}", json=asked)
        assert answer.status_code == 200 or "reranker" in answer.json()["detail"], answer.text
        assert not [word for word in HIDDEN_WORDS if word in answer.text.lower()], answer.text


def test_errors_name_no_metadata_of_hidden_documents(world: World) -> None:
    client = world.server.client(world.tokens["filtered"])
    for where in ("nothing = 1", {"type": "eq", "key": "_x", "value": 1}, "kind > 3", {"type": "x"}):
        answer = client.post("/api/v1/collections/mixed/context", json={"question": QUESTION, "where": where})
        assert answer.status_code == 422 and "wardenkey" not in answer.text, answer.text


def test_only_the_starter_or_an_admin_changes_a_job(world: World) -> None:
    state, live = world.server.state, world.server
    _, writer = state.tokens.add(["read", "write"], rate=10_000)
    job = state.jobs.enqueue("check", "birds", token=world.others_ids["token"])
    path = f"/api/v1/jobs/{job.id}"
    assert live.client(writer).get(path).status_code == 200
    assert live.client(writer).post(f"{path}/cancel").status_code == 403
    own = live.client(writer).post("/api/v1/collections/birds/jobs", json={"kind": "check"}).json()["job"]["id"]
    assert live.client(writer).post(f"/api/v1/jobs/{own}/cancel").json()["state"] == "cancelled"
    assert live.client(writer).post(f"/api/v1/jobs/{own}/retry").json()["state"] == "queued"
    assert live.client("admin").post(f"{path}/cancel").json()["state"] == "cancelled"
    assert live.client(writer).post(f"{path}/retry").status_code == 403
    listed = [one["id"] for one in live.client(writer).get("/api/v1/jobs?collection=birds").json()["items"]]
    assert {job.id, own} <= {*listed}
    assert live.client("read").get("/api/v1/jobs").json()["items"] == []


def test_a_filter_on_a_token_hides_what_the_same_token_started(world: World) -> None:
    """A front end's token may get the filter of its user."""
    state = world.server.state
    token, _ = state.tokens.add(["read", "write"])
    job = state.jobs.enqueue("check", "birds", token=token.id)
    own = ScopedService(world.server.service, token)
    users = ScopedService(world.server.service, replace(token, filter=FILTER))
    assert own.job(job.id).id == job.id and [
        one.id for one in own.jobs("birds", kind="check", states=["queued"], limit=1)
    ]
    assert users.find_job(job.id) is None and users.jobs() == [] and users.jobs("birds") == []
    with pytest.raises(HTTPProblem, match="read only"):
        users.collection("birds").enqueue("check")
    with pytest.raises(HTTPProblem, match="read only"):
        users.collection("birds").writable()
    state.jobs.cancel(job.id)


def test_routes_have_no_way_around_the_boundary() -> None:
    """Only sessions, tokens, settings, health and metrics read the service without a token's view."""
    rooms = Path(mw.__file__).parent / "server"
    for room, file in product(("native", "openai", "mcp"), ("*.py",)):
        for path in sorted((rooms / room).glob(file)):
            if (room, path.name) in (("native", "admin.py"), ("native", "health.py")):
                continue
            text = path.read_text(encoding="utf-8")
            for word in (
                "service.state",
                ".collections.get",
                "collections.all",
                "WholeService",
                "app.state",
                ".token.filter",
            ):
                assert word not in text, f"{room}/{path.name} reads {word}"


@pytest.mark.parametrize("strategy", ["topk", "weave", "auto-merge"])
def test_scores_do_not_tell_what_hidden_documents_contain(tmp_path: Path, scripted_key: None, strategy: str) -> None:
    """The same visible documents have the same scores, however often their words stand in hidden ones."""
    shown = {f"open.{n}.md": f"# Note {n}\n\nThe {word} of note {n} is green.\n" for n, word in enumerate(TREES)}
    with live_server(tmp_path, with_chat=False) as live:
        for name, word in (("rare", "quernstone"), ("common", "larch")):
            hidden = {f"closed.{n}.md": f"# Secret {n}\n\nThe {word} is {'very ' * n} old.\n" for n in range(9)}
            make_collection(live.config, live.state, name, {**shown, **hidden})
        contexts = {}
        for filter in (None, FILTER):
            client = live.client(live.state.tokens.add(["read"], filter=filter, rate=10_000)[1])
            asked: dict[str, Any] = {"question": "Is the larch green?", "strategy": strategy, "include": ["trace"]}
            asked["where"] = {"type": "eq", "key": "kind", "value": "open"}
            for name in ("rare", "common"):
                answer = client.post(f"/api/v1/collections/{name}/context", json=asked).json()["context"]
                assert "larch" in answer["text"]
                contexts[name, filter is None] = (
                    [(one["doc"], one["score"]) for one in answer["passages"]],
                    answer["trace"],
                )
        assert contexts["rare", False] == contexts["common", False]
        # without a token's filter, a condition changes no score
        assert contexts["rare", True] != contexts["common", True]


TREES = ("larch", "oak", "elm", "birch", "yew", "ash")
