"""The logger `mergewise`: it logs the steps of a question, but no texts."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
from pathlib import Path

import pytest

import mergewise as mw
from mergewise.models.openai_chat import OpenAIChat
from mergewise.models.scripted import Turn
from tests.chat_server import ChatServer


def messages(caplog: pytest.LogCaptureFixture, level: int) -> str:
    return "\n".join(r.getMessage() for r in caplog.records if r.name == "mergewise" and r.levelno >= level)


def test_steps_are_logged_without_texts(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="mergewise")
    (tmp_path / "broken.pdf").write_bytes(b"no pdf")
    with mw.open(tmp_path / "index", embedder="none") as index:
        index.add(mw.Document("cats", "Cats eat fish."), tmp_path / "broken.pdf")
        index.ask("What do cats eat?")
        index.prepare("Where do cats sleep?").answer()
        index.remove(["cats"])
    told = messages(caplog, logging.INFO)
    for step in (
        f"opened {tmp_path / 'index'}: embedder none, views leaf",
        "indexed: AddReport(added=1, failed=1, changes=1)",
        "context by weave: 1 passages",
        "answered by extractive: 1 citations, 0 calls",
        "removed 1 documents",
        f"closed {tmp_path / 'index'}",
    ):
        assert step in told
    assert told.count("answered by extractive") == 2
    assert "cats" not in told and "fish" not in told
    more = messages(caplog, logging.DEBUG)
    assert "asked 'What do cats eat?'" in more and re.search(r"cannot read .*broken\.pdf: ", more)
    assert "searched: 1 rows by text, 0 by vectors" in more
    assert "Cats eat fish" not in more


def test_retries_are_logged_without_the_key(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    from mergewise.concurrency import run
    from mergewise.types import Message

    monkeypatch.setattr("mergewise.models.openai_chat._PAUSE", 0.0)
    caplog.set_level(logging.DEBUG, logger="mergewise")
    # a stream that breaks before its first piece is retried
    with ChatServer([Turn("Fish", fault="truncate"), "Fish."]) as server:
        chat = OpenAIChat("m", base_url=server.base_url, api_key="secret-key")

        async def read() -> list[object]:
            return [piece async for piece in chat.stream([Message("user", "q")])]

        # where the stream is cut depends on the time
        assert "".join(piece for piece in run(read()) if isinstance(piece, str)) == "Fish."
        run(chat.aclose())
    told = messages(caplog, logging.INFO)
    assert "stream of openai:m broke" in told and "retrying" in told
    assert "secret-key" not in caplog.text


def test_nothing_is_printed_unless_logging_is_set_up(tmp_path: Path) -> None:
    code = f"""
import logging, mergewise
logging.getLogger("mergewise").warning("unheard")
mergewise.open({str(tmp_path)!r}, embedder="none")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == done.stderr == ""


def test_nothing_is_printed_without_handlers() -> None:
    code = "import logging, mergewise; logging.getLogger('mergewise').warning('a retry')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == ""
