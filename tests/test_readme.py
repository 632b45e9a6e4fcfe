"""The README runs as printed in a folder that holds only its example."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
COMMAND = str(Path(sys.executable).parent / "mergewise")
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("readme")
    shutil.copytree(ROOT / "examples", folder / "examples")
    return folder


def test_commands_print_the_output_shown(home: Path) -> None:
    (block,) = blocks("console")
    shown = re.findall(r"^\$ mergewise (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)
    assert [shlex.split(words)[0] for words, _ in shown] == ["index", "ask", "context"]
    for words, output in shown:
        done = subprocess.run([COMMAND, *shlex.split(words)], cwd=home, capture_output=True, text=True)
        assert done.returncode == 0, (words, done.stderr)
        assert done.stdout.strip() == output.strip(), words


def test_topk_spends_its_budget_without_the_answer(home: Path) -> None:
    index = ["--index", "topk.index"]
    subprocess.run([COMMAND, "index", "examples/town", *index], cwd=home, capture_output=True, check=True)
    words = ["Where was the designer of the Red Mill born?", "--budget", "60", "--strategy", "topk", *index]
    done = subprocess.run([COMMAND, "context", *words], cwd=home, capture_output=True, text=True, check=True)
    assert re.findall(r"^\[\d\] (examples\S+):", done.stdout, re.MULTILINE)[0] == "examples/town/mill.md"
    assert "Harwick" not in done.stdout


def test_the_python_runs(home: Path) -> None:
    (code,) = blocks("python")
    done = subprocess.run([sys.executable, "-c", code], cwd=home, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "57 tokens\n"), done.stderr


def test_named_make_targets_exist() -> None:
    targets = re.findall(r"^make (\w+)", README, re.MULTILINE)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert targets == ["demo", "test"] and all(f"\n{target}:" in makefile for target in targets)


def test_links_and_pictures_exist() -> None:
    links = re.findall(r"\]\(([^)#:]+)[^)]*\)", README) + re.findall(r'src="([^"]+)"', README)
    assert len(links) >= 10
    for link in links:
        assert (ROOT / link).exists(), link
    assert (ROOT / "examples/page.png").stat().st_size < 300_000
