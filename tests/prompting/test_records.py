"""Records in answers, from valid and damaged JSON. A damaged record costs at most itself, and hostile input costs
linear time.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mergewise.prompting.records import Fields, records_in

FIELDS: Fields = {
    "value": ("text", ("v",)),
    "key": ("text", ("k", "question")),
    "paragraphs": ("numbers", ("paragraph_indices",)),
}
A = {"value": "Cats eat fish.", "key": "What do cats eat?", "paragraphs": [0]}
B = {"value": "Rome fell.", "key": "What fell?", "paragraphs": [1, 2]}
BOTH = json.dumps({"markers": [A, B]})


@pytest.mark.parametrize(
    "answer",
    [
        BOTH,
        json.dumps([A, B]),
        f"```json\n{BOTH}\n```",
        BOTH.replace("value", "v").replace("key", "k").replace("paragraphs", "paragraph_indices"),
    ],
)
def test_json_is_read_as_it_is(answer: str) -> None:
    read = records_in(answer, FIELDS)
    assert read.items == (A, B) and not read.cut


def test_a_record_alone() -> None:
    assert records_in(json.dumps(A), FIELDS).items == (A,)


def test_a_list_may_be_in_a_field() -> None:
    assert records_in(json.dumps({"key": [A, B]}), FIELDS).items == (A, B)


def test_the_longest_list_of_an_object_is_read() -> None:
    assert records_in(json.dumps({"notes": ["z"], "found": [A, B]}), FIELDS).items == (A, B)


@pytest.mark.parametrize(
    "answer",
    [
        "Sure! Here you are:\n" + BOTH + "\nI hope {this} helps.",
        BOTH.replace("]}", ",]},"),
        BOTH.replace('"', "'"),
        BOTH.replace("}, {", "} {"),
        BOTH.replace(", ", " "),
        json.dumps(A) + "\n" + json.dumps(B),
        "```json\n" + BOTH,
        BOTH[:-2],
        BOTH.replace('"What do cats eat?"', '["What do cats eat?"]').replace("[0]", "[0],,"),
        BOTH.replace("[0]", '["0"],').replace("[1, 2]", "[ 1,2 "),
        "{" + BOTH,
    ],
)
def test_common_damage_is_repaired(answer: str) -> None:
    read = records_in(answer, FIELDS)
    assert read.items == (A, B) and not read.cut


def test_quotes_that_nobody_escaped_stay_in_the_text() -> None:
    answer = '{"markers": [{"value": "He said "hi, there" and left", "key": "Who said "hi"?", "paragraphs": [0]}]}'
    (item,) = records_in(answer, FIELDS).items
    assert item == {"value": 'He said "hi, there" and left', "key": 'Who said "hi"?', "paragraphs": [0]}


def test_escapes_are_undone_in_damaged_json() -> None:
    answer = r'[{"value": "a \"b\" \n \u00e9", "key": "k?", "paragraphs": [0]},]'
    (item,) = records_in(answer, FIELDS).items
    assert item["value"] == 'a "b" \n é'


@pytest.mark.parametrize("cut", range(len(BOTH)))
def test_a_cut_costs_one_record(cut: int) -> None:
    read = records_in(BOTH[:cut], FIELDS)
    first, second = BOTH.index("}") + 1, BOTH.rindex("}", 0, -2) + 1
    whole = (A, B) if cut >= second else (A,) if cut >= first else ()
    assert read.items == whole
    assert not read.cut or cut < second


@given(
    st.lists(
        st.sampled_from(
            ["{", "}", "[", "]", '"', "'", ",", ":", "\\", '"value"', '"key":', '{"paragraphs":', "7", " ", "ü"]
        )
    )
)
def test_anything_is_read_without_an_error(pieces: list[str]) -> None:
    assert isinstance(records_in("".join(pieces), FIELDS).items, tuple)


@pytest.mark.parametrize(
    "piece", ["[", '{"a":', '{"value":', '{"value": "', "{", '"', "\\", '"value"', "{ " * 3, '"}', "'value':'\\"]
)
def test_hostile_nesting_is_harmless(piece: str) -> None:
    read = records_in(piece * 200_000, FIELDS)
    assert isinstance(read.items, tuple)


text = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40).map(lambda s: s.strip() or "x")
record = st.fixed_dictionaries({"value": text, "key": text, "paragraphs": st.lists(st.integers(0, 99), max_size=4)})


@given(st.lists(record, max_size=4))
def test_sound_json_comes_back(items: list[dict[str, Any]]) -> None:
    assert records_in(json.dumps({"markers": items}), FIELDS).items == tuple(items)
