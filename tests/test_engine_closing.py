"""An index as a context manager: released resources, and errors of a closed index."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import mergewise as mw
from mergewise.models import release
from mergewise.models.openai_chat import OpenAIChat
from mergewise.models.scripted import ScriptedChat
from mergewise.types import Message
from tests.chat_server import ChatServer

CATS = mw.Document("cats", "Cats eat fish.")


def test_closed_index_raises(tmp_path: Path) -> None:
    with mw.open(tmp_path / "index", embedder="none") as index:
        index.add(CATS)
        assert index.ask("What do cats eat?").found
    for use in (
        lambda: index.ask("cats"),
        lambda: index.context("cats"),
        lambda: index.ask_many(["cats"]),
        lambda: index.ask_stream("cats").answer(),
        lambda: asyncio.run(index.aask("cats")),
        lambda: index.add(CATS),
        lambda: index.remove(["cats"]),
        lambda: index.check(),
        lambda: index.documents(),
        lambda: index.document("cats"),
        lambda: len(index),
        lambda: index.manifest,
        lambda: index.embedder,
    ):
        with pytest.raises(mw.UsageError, match=r"index is closed \(open it again"):
            use()
    index.close()
    assert repr(index) == f"Index({str(tmp_path / 'index')!r}, closed)"
    with mw.open(tmp_path / "index") as again:
        assert len(again) == 1


def test_index_is_closed_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), mw.open(tmp_path, embedder="none") as index:
        raise ZeroDivisionError
    with pytest.raises(mw.UsageError, match="closed"):
        len(index)


def test_closing_releases_loaded_models_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    released: list[object] = []
    monkeypatch.setattr("mergewise.engine.release", released.append)
    monkeypatch.setattr("mergewise.opening.load_reranker", lambda spec: spec)
    chat = ScriptedChat(["Fish [1]."])
    index = mw.open(tmp_path / "a", embedder="none", chat=chat, reranker="named")
    index.close()
    index.close()
    assert released == ["named", None]  # the scorer `lm` is None
    assert index.chat is None and index.reranker is None


def test_connections_are_closed() -> None:
    from mergewise.concurrency import run

    with ChatServer(["Fish."]) as server:
        chat = OpenAIChat("m", base_url=server.base_url, api_key="k")
        assert run(chat.complete([Message("user", "q")])).text == "Fish."
        assert len(chat._endpoint._clients._clients) == 1
        release(chat)
        assert len(chat._endpoint._clients._clients) == 0
        release(chat)
        release(object())


def test_running_question_finishes_after_closing(tmp_path: Path) -> None:
    def close_and_answer(messages: Sequence[Message]) -> str:
        index.close()
        return "Fish [1]."

    index = mw.open(tmp_path, embedder="none", chat=ScriptedChat(close_and_answer))
    index.add(CATS)
    assert index.ask("What do cats eat?").text == "Fish [1]."
    with pytest.raises(mw.UsageError, match="closed"):
        index.ask("What do cats eat?")


ROUNDS = """
import gc, sys, threading
from pathlib import Path
import mergewise as mw

counts = []
for _ in range(50):
    with mw.open(sys.argv[1]) as index:
        assert index.ask("What do cats eat?").found
    del index
    gc.collect()
    counts.append((len(list(Path("/proc/self/fd").iterdir())), threading.active_count()))
assert counts[-1] == counts[4], counts
"""


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="this system does not list open files")
def test_rounds_of_opening_asking_and_closing_leave_nothing_open(tmp_path: Path) -> None:
    with mw.open(tmp_path / "index", embedder="none") as index:
        index.add(CATS)
    # in a process of its own, because threads of earlier tests end at any time
    run = subprocess.run([sys.executable, "-c", ROUNDS, tmp_path / "index"], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


FORKED = """
import os, sys, warnings
import mergewise as mw

warnings.simplefilter("ignore")
index = mw.open(sys.argv[1])
if sys.argv[2] == "used":
    index.ask("What do cats eat?")
if child := os.fork():
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
for use in (lambda: index.ask("What do cats eat?").text, lambda: index.add(mw.Document("dogs", "Dogs eat meat.")).added):
    try:
        print(use())
    except mw.MergewiseError as error:
        print(type(error).__name__, error)
sys.stdout.flush()
os._exit(0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize("parent", ["used", "opened"])
def test_forked_process_uses_an_index_or_says_why_not(tmp_path: Path, parent: str) -> None:
    with mw.open(tmp_path / "index", embedder="none") as index:
        index.add(CATS)
    command = [sys.executable, "-c", FORKED, str(tmp_path / "index"), parent]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    asked, added = done.stdout.splitlines()
    if parent == "used":
        assert "this process was forked after an index was used" in asked and "forked" in added
    else:
        assert "Cats eat fish." in asked and added == "1"
