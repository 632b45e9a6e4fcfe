from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mergewise.prompting.replies import json_in, without_fences


@pytest.mark.parametrize(
    ("answer", "value"),
    [
        ('{"a": [1]}', {"a": [1]}), (" [1, 2]\n", [1, 2]), ("false", False), ('"1-3"', "1-3"),
        ('```json\n{"a": 1}\n```', {"a": 1}), ("```\n[1]\n```", [1]), ("```[1]```", [1]),
        ('Here it is:\n```json\n{"a": 1}\n```\nDone.', {"a": 1}), ('Well: {"a": {"b": 1}}, I think.', {"a": {"b": 1}}),
        ('{not this} but {"a": 1} and {"a": 2}', {"a": 1}), ("So [2] it is, and [3].", None), ("", None), ("Yes.", None),
        ('Look: {"a": "```1```"}', {"a": "```1```"}),
        ('```json\n{"a": "```", "b": "```2```"}\n```', {"a": "```", "b": "```2```"}),
        ("null", None), ('{"a": 1', None), ("```json\nnothing\n```", None),
    ],
)  # fmt: skip
def test_the_value_is_found(answer: str, value: object) -> None:
    assert json_in(answer) == value


@pytest.mark.parametrize(
    "deep", ["[" * 3000, '{"a":' * 3000, "[" * 3000 + "]" * 3000, '{"a":' * 3000 + "1" + "}" * 3000]
)
def test_deep_nesting_is_refused(deep: str) -> None:
    assert json_in(deep) is None and json_in(f"Well: {deep}") is None


@given(st.text(alphabet='{}[]",:`jsonabc01 \n', max_size=80))
def test_nothing_is_raised(answer: str) -> None:
    json_in(answer)
    without_fences(answer)


values = st.recursive(
    st.booleans() | st.integers() | st.text(), lambda v: st.lists(v) | st.dictionaries(st.text(), v), max_leaves=9
)


@given(st.dictionaries(st.text(), values), st.sampled_from(["{}", "```json\n{}\n```", "Look: {} That is all."]))
def test_an_object_is_found_anywhere(value: dict[str, object], form: str) -> None:
    assert json_in(form.replace("{}", json.dumps(value))) == value


@pytest.mark.parametrize(
    ("answer", "rest"),
    [
        ("```\n1-3\n```", "1-3"),
        (" 1-3 \n", "1-3"),
        ("So:\n```\n1-3\n```", "So:\n```\n1-3\n```"),
        ("```", "```"),
        ("", ""),
    ],
)
def test_enclosing_fences_are_stripped(answer: str, rest: str) -> None:
    assert without_fences(answer) == rest
