"""The search for `mergewise.toml`, its paths, and the options that an untrusted file must not set."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.command import run_text

from mergewise.cli import configuration
from mergewise.cli.configuration import find_configuration
from mergewise.cli.main import configuration as configured
from mergewise.errors import UsageError

Find = Callable[[str], Path | None]


@pytest.fixture
def folders(tmp_path: Path) -> Path:
    """Empty folders home/project/docs/deep."""
    (tmp_path / "home/project/docs/deep").mkdir(parents=True)
    return tmp_path.resolve()


def write(folder: Path, text: str = "budget = 50\n") -> Path:
    (folder / "mergewise.toml").write_text(text)
    return folder / "mergewise.toml"


@pytest.fixture
def found(folders: Path, monkeypatch: pytest.MonkeyPatch) -> Find:
    """A function that returns the file that the search from a folder finds."""
    monkeypatch.setattr(configuration, "_home", lambda: folders / "home")

    def find(start: str) -> Path | None:
        monkeypatch.chdir(folders / start)
        return find_configuration()

    return find


def test_the_nearest_file_upward_is_used(folders: Path, found: Find) -> None:
    assert found("home/project/docs/deep") is None
    at_home = write(folders / "home")
    assert found("home/project/docs/deep") == at_home
    nearer = write(folders / "home/project")
    assert found("home/project/docs/deep") == found("home/project") == nearer


def test_the_search_ends_at_home_and_at_the_top_of_a_repository(folders: Path, found: Find) -> None:
    write(folders)
    assert found("home/project") is None
    write(folders / "home")
    (folders / "home/project/.git").mkdir()
    assert found("home/project/docs") is None
    own = write(folders / "home/project")
    assert found("home/project/docs") == own


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="owners are those of POSIX")
@pytest.mark.parametrize("foreign", ["folder", "file"])
def test_files_of_other_users_above_are_not_read(
    folders: Path, found: Find, monkeypatch: pytest.MonkeyPatch, foreign: str
) -> None:
    project = folders / "home/project"
    file = write(project)
    stranger = project if foreign == "folder" else file
    real = Path.stat

    def stat(path: Path, **options: Any) -> Any:
        done = real(path, **options)
        own = path == stranger
        return SimpleNamespace(st_dev=done.st_dev, st_mode=done.st_mode, st_uid=done.st_uid + 1) if own else done

    monkeypatch.setattr(Path, "stat", stat)
    assert found("home/project/docs") is None
    # the working directory itself may belong to anybody
    assert found("home/project") == file


def test_another_file_system_ends_the_search(folders: Path, found: Find, monkeypatch: pytest.MonkeyPatch) -> None:
    write(folders / "home/project")
    real = Path.stat

    def stat(path: Path, **options: Any) -> Any:
        done = real(path, **options)
        inside = path.name in ("docs", "deep")
        return SimpleNamespace(st_dev=done.st_dev + inside, st_mode=done.st_mode, st_uid=done.st_uid)

    monkeypatch.setattr(Path, "stat", stat)
    assert found("home/project/docs/deep") is None


def test_paths_of_a_file_above_are_relative_to_its_folder(folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(configuration, "_home", lambda: folders / "home")
    project = folders / "home/project"
    own = folders / "own/mergewise"
    own.mkdir(parents=True)
    write(own, f'trust = ["{project}"]\n')
    monkeypatch.setenv("XDG_CONFIG_HOME", str(own.parent))
    write(project, 'index = "my.index"\nbudget = 70\n[ask]\ncache = "/var/cache"\nchat = "extractive"\n')
    monkeypatch.chdir(project / "docs")
    options = configured()
    assert options["ask"]["index_dir"] == str(project / "my.index")
    assert (options["ask"]["cache"], options["ask"]["chat"]) == ("/var/cache", "extractive")
    assert options["context"] == {"index_dir": str(project / "my.index"), "budget": 70}
    monkeypatch.chdir(project)
    assert configured()["ask"]["index_dir"] == "my.index"


def test_an_error_names_the_file(folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(configuration, "_home", lambda: folders / "home")
    file = write(folders / "home/project", "bugdet = 1\n")
    monkeypatch.chdir(folders / "home/project/docs")
    with pytest.raises(UsageError, match=str(file)):
        configured()


def test_verbose_says_which_file_was_used(folders: Path) -> None:
    project = folders / "home/project"
    (project / "cats.md").write_text("Cats eat fish.\n")
    write(project, 'index = "my.index"\nembedder = "none"\n')
    env = {**os.environ, "HOME": str(folders / "home")}

    def run(cwd: Path, *words: str) -> subprocess.CompletedProcess[str]:
        return run_text(words, cwd, env)

    assert run(project, "index", "cats.md").returncode == 0
    done = run(project / "docs", "-v", "context", "What do cats eat?")
    assert done.returncode == 0, done.stderr
    assert "Cats eat fish." in done.stdout and f"configuration: {project / 'mergewise.toml'}" in done.stderr
    assert "no mergewise.toml" in run(folders, "-v", "info").stderr


HARMFUL = """
budget = 70
chat = "openai:gpt"
reranker = "http:http://elsewhere.example/rerank"
scorer = "hf:/tmp/weights"
cache = "../elsewhere"
embedder = "st:somebody/model"
strategies = "weave(weights=/elsewhere.toml)"
"""


@pytest.fixture
def own(folders: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the user's own file, with the working directory in home/project."""
    (folders / "own/mergewise").mkdir(parents=True)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folders / "own"))
    monkeypatch.setattr(configuration, "_home", lambda: folders / "home")
    monkeypatch.chdir(folders / "home/project")
    return folders / "own/mergewise"


@pytest.mark.parametrize("where", ["project", "docs"])
def test_an_untrusted_folder_sets_no_endpoint_and_no_outside_path(
    folders: Path, own: Path, where: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    project = folders / "home/project"
    write(project, HARMFUL)
    monkeypatch.chdir(project if where == "project" else project / "docs")
    options = configured()
    for command in ("ask", "context", "compare", "index", "eval"):
        assert not options[command].keys() & {"chat", "reranker", "scorer", "cache", "embedder", "strategies"}, command
    assert options["ask"]["budget"] == 70
    warning = capsys.readouterr().err
    assert (
        "may not set cache, chat, embedder, reranker, scorer, strategies" in warning
        and str(project / "mergewise.toml") in warning
    )
    assert f'trust = ["{project}"]' in warning and str(own / "mergewise.toml") in warning


def test_shipped_models_and_inside_paths_may_be_set(
    folders: Path, own: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inside = 'index = "my.index"\ncache = "answers"\nsandbox = true\nfile-seconds = 10\n'
    write(folders / "home/project", f'chat = "extractive"\nreranker = "none"\nscorer = "lm"\n{inside}')
    options = configured()
    assert (options["index"]["file_seconds"], options["index"]["sandbox"]) == (10, True)
    asked = options["ask"]
    assert "my.index" in asked["index_dir"]
    assert (asked["chat"], asked["reranker"], asked["scorer"], asked["cache"]) == (
        "extractive",
        "none",
        "lm",
        "answers",
    )
    assert capsys.readouterr().err == ""


def test_a_link_out_of_the_folder_is_outside(folders: Path, own: Path) -> None:
    (folders / "home/project/answers").symlink_to(folders)
    write(folders / "home/project", 'cache = "answers"\n')
    assert "cache" not in configured()["ask"]


def test_the_users_file_sets_anything_and_the_folders_file_overrides_it(folders: Path, own: Path) -> None:
    write(own, 'chat = "openai:mine"\nbudget = 10\ncache = "answers"\n[index]\nembedder = "openai:mine"\n')
    assert configured()["ask"] == {"chat": "openai:mine", "budget": 10, "cache": str(own / "answers")}
    write(folders / "home/project", 'chat = "openai:theirs"\nbudget = 20\n')
    options = configured()
    assert (options["ask"]["chat"], options["ask"]["budget"]) == ("openai:mine", 20)
    assert options["index"]["embedder"] == "openai:mine"


@pytest.mark.parametrize(("trusted", "kept"), [("project", True), (".", True), ("project/docs", False), ("pro", False)])
def test_trust_includes_subfolders(folders: Path, own: Path, trusted: str, kept: bool) -> None:
    write(folders / "home/project", HARMFUL)
    write(own, f'trust = ["{folders / "home" / trusted}"]\n')
    assert ("chat" in configured()["ask"]) is kept


def test_a_folder_cannot_trust_itself(folders: Path, own: Path) -> None:
    write(folders / "home/project", f'trust = ["{folders}"]\n{HARMFUL}')
    with pytest.raises(UsageError, match="trust"):
        configured()
    write(folders / "home/project", HARMFUL)
    write(own, "trust = 5\n")
    with pytest.raises(UsageError, match="invalid trust"):
        configured()


@pytest.mark.parametrize(
    "line",
    [
        'index = "../elsewhere"',
        'index = "/tmp/elsewhere"',
        '[ask]\nhtml = "page.html"',
        '[eval]\nfiles = ["rows.json"]',
        '[report]\nfiles = ["table.csv"]',
        '[eval]\nutility = "cross-encoder:somebody/model"',
        '[remove]\nwanted = ["*"]',
        '[index]\npaths = ["/"]',
        "[index]\nsandbox = false",
        "[index]\nfile-seconds = 86400",
        '[demo]\ndocs = "/"',
    ],
)
def test_an_untrusted_folder_sets_nothing_to_read_write_or_remove(folders: Path, own: Path, line: str) -> None:
    write(folders / "home/project", line + "\n")
    key = line.splitlines()[-1].split(" ")[0]
    name = {"index": "index_dir"}.get(key, key.replace("-", "_"))
    assert all(name not in options for options in configured().values())
    write(own, f'trust = ["{folders}"]\n')
    assert any(name in options for options in configured().values()), "a trusted folder may"


def test_config_of_a_command_without_options_is_empty(folders: Path) -> None:
    done = run_text(["config", "copy"], cwd=folders)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_config_warns_once_and_a_clash_of_names_has_a_hint(folders: Path, own: Path) -> None:
    project = folders / "home/project"
    write(project, 'chat = "openai:other"\n')
    done = run_text(["config", "ask"], cwd=project)
    assert done.stderr.count("may not set chat") == 1
    write(project, 'index = "town.index"\n[index]\nviews = "leaf"\n')
    done = run_text(["config", "ask"], cwd=project)
    assert done.returncode == 2 and "[ask] with index" in done.stderr
    write(project, "budgt = 5\n")
    assert "did you mean budget?" in run_text(["config", "ask"], cwd=project).stderr
