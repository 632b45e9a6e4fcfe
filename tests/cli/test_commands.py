"""The command line, in a separate process."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.command import run_in as run

import mergewise as mw
from mergewise.cli import main

COMMAND = Path(sys.executable).parent / "mergewise"
DOCS = {
    "cats.md": "# Cats\n\n## Food\n\nCats eat fish. They drink milk.\n\n## Sleep\n\nCats sleep sixteen hours a day.\n",
    "dogs.txt": "Dogs bark at night. Dogs eat meat.\n",
    "broken.pdf": "no pdf at all",
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Working directory with documents and the default index."""
    folder = tmp_path_factory.mktemp("home")
    (folder / "docs").mkdir()
    for name, text in DOCS.items():
        (folder / "docs" / name).write_text(text)
    done = run(folder, "index", "docs")
    assert done.returncode == 1, done.stderr
    assert "2 added, 0 replaced, 0 unchanged, 1 failed; 2 documents in mergewise.index" in done.stdout
    assert "not indexed: docs/broken.pdf: " in done.stderr.splitlines()[-1]
    return folder


def run_json(cwd: Path, *words: str) -> object:
    done = run(cwd, *words, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_ask_quotes_and_cites(home: Path) -> None:
    done = run(home, "ask", "How long do cats sleep?")
    assert done.returncode == 0
    assert "“Cats sleep sixteen hours a day.” [" in done.stdout
    assert "Cats › Sleep" in done.stdout and "docs/cats.md:" in done.stdout
    answer = run_json(home, "ask", "How long do cats sleep?")
    assert isinstance(answer, dict)
    span = answer["citations"][0]["span"]
    assert DOCS["cats.md"][span["start"] : span["end"]] == "Cats sleep sixteen hours a day."


def test_context_has_the_fields_that_scripts_read(home: Path) -> None:
    context = run_json(home, "context", "What do cats eat?", "--budget", "60")
    assert isinstance(context, dict)
    fields = {"question", "strategy", "budget", "tokens", "text", "passages", "trace", "usage", "snapshot"}
    fields |= {"complete", "may_lack"}
    assert context.keys() == fields
    passage = context["passages"][0]
    place = {"mark", "doc", "title", "headings", "page", "line", "url"}
    assert passage.keys() == {"text", "score", "verbatim", "spans"} | place and passage["line"] is not None
    assert passage["spans"][0].keys() == {"doc", "start", "end"}
    assert context["tokens"] <= context["budget"] == 60
    done = run(home, "context", "What do cats eat?", "--trace")
    assert "search: " in done.stdout and "tokens" in done.stderr


def test_context_tells_that_there_may_be_more(home: Path) -> None:
    question = "Why do cats sleep?"
    context = run_json(home, "context", question, "--budget", "16")
    assert isinstance(context, dict) and context["may_lack"]
    # the place takes tokens, too
    remark = "here may be more: all evidence is held with a probability of 0."
    assert f"T{remark}" in run(home, "context", question, "--budget", "26").stderr
    traced = run(home, "context", question, "--budget", "26", "--trace")
    assert f"more: t{remark}" in traced.stdout and remark not in traced.stderr


def test_an_empty_context_tells_whether_the_budget_is_too_small(home: Path, tmp_path: Path) -> None:
    assert "nothing fits the budget" in run(home, "context", "Why do cats sleep?", "--budget", "1").stderr
    mw.open(tmp_path / "empty", embedder="none").add(mw.Document("a", "# A"))
    assert "nothing was found" in run(home, "context", "Why?", "-i", str(tmp_path / "empty")).stderr


def test_info(home: Path) -> None:
    info = run_json(home, "info")
    assert isinstance(info, dict)
    assert (info["documents"], info["embedder"], info["format"]) == (2, "minilm", 6)
    assert info["views"].keys() == {"leaf", "section", "name"}
    assert "docs/cats.md" in run(home, "info", "--documents").stdout


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("ask", ""), "the question is empty"), (("context", "q", "--budget", "0"), "invalid budget: 0"),
        (("context", "q", "--budget", "-5"), "invalid budget: -5"),
        (("context", "q", "--strategy", "nope"), "unknown strategy: 'nope'"),
        (("context", "q", "--where", "nope = 1"), "invalid condition"),
        (("ask", "q", "--index", "absent"), "index not found: absent"),
        (("ask", "q", "--index", "docs"), "not a mergewise index"),
        (("ask", "q", "--chat", "nope"), "unknown chat model"),
        (("index", "docs", "--embedder", "none"), "built with the embedder 'minilm'"),
        (("index", "docs", "--index", "new", "--views", "nope"), "unknown view"),
        (("eval", "docs"), "no question set"), (("eval", "docs", "--strategies", "nope"), "unknown strategy"),
        (("eval", "docs", "--budgets", "many"), "invalid budgets"), (("bogus",), "No such command"),
    ],
)  # fmt: skip
def test_wrong_usage_is_one_line_with_a_hint_and_changes_nothing(home: Path, words: tuple[str, ...], says: str) -> None:
    before = sorted(path.relative_to(home) for path in home.rglob("*"))
    done = run(home, *words)
    assert done.returncode == 2
    assert says in done.stderr and "Traceback" not in done.stderr
    assert sorted(path.relative_to(home) for path in home.rglob("*")) == before


def test_an_index_of_a_newer_version_is_left_alone(home: Path, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"format": 99}')
    done = run(home, "ask", "q", "--index", str(tmp_path))
    assert (done.returncode, "upgrade mergewise" in done.stderr) == (2, True)
    assert (tmp_path / "manifest.json").read_text() == '{"format": 99}'


def test_options_come_from_the_environment_and_the_configuration_file(home: Path, tmp_path: Path) -> None:
    shutil.copytree(home / "mergewise.index", tmp_path / "kept")
    (tmp_path / "mergewise.toml").write_text('index = "kept"\n[context]\nbudget = 40\n')
    assert run(tmp_path, "info").returncode == 0
    context = run_json(tmp_path, "context", "cats")
    assert isinstance(context, dict) and context["budget"] == 40
    overridden = run_json(tmp_path, "context", "cats", "--budget", "50")
    assert isinstance(overridden, dict) and overridden["budget"] == 50
    (tmp_path / "mergewise.toml").write_text("bugdet = 3")
    assert "unknown options" in run(tmp_path, "info").stderr
    (tmp_path / "mergewise.toml").write_text("index = [broken")
    assert run(tmp_path, "info").returncode == 2


def test_demo_of_a_folder(home: Path, tmp_path: Path) -> None:
    done = run(tmp_path, "demo", str(home / "docs"), "--question", "How long do cats sleep?")
    assert done.returncode == 0, done.stderr
    assert "Cats sleep sixteen hours a day." in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_every_command_answers_to_h_and_short_flags(home: Path) -> None:
    for command in ("index", "ask", "context", "compare", "show", "info", "remove", "check", "eval", "demo"):
        done = run(home, command, "-h")
        assert done.returncode == 0 and f"mergewise {command}" in done.stdout, command
    long = run(home, "context", "What do cats eat?", "--budget", "60", "--strategy", "topk", "--json")
    short = run(home, "context", "What do cats eat?", "-b", "60", "-s", "topk", "-j", "-i", "mergewise.index")
    assert short.returncode == 0, short.stderr
    assert long.stdout == short.stdout
    assert "docs/cats.md:" in run(home, "ask", "How long do cats sleep?", "-t").stdout.split("search: ")[1]
    assert run(home, "-V").stdout.startswith("mergewise ")


def test_completion_knows_commands_and_strategies(home: Path, tmp_path: Path) -> None:
    def completed(line: str) -> str:
        env = {
            **os.environ,
            "_MERGEWISE_COMPLETE": "complete_bash",
            "COMP_WORDS": line,
            "COMP_CWORD": str(len(line.split())),
        }
        if not line.endswith(" "):
            env["COMP_CWORD"] = str(len(line.split()) - 1)
        (tmp_path / "mergewise.toml").write_text("half a file")  # an invalid file must not break completion
        done = subprocess.run([COMMAND], cwd=tmp_path, capture_output=True, text=True, timeout=120, env=env)
        assert "Traceback" not in done.stderr
        return done.stdout

    assert "compare" in completed("mergewise com")
    assert "mergerag-sym" in completed("mergewise ask q --strategy mergerag-")
    assert "topk,macrag" in completed("mergewise compare q -s topk,mac")


@pytest.mark.parametrize(
    ("error", "says", "advice"),
    [
        (MemoryError(), "out of memory", "free memory"),
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), "No space left on device", "make room on the disk"),
        (OSError(errno.EDQUOT, os.strerror(errno.EDQUOT)), "quota exceeded", "make room on the disk"),
        (OSError(errno.EROFS, os.strerror(errno.EROFS)), "Read-only file system", "use another directory"),
    ],
)
@pytest.mark.parametrize("words", [["ask", "q"], ["index", "docs"]])
def test_a_problem_of_the_machine_is_one_line_with_a_hint(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    words: list[str],
    error: Exception,
    says: str,
    advice: str,
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    (tmp_path / "docs").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("mergewise.open", fail)
    monkeypatch.setattr(sys, "argv", ["mergewise", *words])
    assert main.run() == 1
    message = capsys.readouterr().err
    assert says in message and advice in message and "Traceback" not in message


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="limits of POSIX")
def test_an_index_that_outgrows_the_limit_of_files_names_the_limit(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("\n\n".join(f"Cat {i} eats fish {i}." for i in range(20_000)))
    words = [shutil.which("bash"), "-c", f"ulimit -f 100; exec {sys.executable} -m mergewise index a.md -e none"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)  # type: ignore[arg-type]
    assert done.returncode == 1 and "ulimit -f" in done.stderr and "Traceback" not in done.stderr
