"""Answers of a model that points at numbered sentences, and the handling of unusable ones."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mergewise.assemble.fragments import Fragment
from mergewise.assemble.pointing import ReplyForm, Unusable, ask, number_tokens, numbered_lines, numbers_of, value_in
from mergewise.models.scripted import ScriptedChat, Turn
from mergewise.types import Message, Usage

ASKED = [Message("user", "Which sentences?")]
NUMBERS: ReplyForm[list[int]] = ReplyForm({}, "as a list of numbers", 60, lambda reply: numbers_of(value_in(reply), 9))


def asked_of(*answers: str | Turn) -> tuple[list[int] | Unusable, ScriptedChat]:
    chat = ScriptedChat(list(answers))
    try:
        return asyncio.run(ask(chat, ASKED, NUMBERS))[0], chat
    except Unusable as error:
        return error, chat


def test_a_readable_answer_is_one_call() -> None:
    numbers, chat = asked_of("[3, 1, 3]")
    assert numbers == [3, 1]
    assert [request.messages for request in chat.asked] == [tuple(ASKED)]


def test_a_wrong_answer_is_repaired_once_with_the_problem() -> None:
    numbers, chat = asked_of("[12]", "[2]")
    assert numbers == [2]
    first, repair = (request.messages for request in chat.asked)
    assert repair[: len(first)] == first
    assert [message.role for message in repair] == ["user", "assistant", "user"]
    assert repair[1].text == "[12]"
    assert repair[2].text == (
        "That cannot be used: there is no sentence 12. Answer with JSON alone, as a list of numbers."
    )


def test_two_wrong_answers_are_unusable_and_are_paid_for() -> None:
    error, chat = asked_of("none of these", "still none", "[1]")
    assert isinstance(error, Unusable)
    assert error.message == "unusable answer: it is no list of numbers"
    assert len(chat.asked) == error.usage.calls == 2
    assert error.usage.input_tokens > 0


def test_a_cut_off_answer_is_never_read() -> None:
    cut = "[1]" + " " * 3 + "and more " * 100
    error, chat = asked_of(cut)
    assert isinstance(error, Unusable)
    assert "That cannot be used: it was cut off." in chat.asked[1].messages[-1].text


def test_a_model_that_fails_at_once_costs_nothing() -> None:
    error, _ = asked_of(Turn(status=500))
    assert isinstance(error, Unusable)
    assert error.usage == Usage()


def test_a_model_that_fails_at_the_repair_has_cost_its_first_answer() -> None:
    error, _ = asked_of("no", Turn(status=500))
    assert isinstance(error, Unusable)
    assert error.usage.calls == 1


# -- shown sentences


def fragment(doc: str, headings: tuple[str, ...], title: str = "Cats") -> Fragment:
    return Fragment(doc, title, headings, 0, 5, 0, "Text.")


def test_a_heading_path_appears_where_the_section_changes() -> None:
    food, sleep = fragment("a", ("Food",)), fragment("a", ("Sleep",))
    lines = numbered_lines([(food, "Cats\neat."), (food, "They  drink."), (sleep, "They sleep."), (food, "Again.")])
    assert list(lines) == [
        "1. (Cats › Food) Cats eat.",
        "2. They drink.",
        "3. (Cats › Sleep) They sleep.",
        "4. (Cats › Food) Again.",
    ]


def test_a_line_is_one_line_whatever_its_title_holds() -> None:
    (line,) = numbered_lines([(fragment("a", (), "Two\nlines"), "One.")])
    assert line == "1. (Two lines) One."
    (bare,) = numbered_lines([(fragment("a", (), ""), "One.")])
    assert bare == "1. One."


def test_sections_of_two_documents_with_the_same_headings_are_two() -> None:
    lines = list(numbered_lines([(fragment("a", ("Food",)), "One."), (fragment("b", ("Food",)), "Two.")]))
    assert lines == ["1. (Cats › Food) One.", "2. (Cats › Food) Two."]


# -- answers


@pytest.mark.parametrize(
    ("value", "numbers"),
    [
        (3, [3]),
        ([3, 1, 3, 2], [3, 1, 2]),
        ("3", [3]),
        ("1-3 7 9", [1, 2, 3, 7, 9]),
        ("2, 4,6", [2, 4, 6]),
        (" 5 - 6 ", [5, 6]),
        ("", []),
        ([], []),
        ("7 7-8", [7, 8]),
        (True, "it is no list of numbers"),
        ([1, True], "it is no list of numbers"),
        ([1.0], "it is no list of numbers"),
        (None, "it is no list of numbers"),
        ({"numbers": [1]}, "it is no list of numbers"),
        ("1; 2", "it is no list of numbers"),
        ("sentence 1", "it is no list of numbers"),
        ("123456", "it is no list of numbers"),
        ("3-1", "3-1 runs backwards"),
        ("0", "there is no sentence 0"),
        ("8-10", "there is no sentence 10"),
        ([-1], "there is no sentence -1"),
    ],
)
def test_numbers_worked_out_by_hand(value: object, numbers: list[int] | str) -> None:
    assert numbers_of(value, 9) == numbers


@given(st.lists(st.integers(1, 40)), st.sampled_from([", ", " ", ",", " , "]))
def test_a_list_and_its_text_are_read_alike(numbers: list[int], between: str) -> None:
    expected = list(dict.fromkeys(numbers))
    assert numbers_of(numbers, 40) == expected
    assert numbers_of(between.join(map(str, numbers)), 40) == expected


@given(st.one_of(st.text("0123456789-, ", max_size=12), st.lists(st.integers(-5, 20), max_size=5), st.integers()))
def test_any_answer_gives_only_numbers_that_were_shown(value: object) -> None:
    numbers = numbers_of(value, 9)
    if not isinstance(numbers, str):
        assert len(numbers) == len(set(numbers))
        assert set(numbers) <= set(range(1, 10))


@pytest.mark.parametrize(
    ("answer", "value"),
    [("[1, 2]", [1, 2]), ("```json\n[1]\n```", [1]), ("1-3", "1-3"), ("", None), ("```\n2 3\n```", "2 3")],
)
def test_the_value_of_an_answer_is_its_json_or_its_text(answer: str, value: object) -> None:
    assert value_in(answer) == value


@given(st.integers(1, 99_999))
def test_there_is_room_for_every_number(count: int) -> None:
    """A number of five digits takes at most two tokens, and a comma one."""
    assert number_tokens(count) >= 3 * count
