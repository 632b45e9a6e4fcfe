"""Random kills during uploads and evaluations: workers, the writer, the evaluator, and the supervisor of a whole server.

    python -m benchmarks.serve.kills --kills 200

Two clients upload documents and newer versions of them, and retry until each is accepted (202). Another client starts
evaluations, one after another. A chat model on loopback writes rows for a view. At the end, every accepted job must have ended
exactly once, the index must keep its invariants and contain the last version of each document, and a call with an answer on
disk must not be repeated. A call in progress when the writer was killed is repeated; these are counted.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from base64 import urlsafe_b64encode
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from tests.chat_server import ChatServer

import mergewise as mw
from mergewise.models.cache import FILE
from mergewise.models.scripted import Turn
from mergewise.server.records import ENDED, Job
from mergewise.server.state import State
from mergewise.types import Message

COLLECTION = "kills"
KINDS = ("worker", "writer", "evaluator", "supervisor")
PAUSE = 0.3
"""Response time of the chat model in seconds."""
STARTING, ENDING = 120.0, 300.0
QUESTIONS = 150
"""Questions of an evaluation, which takes a few seconds."""


@dataclass
class Campaign:
    """A server, the uploads to it, and the kills."""

    data: Path
    kills: int
    seed: int = 0
    workers: int = 2
    kinds: Sequence[str] = KINDS
    calls: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    paid_twice: int = 0
    killed: list[str] = field(default_factory=list)
    accepted: dict[str, tuple[str, str]] = field(default_factory=dict)
    evaluations: list[str] = field(default_factory=list)
    refused: int = 0
    _process: subprocess.Popen[bytes] | None = None
    _stop: threading.Event = field(default_factory=threading.Event)
    _port: int = 0
    _token: str = ""

    # -- the server

    def start(self, endpoint: str) -> None:
        self.data.mkdir(parents=True, exist_ok=True)
        (self.data / "serve.toml").write_text(
            f'[chats.local]\nspec = "openai:m"\nbase_url = "{endpoint}"\nkey_env = "KILLS_KEY"\n'
            f'[collections.{COLLECTION}]\nembedder = "none"\nviews = ["leaf", "slice"]\nchat = "local"\n'
        )
        self._begin()
        self._token = (self.data / "token").read_text().strip()

    def _begin(self) -> None:
        words = ["serve", str(self.data), "--port", str(self._port), "--workers", str(self.workers)]
        with (self.data / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "mergewise", *words],
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, "KILLS_KEY": "sk-kills"},
            )
        assert self._process.stdout is not None
        # Each start uses the same port.
        line = self._process.stdout.readline().decode()
        assert line.startswith("http://"), (self.data / "log").read_text()[-3000:]
        self._port = int(line.removeprefix("http://").partition("/")[0].partition(":")[2])

    def end(self) -> float:
        """Stop the server with SIGTERM and return the seconds it took."""
        assert self._process is not None
        began = time.monotonic()
        self._process.terminate()
        self._process.communicate(timeout=30)
        assert self._process.returncode == 0, self._process.returncode
        return time.monotonic() - began

    def kill(self, kind: str) -> None:
        """Kill a process. Start a killed supervisor again, as systemd would."""
        assert self._process is not None
        pid = {"supervisor": self._process.pid, "worker": self._worker()}.get(kind) or self._beating(kind)
        if pid is None:
            return
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            self.killed.append(kind)
        if kind == "supervisor":
            self._process.communicate()
            self._begin()

    def _beating(self, name: str) -> int | None:
        try:
            return int((self.data / f"{name}.beat").read_text() or 0) or None
        except OSError:
            return None

    def _worker(self) -> int | None:
        assert self._process is not None
        with suppress(OSError):
            children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
            others = {self._beating("writer"), self._beating("evaluator")}
            workers = [int(pid) for pid in children if int(pid) not in others and _is_spawned(int(pid))]
            return random.choice(workers) if workers else None
        return None

    # -- clients

    def upload(self, number: int, version: int) -> None:
        """Retry the upload until the document is accepted."""
        doc_id, content = f"manual/{number}.md", text(number, version)
        key = urlsafe_b64encode(doc_id.encode()).decode().rstrip("=")
        headers = {
            "Idempotency-Key": f"{number}-{version}",
            "Content-Disposition": f'attachment; filename="{number}.md"',
        }
        while not self._stop.is_set():
            found = self._ask("PUT", f"/api/v1/collections/{COLLECTION}/documents/{key}", content, headers)
            if found is not None:
                known = self.accepted.setdefault(found["job"]["id"], (doc_id, content))
                assert known == (doc_id, content), "one job for two requests"
                return
            self._stop.wait(0.2)

    def evaluate(self) -> None:
        """Start an evaluation, and another one when it has ended. A request without an answer may have started a job too."""
        questions = [{"question": f"When was bridge {n} rebuilt?", "answers": ["1520"]} for n in range(QUESTIONS)]
        form = json.dumps({"kind": "evaluate", "request": {"questions": questions}})
        headers = {"Content-Type": "application/json"}
        while not self._stop.wait(0.2):
            found = self._ask("POST", f"/api/v1/collections/{COLLECTION}/jobs", form, headers)
            if found is not None:
                self.evaluations.append(found["job"]["id"])
                while not self._stop.wait(0.2) and (found or {}).get("state") not in ENDED:
                    found = self._ask("GET", f"/api/v1/jobs/{self.evaluations[-1]}")

    def _ask(self, method: str, path: str, body: str = "", headers: Mapping[str, str] = {}) -> dict[str, Any] | None:
        """Send a request. Return its answer, or None if it was not answered or not accepted."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=20)
        try:
            connection.request(method, path, body.encode(), {"Authorization": f"Bearer {self._token}", **headers})
            answer = connection.getresponse()
            content = answer.read()
            if answer.status in (200, 202):
                found: dict[str, Any] = json.loads(content)
                return found
            self.refused += 1
            assert answer.status in (429, 503), (answer.status, content[:500])
        except (OSError, http.client.HTTPException):
            pass
        finally:
            connection.close()
        return None

    def client(self, numbers: Sequence[int], pause: float) -> None:
        draw = random.Random(numbers[0])
        versions: dict[int, int] = defaultdict(int)
        while not self._stop.is_set():
            number = draw.choice(numbers)
            versions[number] += 1
            self.upload(number, versions[number])
            self._stop.wait(draw.uniform(0, 2 * pause))

    def answer(self, messages: Sequence[Message]) -> Turn:
        key = sha256("\n".join(message.text for message in messages).encode()).hexdigest()
        reply = f"Summary {key} of what was asked."
        self.paid_twice += is_kept(self.data / "collections" / COLLECTION / "index", reply)
        self.calls[key] += 1
        return Turn(reply, pause=PAUSE)

    # -- the whole

    def run(
        self, tell: Callable[[str], None] = lambda line: None, pause: float = 0.5, gap: float = 6.0
    ) -> dict[str, Any]:
        """Run the campaign and return its figures.

        Raises:
            AssertionError: if the server broke a promise.
        """
        draw = random.Random(self.seed)
        failures: list[BaseException] = []
        with ChatServer(self.answer) as endpoint:
            self.start(endpoint.base_url)
            clients = [
                threading.Thread(target=_collect_failure, args=(failures, self.client, range(start, 24, 2), pause))
                for start in (0, 1)
            ]
            clients.append(threading.Thread(target=_collect_failure, args=(failures, self.evaluate)))
            for client in clients:
                client.start()
            try:
                while len(self.killed) < self.kills and not failures:
                    time.sleep(draw.uniform(0.05, gap))
                    # Take each kind in turn for a small number of kills.
                    self.kill(
                        self.kinds[len(self.killed) % len(self.kinds)] if self.kills < 10 else draw.choice(self.kinds)
                    )
                    tell(f"{len(self.killed)} kills, {len(self.accepted)} accepted")
            finally:
                self._stop.set()
                for client in clients:
                    client.join()
            self._wait_until_all_have_ended()
            seconds = self.end()
        if failures:
            raise failures[0]
        return self._judge() | {"seconds_to_end": round(seconds, 1)}

    def _wait_until_all_have_ended(self) -> None:
        until = time.monotonic() + ENDING
        with State(self.data / "server.sqlite") as state:
            while any(job not in ENDED for job in state.jobs.counts()):
                assert time.monotonic() < until, state.jobs.counts()
                time.sleep(0.2)

    def _judge(self) -> dict[str, Any]:
        last: dict[str, tuple[int, str]] = {}
        ends: dict[str, int] = defaultdict(int)
        evaluated: dict[str, int] = defaultdict(int)
        with State(self.data / "server.sqlite") as state:
            for job_id in self.evaluations:
                job = _ended_job(state, job_id)
                assert job.state == "done" or (job.error or {}).get("code") == "writer_killed", job
                evaluated[job.state] += 1
            for job_id, (doc_id, content) in self.accepted.items():
                job = _ended_job(state, job_id)
                ends[job.state] += 1
                if job.state == "done" and job.number > last.get(doc_id, (0, ""))[0]:
                    last[doc_id] = job.number, content
            # A worker may accept a job and die before it replies. The retry then finds the same job.
            every = state.jobs.find(limit=10**6)
            assert every[-1].number == 1
            uploads = [job for job in every if job.kind != "evaluate"]
            assert len(uploads) - len(self.accepted) <= 2, "a request made two jobs"
            record = state.collections.get(COLLECTION)
            needed = state.documents.blobs_needed(COLLECTION)
            attempts = max((job.attempt for job in every), default=0)
        assert record is not None
        with mw.open(record.path, create=False) as index:
            problems = index.check()
            assert problems == [], problems
            found = {info.id: index.document(info.id).text for info in index.documents()}
        wrong = [doc_id for doc_id, (_, content) in last.items() if found.get(doc_id) != content]
        assert not wrong, f"not the last version: {wrong}"
        lost = [blob for blob in needed if not (Path(record.blobs) / blob[:2] / blob).exists()]
        assert not lost, f"lost originals: {lost}"
        assert not self.paid_twice, f"{self.paid_twice} calls were repeated and paid twice"
        return {
            "kills": {kind: self.killed.count(kind) for kind in self.kinds},
            "accepted": len(self.accepted),
            "jobs": dict(ends),
            "evaluations": dict(evaluated),
            "most_attempts": attempts,
            "documents": len(found),
            "calls": sum(self.calls.values()),
            "calls_paid_twice": self.paid_twice,
            "calls_under_way_at_a_kill": sum(self.calls.values()) - len(self.calls),
            "refused": self.refused,
        }


def _ended_job(state: State, job_id: str) -> Job:
    """Return an accepted job, which must have ended exactly once."""
    job = state.jobs.get(job_id)
    assert job is not None, "an accepted job is lost"
    told = [event for event in state.jobs.events(job_id) if event.job["state"] in ENDED]
    assert len(told) == 1, f"{job_id} ended {len(told)} times"
    return job


def is_kept(index: Path, reply: str) -> bool:
    """Check that the index has cached this reply of its chat model."""
    try:
        with closing(sqlite3.connect(f"file:{index / '.summaries' / FILE}?mode=ro", uri=True, timeout=30)) as replies:
            return bool(replies.execute("SELECT 1 FROM replies WHERE text = ?", [reply]).fetchone())
    except sqlite3.OperationalError:
        # The file does not exist yet.
        return False


def text(number: int, version: int) -> str:
    """Return two sections of about 300 words, unique to this document and version."""
    body = [
        f"Bridge {i} of town {number} was rebuilt in the year {1500 + version * 7 + i} by a mason." for i in range(40)
    ]
    return f"# Town {number}\n\n{' '.join(body[:20])}\n\n## Later years of {number}\n\n{' '.join(body[20:])}\n"


def _is_spawned(pid: int) -> bool:
    return b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()


def _collect_failure(failures: list[BaseException], function: Callable[..., None], *values: object) -> None:
    try:
        function(*values)
    except BaseException as failure:
        failures.append(failure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--data", type=Path, help="Data folder of the server (default: a temporary folder)")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mergewise-kills-") as folder:
        campaign = Campaign(given.data or Path(folder) / "data", given.kills, given.seed)
        print(json.dumps(campaign.run(lambda line: print(line, file=sys.stderr, flush=True)), indent=2))


if __name__ == "__main__":
    main()
