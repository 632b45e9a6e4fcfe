"""Sources on the command line and in collections of the server."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from mergewise.cli.main import app
from mergewise.errors import UsageError
from mergewise.server.configuration import load_config
from mergewise.server.jobs.runner import JobRunner
from mergewise.server.processes import prepare
from mergewise.server.state import State
from tests.sources.serving import git


def run(*words: str) -> Result:
    return CliRunner().invoke(app, list(words), catch_exceptions=False)


@pytest.fixture
def address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the address of a repository with two files. The working directory is beside it."""
    folder = tmp_path / "manual"
    folder.mkdir()
    git(folder, "init", "--quiet")
    (folder / "lamp.md").write_text("# Lamp\n\nThe lamp shines for nine hours.\n")
    (folder / "battery.md").write_text("# Battery\n\nThe battery holds two ampere hours.\n")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "first")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return f"git+file://{folder}@main"


def test_the_command_line(address: str) -> None:
    folder = Path(address.removeprefix("git+file://").removesuffix("@main"))
    done = run("index", address, "--embedder", "none")
    assert done.exit_code == 0 and "2 added" in done.stdout
    commit = git(folder, "rev-parse", "HEAD")
    assert f"lamp.md@{commit[:12]}:3" in run("ask", "How long does the lamp shine?").stdout
    git(folder, "rm", "--quiet", "battery.md")
    git(folder, "commit", "--quiet", "-m", "second")
    done = run("index", address, "--sync", "--dry-run")
    assert "would be removed: battery.md" in done.stdout
    assert "removed: battery.md" in run("index", address, "--sync").stdout
    folder.rename(folder.parent / "away")
    done = run("index", address, "--sync")
    assert done.exit_code == 1 and f"not indexed: {address}: " in done.stderr and "1 documents in" in done.stdout
    with pytest.raises(UsageError, match="--watch follows folders only"):
        run("index", address, "--watch")
    done = run("remove", "--where", f"source = '{address}'", "--yes")
    assert done.exit_code == 0 and "1 removed; 0 documents left" in done.stdout


def test_a_collection_of_the_server(address: str, tmp_path: Path) -> None:
    data = tmp_path / "data"
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "chair.md").write_text("# Chair\n\nThe chair has four legs.\n")
    data.mkdir()
    table = f'[collections.manual]\nembedder = "none"\nfolders = ["{tmp_path}/docs"]\nsources = ["{address}"]\n'
    (data / "serve.toml").write_text(table)
    config = load_config(data)
    with State.of(config) as state:
        prepare(config, state)
        for expected in ((3, 0), (0, 3)):
            writer = JobRunner(config, state)
            job = state.jobs.enqueue("sync", "manual", {"folders": [address]} if not expected[0] else {})
            writer.run_round()
            writer.close()
            after = state.jobs.get(job.id)
            assert after is not None and after.state == "done" and after.report is not None
            assert after.report["added"] == expected[0] and after.report["failed"] == []
    (data / "serve.toml").write_text(table.replace(address, "manual"))
    with pytest.raises(UsageError, match=r"invalid collections\.manual\.sources: 'manual'"):
        load_config(data)
