"""The slice view on the command line: built, shown, searched, and used by `eval` for a strategy."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mergewise.cli.main import app
from mergewise.errors import UsageError

TEXT = (
    "# Towers\n\n" + "The tower of Arden was built in 1514 by a mason from Brook. The river floods it in spring. " * 20
)


def run(*words: str) -> str:
    done = CliRunner().invoke(app, list(words), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_the_slice_view_is_built_shown_and_searched(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text(TEXT)
    index = str(tmp_path / "index")
    run("index", str(tmp_path / "a.md"), "--index", index, "--embedder", "none")
    with pytest.raises(UsageError, match="--views leaf,slice"):
        run("context", "Which tower?", "--index", index, "--strategy", "macrag")
    run("index", str(tmp_path / "a.md"), "--index", index, "--views", "leaf, slice")
    views = json.loads(run("info", "--index", index, "--json"))["views"]
    assert views["chunk"] >= 2 and views["slice"] > views["chunk"]
    found = json.loads(run("context", "Who built the tower?", "--index", index, "--strategy", "macrag", "--json"))
    assert "mason from Brook" in found["text"]
    run("check", "--index", index)
    with pytest.raises(UsageError, match="unknown reranker"):
        run("context", "Who?", "--index", index, "--reranker", "nonsense")


def test_a_view_is_removed(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text(TEXT)
    index = str(tmp_path / "index")
    run("index", str(tmp_path / "a.md"), "--index", index, "--embedder", "none", "--views", "leaf,slice")
    assert run("remove", "--index", index, "--view", "slice") == "view removed: slice\n"
    assert json.loads(run("info", "--index", index, "--json"))["views"].keys() == {"leaf", "section", "name"}
    for words, problem in (
        (["--view", "slice"], "no such view"),
        (["--view", "leaf"], "cannot be removed"),
        (["--view", "slice", "--dry-run"], "expected documents or a view"),
        (["a.md", "--view", "slice"], "expected documents or a view"),
        ([], "expected documents or a view"),
    ):
        with pytest.raises(UsageError, match=problem):
            run("remove", "--index", index, *words)
    run("check", "--index", index)


def test_eval_opens_the_views_that_its_strategies_need(tmp_path: Path) -> None:
    evidence = [{"doc": "d", "start": 10, "end": 20, "text": TEXT[10:20]}]
    rows = {
        "corpus": {"id": "d", "title": "T", "text": TEXT},
        "questions": {"id": "q", "question": "Who built the tower?", "answers": ["mason"], "evidence": evidence},
    }
    for name, row in rows.items():
        with gzip.open(tmp_path / f"{name}.jsonl.gz", "wt") as file:
            file.write(json.dumps(row) + "\n")
    done = run(
        "eval", str(tmp_path), "--strategies", "topk,macrag,longrag", "--budgets", "100", "--embedder", "none",
        "--json", str(tmp_path / "rows.json"),
    )  # fmt: skip
    assert "macrag" in done
    assert [row["answer"] for row in json.loads((tmp_path / "rows.json").read_text())] == [1.0, 1.0, 1.0]
