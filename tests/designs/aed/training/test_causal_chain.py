"""`python -m benchmarks.aed_chain` on a small set: every command of AED-RAG, with models that it creates itself."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mergewise.cli.main import app
from mergewise.evaluate.question_sets import Question, QuestionSet
from mergewise.types import Document

pytest.importorskip("torch", reason="the extra `hf` is not installed")
pytest.importorskip("transformers", reason="the extra `hf` is not installed")
pytest.importorskip("onnx", reason="the extra `train` is not installed")

from benchmarks import aed_chain

TOWNS = [a + b for a in ("Ash", "Bram", "Cor", "Dun") for b in ("bury", "dale", "ford")]


@pytest.fixture
def task() -> QuestionSet:
    texts = {town: f"{town} is a town. It was founded by {town[::-1].title()}, a mason." for town in TOWNS}
    documents = tuple(Document(town, text, town) for town, text in texts.items())
    asked = tuple(Question(town, f"Who founded {town}?", (town[::-1].title(),), None) for town in TOWNS)
    return QuestionSet("towns", documents, asked)


def test_chain_runs_every_command(
    task: QuestionSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    called: list[str] = []

    def mergewise(arguments: Sequence[str], folder: Path) -> str:
        monkeypatch.chdir(folder)
        called.append(arguments[0])
        done = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.output

    monkeypatch.setattr(aed_chain, "mergewise", mergewise)
    monkeypatch.setenv("MERGEWISE_UTILITY", aed_chain.UTILITY)
    monkeypatch.setenv("MERGEWISE_MAX_TOKENS", "16")
    aed_chain.chain(task, 6, 2, 2, tmp_path / "chain")
    assert called == ["index", "train", "train", "ask", "eval", "eval", "eval"]
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    assert len(rows) == 2 + 1 + len(called)
    output = (tmp_path / "chain" / "output.txt").read_text()
    assert "12 added" in output and "6 questions labelled" in output and "trained on" in output
    for name in ("aed-2", "replug", "r&b"):
        [row] = json.loads((tmp_path / "chain" / f"{name}.json").read_text())
        assert row["questions"] == 2 and row["input_tokens"] > 50 and row["output_tokens"] > 0


def test_non_empty_folder_is_not_changed(task: QuestionSet, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(SystemExit, match="not empty"):
        aed_chain.chain(task, 6, 2, 2, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
