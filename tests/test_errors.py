"""The tree of errors: what the command line returns for each, which may be tried again, and how each reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from mergewise import errors
from mergewise.errors import REQUIREMENT, MergewiseError, MissingExtra, UsageError

EVERY = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, MergewiseError)]


def test_only_what_another_process_holds_is_worth_a_retry() -> None:
    assert [kind.__name__ for kind in EVERY if kind.retryable] == ["IndexBusy"]


def test_what_the_caller_can_mend_is_told_apart_from_what_failed() -> None:
    mended = {"UsageError", "NotAnIndex", "NewerFormat", "OlderFormat", "EmbedderMismatch"}
    assert {kind.__name__: kind.exit_code for kind in EVERY} == {
        kind.__name__: 2 if kind.__name__ in mended else 1 for kind in EVERY
    }


@pytest.mark.parametrize(("hint", "said"), [("give a list", "no list (give a list)"), ("", "no list")])
def test_an_error_says_what_is_wrong_and_what_to_do(hint: str, said: str) -> None:
    error = UsageError("no list", hint)
    assert (str(error), error.message, error.hint) == (said, "no list", hint)


def test_a_missing_extra_names_the_command() -> None:
    error = MissingExtra("a causal model", "hf")
    assert str(error) == f'a causal model is not installed (pip install "{REQUIREMENT}[hf]")'
    broken = MissingExtra("a causal model", "hf", ValueError("bad build"))
    assert broken.hint == f'repair it, or reinstall it: pip install --force-reinstall "{REQUIREMENT}[hf]"'


def test_a_package_that_lacks_a_module_of_its_own_is_not_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lacking_its_part.py").write_text("import no_such_part_anywhere")
    monkeypatch.syspath_prepend(tmp_path)
    for name, said in (("no_such_package_anywhere", "x is not installed"), ("lacking_its_part", "cannot be imported")):
        with pytest.raises(ModuleNotFoundError) as error:
            exec(f"import {name}")
        # the frames of the test stand before that of the import
        cause = error.value.with_traceback(error.value.__traceback__ and error.value.__traceback__.tb_next)
        assert said in MissingExtra("x", "hf", cause).message
