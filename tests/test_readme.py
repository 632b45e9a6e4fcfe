"""The README runs as printed: its Python and its commands, in a folder that has the documentation and nothing else."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from mergewise.cli.main import app
from mergewise.designs import STRATEGIES

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
GUIDE = (ROOT / "docs/guide.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("readme")
    shutil.copytree(ROOT / "docs", folder / "docs")
    return folder


def test_the_python_runs(home: Path) -> None:
    (code,) = blocks("python")
    done = subprocess.run([sys.executable, "-c", code], cwd=home, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "added 0 failed" in done.stdout
    assert "“" in done.stdout and "manifest" in done.stdout


def test_the_commands_run(home: Path) -> None:
    commands = [line.split("  #")[0] for block in blocks("sh") for line in block.splitlines()]
    commands = [command for command in commands if command.startswith("mergewise ")]
    assert len(commands) == 9
    for command in commands:
        words = [str(Path(sys.executable).parent / "mergewise"), *shlex.split(command)[1:]]
        done = subprocess.run(words, cwd=home, capture_output=True, text=True)
        assert done.returncode == 0, (command, done.stderr)
        assert done.stdout


def test_every_command_and_strategy_is_documented() -> None:
    for command in typer.main.get_command(app).commands:  # type: ignore[attr-defined]
        assert f"mergewise {command}" in README + GUIDE or f"make {command}" in README, command
    for name in STRATEGIES:
        assert f"`{name}`" in README, name


def test_the_targets_that_the_readme_names_exist() -> None:
    targets = re.findall(r"^make (\w+)", README, re.MULTILINE)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert targets and all(f"\n{target}:" in makefile for target in targets)
