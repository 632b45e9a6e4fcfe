"""Two servers that answer and two that run jobs, killed during uploads: each upload is indexed once, and nothing is lost."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from typing import Any

import httpx2 as httpx
import pytest

import mergewise as mw
from mergewise.server.records import ENDED
from mergewise.server.state import State
from tests.object_store import KEY, object_store
from tests.postgres import PostgresServer
from tests.support import until

pytestmark = pytest.mark.slow
KILLS = int(os.environ.get("MERGEWISE_KILLS", "4"))
DOCUMENTS = 10 * KILLS
ROLES = {"web 1": "web", "web 2": "web", "writer 1": "writer", "writer 2": "writer"}
NEEDS_TIME = pytest.mark.skipif("MERGEWISE_ATTACK" not in os.environ, reason="minutes: make chaos")
STORAGES = ["folder", pytest.param("bucket", marks=NEEDS_TIME)]


@dataclass
class Replica:
    """A process of `mergewise serve` with its own folder, started again after each kill."""

    name: str
    data: Path
    environment: dict[str, str]
    port: int = 0
    process: Any = None
    killed: list[str] = field(default_factory=list)

    def start(self) -> None:
        self.data.mkdir(exist_ok=True)
        words = ["serve", self.data, "--port", str(self.port), "--workers", "1"]
        command = [sys.executable, "-m", "mergewise", *words]
        environment = self.environment | {"MERGEWISE_SERVE_ROLE": ROLES[self.name]}
        with (self.data.parent / f"{self.name}.log").open("ab") as log:
            self.process = subprocess.Popen(
                [str(word) for word in command], stdout=subprocess.PIPE, stderr=log, env=environment
            )

    def wait(self) -> None:
        line = self.process.stdout.readline().decode()
        assert line, (self.data.parent / f"{self.name}.log").read_text()[-3000:]
        if ROLES[self.name] == "web":
            self.port = int(line.removeprefix("http://").partition("/")[0].partition(":")[2])

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()

    def kill(self, draw: random.Random) -> None:
        """Kill the supervisor with its children, or one of the children, which it starts again."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        is_whole = draw.random() < 0.5
        for pid in [self.process.pid, *map(int, children)] if is_whole else [int(draw.choice(children or ["0"]))]:
            with suppress(ProcessLookupError):
                os.kill(pid or self.process.pid, signal.SIGKILL)
        self.killed.append("whole" if is_whole else "part")
        if self.process.poll() is not None or is_whole:
            self.process.communicate()
            self.start()
            self.wait()


@pytest.fixture(params=STORAGES)
def replicas(
    request: pytest.FixtureRequest, postgres: PostgresServer, tmp_path: Path
) -> Iterator[tuple[dict[str, Replica], str, str]]:
    with ExitStack() as stack:
        storage, environment = str(tmp_path / "shared"), dict(os.environ)
        if request.param == "bucket":
            store = stack.enter_context(object_store())
            storage = f"s3://indexes/{token_hex(4)}"
            keys = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": KEY, "AWS_REGION": "us-east-1"}
            keys |= {"AWS_ENDPOINT": store.storage["endpoint"], "AWS_ALLOW_HTTP": "true"}
            environment |= keys
            for name, value in keys.items():
                stack.enter_context(pytest.MonkeyPatch.context()).setenv(name, value)
        database = postgres.create(token_hex(8))
        environment |= {"MERGEWISE_SERVE_DATABASE": database, "MERGEWISE_SERVE_STORAGE": storage}
        started = {name: Replica(name, tmp_path / name.replace(" ", ""), environment) for name in ROLES}
        for one in started.values():
            one.data.mkdir()
            (one.data / "serve.toml").write_text('[collections.a]\nembedder = "none"\n[limits]\nrate = 10000\n')
            one.start()
            stack.callback(one.end)
            if one.name == "web 1":
                # makes the first token
                one.wait()
        for one in [*started.values()][1:]:
            one.wait()
        yield started, database, storage


def body(number: int) -> str:
    return f"# Bridge {number}\n\nThe bridge of town {number} was built in {1500 + number}.\n"


def send(replicas: dict[str, Replica], token: str, number: int) -> str:
    """Upload a document to any server until one accepts it, and return the id of its job."""
    key = urlsafe_b64encode(f"d{number}.md".encode()).decode().rstrip("=")
    headers = {"Authorization": f"Bearer {token}", "Idempotency-Key": f"key-{number}", "Content-Type": "text/markdown"}
    for attempt in range(1000):
        port = replicas[f"web {(number + attempt) % 2 + 1}"].port
        url = f"http://127.0.0.1:{port}/api/v1/collections/a/documents/{key}"
        with suppress(httpx.HTTPError):
            reply = httpx.put(url, content=body(number), headers=headers, timeout=10)
            if reply.status_code == 202:
                return str(reply.json()["job"]["id"])
            assert reply.status_code in (429, 503), reply.text
        time.sleep(0.1)
    raise AssertionError("no server accepts the upload")


def test_kills_of_every_process(replicas: tuple[dict[str, Replica], str, str], tmp_path: Path) -> None:
    servers, database, storage = replicas
    token = (servers["web 1"].data / "token").read_text().strip()
    jobs: list[str] = []
    sending = threading.Thread(target=lambda: jobs.extend(send(servers, token, n) for n in range(DOCUMENTS)))
    sending.start()
    draw = random.Random(1)
    for number in range(KILLS):
        time.sleep(draw.uniform(0.2, 1.0))
        servers[[*ROLES][number % len(ROLES)]].kill(draw)
    sending.join(300)
    assert len(jobs) == DOCUMENTS
    with State(tmp_path / "server.sqlite", database, Path(storage)) as state:
        assert until(lambda: set(state.jobs.counts()) <= ENDED, 400), state.jobs.counts()
        for job in jobs:
            events = [event.job["state"] for event in state.jobs.events(job)]
            assert events.count("done") == 1 and not {"failed", "cancelled"} & {*events}, events
        # a job that was repeated by its client was not started twice
        assert len(state.jobs.find(limit=1000)) == DOCUMENTS
        record = state.collections.get("a")
        assert record is not None
        last = max((state.jobs.get(job) for job in jobs), key=lambda job: job.finished)  # type: ignore[union-attr, arg-type, return-value]
    with mw.open(record.path, create=False, cache=tmp_path / "cache") as index:
        assert {info.id: index.document(info.id).text for info in index.documents()} == {
            f"d{n}.md": body(n) for n in range(DOCUMENTS)
        }
        assert index.check() == []

    # tokens, originals and snapshots hold on both servers that answer
    def client(name: str, secret: str = token) -> httpx.Client:
        base = f"http://127.0.0.1:{servers[name].port}/api/v1"
        return httpx.Client(base_url=base, headers={"Authorization": f"Bearer {secret}"}, timeout=30)

    with client("web 1") as one, client("web 2") as other:
        made = one.post("/tokens", json={"scopes": ["read"]}).json()
        with client("web 2", made["secret"]) as third:
            question = {"question": "When was the bridge of town 7 built?", "snapshot": last.report["snapshot"]}  # type: ignore[union-attr, index]
            assert "1507" in third.post("/collections/a/ask", json=question).json()["answer"]
            assert other.delete(f"/tokens/{made['id']}").status_code == 204
            assert third.get("/collections").status_code == 401
        key = urlsafe_b64encode(b"d5.md").decode().rstrip("=")
        assert other.get(f"/collections/a/documents/{key}/original").text == body(5)
        sent = one.post(f"{one.base_url.copy_with(path='/v1/files')}", files={"file": ("f.md", b"# F\n\nA fjord.\n")})
        linked = other.post(
            f"{other.base_url.copy_with(path='/v1/vector_stores/a/files')}", json={"file_id": sent.json()["id"]}
        )
        assert (sent.status_code, linked.status_code) == (200, 200), (sent.text, linked.text)
        assert until(lambda: "f.md" in one.get("/collections/a/documents?status=indexed&prefix=f").text, 60)
