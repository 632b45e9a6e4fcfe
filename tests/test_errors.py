"""Errors: exit codes, which of them are retryable, and their texts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mergewise import errors
from mergewise.errors import MergewiseError, MissingExtra, UsageError, install_command, one_of

EVERY = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, MergewiseError)]


def test_a_busy_index_and_a_lost_shard_are_retryable() -> None:
    assert [kind.__name__ for kind in EVERY if kind.retryable] == ["IndexBusy", "ShardsMissing"]


def test_exit_codes_separate_usage_errors_from_failures() -> None:
    mended = {"UsageError", "NotAnIndex", "NewerFormat", "OlderFormat", "EmbedderMismatch"}
    assert {kind.__name__: kind.exit_code for kind in EVERY} == {
        kind.__name__: 2 if kind.__name__ in mended else 1 for kind in EVERY
    }


@pytest.mark.parametrize(("hint", "said"), [("give a list", "no list (give a list)"), ("", "no list")])
def test_error_text_has_problem_and_hint(hint: str, said: str) -> None:
    error = UsageError("no list", hint)
    assert (str(error), error.message, error.hint) == (said, "no list", hint)


def test_a_missing_extra_names_the_command() -> None:
    error = MissingExtra("a causal model", "hf")
    assert str(error) == f"a causal model is not installed ({install_command('hf')})"
    broken = MissingExtra("a causal model", "hf", ValueError("bad build"))
    assert broken.hint == f"repair it, or reinstall it: {install_command('hf', '--force-reinstall')}"


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        (None, 'pip install "mergewise[hf]"'),
        ("{", 'pip install "mergewise[hf]"'),
        ({"url": "file://HERE/check%20out", "dir_info": {}}, 'pip install "HERE/check out[hf]"'),
        (
            {"url": "file://HERE/check%20out", "dir_info": {"editable": True}},
            'pip install --editable "HERE/check out[hf]"',
        ),
        ({"url": "file://HERE", "dir_info": {}}, 'pip install ".[hf]"'),
        ({"url": "file://HERE/some.whl", "archive_info": {}}, 'pip install "HERE/some.whl[hf]"'),
        # built elsewhere
        ({"url": "file://HERE/gone.whl", "archive_info": {}}, 'pip install "mergewise[hf]"'),
        (
            {"url": "https://host/mw.git", "vcs_info": {"vcs": "git", "commit_id": "1"}},
            'pip install "mergewise[hf] @ git+https://host/mw.git"',
        ),
    ],
)
def test_the_command_installs_from_where_the_package_came(
    origin: Any, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "check out").mkdir()
    (tmp_path / "some.whl").touch()
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "mergewise-1.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Name: mergewise\nVersion: 1\n")
    if origin is not None:
        text = origin if isinstance(origin, str) else json.dumps(origin)
        (folder / "direct_url.json").write_text(text.replace("HERE", str(tmp_path)))
    monkeypatch.syspath_prepend(tmp_path)
    assert install_command("hf") == command.replace("HERE", str(tmp_path))


def test_broken_package_is_not_reported_as_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lacking_its_part.py").write_text("import no_such_part_anywhere")
    monkeypatch.syspath_prepend(tmp_path)
    for name, said in (("no_such_package_anywhere", "x is not installed"), ("lacking_its_part", "cannot be imported")):
        with pytest.raises(ModuleNotFoundError) as error:
            exec(f"import {name}")
        # drop the frames of the test, which precede the frame of the import
        cause = error.value.with_traceback(error.value.__traceback__ and error.value.__traceback__.tb_next)
        assert said in MissingExtra("x", "hf", cause).message


@pytest.mark.parametrize(
    ("given", "near"), [("waeve", "weave"), ("Topk", "topk"), ("xyzzy", ""), ("w" * 10**6, ""), (5, ""), ("", "")]
)
def test_hints_of_unknown_names_begin_with_the_nearest_one(given: object, near: str) -> None:
    assert one_of(given, ["weave", "topk"]) == f"{f'did you mean {near}? ' if near else ''}one of: weave, topk"
