"""The command `eval` with a chat model behind HTTP: rows are filled, judged, and marked as scripted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.chat_server import ChatServer
from tests.evaluate.towns import WordReranker, saved_task
from typer.testing import CliRunner

from mergewise.cli.main import app
from mergewise.evaluate.report import PLUMBING
from mergewise.evaluate.runs.run_folder import open_run
from mergewise.models import RERANKERS
from mergewise.types import Message

GRADED = '{"answer": "1502", "relevant": true, "support": "full", "useful": 5}'
METHODS = "naive,rag-1,recomp-abstractive,gainrag-5,aed-2,tree-rag,crag,self-rag"


def answer(messages: Sequence[Message]) -> str:
    """Reply with grades if the prompt asks for them, else with a year and a citation."""
    return GRADED if any("JSON" in message.text for message in messages) else "1502 [1]."


def test_an_endpoint_fills_rows_and_all_reports_say_that_it_is_scripted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, text, run = tmp_path / "page.html", tmp_path / "tables.md", tmp_path / "run"
    words = [str(saved_task(tmp_path / "towns")), "--answers", "--embedder", "none", "-n", "1", "--methods", METHODS]
    words += ["--chat", "openai:scripted", "--out", str(run), "--html", str(page), "--md", str(text)]
    with ChatServer(answer) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "any")
        monkeypatch.setitem(RERANKERS, "cross-encoder:PATH_OR_NAME", lambda name: WordReranker())
        monkeypatch.setenv("MERGEWISE_UTILITY", "cross-encoder:words")
        done = CliRunner().invoke(app, ["eval", *words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    rows = open_run(run).rows()
    modes = dict(zip(rows["method"].to_pylist(), rows["mode"].to_pylist(), strict=True))
    # one prompt needs no probabilities of tokens, several do
    assert modes["gainrag-5"] == "aed-best" and set(modes) == set(METHODS.split(",")) - {"aed-2"}
    assert "needs a causal model" in done.output and set(rows["error"].to_pylist()) == {""}
    assert len(server.asked) == sum(rows["paid_calls"].to_pylist()) >= len(modes)
    assert None not in rows["prediction"].to_pylist() and None not in rows["f1"].to_pylist()
    assert PLUMBING in done.output and f'data-warning="{PLUMBING}"' in page.read_text()
    assert f"> **{PLUMBING}**" in text.read_text()
