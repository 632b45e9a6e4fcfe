"""Errors: exit codes, which of them are retryable, and their texts."""

from __future__ import annotations

from pathlib import Path

import pytest

from mergewise import errors
from mergewise.errors import REQUIREMENT, MergewiseError, MissingExtra, UsageError, one_of

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
    assert str(error) == f'a causal model is not installed (pip install "{REQUIREMENT}[hf]")'
    broken = MissingExtra("a causal model", "hf", ValueError("bad build"))
    assert broken.hint == f'repair it, or reinstall it: pip install --force-reinstall "{REQUIREMENT}[hf]"'


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
