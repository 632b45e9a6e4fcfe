"""Custom prompts are checked on loading, and errors name the file and the line."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from mergewise.errors import UsageError
from mergewise.prompting.own import LONGEST, load_prompts, write_prompts
from mergewise.types import SHIPPED, Prompts, PromptTemplate

GREETING = PromptTemplate("greeting", "greets", "Dear $name,\nit is $$5.", needs=("name",), may=("day",))
FAREWELL = PromptTemplate("farewell", "takes leave", "Yours")
KNOWN = {one.name: one for one in (GREETING, FAREWELL)}


def test_values_replace_placeholders_in_shipped_and_custom_prompts() -> None:
    assert SHIPPED.fill(GREETING, name="Ada", day="Monday") == "Dear Ada,\nit is $5."
    own = load_prompts({"greeting": "Hello ${name}, happy $day!"}, KNOWN)
    assert own.fill(GREETING, name="$day", day="Monday") == "Hello $day, happy Monday!"
    assert own.fill(FAREWELL) == "Yours"


def test_the_hash_covers_custom_prompts_alone() -> None:
    own, other = (load_prompts({"greeting": text}, KNOWN) for text in ("Hello $name.", "Hello $name!"))
    assert SHIPPED.digests() == {} and own.digest("farewell") == ""
    assert len(own.digest("greeting")) == 12 and own.digests() == {"greeting": own.digest("greeting")}
    assert own.digest("greeting") != other.digest("greeting")


def test_shipped_prompts_are_written_and_not_read_as_custom(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "prompts"
    assert [path.name for path in write_prompts(folder, KNOWN)] == ["greeting.txt", "farewell.txt"]
    assert load_prompts(folder, KNOWN) == Prompts()
    (folder / "farewell.txt").write_text("Bye\n", encoding="utf-8")
    (folder / "notes.md").write_text("not a prompt", encoding="utf-8")
    assert write_prompts(folder, KNOWN) == [], "existing files are kept"
    assert load_prompts(folder, KNOWN) == Prompts({"farewell": "Bye"}) == load_prompts(str(folder), KNOWN)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("greeting", "Hello $name,\nthe text is\n$text", "greeting.txt, line 3: unknown placeholder '$text'"),
        ("greeting", "Hello ${name},\nit costs $5", "greeting.txt, line 2: unknown placeholder '$'"),
        ("greeting", "Hello {name}", "greeting.txt: missing placeholder $name"),
        ("greeting", "Hello $$name", "greeting.txt: missing placeholder $name"),
        ("farewell", "Bye $name", "farewell.txt, line 1: unknown placeholder '$name'"),
        ("greetings", "Hello $name", "unknown prompt: 'greetings'"),
        ("farewell", " \n", "farewell.txt: invalid prompt"),
        ("farewell", "x" * (LONGEST + 1), "farewell.txt: invalid prompt"),
    ],
)
def test_errors_name_file_and_line(name: str, text: str, says: str, tmp_path: Path) -> None:
    (tmp_path / f"{name}.txt").write_text(text, encoding="utf-8")
    with pytest.raises(UsageError) as error:
        load_prompts(tmp_path, KNOWN)
    assert str(tmp_path) in error.value.message and says in error.value.message and error.value.hint


def test_prompts_must_be_a_folder_or_a_dictionary() -> None:
    given: Any = 3
    with pytest.raises(UsageError, match="invalid prompts: 3"):
        load_prompts(given, KNOWN)


def test_a_pipe_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "greeting.txt")
    with pytest.raises(UsageError, match="no prompts in"):
        load_prompts(tmp_path, KNOWN)


def test_a_folder_without_prompts_is_an_error(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "none"):
        with pytest.raises(UsageError, match="no prompts in") as error:
            load_prompts(folder, KNOWN)
        assert "mergewise prompts --out" in error.value.hint
    (tmp_path / "farewell.txt").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(UsageError, match="cannot read"):
        load_prompts(tmp_path, KNOWN)
    with pytest.raises(UsageError, match="cannot write"):
        write_prompts(tmp_path / "farewell.txt", KNOWN)
