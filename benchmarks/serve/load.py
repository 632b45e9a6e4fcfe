"""Throughput, fairness and overload of a whole server on loopback, bounded in time and number of requests.

    python -m benchmarks.serve.load                          # a few minutes on a small collection
    python -m benchmarks.serve.load --index my.index --seconds 600 --workers 2

Five parts, each with a line of JSON at the end:

- `cpu`: processor seconds per question, with one client
- `throughput`: contexts per second with twice as many clients as cores, compared with cores / (seconds per question)
- `readers`: readers that pause between questions and respect Retry-After, with a writer that sends a document per second
- `overload`: five times the clients that can be served, and the time to recover
- `streams`: contexts during many answers that wait for a slow model

All questions differ, so that caches do not answer them. The figures need an otherwise idle machine. With `--apart`,
the server has its own cores, one per worker, and the clients and the chat model have the rest.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

import httpx2 as httpx

import mergewise as mw
from benchmarks.serve.running import RunningServer, running_server
from mergewise.models.scripted import Turn

COLLECTION = "load"
CONTEXT, ASK = f"/api/v1/collections/{COLLECTION}/context", f"/api/v1/collections/{COLLECTION}/ask"
HOLDING = 60.0
"""Seconds until all streams must have started."""
LOOK_SECONDS = 2.0
LOOKS = 10
RETRIES = 2
"""Retries of a reader, as in OpenAI's client. A question refused after that is an error."""
SLOW = Turn("It is told in the first source [1]. " * 20, pause_per_token=0.25)
WORDS = (
    "harbour winter copper engine river valley letter garden signal market bridge window forest captain ledger station "
    "mill glacier orchard lantern census quarry ferry canal archive treaty compass meadow furnace gallery"
).split()


@dataclass
class Tally:
    """Status codes and response times."""

    seconds: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    mixed: int = 0
    again: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, status: int, seconds: float, mixed: bool = False) -> None:
        with self._lock:
            self.statuses[status] += 1
            self.mixed += mixed
            if status == 200:
                self.seconds.append(seconds)

    def summary(self) -> dict[str, Any]:
        seconds = sorted(self.seconds)
        shares = {"p50": 0.5, "p95": 0.95, "p99": 0.99} if seconds else {}
        latencies = {name: round(1000 * seconds[int(share * (len(seconds) - 1))], 1) for name, share in shares.items()}
        return {"answered": len(seconds), "statuses": dict(self.statuses), **latencies}


class Load:
    """Clients of a server. All their questions are new."""

    def __init__(self, server: RunningServer, seed: int) -> None:
        self.server = server
        self._random, self._numbers = random.Random(seed), count()

    def question(self) -> str:
        return f"What is told of the {' and the '.join(self._random.sample(WORDS, 3))} in {next(self._numbers)}?"

    def ask(self, client: httpx.Client, tally: Tally, retries: int = 0) -> int:
        """Ask and return the status. Retry a refusal up to `retries` times, after its Retry-After, like the SDKs."""
        began = time.perf_counter()
        body = {"question": self.question()}
        answer = client.post(CONTEXT, json=body)
        for _ in range(retries):
            if answer.status_code != 429:
                break
            tally.again += 1
            time.sleep(float(answer.headers["retry-after-ms"]) / 1000)
            answer = client.post(CONTEXT, json=body)
        took, mixed = time.perf_counter() - began, False
        if answer.status_code == 200:
            told = answer.json()
            mixed = not told["context"]["snapshot"]
        tally.add(answer.status_code, took, mixed)
        return answer.status_code

    def by_clients(
        self, clients: int, seconds: float, pause: Callable[[], float] = lambda: 0.0, retries: int = 0
    ) -> Tally:
        """Run parallel clients for a time. Each asks one question after another."""
        tally, until = Tally(), time.monotonic() + seconds

        def go_on(_: int) -> None:
            with self.server.client() as client:
                while time.monotonic() < until:
                    self.ask(client, tally, retries)
                    time.sleep(pause())

        with ThreadPoolExecutor(clients) as pool:
            list(pool.map(go_on, range(clients)))
        return tally

    # -- the parts

    def cpu(self, questions: int) -> dict[str, Any]:
        with self.server.client() as client:
            for _ in range(10):
                self.ask(client, Tally())
            before, began, tally = self.server.cpu_seconds(), time.process_time(), Tally()
            for _ in range(questions):
                self.ask(client, tally)
            own = (time.process_time() - began) / questions
            spent = (self.server.cpu_seconds() - before) / questions
        return {"cpu_ms": round(1000 * spent, 2), "client_ms": round(1000 * own, 2), **tally.summary()}

    def throughput(self, seconds: float, cpu: Mapping[str, Any], cores: int) -> dict[str, Any]:
        """Return `share`, relative to the cores' capacity, and `with_client`, if the cores also do the client's work."""
        tally = self.by_clients(2 * cores, seconds)
        rate = len(tally.seconds) / seconds
        return {
            "per_second": round(rate, 1),
            "share": round(rate * cpu["cpu_ms"] / 1000 / cores, 3),
            "with_client": round(rate * (cpu["cpu_ms"] + cpu["client_ms"]) / 1000 / cores, 3),
            **tally.summary(),
        }

    def readers(self, readers: int, seconds: float) -> dict[str, Any]:
        """Measure memory after the first third: it grows while models are loaded and caches fill."""
        sent, ended = count(), threading.Event()

        def write() -> None:
            with self.server.client() as client:
                while not ended.wait(1.0):
                    text = " ".join(self._random.choices(WORDS, k=120)) + "."
                    client.post(
                        f"/api/v1/collections/{COLLECTION}/documents",
                        json={"documents": [{"id": f"written/{next(sent)}", "text": text}]},
                    ).raise_for_status()

        writer = threading.Thread(target=write)
        writer.start()
        with self._memory_over_time() as memory:
            self.by_clients(readers, seconds / 3, lambda: self._random.uniform(1.0, 2.0), RETRIES)
        spent, before = self.server.cpu_seconds_by_process(), _typical(memory)
        with self._memory_over_time() as memory:
            tally = self.by_clients(readers, seconds, lambda: self._random.uniform(1.0, 2.0), RETRIES)
        spent = {name: used - spent.get(name, 0.0) for name, used in self.server.cpu_seconds_by_process().items()}
        after = _typical(memory)
        ended.set()
        writer.join()
        return {
            "written": next(sent),
            "mixed": tally.mixed,
            "asked_again": tally.again,
            "memory": round(sum(after.values()) / sum(before.values()) - 1, 3),
            "megabytes": {name: [before[name] // 1_000_000, after[name] // 1_000_000] for name in after},
            "most_megabytes": max(sum(one.values()) for one in memory) // 1_000_000,
            "cores": {name: round(used / seconds, 2) for name, used in spent.items()},
            **tally.summary(),
        }

    @contextmanager
    def _memory_over_time(self) -> Iterator[list[dict[str, int]]]:
        """Sample the resident bytes of each process of the server every few seconds."""
        seen, ended = [self.server.memory()], threading.Event()

        def look() -> None:
            while not ended.wait(LOOK_SECONDS):
                seen.append(self.server.memory())

        looking = threading.Thread(target=look)
        looking.start()
        try:
            yield seen
        finally:
            ended.set()
            looking.join()

    def overload(self, clients: int, seconds: float) -> dict[str, Any]:
        tally = self.by_clients(clients, seconds, lambda: 0.02)
        began = time.monotonic()
        with self.server.client() as client:
            while self.ask(client, Tally()) != 200 and time.monotonic() < began + 30:
                time.sleep(0.05)
        after = round(time.monotonic() - began, 2)
        return {"strange": sorted({*tally.statuses} - {200, 429}), "normal_after": after, **tally.summary()}

    def streams(self, streams: int, questions: int) -> dict[str, Any]:
        alone = self._contexts(questions)
        opened, ended = threading.Semaphore(0), threading.Event()

        def hold(_: int) -> None:
            with self.server.client() as client:
                while not ended.wait(0.1):
                    body = {"question": self.question(), "stream": True}
                    with client.stream("POST", ASK, json=body) as answer:
                        for line in answer.iter_lines() if answer.status_code == 200 else ():
                            if line == "event: delta":
                                opened.release()
                                ended.wait()
                            if ended.is_set():
                                return

        with ThreadPoolExecutor(streams) as pool:
            holding = pool.map(hold, range(streams))
            until = time.monotonic() + HOLDING
            held = sum(opened.acquire(timeout=max(0.0, until - time.monotonic())) for _ in range(streams))
            beside = self._contexts(questions)
            ended.set()
            list(holding)
        return {"held": held, "alone": alone, "beside": beside, "slower": round(beside["p95"] / alone["p95"] - 1, 3)}

    def _contexts(self, questions: int) -> dict[str, Any]:
        tally = Tally()
        with self.server.client() as client:
            for _ in range(questions):
                self.ask(client, tally)
        return tally.summary()


def _typical(memory: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """Return the medians of the last samples, since a running change needs memory for a moment."""
    last = memory[-LOOKS:]
    return {name: int(median(one[name] for one in last if name in one)) for name in last[-1]}


def make_index(directory: Path, documents: int) -> None:
    """Build an index of artificial documents."""
    made = random.Random(0)

    def text(number: int) -> str:
        paragraphs = (" ".join(made.choices(WORDS, k=60)) + f" {made.randrange(1000)}." for _ in range(8))
        return f"# Document {number}\n\n" + "\n\n".join(paragraphs)

    with mw.open(directory) as index:
        index.add([mw.Document(f"made/{number}", text(number)) for number in range(documents)])


def _pin_to(cores: Sequence[int]) -> None:
    """Move this process and all its threads to `cores`, but not the processes it started."""
    for thread in Path("/proc/self/task").iterdir():
        os.sched_setaffinity(int(thread.name), cores)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--index", type=Path, help="Index to copy (default: artificial documents)")
    parser.add_argument("--documents", type=int, default=200, help="Number of artificial documents")
    parser.add_argument("--workers", type=int, default=min(os.cpu_count() or 1, 4))
    parser.add_argument("--seconds", type=float, default=20.0, help="Seconds per part")
    parser.add_argument("--questions", type=int, default=100, help="Questions in the parts that count them")
    parser.add_argument("--readers", type=int, default=50)
    parser.add_argument("--streams", type=int, default=120)
    parser.add_argument("--apart", action="store_true", help="Give the server its own cores, one per worker")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="Parts to run, separated by commas")
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="mergewise-load-") as directory:
        data = Path(directory)
        index = data / "collections" / COLLECTION / "index"
        if asked.index is None:
            make_index(index, asked.documents)
        else:
            shutil.copytree(asked.index, index)
        cores = sorted(os.sched_getaffinity(0))
        own, others = (cores[: asked.workers], cores[asked.workers :]) if asked.apart else (cores, cores)
        os.sched_setaffinity(0, own)  # child processes inherit the affinity
        with running_server(data, [SLOW], workers=asked.workers, collections=[COLLECTION]) as server:
            _pin_to(others)
            load = Load(server, asked.seed)
            cpu = load.cpu(asked.questions)
            parts: dict[str, Callable[[], dict[str, Any]]] = {
                "throughput": lambda: load.throughput(asked.seconds, cpu, asked.workers),
                "readers": lambda: load.readers(asked.readers, asked.seconds),
                "overload": lambda: load.overload(max(10, 5 * 32 * asked.workers // 4), min(asked.seconds, 20)),
                "streams": lambda: load.streams(asked.streams, asked.questions),
            }
            print(json.dumps({"part": "cpu", **cpu}), flush=True)
            for name, part in parts.items():
                if not asked.only or name in asked.only.split(","):
                    print(json.dumps({"part": name, **part()}), flush=True)
                    time.sleep(1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
