"""The README runs as printed, in a folder that has its example and nothing else."""

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

ROOT = Path(__file__).parents[1]
COMMAND = str(Path(sys.executable).parent / "mergewise")
README = (ROOT / "README.md").read_text(encoding="utf-8")
GUIDE = "".join((ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("guide.md", "serve.md"))


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("readme")
    shutil.copytree(ROOT / "examples", folder / "examples")
    return folder


def test_the_commands_print_what_the_readme_shows(home: Path) -> None:
    (block,) = blocks("console")
    shown = re.findall(r"^\$ mergewise (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)
    assert [shlex.split(words)[0] for words, _ in shown] == ["index", "ask", "context"]
    for words, output in shown:
        done = subprocess.run([COMMAND, *shlex.split(words)], cwd=home, capture_output=True, text=True)
        assert done.returncode == 0, (words, done.stderr)
        assert done.stdout.strip() == output.strip(), words


def test_what_the_readme_says_of_topk_holds(home: Path) -> None:
    index = ["--index", "topk.index"]
    subprocess.run([COMMAND, "index", "examples/town", *index], cwd=home, capture_output=True, check=True)
    words = ["Where was the designer of the Red Mill born?", "--budget", "60", "--strategy", "topk", *index]
    done = subprocess.run([COMMAND, "context", *words], cwd=home, capture_output=True, text=True, check=True)
    assert re.findall(r"^\[\d\] (examples\S+):", done.stdout, re.MULTILINE) == ["examples/town/mill.md"] * 2


def test_the_python_runs(home: Path) -> None:
    (code,) = blocks("python")
    done = subprocess.run([sys.executable, "-c", code], cwd=home, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "57 tokens\n"), done.stderr


def test_every_command_is_documented() -> None:
    for command in typer.main.get_command(app).commands:  # type: ignore[attr-defined]
        assert f"mergewise {command}" in README + GUIDE or f"make {command}" in README, command


def test_the_targets_that_the_readme_names_exist() -> None:
    targets = re.findall(r"^make (\w+)", README, re.MULTILINE)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert targets == ["demo", "test"] and all(f"\n{target}:" in makefile for target in targets)


def test_what_the_readme_links_to_exists() -> None:
    links = re.findall(r"\]\(([^)#:]+)[^)]*\)", README) + re.findall(r'src="([^"]+)"', README)
    assert len(links) >= 10
    for link in links:
        assert (ROOT / link).exists(), link
    assert (ROOT / "examples/page.png").stat().st_size < 300_000
