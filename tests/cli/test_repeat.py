"""The command `repeat` on small sets: files are found, costs named, tables filled, figures compared, and a run continues."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.chat_server import ChatServer
from tests.cli.test_table_runs import play
from tests.cli.test_table_runs import system as system
from typer.testing import CliRunner, Result

from mergewise.cli.main import app

SETS = {"macrag": "hotpotqa", "mergerag": "2wiki", "m-rag": "narrativeqa", "aed-rag": "nq"}
TABLES = {"macrag": "1", "mergerag": "1", "m-rag": "2", "aed-rag": "2"}


def repeat(paper: str, data: Path, monkeypatch: pytest.MonkeyPatch, server: ChatServer, *more: str) -> Result:
    monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    monkeypatch.setenv("MERGEWISE_SCORER", "hf:scorer")
    monkeypatch.setenv("MERGEWISE_UTILITY", "cross-encoder:utility")
    monkeypatch.setenv("MERGEWISE_CAUSAL", "hf:reader" if paper == "aed-rag" else "none")
    monkeypatch.setenv("MERGEWISE_REPEATS", "1")
    monkeypatch.setenv("MERGEWISE_EMBEDDER", "st:hash")
    words = ["repeat", paper, "--data", str(data), "--tables", TABLES[paper], "--limit", "5", *more]
    words += ["--chat", "openai:scripted", "--reranker", "cross-encoder:marco"]
    return CliRunner().invoke(app, words, catch_exceptions=False)


def figures(done: Result) -> list[str]:
    return [line for line in done.output.splitlines() if line.endswith((" inside", " outside"))]


@pytest.mark.parametrize("paper", SETS)
def test_a_paper_is_repeated(paper: str, system: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, out = tmp_path / "data", tmp_path / f"repeat-{paper}"
    monkeypatch.chdir(tmp_path)
    shutil.copytree(system, data / "public" / SETS[paper])
    with ChatServer(play) as server:
        priced = repeat(paper, data, monkeypatch, server, "--dry-run")
        assert priced.exit_code == 0 and not server.asked and not out.exists(), priced.output
        assert f"{SETS[paper]}: {data / 'public' / SETS[paper]}" in priced.output.replace("\n", "")
        assert "no file of" in priced.output and "total: " in priced.output
        done = repeat(paper, data, monkeypatch, server)
        # a causal model of this machine is not called
        assert done.exit_code == 0 and ("hours" in done.output) == (paper != "aed-rag"), done.output
        compared = figures(done)
        assert len(compared) >= 3, done.output
        asked = len(server.asked)
        again = repeat(paper, data, monkeypatch, server)
        assert again.exit_code == 0 and len(server.asked) == asked, "a finished run asks nothing"
        assert figures(again) == compared


def test_an_empty_folder_and_an_unknown_paper_are_refused(tmp_path: Path) -> None:
    for paper, says in (("macrag", "no question set of macrag"), ("paper", "unknown paper")):
        done = CliRunner().invoke(app, ["repeat", paper, "--data", str(tmp_path)])
        assert says in str(done.exception), done.output
