"""The option `--html FILE`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.command import run_in as run
from tests.page.support import Page

COMMAND = Path(sys.executable).parent / "mergewise"
QUESTION = "How long do cats sleep?"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    (folder / "docs").mkdir()
    text = "# Cats\n\n## Sleep\n\nCats sleep sixteen hours a day. Kittens sleep more.\n\n## Food\n\nCats eat fish.\n"
    (folder / "docs" / "cats.md").write_text(text, encoding="utf-8")
    assert run(folder, "index", "docs", "--embedder", "none").returncode == 0
    return folder


@pytest.mark.parametrize("command", ["ask", "context", "compare"])
def test_the_page_is_written_in_addition_to_the_output(home: Path, command: str) -> None:
    done = run(home, command, QUESTION, "--html", f"{command}.html", "--budget", "60")
    assert done.returncode == 0, done.stderr
    assert "sixteen hours" in done.stdout and f"page: {command}.html" in done.stderr
    page = Page((home / f"{command}.html").read_text(encoding="utf-8"))
    assert page.one("h1").text == QUESTION
    assert "docs/cats.md:5" in page.elements[0].text
    assert len(page.all("section", "column")) == (3 if command == "compare" else 0)


@pytest.mark.parametrize("command", ["ask", "context"])
def test_the_page_is_written_even_if_the_output_pipe_closes(home: Path, command: str) -> None:
    read, write = os.pipe()
    os.close(read)
    words = [str(COMMAND), command, QUESTION, "--html", f"unread-{command}.html"]
    unbuffered = {**os.environ, "PYTHONUNBUFFERED": "1"}
    subprocess.run(words, cwd=home, stdout=write, stderr=subprocess.PIPE, env=unbuffered, check=False)
    os.close(write)
    assert Page((home / f"unread-{command}.html").read_text(encoding="utf-8")).one("h1").text == QUESTION


def test_json_is_unchanged_with_a_page(home: Path) -> None:
    plain = run(home, "context", QUESTION, "--json")
    assert run(home, "context", QUESTION, "--json", "--html", "c.html").stdout == plain.stdout


def test_an_unwritable_file_is_an_error(home: Path) -> None:
    done = run(home, "context", QUESTION, "--html", "nowhere/page.html")
    assert done.returncode == 2
    assert "nowhere/page.html: No such file or directory" in done.stderr
    assert "name a file in an existing folder" in done.stderr
