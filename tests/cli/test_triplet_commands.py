"""Triplets on the command line: made by rules or a chat model, their estimated cost, their state and the trace."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from tests.chat_server import ChatServer
from tests.cli.invoking import invoke as run
from tests.command import run_text
from tests.designs.aed.tripling import good
from typer.testing import CliRunner

from mergewise.cli.main import app
from mergewise.errors import UsageError
from mergewise.models.scripted import Turn
from mergewise.types import Message

QUESTION = "Who built the mill?"
INDEX = ("index", "mill.md", "--views", "leaf,triplet", "--embedder", "none")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "mill.md").write_text(
        "# Norrby Mill\n\nNorrby Mill was built by Ella Stone in 1871. It has two wheels.\n\n"
        "# Books\n\nHer brother Per Stone kept the books until 1890.\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "300")
    return tmp_path


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    pytest.importorskip("openai")

    def turn(messages: Sequence[Message]) -> Turn:
        return Turn(good(messages))

    with ChatServer(turn) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        yield server


def run_separately(*words: str) -> str:
    """Run the command in a separate process, whose connections end with it."""
    done = run_text(words)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_triplets_by_rules_appear_in_the_trace(home: Path) -> None:
    run(*INDEX, "--set", "triplet.longest=20")
    shown = run("context", QUESTION, "--strategy", "aed(longest=20)", "--trace")
    assert "Norrby Mill | built by | Ella Stone" in shown and "(written, not quoted)" in shown
    assert "triplets by rules" in shown and "from mill.md:3" in shown
    body = json.loads(run("context", QUESTION, "--strategy", "aed(longest=20)", "--json"))
    sets = [step["triplets"] for step in body["trace"] if "triplets" in step]
    assert sets[0]["made"] == "rules" and {"head", "relation", "tail", "span"} == sets[0]["triplets"][0].keys()
    report = json.loads(run("info", "--view", "triplet", "--json"))
    assert report["made"] == {"rules": report["triplets"]} and report["triplets"] > 2 and report["calls"] == 0
    assert "by rules" in run("info", "--view", "triplet") and "extraction: 1 rows" in run("info")
    run("check")


def test_the_cost_is_estimated_and_the_chat_model_asked_once(
    home: Path, server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MERGEWISE_PRICE_IN", "1")
    monkeypatch.setenv("MERGEWISE_PRICE_OUT", "2")
    chat = ("--chat", "openai:m", "--set", "triplet.longest=20", "--set", "triplet.attempts=1")
    body = json.loads(run_separately(*INDEX, *chat, "--dry-run", "--json"))
    assert body["documents"] == 1 and body["calls"] >= 1 and body["cost"] > 0 and not server.asked
    run_separately(*INDEX, *chat)
    assert len(server.asked) == body["calls"]
    report = json.loads(run("info", "--view", "triplet", "--json"))
    assert report["made"] == {"model": report["triplets"]} and report["calls"] == body["calls"]
    assert "by model" in run("info", "--view", "triplet")
    run_separately(*INDEX, *chat)
    assert len(server.asked) == body["calls"], "nothing is paid twice"
    body = json.loads(run_separately(*INDEX, *chat, "--dry-run", "--json"))
    assert body["calls"] == 0


def test_error_without_triplets_names_the_command(home: Path) -> None:
    run("index", "mill.md", "--embedder", "none")
    result = CliRunner().invoke(app, ["info", "--view", "triplet"])
    assert isinstance(result.exception, UsageError) and "--views leaf,triplet" in result.exception.hint
    result = CliRunner().invoke(app, ["info", "--view", "leaf"])
    assert isinstance(result.exception, UsageError) and "no report for the view 'leaf'" in result.exception.message
    assert "marker, triplet" in result.exception.hint
    result = CliRunner().invoke(app, ["info", "--view", "nope"])
    assert isinstance(result.exception, UsageError) and "unknown view: 'nope'" in result.exception.message


def test_a_run_without_a_folder_writes_the_missing_triplets(home: Path, server: ChatServer) -> None:
    run_separately(*INDEX, "--chat", "openai:m", "--embed", "later")
    assert not server.asked
    run_separately("index", "--chat", "openai:m")
    assert json.loads(run("info", "--view", "triplet", "--json"))["calls"] == len(server.asked) > 0
