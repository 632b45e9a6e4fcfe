"""Collections whose index is in a bucket: read-only by default, followed as it changes, and with a writer on request."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest

import mergewise as mw
from mergewise.errors import UsageError
from mergewise.server.backup import write_backup
from mergewise.server.configuration import CollectionConfig, ServerConfig, load_config
from mergewise.server.jobs import runner
from mergewise.server.jobs.runner import JobRunner
from mergewise.server.processes import prepare
from mergewise.server.records import READ_ONLY, CollectionRecord
from mergewise.server.state import State
from mergewise.server.tables.rows import Conflict
from mergewise.server.targets import served_place
from mergewise.store.manifest import NAME, SHARDS_NAME
from mergewise.store.places import place_of
from tests.object_store import KEY, Proxy, object_store
from tests.server.conftest import SHIPS, LiveServer
from tests.support import patience

FAR = "/api/v1/collections/far"
QUESTION = {"question": "When was the Aurora built?"}


@pytest.fixture(scope="module")
def store() -> Iterator[Proxy]:
    with object_store() as proxy:
        yield proxy


@pytest.fixture
def proxy(store: Proxy, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """The object store, named by the environment as for a server."""
    for name, value in proxied(store).items():
        monkeypatch.setenv(name, value)
    yield store
    store.reset()


def proxied(store: Proxy) -> dict[str, str]:
    """Return the variables that name the object store."""
    names = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": KEY, "AWS_REGION": "us-east-1"}
    return names | {"AWS_ENDPOINT": store.storage["endpoint"], "AWS_ALLOW_HTTP": "true"}


@pytest.fixture
def url(request: pytest.FixtureRequest) -> str:
    return f"s3://indexes/{request.node.name}"


def fill(url: str, cache: Path, shards: int | None = None, **texts: str) -> None:
    with mw.open(url, embedder="none", cache=cache, shards=shards) as index:
        index.add([mw.Document(f"{name}.md", text) for name, text in texts.items()])


def serve(start_server: Callable[..., LiveServer], url: str, **settings: Any) -> LiveServer:
    far = CollectionConfig(Path(url), embedder="none")
    live = start_server(with_chat=False, collections={"far": far}, **settings)
    blobs = str(live.config.data / "collections/far/blobs")
    live.state.beat(os.getpid())
    live.state.collections.add(CollectionRecord("far", str(Path(url)), blobs, embedder="none", configured=True))
    return live


def wait(check: Callable[[], Any], seconds: float = 20.0) -> Any:
    until = time.monotonic() + patience(seconds)
    while not (found := check()):
        assert time.monotonic() < until, f"not within {seconds} s"
        time.sleep(0.05)
    return found


@pytest.mark.parametrize("shards", [None, 2])
def test_an_index_in_a_bucket_is_served_and_followed(
    proxy: Proxy, url: str, start_server: Callable[..., LiveServer], tmp_path: Path, shards: int | None
) -> None:
    fill(url, tmp_path / "theirs", shards, ships=SHIPS)
    live = serve(start_server, url)
    client = live.client("admin")
    wait(lambda: client.get("/readyz").status_code == 200)
    info = client.get(FAR).json()
    assert (info["documents"], info["read_only"], info["indexing"]) == (1, True, None)
    assert not client.get("/api/v1/collections/ships").json()["read_only"]
    assert "1871" in client.post(f"{FAR}/ask", json=QUESTION).json()["answer"]
    assert client.get(f"{FAR}/documents").json()["items"][0]["id"] == "ships.md"
    # a question is answered from local copies
    with proxy.counting() as requests:
        client.post(f"{FAR}/context", json={"question": "Where was the Borealis built?"})
    assert [one for one in requests if not one.key.endswith((NAME, SHARDS_NAME))] == []
    assert (live.config.cache / "buckets").is_dir()
    fill(url, tmp_path / "theirs", shards, more="# Tides\n\nThe tide turns at noon.\n")
    wait(lambda: client.get(FAR).json()["documents"] == 2, seconds=5)
    assert client.get(FAR).json()["snapshot"] != info["snapshot"]
    assert "noon" in client.post(f"{FAR}/ask", json={"question": "When does the tide turn?"}).json()["answer"]
    # the copies answer while the bucket is unreachable
    proxy.fault = lambda request: "503"
    assert "1871" in client.post(f"{FAR}/ask", json=QUESTION).json()["answer"]
    assert client.get("/readyz").status_code == 200


def test_a_question_waits_for_the_snapshot_that_its_client_knows(
    proxy: Proxy, url: str, start_server: Callable[..., LiveServer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(url, tmp_path / "theirs", ships=SHIPS)
    monkeypatch.setattr("mergewise.store.lance.LanceStore.refresh", lambda store: None)
    live = serve(start_server, url)
    client = live.client("read")
    wait(lambda: client.get("/readyz").status_code == 200)
    old = client.get(FAR).json()["snapshot"]
    tide: dict[str, Any] = {"question": "When does the tide turn?"}
    fill(url, tmp_path / "theirs", more="# Tides\n\nThe tide turns at noon.\n")
    with mw.open(url, cache=tmp_path / "theirs") as index:
        new = index.snapshot
    # this server looks for changes too rarely
    assert "noon" not in client.post(f"{FAR}/ask", json=tide | {"snapshot": old}).json()["answer"]
    monkeypatch.undo()
    for name, value in proxied(proxy).items():
        monkeypatch.setenv(name, value)
    proxy.fault = lambda request: "503"
    behind = client.post(f"{FAR}/ask", json=tide | {"snapshot": new})
    assert (behind.status_code, behind.json()["code"]) == (503, "index-behind") and "Retry-After" in behind.headers
    proxy.reset()
    assert "noon" in client.post(f"{FAR}/ask", json=tide | {"snapshot": new}).json()["answer"]
    # an older snapshot is a minimum too
    assert "noon" in client.post(f"{FAR}/context", json=tide | {"snapshot": old}).json()["context"]["text"]
    ships = client.post("/api/v1/collections/ships/ask", json=QUESTION | {"snapshot": "anything"})
    assert ships.status_code == 200
    assert client.post(f"{FAR}/ask", json=tide | {"snapshot": ""}).status_code == 422


def test_a_read_only_collection_refuses_changes(
    proxy: Proxy, url: str, start_server: Callable[..., LiveServer], tmp_path: Path
) -> None:
    fill(url, tmp_path / "theirs", ships=SHIPS)
    opened = len(proxy.requests)
    live = serve(start_server, url, allow_writes_by_mcp=True)
    client = live.client("admin")
    wait(lambda: client.get("/readyz").status_code == 200)
    key = client.get(f"{FAR}/documents").json()["items"][0]["key"]
    file = {"files": ("new.md", b"# New\n")}
    replies: list[httpx.Response] = [
        client.post(f"{FAR}/documents", files=file),
        client.post(f"{FAR}/documents", json={"documents": [{"id": "a", "text": "b"}]}),
        client.put(f"{FAR}/documents/{key}", content=b"text", headers={"Content-Type": "text/plain"}),
        client.patch(f"{FAR}/documents/{key}", json={"metadata": {"a": 1}}),
        client.delete(f"{FAR}/documents/{key}"),
        client.post(f"{FAR}/documents:remove", json={"ids": ["ships.md"]}),
        client.post(f"{FAR}/jobs", json={"kind": "optimize"}),
        client.post(f"{FAR}/jobs", json={"kind": "repair"}),
        client.delete(FAR),
    ]
    assert [reply.status_code for reply in replies] == [409] * len(replies)
    assert all("read-only" in reply.json()["detail"] for reply in replies[:-1])
    # uploads are refused before their bodies are received
    assert not (live.config.data / "collections/far/blobs").exists()
    assert client.post(f"{FAR}/jobs", json={"kind": "check", "dry_run": True}).json() == {"estimate": {"documents": 1}}
    sent = client.post("/v1/files", files={"file": ("a.md", b"# A\n")}, data={"purpose": "assistants"}).json()
    linked = client.post("/v1/vector_stores/far/files", json={"file_id": sent["id"]})
    assert linked.status_code == 409 and "read-only" in linked.text
    arguments = {"collection": "far", "id": "a.md", "text": "A text."}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "add_text", "arguments": arguments}}
    headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}
    assert "read-only" in client.post("/mcp", json=call, headers=headers).text
    assert live.state.jobs.find() == []
    assert client.patch(FAR, json={"title": "Far away"}).status_code == 200
    # nothing was written to the bucket
    assert {one.method for one in proxy.requests[opened:]} <= {"GET", "HEAD"}
    asked = {"questions": [{"question": QUESTION["question"], "answers": ["1871"]}], "strategies": ["topk"]}
    for job in ({"kind": "check"}, {"kind": "evaluate", "request": {**asked, "budgets": [200]}}):
        started = client.post(f"{FAR}/jobs", json=job)
        assert started.status_code == 202, started.text
    for writer in (JobRunner(live.config, live.state), JobRunner(live.config, live.state, tuple(READ_ONLY))):
        writer.make_indexes()
        while writer.run_round():
            pass
        writer.close()
    assert [one.state for one in live.state.jobs.find()] == ["done", "done"], live.state.jobs.find()


def test_an_unreachable_bucket_is_said_and_opened_later(
    proxy: Proxy, url: str, start_server: Callable[..., LiveServer], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fill(url, tmp_path / "theirs", ships=SHIPS)
    proxy.fault = lambda request: "403"
    with caplog.at_level(logging.INFO):
        live = serve(start_server, url)
        client = live.client("read")
        not_ready = client.get("/readyz")
        assert (not_ready.status_code, not_ready.json()["detail"]) == (503, "cannot open an index")
        wait(lambda: "cannot open the index of far" in caplog.text)
        asked = client.post(f"{FAR}/ask", json=QUESTION)
        assert asked.status_code == 503 and int(asked.headers["Retry-After"]) >= 1
        info = client.get(FAR).json()
        assert info["indexing"] == {
            "percent": None,
            "notice": "The index of this collection is not open yet",
            "document": None,
        }
        # the other collections are served
        assert client.post("/api/v1/collections/ships/ask", json=QUESTION).status_code == 200
        everything = " ".join([not_ready.text, asked.text, str(info), caplog.text])
        proxy.reset()
        wait(lambda: client.get("/readyz").status_code == 200)
        assert "1871" in client.post(f"{FAR}/ask", json=QUESTION).json()["answer"]
    assert KEY not in everything + caplog.text and KEY not in client.get("/metrics").text
    assert "s3:" not in asked.text + not_ready.text + str(info) and proxy.storage["endpoint"] not in asked.text


def test_a_missing_index_is_named_in_the_log(
    proxy: Proxy, url: str, start_server: Callable[..., LiveServer], caplog: pytest.LogCaptureFixture
) -> None:
    live = serve(start_server, url)
    assert live.client("read").get("/readyz").status_code == 503
    wait(lambda: f"index not found: {url}" in caplog.text)


# -- configuration and targets


def test_the_url_of_a_bucket_is_a_collection(proxy: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    place = served_place(Path("s3://indexes/handbook"))
    ((name, own),) = place.collections.items()
    assert (name, own.title, own.is_read_only, own.is_in_bucket) == ("handbook", "handbook", True, True)
    assert place.data.is_relative_to(tmp_path / "state") and place != served_place(Path("s3://other/handbook"))
    with pytest.raises(UsageError, match="read-only"):
        served_place(Path("s3://indexes/handbook"), [tmp_path])


def test_a_bucket_in_the_configuration(proxy: Proxy, tmp_path: Path) -> None:
    file = tmp_path / "serve.toml"
    file.write_text('[collections.far]\npath = "s3://indexes/handbook"\n[collections.near]\nread_only = true\n')
    config = load_config(tmp_path)
    assert config.read_only == {"far", "near"}
    with State.of(config) as state:
        prepare(config, state)
        far = state.collections.get("far")
        assert far is not None and mw.open(far.path, embedder="none").store.place.refresh is not None
        state.jobs.read_only = config.read_only
        with pytest.raises(Conflict, match="far is read-only"):
            state.jobs.enqueue("add", "far")
    assert write_backup(tmp_path, tmp_path.parent / "backup.tar") == ["far"]
    for text, named in (
        ('path = "s3://key@indexes/x"', "credentials"),
        ('path = "s3://indexes/x"\nfolders = ["docs"]', "collections.far: the collection is read-only"),
        ('weights = "s3://indexes/x"', "weights is in a bucket"),
    ):
        file.write_text(f"[collections.far]\n{text}\n")
        with pytest.raises(UsageError, match=named):
            load_config(tmp_path)


# -- with a writer


@pytest.fixture
def written(url: str, tmp_path: Path) -> Iterator[JobRunner]:
    """A writer of a collection whose folder is indexed into a bucket."""
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "cats.md").write_text("# Cats\n\nCats purr.\n")
    own = CollectionConfig(Path(url), embedder="none", folders=(docs,), read_only=False)
    config = ServerConfig(tmp_path / "data", collections={"far": own})
    with State.of(config) as state:
        prepare(config, state)
        state.jobs.read_only = config.read_only
        writer = JobRunner(config, state)
        yield writer
        writer.close()


def ids(url: str, cache: Path) -> list[str]:
    with mw.open(url, embedder="none", cache=cache, create=False) as index:
        return sorted(info.id for info in index.documents())


@pytest.mark.parametrize("shards", [None, 2])
def test_a_bucket_with_a_writer(proxy: Proxy, url: str, written: JobRunner, tmp_path: Path, shards: int | None) -> None:
    if shards is not None:
        fill(url, tmp_path / "theirs", shards)
    written.make_indexes()
    assert ids(url, tmp_path / "theirs") == []
    written.state.jobs.enqueue("sync", "far")
    assert written.run_round()
    assert [job.state for job in written.state.jobs.find()] == ["done"]
    assert ids(url, tmp_path / "theirs") == ["cats.md"]


@pytest.mark.parametrize("ends", ["done", "cancelled"])
def test_a_job_waits_while_another_host_writes_to_the_bucket(
    proxy: Proxy, url: str, written: JobRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    monkeypatch.setattr(runner, "_LOCK_SECONDS", 0.2)
    written.make_indexes()
    job = written.state.jobs.enqueue("sync", "far")

    def state() -> str:
        found = written.state.jobs.get(job.id)
        return "" if found is None else found.state

    with place_of(url, cache=tmp_path / "theirs").writer(1):
        running = threading.Thread(target=written.run_round)
        running.start()
        wait(lambda: state() == "waiting_lock")
        if ends == "cancelled":
            written.state.jobs.cancel(job.id)
            running.join(patience(10))
    running.join(patience(20))
    assert state() == ends
    assert ids(url, tmp_path / "theirs") == (["cats.md"] if ends == "done" else [])


def test_a_job_fails_legibly_without_its_bucket(proxy: Proxy, url: str, written: JobRunner) -> None:
    proxy.fault = lambda request: "403"
    written.make_indexes()
    written.state.jobs.enqueue("sync", "far")
    written.run_round()
    (job,) = written.state.jobs.find()
    assert job.state == "failed" and job.error is not None and "s3:" not in str(job.error), job.error
