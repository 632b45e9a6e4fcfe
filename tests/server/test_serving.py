"""The commands `serve` and `server`: their options, without starting a process."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import mergewise as mw
from mergewise.cli import main, serving
from mergewise.cli.main import app
from mergewise.errors import MissingExtra, UsageError
from mergewise.server import processes
from mergewise.server.configuration import ServerConfig
from mergewise.server.processes import Supervisor, prepare
from mergewise.server.state import State

pytest.importorskip("fastapi")


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[ServerConfig]:
    """The configurations passed to the supervisor. Records are created, but no process starts."""
    configs: list[ServerConfig] = []

    def run(self: Supervisor) -> None:
        configs.append(self.config)
        with State.of(self.config) as state:
            self.on_ready(self.config.url, prepare(self.config, state))

    monkeypatch.setattr(processes.Supervisor, "run", run)
    monkeypatch.setattr("mergewise.server.logs.log_as_json", lambda: None)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").mkdir()
    return configs


def run(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)


def test_only_the_first_start_shows_the_token_and_only_to_a_terminal(
    served: list[ServerConfig], tmp_path: Path
) -> None:
    ours, theirs = os.openpty()
    with os.fdopen(theirs, "w") as terminal, redirect_stdout(terminal):
        app(["serve", "--docs", "docs"], standalone_mode=False)
    file = served[0].data / "token"
    assert os.read(ours, 1000).decode().splitlines()[0] == f"http://127.0.0.1:8077/#t={file.read_text().strip()}"
    os.close(ours)
    assert run("serve", "--docs", "docs").stdout.splitlines()[0] == "http://127.0.0.1:8077"
    # a log gets the path of the token, never the token
    shutil.rmtree(served[0].data)
    for result in (run("serve", "--docs", "docs"), run("serve", "--docs", "docs")):
        assert result.stdout.splitlines()[0] == "http://127.0.0.1:8077"
        assert file.read_text().strip() not in result.output and file.stat().st_mode & 0o777 == 0o600
        assert f"sign in with the token in {file}" in result.stderr
    config = served[0]
    assert config.watch and list(config.collections) == ["docs"] and config.data == served[1].data
    assert not (tmp_path / "mergewise.index").exists()


def test_an_index_in_a_bucket_is_a_target(served: list[ServerConfig], tmp_path: Path) -> None:
    first = run("serve", "s3://bucket/handbook")
    ((name, own),) = served[0].collections.items()
    assert (name, own.is_read_only, served[0].watch) == ("handbook", True, False)
    assert served[0].data.is_relative_to(tmp_path / "state") and not list(tmp_path.glob("s3*"))
    (served[0].data / "token").unlink()
    (command,) = re.findall("run `mergewise (.*)`", run("serve", "s3://bucket/handbook").stderr)
    assert run(*shlex.split(command)).stdout.startswith("mw_") and "sign in with the token in" in first.stderr
    with pytest.raises(UsageError, match="folder of documents is in a bucket"):
        run("serve", "--docs", "s3://bucket/docs")


@pytest.mark.parametrize("words", [["--docs", "docs"], ["my data", "--docs", "docs"]])
def test_a_start_without_a_saved_token_names_the_command_for_a_new_one(
    served: list[ServerConfig], words: list[str]
) -> None:
    first = run("serve", *words)
    (served[0].data / "token").unlink()
    if len(words) == 2:
        mw.open("mergewise.index", embedder="none").close()
    second = run("serve", *words)
    assert "add-token" not in first.stderr
    (command,) = re.findall("run `mergewise (.*)`", second.stderr)
    secret = run(*shlex.split(command)).stdout.strip()
    with State.of(served[0]) as state:
        made = state.tokens.authenticate(secret)
        assert made is not None and made.scopes == {"read", "write"}


def test_missing_folders_and_keys_are_named_at_the_start(served: list[ServerConfig], tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(
        '[chats.slow]\nspec = "openai:slow"\nkey_env = "NO_SUCH_KEY"\n'
        '[collections.manual]\nfolders = ["docs", "gone"]\n'
    )
    started = run("serve", "data", "--config", "own.toml")
    assert "folder not found: gone (collections.manual.folders)" in started.stderr
    assert "missing API key of openai:slow: NO_SUCH_KEY is not set (chats.slow)" in started.stderr
    assert started.exit_code == 0 and "docs" not in started.stderr


def test_flags_reach_the_configuration(served: list[ServerConfig], tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text('[server]\nport = 1\n[chats.slow]\nspec = "hf:slow"\n')
    words = ["--host", "localhost", "--workers", 3, "--config", "own.toml", "--no-auth"]
    result = run("serve", "data", *words, "-c", "openai:gpt", "-c", "fast=openai:m:2", "-c", "extractive")
    (config,) = served
    assert (config.data, config.host, config.port, config.workers) == (Path("data"), "localhost", 1, 3)
    specs = {"gpt": "openai:gpt", "fast": "openai:m:2", "slow": "hf:slow"}
    assert {name: chat.spec for name, chat in config.chats.items()} == specs
    assert not config.needs_token and not config.watch and "#t=" not in result.output
    assert "every user of this machine" in " ".join(result.output.split())
    with pytest.raises(UsageError, match="no-auth"):
        run("serve", "data", "--host", "0.0.0.0", "--no-auth")


def test_an_index_keeps_its_embedder(served: list[ServerConfig]) -> None:
    mw.open("mergewise.index", embedder="none").close()
    run("serve", "--embedder", "none")
    assert [one.embedder for one in served[0].collections.values()] == ["none"]
    with pytest.raises(UsageError, match="index not found"):
        Path("mergewise.index").rename("elsewhere")
        run("serve")


def test_tokens_are_created_listed_and_removed(served: list[ServerConfig]) -> None:
    with pytest.raises(UsageError, match="no server"):
        run("server", "tokens", "data")
    run("serve", "data")
    options = "-s read -s write -n a --title Ann --days 2"
    secret = run("server", "add-token", "data", *options.split()).stdout.strip()
    listed = json.loads(run("server", "tokens", "data", "--json").stdout)
    assert [(one["title"], one["scopes"], one["collections"]) for one in listed] == [
        ("the first start", ["read", "write", "feedback", "admin"], None),
        ("Ann", ["read", "write"], ["a"]),
    ]
    shown = run("server", "tokens", "data").stdout
    assert "Ann" in shown and "until" in shown and secret.rsplit("_", 1)[1] not in shown
    with State(Path("data/server.sqlite")) as state:
        token = state.tokens.authenticate(secret)
        assert token is not None
        assert run("server", "remove-token", token.id, "data").exit_code == 0
        assert state.tokens.authenticate(secret) is None
    for words in (("remove-token", token.id, "data"), ("add-token", "data", "-s", "root")):
        with pytest.raises(UsageError):
            run("server", *words)


def test_backup_and_restore(served: list[ServerConfig], tmp_path: Path) -> None:
    run("serve", "data")
    assert "bytes" in run("server", "backup", "b.tar", "data").stdout
    assert "mergewise serve new" in run("server", "restore", "b.tar", "new").stdout
    with State(tmp_path / "new" / "server.sqlite") as state:
        assert [token.title for token in state.tokens.all()] == ["the first start"]


def test_a_folder_cannot_change_access_settings(served: list[ServerConfig], tmp_path: Path) -> None:
    """Settings about access in a file that came with a folder are ignored."""
    (tmp_path / "mergewise.toml").write_text(
        '[serve]\nhost = "0.0.0.0"\nport = 1\nauth = false\nconfig = "evil.toml"\nchat = ["openai:evil"]\n'
        'docs = ["/etc"]\ndata = "/tmp"\nworkers = 2\n["server add-token"]\nscope = ["admin"]\n'
    )
    known = main.configuration()
    assert known["serve"] == {"workers": 2} and known["server add-token"] == {}


def test_a_missing_extra_is_named(served: list[ServerConfig], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "uvicorn", None)
    with pytest.raises(MissingExtra, match=r"serv"):
        serving.check_extra()


def test_help_lists_the_commands() -> None:
    text = run("server", "--help").stdout
    assert all(word in text for word in ("add-token", "tokens", "remove-token", "backup", "restore"))
    assert "--docs" in run("serve", "--help").stdout
