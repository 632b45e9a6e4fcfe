"""Readers, commands and methods of other packages, installed as an installer leaves them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.test_design_contract import install, with_site

READER = """
from mergewise.extend import FileFormat, Parsed

def read(data):
    return Parsed(data.decode()[::-1], title="Mirror")

MIRROR = FileFormat((".mirror", ".md"), read, walked=False)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/a.mirror").write_text(".etihw era slwO")
    (tmp_path / "docs/b.md").write_text(".egnaro era sgniK")
    (tmp_path / "docs/c.txt").write_text("Larks sing.")
    return tmp_path


def test_a_reader_takes_precedence_and_is_read_only_where_it_says(folder: Path) -> None:
    install(folder / "site", "mirrors", READER, "mirror = mirrors:MIRROR", "mergewise.readers")
    done = with_site(folder, "index", "docs", "docs/a.mirror", "docs/b.md", "--embedder", "none")
    assert "3 added" in done.stdout, done.stderr
    shown = with_site(folder, "context", "Which are white or orange?", "--json")
    assert "Owls are white." in json.loads(shown.stdout)["text"], shown.stderr
    assert with_site(folder, "index", "docs", "--index", "walked", "--embedder", "none").stdout.startswith("left out")


COOK = (
    "from mergewise.evaluate import evaluate"
    + READER
    + """
def cook():
    import mergewise
    print(mergewise.open("cooked", embedder="none").add("docs/a.mirror", "docs/b.md").added)
"""
)


def test_a_module_of_a_reader_may_come_before_mergewise(folder: Path) -> None:
    """It imports the module that would load its reader."""
    install(folder / "site", "mirrors", COOK, "mirror = mirrors:MIRROR", "mergewise.readers")
    install(folder / "site", "cooking", "from mirrors import cook", "cook = cooking:cook", "mergewise.commands")
    done = with_site(folder, "cook")
    assert (done.stdout, done.stderr) == ("2\n", "")


def test_two_readers_of_a_suffix_are_an_error(folder: Path) -> None:
    install(folder / "site", "mirrors", READER, "mirror = mirrors:MIRROR", "mergewise.readers")
    install(folder / "site", "others", READER, "other = others:MIRROR", "mergewise.readers")
    done = with_site(folder, "index", "docs", "--embedder", "none")
    assert done.returncode == 2
    assert "duplicate name '.m" in done.stderr and "the reader other of the package others" in done.stderr


def test_a_reader_that_fails_to_load_is_skipped(folder: Path) -> None:
    install(folder / "site", "broken", "raise OSError('no such library')", "x = broken:READER", "mergewise.readers")
    done = with_site(folder, "index", "docs", "--embedder", "none")
    assert "the reader x of the package broken is skipped, it failed to load: no such library" in done.stderr
    assert "2 added" in done.stdout


def test_a_reader_of_another_kind_is_refused(folder: Path) -> None:
    install(folder / "site", "strange", "READER = len", "x = strange:READER", "mergewise.readers")
    done = with_site(folder, "index", "docs", "--embedder", "none")
    assert done.returncode == 2 and "is not a mergewise.extend.FileFormat" in done.stderr
    assert "docs/how-to/extend.md" in done.stderr


COMMANDS = """
import typer

def hello(name: str = "you"):
    \"\"\"Greet somebody.\"\"\"
    print("hello", name)

group = typer.Typer()

@group.command()
def one(): print("one")

@group.command()
def two(): print("two")
"""


def test_commands_of_packages_stand_beside_the_others(folder: Path) -> None:
    entries = "hello = greeting:hello\nnumbers = greeting:group"
    install(folder / "site", "greeting", COMMANDS, entries, "mergewise.commands")
    assert with_site(folder, "hello", "--name", "Ada").stdout == "hello Ada\n"
    assert with_site(folder, "numbers", "two").stdout == "two\n"
    shown = with_site(folder, "--help").stdout
    assert "hello" in shown and "Greet somebody." in shown and "numbers" in shown
    assert "unknown" in with_site(folder, "config", "hello").stderr
    assert with_site(folder, "helo").returncode == 2


METHOD = """
from mergewise.evaluate import Method, evaluate

SHORT = Method("short-topk", "topk(k=1)", about="the best leaf")
"""


def test_a_method_of_a_package_is_evaluated(folder: Path) -> None:
    install(folder / "site", "short", METHOD, "short = short:SHORT", "mergewise.methods")
    with_site(folder, "index", "docs", "--embedder", "none")
    (folder / "asked.csv").write_text("question,answer\nWhat do larks do?,sing\n")
    words = ["eval", "asked.csv", "--index", "mergewise.index", "--methods", "short-topk", "--embedder", "none"]
    done = with_site(folder, *words)
    assert done.returncode == 0 and "short-topk" in done.stdout, done.stderr
