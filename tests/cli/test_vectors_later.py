"""Vectors that are computed later, on the command line: skipped, continued, interrupted and reported."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from mergewise.cli.main import app
from mergewise.errors import UsageError
from mergewise.index import pipeline, vectors
from mergewise.models.onnx import OnnxPartEmbedder
from mergewise.protocols import FloatArray

WAITING = "vectors: 0 of 4 leaves; run `mergewise index` to continue"


def run(*words: str) -> Result:
    return CliRunner().invoke(app, list(words), catch_exceptions=False)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Working directory with a folder of four short documents."""
    docs = tmp_path / "docs"
    docs.mkdir()
    for number, animal in enumerate(("cat", "dog", "owl", "fox")):
        (docs / f"{animal}.md").write_text(
            f"# {animal.title()}\n\nThe {animal} sleeps for {number + 11} hours a day.\n"
        )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pipeline, "SMALL", 50)
    monkeypatch.setattr(vectors, "CHANGE_LEAVES", 1)
    return tmp_path


def test_the_next_run_makes_missing_vectors(home: Path) -> None:
    left = run("index", "docs", "--embed", "later")
    assert "4 added" in left.stdout and WAITING in left.stderr
    assert WAITING in run("info").stdout
    asked = run("ask", "How long does the owl sleep?")
    assert "13 hours" in asked.stdout and WAITING in asked.stderr and asked.stderr.count("vectors:") == 1
    done = run("index")
    assert done.stdout == "vectors: 4 of 4 leaves, in mergewise.index\n"
    assert "vectors" not in run("info").stdout
    assert json.loads(run("info", "--json").stdout)["vectors"] == {"leaves": 4, "embedded": 4, "waiting": 0}
    assert json.loads(run("index", "--json").stdout) == {"leaves": 4, "embedded": 4, "waiting": 0}
    assert run("check").exit_code == 0


def test_indexing_again_continues(home: Path) -> None:
    run("index", "docs", "--embed", "later")
    again = run("index", "docs")
    assert "4 unchanged" in again.stdout and "vectors" not in again.stderr
    assert json.loads(run("info", "--json").stdout)["vectors"]["waiting"] == 0


def test_ctrl_c_reports_saved_work_and_the_next_command(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    embed, calls = OnnxPartEmbedder.embed_parts, []

    def interrupted(
        self: OnnxPartEmbedder, texts: Sequence[str], parts: Sequence[Sequence[tuple[int, int]]]
    ) -> tuple[FloatArray, list[FloatArray]]:
        calls.append(texts)
        if len(calls) > 2:
            raise KeyboardInterrupt
        return embed(self, texts, parts)

    with monkeypatch.context() as patched:
        patched.setattr(OnnxPartEmbedder, "embed_parts", interrupted)
        broken = CliRunner().invoke(app, ["index", "docs"])
    assert broken.exit_code != 0
    assert "mergewise: interrupted: 4 documents saved, 2 of 4 leaves with vectors" in broken.stderr
    assert "run the same command again to continue" in broken.stderr
    assert "vectors: 2 of 4 leaves" in run("info").stdout
    assert "4 unchanged" in run("index", "docs").stdout
    assert "vectors" not in run("info").stdout


def test_an_index_without_embedder_has_no_missing_vectors(home: Path) -> None:
    done = run("index", "docs", "--embedder", "none", "--embed", "later")
    assert "vectors" not in done.stdout + done.stderr + run("info").stdout
    assert json.loads(run("info", "--json").stdout)["vectors"] == {"leaves": 4, "embedded": 0, "waiting": 0}
    assert run("index").stdout == "no vectors: embedder none, in mergewise.index\n"


def test_options_without_a_folder_are_errors(home: Path) -> None:
    with pytest.raises(UsageError, match="index not found"):
        run("index")
    with pytest.raises(UsageError, match="missing folder"):
        run("index", "--sync")
    with pytest.raises(UsageError, match="invalid --embed: 'soon'"):
        run("index", "docs", "--embed", "soon")
    assert not (home / "mergewise.index").exists()


def test_a_question_beside_indexing_says_so(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    embed, read, asked = OnnxPartEmbedder.embed_parts, pipeline.carry_out, list[Result]()

    def ask(function: Any) -> Any:
        def asking(*given: Any, **options: Any) -> Any:
            if len(asked) < 2:
                asked.append(run("ask", "How long does the owl sleep?", "-s", "bm25"))
            return function(*given, **options)

        return asking

    with monkeypatch.context() as patched:
        patched.setattr(pipeline, "carry_out", ask(read))
        patched.setattr(OnnxPartEmbedder, "embed_parts", ask(embed))
        assert run("index", "docs").exit_code == 0
    before, beside = asked
    # no document is written yet, then no vector
    assert "has no documents\n  another process is indexing: ask again" in before.stderr
    assert "vectors: 0 of 4 leaves; another process is indexing\n" in beside.stderr and "13 hours" in beside.stdout
    # a killed process holds no lock
    run("index", "docs", "-i", "other", "--embed", "later")
    (home / "other/.indexing").touch()
    assert WAITING in run("ask", "How long does the owl sleep?", "-i", "other").stderr
