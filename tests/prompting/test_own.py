"""Prompts of one's own: what is read is checked, and a wrong placeholder is told with its file and line."""

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


def test_values_stand_for_placeholders_in_the_shipped_text_and_in_ones_own() -> None:
    assert SHIPPED.fill(GREETING, name="Ada", day="Monday") == "Dear Ada,\nit is $5."
    own = load_prompts({"greeting": "Hello ${name}, happy $day!"}, KNOWN)
    assert own.fill(GREETING, name="$day", day="Monday") == "Hello $day, happy Monday!"
    assert own.fill(FAREWELL) == "Yours"


def test_a_hash_stands_for_what_is_ones_own_alone() -> None:
    own, other = (load_prompts({"greeting": text}, KNOWN) for text in ("Hello $name.", "Hello $name!"))
    assert SHIPPED.digests() == {} and own.digest("farewell") == ""
    assert len(own.digest("greeting")) == 12 and own.digests() == {"greeting": own.digest("greeting")}
    assert own.digest("greeting") != other.digest("greeting")


def test_what_ships_is_written_as_a_start_and_read_as_none_of_ones_own(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "prompts"
    assert [path.name for path in write_prompts(folder, KNOWN)] == ["greeting.txt", "farewell.txt"]
    assert load_prompts(folder, KNOWN) == Prompts()
    (folder / "farewell.txt").write_text("Bye\n", encoding="utf-8")
    (folder / "notes.md").write_text("not a prompt", encoding="utf-8")
    assert write_prompts(folder, KNOWN) == [], "what stands is left"
    assert load_prompts(folder, KNOWN) == Prompts({"farewell": "Bye"}) == load_prompts(str(folder), KNOWN)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("greeting", "Hello $name,\nthe text is\n$text", "greeting.txt, line 3: unknown placeholder '$text'"),
        ("greeting", "Hello ${name},\nit costs $5", "greeting.txt, line 2: unknown placeholder '$'"),
        ("greeting", "Hello {name}", "greeting.txt lacks $name"),
        ("greeting", "Hello $$name", "greeting.txt lacks $name"),
        ("farewell", "Bye $name", "farewell.txt, line 1: unknown placeholder '$name'"),
        ("greetings", "Hello $name", "there is no prompt 'greetings'"),
        ("farewell", " \n", "farewell.txt is no prompt"),
        ("farewell", "x" * (LONGEST + 1), "farewell.txt is no prompt"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(name: str, text: str, says: str, tmp_path: Path) -> None:
    (tmp_path / f"{name}.txt").write_text(text, encoding="utf-8")
    with pytest.raises(UsageError) as error:
        load_prompts(tmp_path, KNOWN)
    assert str(tmp_path) in error.value.message and says in error.value.message and error.value.hint


def test_what_is_no_folder_and_no_dictionary_is_a_wrong_usage() -> None:
    given: Any = 3
    with pytest.raises(UsageError, match="the prompts are 3"):
        load_prompts(given, KNOWN)


def test_a_pipe_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "greeting.txt")
    with pytest.raises(UsageError, match="holds no prompts"):
        load_prompts(tmp_path, KNOWN)


def test_a_folder_that_holds_none_is_told(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "none"):
        with pytest.raises(UsageError, match="holds no prompts") as error:
            load_prompts(folder, KNOWN)
        assert "mergewise prompts --out" in error.value.hint
    (tmp_path / "farewell.txt").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(UsageError, match="cannot be read"):
        load_prompts(tmp_path, KNOWN)
    with pytest.raises(UsageError, match="cannot be written"):
        write_prompts(tmp_path / "farewell.txt", KNOWN)
