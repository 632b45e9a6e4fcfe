"""The cost of markers: estimated before the first call, and never paid twice, even after a kill."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import mergewise
from mergewise.index.writing.write import AT_ONCE
from mergewise.models.cache import FILE, call_key
from mergewise.models.scripted import ChatRequest, Turn
from mergewise.types import Document, Message
from tests.chat_server import ChatServer
from tests.command import run_text
from tests.designs.mrag.marking import good

pytest.importorskip("openai")
KILLS = int(os.environ.get("MERGEWISE_KILLS", "1"))  # `make chaos` uses more
MERGEWISE = (sys.executable, "-c", "from mergewise.cli.main import main; main()")
SETS = ("--set", "marker.segment=48", "--set", "marker.window=300")


def text(number: int, bridges: int = 12) -> str:
    return f"# Valley {number}\n\n" + "\n\n".join(
        f"In {1900 + n} the town of Brook{n}x{number} built bridge {n} over the Elm. Anna Stone{n} led it, who had learnt in "
        f"Rome. It cost {n + 3} thousand crowns and stood for {n} years in wind and rain."
        for n in range(1, bridges + 1)
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "documents"
    folder.mkdir()
    for number in range(10):
        (folder / f"{number}.md").write_text(text(number))
    return folder


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Any], ChatServer]]:
    servers: list[ChatServer] = []

    def start(script: Any) -> ChatServer:
        servers.append(ChatServer(script).__enter__())
        monkeypatch.setenv("OPENAI_BASE_URL", servers[-1].base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        return servers[-1]

    yield start
    for server in servers:
        server.__exit__()


def command(*words: object, code: int = 0) -> str:
    done = run_text(words)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout if "--json" in words else done.stdout + done.stderr


def index_words(folder: Path, index: Path, *more: object) -> list[object]:
    return [
        "index",
        folder,
        "--index",
        index,
        "--embedder",
        "none",
        "--views",
        "leaf,marker",
        "--chat",
        "openai:m",
        *SETS,
        *more,
    ]


def test_estimate_is_close_to_the_actual_cost(
    serve: Any, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve(lambda messages: Turn(good(messages)))
    index = tmp_path / "i"
    monkeypatch.setenv("MERGEWISE_PRICE_IN", "2")
    monkeypatch.setenv("MERGEWISE_PRICE_OUT", "8")
    expected = json.loads(command(*index_words(folder, index, "--dry-run", "--json")))
    assert not server.asked and not index.exists()
    command(*index_words(folder, index))
    report = mergewise.open(index, create=False)
    spent = [
        rows["marking"][0] for rows in report.store.reader().document_rows([info.id for info in report.documents()])
    ]
    calls, read, written = (
        sum(getattr(one, name) for one in spent) for name in ("calls", "input_tokens", "output_tokens")
    )
    assert expected["documents"] == 10 and expected["calls"] == calls == len(server.asked) and expected["kept"] == 0
    assert expected["input_tokens"] == pytest.approx(read, rel=0.15)
    assert expected["output_tokens"] == pytest.approx(written, rel=0.15)
    assert expected["cost"] == pytest.approx((2 * read + 8 * written) / 1e6, rel=0.15)
    monkeypatch.delenv("MERGEWISE_PRICE_IN")
    monkeypatch.delenv("MERGEWISE_PRICE_OUT")
    after = json.loads(command(*index_words(folder, index, "--dry-run", "--json")))
    assert after["calls"] == after["documents"] == 0 and after["cost"] is None


def test_estimate_counts_new_documents_and_documents_without_the_view(serve: Any, folder: Path, tmp_path: Path) -> None:
    server = serve(lambda messages: Turn(good(messages)))
    index = tmp_path / "i"
    mergewise.open(index, embedder="none").add(folder)
    (folder / "new.md").write_text(text(77))
    expected = json.loads(command(*index_words(folder, index, "--dry-run", "--json")))
    assert expected["documents"] == 11
    command(*index_words(folder, index))
    assert len(server.asked) == expected["calls"]
    (folder / "new.md").write_text(text(78))
    (folder / "newer.md").write_text(text(79))
    assert json.loads(command(*index_words(folder, index, "--dry-run", "--json")))["documents"] == 2
    output = command(*index_words(folder, index, "--dry-run"))
    assert "2 documents: " in output and "cost" not in output and len(server.asked) == expected["calls"]
    assert "dry run, nothing changed" in command(*index_words(folder, index, "--dry-run", "--sync"))


def test_dry_run_needs_a_model_or_sync(folder: Path, tmp_path: Path) -> None:
    assert "--dry-run requires" in command("index", folder, "--index", tmp_path / "i", "--dry-run", code=2)


def test_info_reports_the_view(serve: Any, folder: Path, tmp_path: Path) -> None:
    serve(lambda messages: Turn(good(messages)))
    index = tmp_path / "i"
    command(*index_words(folder, index))
    output = command("info", "--index", index, "--view", "marker")
    assert "10 documents" in output and "coverage: mean 100.00%" in output and "keys: " in output
    report = json.loads(command("info", "--index", index, "--view", "marker", "--json"))
    assert report["documents"] == 10 and report["coverage"] == {"mean": 1.0, "variance": 0.0, "least": 1.0}
    assert report["unfinished"] == {} and report["attempts"] == 1
    mergewise.open(tmp_path / "bare", embedder="none").add(Document("d", "Text."))
    assert "--views leaf,marker" in command("info", "--index", tmp_path / "bare", "--view", "marker", code=2)


# -- kills

WRITER = """
import sys
import mergewise
from mergewise.index import pipeline
from mergewise.designs.mrag.markers import MarkerSettings

pipeline.BATCH_DOCUMENTS = 6
print("ready", flush=True)
index = mergewise.open(sys.argv[1], embedder="none", chat="openai:m",
                       settings={"marker": MarkerSettings(made="model", segment=48, window=150, policy=sys.argv[3])})
index.add(sys.argv[2])
print("done", flush=True)
"""


def kept_in(index: Path) -> set[bytes]:
    """Return the keys of the stored answers."""
    file = index / ".summaries" / FILE
    if not file.exists():
        return set()
    with sqlite3.connect(file) as database:
        return {key for (key,) in database.execute("SELECT key FROM replies")}


def key_of(call: ChatRequest, chat: Any) -> bytes:
    return call_key(chat.identity, call.messages, call.max_tokens, call.schema)


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["rest", "again"] if KILLS > 1 else ["rest"])
def test_no_call_is_paid_twice_after_kills(policy: str, serve: Any, folder: Path, tmp_path: Path) -> None:
    """A kill loses only the calls in progress, because no process is left to store their answers."""
    from mergewise.models.openai_chat import OpenAIChat

    def turn(messages: Sequence[Message]) -> Turn:
        kind = sum(messages[-1].text.encode()) % 3
        whole = good(messages)
        listed = json.loads(whole)["markers"]
        return Turn([whole, json.dumps({"markers": listed[::2]}), whole[: len(whole) // 2]][kind], pause=0.05)

    server = serve(turn)
    index = tmp_path / "i"
    chat = OpenAIChat("m")
    draw = random.Random(3)
    lost = killed = seen = 0
    while killed < KILLS:
        number = len(list(folder.iterdir()))
        before = kept_in(index)
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, index, folder, policy],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as writer:
            assert writer.stdout is not None and writer.stdout.readline() == "ready\n"
            time.sleep(draw.uniform(0.5, 4.0))
            writer.send_signal(signal.SIGKILL)
            if writer.stdout.read() == "done\n":
                for more in range(number, number + 4):
                    (folder / f"{more}.md").write_text(text(more))
            else:
                killed += 1
        time.sleep(0.2)  # let the server finish its requests
        made = server.asked[seen:]
        seen = len(server.asked)
        keys = [key_of(call, chat) for call in made]
        after = kept_in(index)
        assert not before & set(keys), "stored answer requested again"
        assert len(set(keys)) == len(keys), "duplicate request in one run"
        assert len(set(keys) - after) <= AT_ONCE, "more lost than in progress"
        lost += len(set(keys) - after)
    finished = subprocess.run(
        [sys.executable, "-c", WRITER, index, folder, policy], capture_output=True, text=True, check=True
    )
    assert finished.stdout.endswith("done\n")
    everything = kept_in(index)
    assert len(server.asked) == len(everything) + lost, "each call is paid once, except those lost by a kill"
    opened = mergewise.open(index, create=False)
    assert opened.check() == [] and len(opened) == len(list(folder.iterdir()))
