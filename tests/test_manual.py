"""The pages of the manual run as printed, each in a folder of its own with a copy of `examples`.

Blocks run in the order of the page. A `console` block holds commands and the output that they print, compared as doctest does,
with `...` for any text. The `python` blocks of a page share their names. A comment on the line before a block changes what
happens: `<!-- file: NAME -->` writes the block to a file, `<!-- exit: N -->` expects that exit code, `<!-- not run: REASON -->`
skips the block, and `<!-- output -->` compares a `text` block to what the Python before it printed. All commands, run or not,
are checked for options that do not exist.
"""

from __future__ import annotations

import ast
import contextlib
import doctest
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer
from typer.testing import CliRunner

from mergewise.cli.main import app
from mergewise.server.configuration import load_config

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md") if path.parent.name != "reference")
BLOCK = re.compile(
    r"(?:^<!-- (?P<note>.*?) -->\n+)?^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
BIN = str(Path(sys.executable).parent)
SAME = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


class Block(NamedTuple):
    """A fenced block: `note` is the comment on the line before it, as a key and a value."""

    language: str
    text: str
    note: tuple[str, str]
    line: int


def read_blocks(page: str) -> Iterator[Block]:
    text = (DOCS / page).read_text(encoding="utf-8")
    for match in BLOCK.finditer(text):
        key, _, value = (match["note"] or "").partition(": ")
        yield Block(match["language"], match["text"], (key, value), text.count("\n", 0, match.start()) + 1)


def commands(block: Block) -> Iterator[tuple[str, str]]:
    """Yield each command of a `console` block with the output below it."""
    parts = re.split(r"^\$ ", block.text, flags=re.MULTILINE)
    assert not parts[0].strip(), f"output without a command in line {block.line}"
    for part in parts[1:]:
        command, output = re.match(r"((?:[^\n]*\\\n)*[^\n]*\n)(.*)", part, re.DOTALL).groups()  # type: ignore[union-attr]
        yield command.replace("\\\n", " ").strip(), output


def run_command(command: str, folder: Path, expected: int) -> tuple[int, str, str]:
    """Run a command. Returns its exit code, standard output and standard error.

    A plain `mergewise` command that should succeed runs in this process, which saves its start. The shell runs all others.
    """
    if expected == 0 and re.fullmatch(r"mergewise [^|<>;&$`*~\n]*", command):
        result = CliRunner().invoke(app, shlex.split(command)[1:])
        return result.exit_code, result.stdout, f"{result.stderr}{result.exception or ''}"
    environment = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "NO_COLOR": "1"}
    done = subprocess.run(["sh", "-c", command], cwd=folder, env=environment, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def assert_same(expected: str, printed: str, at: str) -> None:
    checker = doctest.OutputChecker()
    example = doctest.Example("", expected)
    if not checker.check_output(example.want, printed.rstrip() + "\n", SAME):
        pytest.fail(f"{at}: {checker.output_difference(example, printed, SAME)}", pytrace=False)


def write_file(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    if name.endswith(".toml"):
        tomllib.loads(text)
    if name.endswith("serve.toml"):
        load_config(path.parent, path)


@pytest.mark.parametrize("page", PAGES)
def test_page_runs_as_printed(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "examples/town", tmp_path / "examples/town")
    shutil.copy(ROOT / "examples/mcp_session.py", tmp_path / "examples")
    names: dict[str, Any] = {"__name__": "__main__"}
    printed = ""
    for block in read_blocks(page):
        at, (key, value) = f"{page}:{block.line}", block.note
        if key == "file":
            write_file(tmp_path, value, block.text)
        elif key == "output":
            assert_same(block.text, printed, at)
        elif key == "not run":
            assert value, f"{at}: no reason given"
        elif block.language == "console":
            for command, output in commands(block):
                expected = int(value) if key == "exit" else 0
                code, out, err = run_command(command, tmp_path, expected)
                assert code == expected, (at, command, out, err)
                if output.strip():
                    assert_same(output, out + (err if key == "exit" else ""), f"{at}: {command}")
        elif block.language == "python":
            with contextlib.redirect_stdout(io.StringIO()) as stream:
                exec(compile(block.text, at, "exec"), names)
            printed = stream.getvalue()


def shown_commands(page: str) -> Iterator[list[str]]:
    """Yield the words of each `mergewise` command on a page, run or not, but for commands that the page itself adds."""
    added = re.findall(r"^(\w+) = ", (DOCS / page).read_text().partition("[mergewise.commands]\n")[2], re.MULTILINE)
    for block in read_blocks(page):
        if block.language in ("console", "sh"):
            for line in block.text.replace("\\\n", " ").splitlines():
                if match := re.match(r"(?:\$ )?(?:\w+=\S* )*mergewise (.*)", line.strip()):
                    words = shlex.split(match[1], comments=True)
                    if not set(words[:1]) & set(added):
                        yield words


def assert_command_exists(words: list[str]) -> None:
    """Check that the command exists, with its options."""
    group: Any = typer.main.get_command(app)
    left = list(words)
    while hasattr(group, "commands") and left:
        word = left.pop(0)
        if not word.startswith("-"):
            assert word in group.commands, f"unknown command: {' '.join(words)}"
            group = group.commands[word]
    known = {name for one in group.params for name in (*one.opts, *one.secondary_opts)} | {"--help"}
    used = {word.partition("=")[0] for word in left if re.match(r"--?[a-z]", word)}
    assert used <= known, f"unknown options {sorted(used - known)}: {' '.join(words)}"


@pytest.mark.parametrize("page", [*PAGES, "../README.md"])
def test_shown_commands_have_only_options_that_exist(page: str) -> None:
    for words in shown_commands(page):
        assert_command_exists(words)


def source_texts() -> Iterator[str]:
    """Yield the texts of the program: all strings of its modules, with X in place of each value, and the files of its pages."""
    for path in sorted((ROOT / "src/mergewise").rglob("*")):
        if path.suffix == ".py":
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.JoinedStr):
                    yield "".join(str(one.value) if isinstance(one, ast.Constant) else " X " for one in node.values)
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield node.value
        elif path.suffix in (".js", ".html") and path.parent.name != "vendor":
            yield path.read_text(encoding="utf-8")


def test_commands_in_messages_and_pages_exist() -> None:
    names = "|".join(map(re.escape, typer.main.get_command(app).commands))  # type: ignore[attr-defined]
    # any words between marks of code, and a known command anywhere
    marked, plain = re.compile(r"(?:`|<code>)mergewise ([^`<\n]+)"), re.compile(rf"\bmergewise ((?:{names})\b[^`<\n]*)")
    found = {words for text in source_texts() for words in (*marked.findall(text), *plain.findall(text))}
    assert {"server add-token -s read -s write", "index PATH..."} <= found and len(found) > 40
    for words in found:
        assert_command_exists(re.split(r"[\s,;:.)\]]+(?:\s|$)|\s+", words.strip()))


def test_every_command_is_shown() -> None:
    group: Any = typer.main.get_command(app)
    text = "".join((DOCS / page).read_text(encoding="utf-8") for page in PAGES)
    for command in group.commands:
        assert f"mergewise {command}" in text, command
