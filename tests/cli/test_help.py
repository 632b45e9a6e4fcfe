"""Help texts: their names come from the registries, and shell completion loads no registry for an option's help."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pytest
import typer
from tests.command import run_text
from typer.testing import CliRunner

from mergewise.cli.main import app
from mergewise.cli.options import NamingCommand, help_text, with_options
from mergewise.designs import MODES, STRATEGIES, VIEWS
from mergewise.evaluate.methods import GROUPS, METHODS


def words_of(text: str) -> set[str]:
    """Return the words of a help text, without the frame and punctuation."""
    return {word.strip("│,;.:()") for word in text.split()}


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("ask", [*MODES, *STRATEGIES]),
        ("compare", [*STRATEGIES]),
        ("index", [*VIEWS]),
        ("eval", [*MODES, *STRATEGIES, *GROUPS, *METHODS]),
        ("info", [name for name, view in VIEWS.items() if view.report is not None]),
    ],
)
def test_help_has_every_name(command: str, names: list[str]) -> None:
    shown = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "300"}).output
    assert set(names) <= words_of(shown)
    assert "{" not in shown.split("Options", 1)[1]


@pytest.mark.parametrize("command", ["", "index", "serve", "train utility", "server", "cluster start"])
def test_switches_have_no_type(command: str) -> None:
    shown = CliRunner().invoke(app, [*command.split(), "--help"], env={"COLUMNS": "300"}).output
    assert "--help" in shown and "<bool>" not in shown


def test_names_registered_later_are_in_the_help(monkeypatch: pytest.MonkeyPatch) -> None:
    from mergewise.cli import options

    options._registered_names.cache_clear()
    monkeypatch.setitem(STRATEGIES, "mine", STRATEGIES["topk"])
    assert "mine" in words_of(help_text("One of: {strategies}."))
    options._registered_names.cache_clear()


def test_completion_of_options_leaves_the_names_out() -> None:
    code = (
        "import json, sys; from typer.main import get_command; from mergewise.cli.main import app;"
        "command = get_command(app).commands['ask']; context = command.make_context('ask', ['q'], resilient_parsing=True);"
        "items = command.shell_complete(context, '--');"
        "print(json.dumps([{item.value: item.help for item in items}, 'mergewise.designs' in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    helps, loaded = json.loads(done.stdout)
    assert helps["--mode"] == "Mode of answering" and helps["--budget"].startswith("Maximum tokens of the context;")
    assert not any("{" in help for help in helps.values()) and not loaded


@dataclass(frozen=True)
class Sizes:
    width: Annotated[int, typer.Option(help="Width.")] = 3
    height: int = 4


def test_fields_of_a_record_become_options() -> None:
    areas: list[int] = []
    small = typer.Typer()

    @small.command(cls=NamingCommand)
    @with_options
    def area(times: int, *, options: Sizes) -> None:
        areas.append(times * options.width * options.height)

    assert CliRunner().invoke(small, ["2"]).exit_code == 0
    assert CliRunner().invoke(small, ["2", "--width", "5", "--height", "1"]).exit_code == 0
    assert areas == [24, 10]


@pytest.mark.parametrize("command", ["ask", "chat", "context"])
def test_options_are_grouped_in_panels(command: str) -> None:
    shown = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "300"}).output
    panels = re.split(r"╭─ ([\w ]+?) ─+╮", shown)
    held = dict(zip(panels[1::2], panels[2::2], strict=True))
    names = [name for name in held if name != "Arguments"]
    assert names == ["Options", "Search and answer", "Models", "Output"]
    assert set(re.findall(r"│ (--\w+)", held["Options"])) == {"--index", "--help"}
    assert "--budget" in held["Search and answer"] and "--chat" in held["Models"] and "--json" in held["Output"]


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("ask q --mode re", ["recomp", "replug"]),
        ("chat --strategy weave,to", ["weave,topk"]),
        ("ask q --merge-with merge", ["mergerag-asym", "mergerag-sym"]),
        ("context q --format ", ["text", "prompt", "messages", "xml", "json"]),
        ("index d --views leaf,ma", ["leaf,marker"]),
    ],
)
def test_the_shell_completes_names(tmp_path: Path, words: str, offered: list[str]) -> None:
    given = {
        "_MERGEWISE_COMPLETE": "complete_bash",
        "COMP_WORDS": f"mergewise {words}",
        "COMP_CWORD": str(len(words.split(" "))),
    }
    assert sorted(run_text([], tmp_path, {**os.environ, **given}).stdout.split()) == sorted(offered)


def test_a_setting_given_as_an_option_is_explained() -> None:
    done = run_text(["ask", "Why?", "--max-tokens", "9"])
    told = " ".join(done.stderr.replace("│", " ").split())
    assert done.returncode == 2
    assert "--max-tokens is a setting: write it into mergewise.toml, or set MERGEWISE_MAX_TOKENS" in told
