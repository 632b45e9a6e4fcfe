"""The command `report`: its output, its files and its errors."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.evaluate.measured_runs import saved_run
from typer.testing import CliRunner

from mergewise.cli.main import app
from mergewise.errors import UsageError


def run(*arguments: str) -> str:
    done = CliRunner().invoke(app, ["report", *arguments])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    saved_run(tmp_path / "run", ("topk", "weave", "dos"))
    return tmp_path / "run"


def test_without_files_the_tables_are_printed(folder: Path) -> None:
    out = run(str(folder), "--reference", "dos", "--table", "mrag-2")
    assert "At 128 tokens weave has the highest evidence: 0.950" in out
    lines = [line.split() for line in out.splitlines()]
    assert ["weave", "0.950*", "0.950*", "0.950*"] in lines
    assert ["topk", "0.500+", "0.500+", "0.500+"] in lines
    assert ["Fixed-Size", "(6.60)", "(9.52)", "(10.94)", "(13.16)"] in [line[:5] for line in lines]
    assert "needs a chat model (--chat)" in out


def test_all_files_are_written(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    names = {"--html": "p.html", "--md": "t.md", "--csv": "f.csv"}
    options = [part for option, name in names.items() for part in (option, str(out / name))]
    printed = run(str(folder), *options, "--svg", str(out / "curves"), "--metric", "all")
    assert all((out / name).stat().st_size > 500 for name in names.values())
    assert [one.name for one in sorted((out / "curves").iterdir())] == [
        "curves-2wiki.svg", "curves-mean-of-all-sets.svg", "curves-towns.svg"
    ]  # fmt: skip
    assert "written: " in printed and (out / "p.html").read_text().startswith("<!doctype html>")
    # two runs of the same rows give the same bytes
    run(str(folder), "--html", str(out / "again.html"), "--metric", "all")
    assert (out / "again.html").read_bytes() == (out / "p.html").read_bytes()


def test_invalid_runs_and_options_are_errors(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no run in "):
        run(str(tmp_path / "nothing"))
    with pytest.raises(UsageError, match="unknown table: 'mrag-9'"):
        run(str(folder), "--table", "mrag-9")
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot write"):
        run(str(folder), "--md", str(tmp_path / "file" / "t.md"))
    with pytest.raises(UsageError, match="unknown score: 'evidenz'"):
        run(str(folder), "--metric", "evidenz")
