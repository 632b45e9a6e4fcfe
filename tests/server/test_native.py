"""The routes of the native API, over a socket."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest

import mergewise as mw
from mergewise.defaults import DEFAULT_BUDGET
from mergewise.server.collections import id_of, key_of
from mergewise.server.configuration import CollectionConfig
from mergewise.server.problems import HTTPProblem
from mergewise.server.records import Job, JobProgress
from mergewise.server.scoped import ScopedService
from mergewise.types import Context, Span, Step
from tests.server.conftest import ANSWER, BIRDS, SHIPS, LiveServer, record_of

SHIPS_API = "/api/v1/collections/ships"
QUESTION = {"question": "When was the Aurora built?"}
KEY = key_of("ships/fleet.md")
WRONG_TOKENS: list[dict[str, Any]] = [{"rate": 1e-300}, {"expires": False}, {"scopes": []}]
WRONG_OPTIONS: list[dict[str, Any]] = [{"strange": 1}, {"ids": ["1", "2"]}, {"metadata": [{}, {}]}]


def events_of(answer: httpx.Response) -> Iterator[tuple[str, Any]]:
    """Yield the events of a stream with their data."""
    for block in answer.read().decode().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if fields:
            yield fields["event"], json.loads(fields["data"])


def body_of(kind: str, content: bytes) -> dict[str, Any]:
    return {"content": content, "headers": {"Content-Type": kind}}


def job_of(live: LiveServer, answer: httpx.Response) -> Job:
    job = live.state.jobs.get(answer.json()["job"]["id"])
    assert job is not None
    return job


def test_keys_are_ids_that_fit_into_a_path() -> None:
    for doc_id in ("a", "a/b c", "ü?#", "x" * 300, "日本/語"):
        assert id_of(key_of(doc_id)) == doc_id and "/" not in key_of(doc_id)
    for wrong in ("a", "YQ==", "YR", "ü", "/w"):
        with pytest.raises(HTTPProblem):
            id_of(wrong)


def test_collections_are_listed_in_pages(server: LiveServer) -> None:
    client = server.client()
    first = client.get("/api/v1/collections?limit=1").json()
    assert [one["name"] for one in first["items"]] == ["birds"]
    rest = client.get("/api/v1/collections", params={"limit": 1, "cursor": first["next"]}).json()
    assert [one["name"] for one in rest["items"]] == ["ships"] and rest["next"] is None
    one = client.get(SHIPS_API).json()
    assert one == rest["items"][0]
    assert (one["documents"], one["characters"], one["embedder"]) == (1, len(SHIPS), "minilm")
    assert "weave" in one["strategies"] and "macrag" not in one["strategies"] and one["snapshot"]
    assert client.get("/api/v1/collections?limit=201").status_code == 422
    assert client.get("/api/v1/collections?cursor=%21").status_code == 422


def test_a_context_has_places(server: LiveServer) -> None:
    body = server.client().post(f"{SHIPS_API}/context", json={**QUESTION, "include": ["trace", "evidence"]}).json()
    context = body["context"]
    assert context["snapshot"] == server.client().get(SHIPS_API).json()["snapshot"]
    assert 0 < context["complete"] < 1 and context["may_lack"] is (context["complete"] < 0.6)
    passage = context["passages"][0]
    assert passage["doc"] == passage["title"] == "ships/fleet.md"
    assert (passage["mark"], passage["line"], passage["page"], passage["verbatim"]) == (1, 3, None, True)
    span = passage["spans"][0]
    assert SHIPS[span["start"] : span["end"]] == passage["text"] and span["doc"] == "ships/fleet.md"
    assert passage["url"] == f"/#/c/ships/d/{KEY}?s={span['start']}-{span['end']}"
    assert context["tokens"] <= context["budget"] == DEFAULT_BUDGET and context["trace"] and context["evidence"]
    assert body["timings"]["total_ms"] > 0
    plain = server.client().post(f"{SHIPS_API}/context", json=QUESTION).json()["context"]
    assert "trace" not in plain and "evidence" not in plain


def test_an_answer_at_once_and_in_events(server: LiveServer) -> None:
    client = server.client()
    whole = client.post(f"{SHIPS_API}/ask", json=QUESTION).json()
    assert whole["answer"] == ANSWER and whole["found"] and whole["mode"] == "r&b" and whole["usage"]["calls"] == 1
    for citation in whole["citations"]:
        assert [ANSWER[place["start"] : place["end"]] for place in citation["answer_spans"]] == ["[1]"]
        assert SHIPS[citation["span"]["start"] : citation["span"]["end"]] == citation["text"]
    for asked in (
        {"json": {**QUESTION, "stream": True}},
        {"json": QUESTION, "headers": {"Accept": "text/event-stream"}},
    ):
        answer = client.post(f"{SHIPS_API}/ask", **asked)
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        assert answer.headers["X-Accel-Buffering"] == "no" and answer.headers["Cache-Control"] == "no-store"
        events = list(events_of(answer))
        names = [name for name, _ in events]
        assert names[:2] == ["started", "context"] and names[-2:] == ["citations", "done"]
        assert set(names[2:-2]) == {"delta"}
        done = events[-1][1]
        assert "".join(data["text"] for name, data in events if name == "delta") == done["answer"] == ANSWER
        assert events[1][1] == whole["context"]
        assert events[-2][1]["citations"] == whole["citations"] == done["citations"]
        assert events[0][1] == {"id": done["id"], "snapshot": events[1][1]["snapshot"]} and "context" not in done
        assert {key for key in whole if key not in done} == {"context"}


def test_openapi_describes_the_json_of_an_answer(server: LiveServer) -> None:
    described = server.client().get("/api/v1/openapi.json").json()
    body = {**QUESTION, "include": ["trace", "evidence"]}
    whole = server.client().post(f"{SHIPS_API}/ask", json=body).json()

    def model(value: dict[str, Any]) -> dict[str, Any]:
        name = value.get("$ref", "").rpartition("/")[2]
        return described["components"]["schemas"][name] if name else value

    def check(schema: dict[str, Any], value: Any) -> None:
        schema = model(schema)
        if isinstance(value, list):
            for item in value:
                check(schema.get("items", {}), item)
        elif isinstance(value, dict) and "properties" in schema:
            assert set(schema["required"]) <= set(value) <= set(schema["properties"])
            for name, inner in value.items():
                check(schema["properties"][name], inner)

    route = described["paths"]["/api/v1/collections/{c}/ask"]["post"]["responses"]["200"]
    schema = route["content"]["application/json"]["schema"]
    check(schema, whole)
    context = model(model(schema)["properties"]["context"])
    assert {"passages", "trace", "evidence"} <= set(context["properties"])


def test_html_has_the_text_of_the_answer(server: LiveServer) -> None:
    client, body = server.client(), {**QUESTION, "include": ["html"]}
    drawn = client.post(f"{SHIPS_API}/context", json=body).json()["context"]["html"]
    assert 'class="passage"' in drawn and f"#/c/ships/d/{KEY}?s=" in drawn and "<script" not in drawn
    events = dict(events_of(client.post(f"{SHIPS_API}/ask", json={**body, "stream": True})))
    assert 'class="cited"' not in events["context"]["html"] and 'class="cited"' in events["done"]["html"]
    runs = [{"strategy": "weave"}, {"strategy": "topk"}, {"strategy": "macrag"}]
    compared = client.post(f"{SHIPS_API}/compare", json={**body, "runs": runs}).json()
    assert compared["html"].count('class="column"') == 2 and "problem" in compared["runs"][2]


def test_html_shows_no_document_that_a_token_may_not_see(server: LiveServer) -> None:
    condition = {"type": "eq", "key": "kind", "value": "nothing"}
    token, _ = server.state.tokens.add(["read"], filter=condition)
    visible = ScopedService(server.service, token).collection("ships")
    span = Span("ships/fleet.md", 0, 9)
    hidden = Context("?", "weave", 9, "", 0, (), (Step("left", "secret", (span,)), Step("search", "2 leaves")))
    assert visible.find_document("ships/fleet.md") is None
    assert [step.action for step in visible.without_hidden_steps(hidden).trace] == ["search"]
    whole, _ = server.state.tokens.add(["read"])
    assert ScopedService(server.service, whole).collection("ships").without_hidden_steps(hidden) is hidden
    for one in (token, whole):
        server.state.tokens.remove(one.id)


def test_an_answer_without_a_model_quotes(server: LiveServer) -> None:
    body = {**QUESTION, "chat": "extractive"}
    whole = server.client().post(f"{SHIPS_API}/ask", json=body).json()
    assert whole["mode"] == "extractive" and "1871" in whole["answer"] and whole["usage"]["calls"] == 0
    events = list(events_of(server.client().post(f"{SHIPS_API}/ask", json={**body, "stream": True})))
    assert "".join(data["text"] for name, data in events if name == "delta") == whole["answer"]


def test_strategies_are_compared(server: LiveServer) -> None:
    body = {**QUESTION, "runs": [{"strategy": "weave", "budget": 40}, {"strategy": "topk"}, {"strategy": "macrag"}]}
    runs = server.client().post(f"{SHIPS_API}/compare", json=body).json()["runs"]
    assert [run["index"] for run in runs] == [0, 1, 2]
    assert runs[1]["only"] and not runs[0]["only"] and runs[0]["ms"] > 0
    assert runs[2]["problem"]["status"] == 422 and "slice" in runs[2]["problem"]["detail"]


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/question"),
        *(({"question": wrong}, "/question") for wrong in ("", "  ", "x" * 8001)),
        ({**QUESTION, "strange": 1}, "/strange"),
        *(({**QUESTION, "budget": wrong}, "/budget") for wrong in (0, 40_000)),
        *(({**QUESTION, "rounds": wrong}, "/rounds") for wrong in (5, True, "1")),
        ({**QUESTION, "history": [{"role": "user", "content": "x"}] * 51}, "/history"),
        ({**QUESTION, "chat": "openai:gpt-9"}, "/chat"),
        *(({**QUESTION, "strategy": wrong}, None) for wrong in ("weave(k=100000)", "nothing")),
        ({**QUESTION, "parameters": {"k": 501}}, None),
        ({**QUESTION, "mode": "nothing"}, None),
        *(({**QUESTION, "where": wrong}, None) for wrong in ({"type": "eq", "key": "_source", "value": "x"}, "id = ")),
        ({**QUESTION, "where": 5}, "/where"),
        ({**QUESTION, "max_tokens": 5000}, "/max_tokens"),
    ],
)
def test_invalid_questions_are_refused(server: LiveServer, body: dict[str, Any], pointer: str | None) -> None:
    answer = server.client().post(f"{SHIPS_API}/ask", json=body)
    problem = answer.json()
    assert (answer.status_code, problem["status"], problem["code"]) == (422, 422, "invalid"), answer.text
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert problem["type"] == "urn:mergewise:problem:invalid"
    assert problem["instance"] == answer.headers["X-Request-Id"]
    assert pointer is None or pointer in [one["pointer"] for one in problem["errors"]]


@pytest.mark.parametrize("key", ["a' OR 1=1 --", 'a" OR "1"="1', "id`; DROP TABLE x", "id) OR (1=1"])
def test_filters_cannot_inject_sql(server: LiveServer, key: str) -> None:
    for condition in ({"type": "eq", "key": key, "value": "x"}, {"type": "eq", "key": "kind", "value": key}):
        answer = server.client().post(f"{SHIPS_API}/context", json={**QUESTION, "where": condition})
        assert answer.status_code == 422 or answer.json()["context"]["passages"] == []


@pytest.mark.parametrize(
    ("method", "path", "sent", "status"),
    [
        ("GET", "/nowhere", {}, 404),
        ("PUT", f"{SHIPS_API}/ask", {}, 405),
        *(("POST", f"{SHIPS_API}/ask", body_of("application/json", content), 400) for content in (b"{", b"\xff")),
        ("POST", f"{SHIPS_API}/documents", body_of("text/plain", b"x"), 415),
        *(("GET", f"{SHIPS_API}/documents/{place}", {}, 404) for place in ("!", "bm9uZQ", f"{KEY}/original")),
        ("GET", "/api/v1/jobs/nothing", {}, 404),
        ("POST", "/api/v1/jobs/nothing/cancel", {}, 404),
        ("DELETE", "/api/v1/tokens/nothing", {}, 404),
        ("POST", "/api/v1/collections", {"json": {"name": "ships"}}, 409),
        ("POST", "/api/v1/collections", {"json": {"name": "../x"}}, 422),
        ("POST", "/api/v1/collections", {"json": {"name": "x", "embedder": "st:/etc/passwd"}}, 422),
        ("POST", "/api/v1/collections", {"json": {"name": "x", "views": ["nothing"]}}, 422),
        ("PATCH", SHIPS_API, {"json": {"defaults": {"path": "/etc"}}}, 422),
        ("PATCH", SHIPS_API, {"json": {"defaults": {"budget": 0}}}, 422),
        ("PATCH", SHIPS_API, {"json": {"defaults": {"mode": 3}}}, 422),
        *(("POST", "/api/v1/tokens", {"json": {"scopes": ["read"], **wrong}}, 422) for wrong in WRONG_TOKENS),
        ("POST", f"{SHIPS_API}/jobs", {"json": {"kind": "sync"}}, 422),
        ("POST", f"{SHIPS_API}/jobs", {"json": {"kind": "add_view", "request": {"view": "x"}}}, 422),
        ("POST", f"{SHIPS_API}/documents:remove", {"json": {"ids": ["a"], "prefix": "b"}}, 422),
    ],
)  # fmt: skip
def test_problems_have_their_status(server: LiveServer, method: str, path: str, sent: Any, status: int) -> None:
    answer = server.client("admin").request(method, path, **sent)
    assert answer.status_code == status, answer.text
    assert answer.headers["Content-Type"] == "application/problem+json" and answer.json()["status"] == status


def test_documents_are_listed_and_read(server: LiveServer) -> None:
    client = server.client()
    (row,) = client.get("/api/v1/collections/birds/documents?status=indexed").json()["items"]
    assert (row["id"], row["status"], row["characters"], row["leaves"]) == ("birds.md", "indexed", len(BIRDS), 2)
    assert row["metadata"] == {"kind": "birds"} and row["error"] is None and not row["has_original"]
    document = client.get(f"/api/v1/collections/birds/documents/{row['key']}").json()
    assert document["pages"] == [] and {**row}.items() <= document.items()
    text = client.get(f"/api/v1/collections/birds/documents/{row['key']}/text?start=2&end=7").json()
    assert text == {"key": row["key"], "start": 2, "end": 7, "characters": len(BIRDS), "text": BIRDS[2:7]}
    beyond = client.get(f"/api/v1/collections/birds/documents/{row['key']}/text?start=99999").json()
    assert (beyond["start"], beyond["text"]) == (len(BIRDS), "")


def test_documents_are_sent_and_queued(start_server: Callable[..., LiveServer]) -> None:
    client = (live := start_server()).client("write")
    sent = [
        ("files", ("a/../../etc/passwd", b"root", "text/plain")),
        ("files", ("b.svg", b"<svg onload=x>", "image/svg+xml")),
    ]
    options = {"metadata": [{"year": 2020}, {}], "ids": [None, "pic"]}
    answer = client.post(f"{SHIPS_API}/documents", files=sent, data={"options": json.dumps(options)})
    assert answer.status_code == 202 and answer.json()["job"]["state"] == "queued"
    assert [one["id"] for one in answer.json()["documents"]] == ["a/etc/passwd", "pic"]
    listed = client.get(f"{SHIPS_API}/documents").json()["items"]
    assert [(row["id"], row["status"]) for row in listed] == [
        ("a/etc/passwd", "queued"), ("pic", "queued"), ("ships/fleet.md", "indexed")
    ]  # fmt: skip
    assert listed[0]["metadata"] == {"year": 2020} and listed[0]["job"] == answer.json()["job"]["id"]
    assert [row["id"] for row in client.get(f"{SHIPS_API}/documents?status=queued&prefix=p").json()["items"]] == ["pic"]
    first = client.get(f"{SHIPS_API}/documents?status=queued&status=failed&limit=1").json()
    rest = client.get(f"{SHIPS_API}/documents?status=queued&limit=1&cursor={first['next']}").json()
    assert [first["items"], rest["items"]] == [[listed[0]], [listed[1]]] and rest["next"] is None
    pages = [client.get(f"{SHIPS_API}/documents?limit=2").json()]
    pages.append(client.get(f"{SHIPS_API}/documents?limit=2&cursor={pages[0]['next']}").json())
    assert [row for page in pages for row in page["items"]] == listed and pages[1]["next"] is None
    # names are labels: files were written only in the server's own folders
    written = [path for path in live.config.data.rglob("*") if path.is_file() and path.read_bytes() == b"root"]
    assert len(written) == 1 and "blobs" in written[0].parts
    original = client.get(f"{SHIPS_API}/documents/{key_of('pic')}/original")
    assert original.content == b"<svg onload=x>"
    assert original.headers["Content-Disposition"].startswith("attachment")
    assert original.headers["Content-Security-Policy"].startswith("sandbox")
    assert original.headers["X-Content-Type-Options"] == "nosniff"
    assert original.headers["Content-Type"] == "application/octet-stream"
    assert client.get(f"{SHIPS_API}/documents/{key_of('pic')}/text").status_code == 409

    texts = {"documents": [{"id": "note", "text": "A note.", "title": "Note", "metadata": {"year": 2021}}]}
    key = {"Idempotency-Key": "once"}
    first = client.post(f"{SHIPS_API}/documents", json=texts, headers=key).json()
    assert client.post(f"{SHIPS_API}/documents", json=texts, headers=key).json()["job"]["id"] == first["job"]["id"]
    texts["documents"][0]["text"] = "Another."
    assert client.post(f"{SHIPS_API}/documents", json=texts, headers=key).status_code == 409

    named = {"Content-Disposition": 'attachment; filename="y.md"'}
    put = client.put(f"{SHIPS_API}/documents/{key_of('x/y')}", content=b"# Hi", headers=named)
    assert put.status_code == 202 and put.json()["documents"] == [{"key": key_of("x/y"), "id": "x/y", "title": "y.md"}]
    upload = live.state.jobs.uploads(put.json()["job"]["id"])[0]
    assert (upload.id, upload.name, upload.bytes) == ("x/y", "y.md", 4)

    described = client.patch(f"{SHIPS_API}/documents/{KEY}", json={"metadata": {"year": 1871}})
    assert job_of(live, described).request == {"id": "ships/fleet.md", "metadata": {"year": 1871}}
    removing = f"{SHIPS_API}/documents:remove"
    assert client.post(removing, json={"prefix": "", "dry_run": True}).status_code == 422
    dry = client.post(removing, json={"ids": ["pic", "none", "ships/fleet.md"], "dry_run": True}).json()
    assert (dry["job"], dry["count"]) == (None, 2)
    removed = client.post(removing, json={"prefix": "p"})
    assert removed.json()["count"] == 1 and job_of(live, removed).request == {"prefix": "p"}
    assert client.request("DELETE", f"{SHIPS_API}/documents/{KEY}").json()["job"]["kind"] == "remove"


@pytest.mark.parametrize(
    ("files", "options", "status"),
    [
        ([("other", ("a", b"x"))], {}, 422),
        *(([("files", ("a", b"x"))], wrong, 422) for wrong in WRONG_OPTIONS),
        ([("files", ("a", b"x")), ("files", ("a", b"y"))], {}, 422),
        ([("files", ("../..", b"x"))], {}, 422),
        ([("files", (f"{n}", b"x")) for n in range(201)], {}, 400),
        ([("files", ("a", b"x"))], {"ids": ["x" * 70_000]}, 400),
    ],
)
def test_invalid_uploads_are_refused(server: LiveServer, files: Any, options: Any, status: int) -> None:
    answer = server.client("write").post(f"{SHIPS_API}/documents", files=files, data={"options": json.dumps(options)})
    assert answer.status_code == status, answer.text
    assert answer.headers["Content-Type"] == "application/problem+json"


def test_collections_are_made_changed_and_dropped(start_server: Callable[..., LiveServer]) -> None:
    live = start_server()
    admin, api = live.client("admin"), "/api/v1/collections/new"
    made = admin.post("/api/v1/collections", json={"name": "new", "title": "New", "embedder": "none"})
    assert made.status_code == 201 and made.json()["documents"] == 0 and made.json()["snapshot"] is None
    assert admin.get(f"{api}/documents").json() == {"items": [], "next": None}
    assert admin.post(f"{api}/context", json=QUESTION).json()["code"] == "empty"
    changed = admin.patch(api, json={"title": "Newer", "defaults": {"strategy": "topk", "budget": 300}}).json()
    assert changed["title"] == "Newer" and changed["defaults"] == {"strategy": "topk", "budget": 300}
    assert admin.patch(SHIPS_API, json={"defaults": {"budget": 64, "strategy": "topk"}}).status_code == 200
    context = admin.post(f"{SHIPS_API}/context", json=QUESTION).json()["context"]
    assert (context["budget"], context["strategy"]) == (64, "topk")
    dropped = admin.request("DELETE", api)
    assert dropped.status_code == 202 and dropped.json()["job"]["kind"] == "drop"


def test_answers_and_tools_say_how_far_indexing_is(start_server: Callable[..., LiveServer]) -> None:
    live = start_server(with_chat=False)
    client = live.client("write")
    assert client.get(SHIPS_API).json()["indexing"] is None
    assert client.post(f"{SHIPS_API}/ask", json=QUESTION).json()["indexing"] is None
    job = live.state.jobs.enqueue("sync", "ships")
    # until the folders are read, nothing is left to do
    assert client.get(SHIPS_API).json()["indexing"] is None
    assert [one.id for one in live.state.jobs.claim()] == [job.id]
    assert client.get(SHIPS_API).json()["indexing"] is None
    live.state.jobs.set_progress(job.id, JobProgress(22, 99, document="fleet.md"))
    notice = "Indexing is at 22 %: answers may be incomplete"
    state = {"percent": 22, "notice": notice, "document": "fleet.md"}
    assert client.get(SHIPS_API).json()["indexing"] == state
    assert client.get("/api/v1/collections/birds").json()["indexing"] is None
    assert client.post(f"{SHIPS_API}/context", json=QUESTION).json()["indexing"] == state
    events = dict(events_of(client.post(f"{SHIPS_API}/ask", json={**QUESTION, "stream": True})))
    assert events["done"]["indexing"] == state and "Indexing" not in events["done"]["answer"]
    for question, is_told in ((QUESTION["question"], False), ("zzzq xxyyk", True)):
        form = {"model": "ships", "messages": [{"role": "user", "content": question}]}
        completion = client.post("/v1/chat/completions", json=form).json()
        content = completion["choices"][0]["message"]["content"]
        streamed = client.post("/v1/chat/completions", json={**form, "stream": True}).text
        assert completion["mergewise"]["indexing"] == state
        assert content.endswith(f"\n\n{notice}.") == is_told
        assert (f"{notice}." in streamed) == is_told
    asked = {**QUESTION, "collection": "ships"}
    calls = (("ask", asked), ("context", asked), ("find", {"words": "", "collection": "ships"}))
    for tool, sent in calls:
        request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": sent}}
        headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}
        assert notice in client.post("/mcp", json=request, headers=headers).text, tool
    live.state.jobs.finish(job.id, "done")
    assert client.get(SHIPS_API).json()["indexing"] is None
    assert client.put(f"{SHIPS_API}/documents/YQ", content=b"text").status_code == 202
    assert client.get(SHIPS_API).json()["indexing"]["percent"] == 0


def test_an_empty_collection_with_folders_says_what_it_waits_for(
    start_server: Callable[..., LiveServer], tmp_path: Path
) -> None:
    live = start_server(collections={"new": CollectionConfig(folders=(tmp_path,))})
    live.state.collections.add(record_of(live.config, "new"))
    client, api = live.client("write"), "/api/v1/collections/new"
    indexing = client.get(api).json()["indexing"]
    assert indexing["percent"] == 0
    assert "Indexing is at 0 %" in indexing["notice"]
    assert indexing["notice"] in client.post(f"{api}/ask", json=QUESTION).json()["hint"]
    assert client.post(f"{api}/jobs", json={"kind": "sync"}).status_code == 202
    assert client.get(api).json()["indexing"]["percent"] == 0


def test_invalid_requests_of_jobs_and_collections_are_refused(
    start_server: Callable[..., LiveServer], tmp_path: Path
) -> None:
    live = start_server(collections={"ships": CollectionConfig(folders=(tmp_path,))})
    client = live.client("admin")
    refused: list[Any] = [[], ["/other"], [[]], 5, str(tmp_path)]
    for folders in refused:
        job: dict[str, Any] = {"kind": "sync", "request": {"folders": folders}}
        assert client.post(f"{SHIPS_API}/jobs", json=job).status_code == 422, folders
    for given in ({}, {"folders": None}, {"folders": [str(tmp_path)]}):
        assert client.post(f"{SHIPS_API}/jobs", json={"kind": "sync", "request": given}).status_code == 202
    job = {"kind": "add_view", "request": {"view": []}}
    assert client.post(f"{SHIPS_API}/jobs", json=job).status_code == 422
    form = {"name": "new", "settings": {"leaf": 5}}
    assert client.post("/api/v1/collections", json=form).status_code == 422


def test_only_an_admin_adds_and_removes_views(start_server: Callable[..., LiveServer]) -> None:
    live = start_server()
    writer, admin = live.client("write"), live.client("admin")
    for kind in ("add_view", "remove_view"):
        job = {"kind": kind, "request": {"view": "slice"}}
        refused = writer.post(f"{SHIPS_API}/jobs", json=job)
        assert refused.status_code == 403 and "missing scope: admin" in refused.text
        assert admin.post(f"{SHIPS_API}/jobs", json=job).status_code == 202
        assert writer.post(f"{SHIPS_API}/jobs", json={"kind": "check"}).status_code == 202
        wrong = {"kind": kind, "request": {"view": "x"}}
        assert admin.post(f"{SHIPS_API}/jobs", json=wrong).status_code == 422


def test_jobs_are_watched(start_server: Callable[..., LiveServer]) -> None:
    live = start_server()
    client = live.client("write")
    jobs = [client.post(f"{SHIPS_API}/jobs", json={"kind": "check"}).json()["job"] for _ in range(3)]
    first = client.get("/api/v1/jobs?limit=2").json()
    rest = client.get("/api/v1/jobs", params={"limit": 2, "cursor": first["next"]}).json()
    assert [job["id"] for job in [*first["items"], *rest["items"]]] == [job["id"] for job in reversed(jobs)]
    assert client.get("/api/v1/jobs?kind=add").json()["items"] == [] and rest["next"] is None
    assert client.post(f"/api/v1/jobs/{jobs[0]['id']}/retry").status_code == 409
    assert client.post(f"/api/v1/jobs/{jobs[0]['id']}/cancel").json()["state"] == "cancelled"
    blocks = client.get(f"/api/v1/jobs/{jobs[0]['id']}/events").text.strip().split("\n\n")
    states = [json.loads(block.split("data: ")[1].partition("\n")[0])["state"] for block in blocks]
    assert states == ["queued", "cancelled"]
    number = next(line for line in blocks[0].splitlines() if line.startswith("id: "))[4:]
    later = client.get(f"/api/v1/jobs/{jobs[0]['id']}/events", headers={"Last-Event-ID": number}).text
    assert later.count("event: job") == 1 and "cancelled" in later
    # no event follows the last one of an ended job
    beyond = client.get(f"/api/v1/jobs/{jobs[0]['id']}/events", headers={"Last-Event-ID": "999999"})
    assert (beyond.status_code, beyond.text) == (200, "")
    assert client.post(f"/api/v1/jobs/{jobs[0]['id']}/retry").json()["state"] == "queued"
    assert client.get(f"{SHIPS_API}/evaluations/{jobs[0]['id']}").status_code == 404


def test_an_estimate_of_a_view_has_the_calls_of_its_settings(start_server: Callable[..., LiveServer]) -> None:
    live = start_server()
    for settings, calls in ((None, 0), (dict(mw.VIEWS["marker"].with_chat), 1)):
        request = {"view": "marker", **({} if settings is None else {"settings": settings})}
        form = {"kind": "add_view", "request": request, "dry_run": True}
        found = live.client("admin").post(f"{SHIPS_API}/jobs", json=form).json()
        assert found["estimate"]["usage"]["calls"] >= calls and bool(found["estimate"]["usage"]["calls"]) == bool(calls)


def test_the_report_of_an_evaluation_is_a_page(start_server: Callable[..., LiveServer]) -> None:
    live = start_server()
    client = live.client("write")
    form = {"kind": "evaluate", "request": {"questions": [{"question": "Why?", "answers": ["so"]}]}}
    job = client.post(f"{SHIPS_API}/jobs", json=form).json()["job"]
    path = f"{SHIPS_API}/evaluations/{job['id']}"
    assert client.get(f"{path}/page").status_code == 404
    found = {"rows": [{"id": "1"}], "report": {"title": "T"}, "page": "<!doctype html><p>T"}
    live.state.jobs.finish(job["id"], "done", report=found)
    page = client.get(f"{path}/page")
    assert page.text == found["page"] and page.headers["content-type"].startswith("text/html")
    policy = page.headers["content-security-policy"]
    assert policy.startswith("sandbox allow-scripts; default-src 'none'") and "'self'" not in policy
    body = client.get(path).json()
    assert (body["rows"], body["report"]) == (found["rows"], found["report"]) and "page" not in body


def test_tokens_are_made_listed_and_removed(server: LiveServer) -> None:
    admin = server.client("admin")
    body = {"scopes": ["read"], "title": "reader", "collections": ["birds"], "rate": 5}
    made = admin.post("/api/v1/tokens", json=body).json()
    assert made["secret"].startswith("mw_") and made["collections"] == ["birds"]
    listed = admin.get("/api/v1/tokens?limit=200")
    assert made["id"] in [token["id"] for token in listed.json()["items"]]
    assert "secret" not in listed.text and made["secret"].split("_", 2)[2] not in listed.text
    assert server.client(made["secret"]).get("/api/v1/collections").status_code == 200
    assert admin.request("DELETE", f"/api/v1/tokens/{made['id']}").status_code == 204
    assert server.client(made["secret"]).get("/api/v1/collections").status_code == 401


def test_models_are_listed_by_name(server: LiveServer) -> None:
    body = server.client("read").get("/api/v1/models").json()
    assert body["chats"] == [{"name": "scripted"}, {"name": "extractive"}]
    models = server.client("admin").get("/api/v1/models")
    assert models.json()["chats"][0]["spec"] == "openai:scripted" and models.json()["chats"][0]["has_key"]
    settings = server.client("admin").get("/api/v1/settings")
    assert settings.json()["limits"]["k"] == 500
    for answer in (models, settings):
        assert "sk-scripted" not in answer.text and str(server.config.data) not in answer.text


def test_health_and_metrics(server: LiveServer) -> None:
    assert server.client(None).get("/livez").json() == {"status": "alive"}
    server.state.beat(None)
    server.service.was_ready = 0.0
    assert server.client(None).get("/readyz").json()["detail"] == "writer not running"
    server.state.beat(1)
    assert server.client(None).get("/readyz").json() == {"status": "ready"}
    server.client("read").post(f"{SHIPS_API}/ask", json={"question": "Which zebra sailed?"})
    text = server.client("admin").get("/metrics").text
    for name in ("requests_total", "queue_seconds", "assemble_seconds", "first_token_seconds", "rejected_total", "jobs",
                 "snapshot_age_seconds", "model_tokens_total", "cache_hits_total"):  # fmt: skip
        assert f"mergewise_{name}" in text, name
    assert 'route="/api/v1/collections/{c}/ask"' in text and 'snapshot_age_seconds{collection="ships"}' in text
    assert "zebra" not in text and "fleet" not in text and "ans_" not in text


def test_a_server_that_shuts_down_accepts_no_new_requests(start_server: Callable[..., LiveServer]) -> None:
    live = start_server()
    live.state.draining.set()
    assert live.client("read").get("/api/v1/collections").status_code == 503
    assert live.client(None).get("/readyz").status_code == 503
    assert live.client(None).get("/livez").status_code == 200
