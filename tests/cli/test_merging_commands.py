"""Merging on the command line: the tree of merges, and the models that take part."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from tests.chat_server import ChatServer
from tests.command import run_text

TEXT = "".join(
    f"# Animal {i}\n\nAnimal {i} eats food number {i} and nothing else. It sleeps at noon. Its fur is grey.\n\n"
    for i in range(12)
)
QUESTION = "What does animal 7 eat?"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    (folder / "animals.md").write_text(TEXT)
    assert run(folder, "index", "animals.md", "--embedder", "none").returncode == 0
    return folder


def run(cwd: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return run_text(words, cwd, {"PATH": "/usr/bin:/bin", "HOME": str(cwd), "COLUMNS": "300", **env})


@pytest.mark.parametrize("strategy", ["mergerag-sym", "mergerag-asym"])
def test_the_trace_is_a_tree(home: Path, strategy: str) -> None:
    done = run(home, "context", QUESTION, "--strategy", strategy, "--budget", "60", "--trace")
    assert done.returncode == 0, done.stderr
    assert "Animal 7 eats food number 7" in done.stdout
    assert re.search(r"merged: \d+ chunks to \d+: \d rounds", done.stdout)
    assert re.search(r"[├└]── .*score [\d.]+, \d+ tokens: round \d, extractive, \d+ \+ \d+ → \d+ tokens", done.stdout)
    assert ("NLL" in done.stdout) == (strategy == "mergerag-asym")
    assert max(line.count("│") + line.count("    ") for line in done.stdout.splitlines() if "──" in line) >= 2


def test_the_selection_of_another_strategy_is_merged(home: Path) -> None:
    done = run(home, "context", QUESTION, "--strategy", "topk", "--merge-with", "mergerag-sym", "--budget", "60")
    assert done.returncode == 0 and "topk then mergerag-sym" in done.stderr
    assert run(home, "context", QUESTION, "--merge-with", "topk").returncode == 2
    assert run(home, "ask", QUESTION, "--merge-with", "mergerag-sym", "--budget", "60").returncode == 0


def test_a_chat_model_points(home: Path) -> None:
    pytest.importorskip("openai")
    with ChatServer(['{"keep":[1]}']) as server:
        address = {"OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": "x"}
        words = ("--strategy", "mergerag-asym", "--budget", "60", "--chat", "openai:m")
        done = run(home, "context", QUESTION, *words, "--trace", **address)
    assert done.returncode == 0, done.stderr
    assert "point" in done.stdout and "1 call" in done.stdout and len(server.asked) > 0


def test_invalid_scorers_are_errors(home: Path) -> None:
    done = run(home, "compare", QUESTION, MERGEWISE_SCORER="magic")
    assert done.returncode == 2 and "unknown scorer" in done.stderr and "hf:PATH" in done.stderr
