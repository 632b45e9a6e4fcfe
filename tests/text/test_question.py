from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mergewise.text import question as questions
from mergewise.text.question import answer_type, needs_previous, offers, question_type, telling_words


@pytest.mark.parametrize(
    ("question", "kind", "wanted"),
    [
        ("Which film came out first, The Rack or Cantaclaro?", "comparison", "time"),
        ("Are Christopher Nolan and Sathish Kalathil both film directors?", "comparison", None),
        ("Do volumes survive a restart?", "yes-no", None),
        ("What are the options of the fan controller?", "list", None),
        ("List the supported formats.", "list", None),
        ("How many leaves does a section have?", "fact", "number"),
        ("When was the bridge built?", "fact", "time"),
        ("Where was the director of the film born?", "fact", "place"),
        ("Who wrote it?", "fact", None),
        ("", "fact", None),
    ],
)
def test_kinds_of_questions(question: str, kind: str, wanted: str | None) -> None:
    assert (question_type(question), answer_type(question)) == (kind, wanted)


PARTS = "which who or than both same first earlier more and when x y, \n difference Both between".split(" ")
# the rule as one expression, whose time is quadratic in the parts of a question
COMPARISON = re.compile(
    r"\b(?:which|who|what|whose)\b.*\b(?:or|than)\b|\b(?:both|same|either|neither|earlier|later|older|younger|more|less|"
    r"larger|smaller|bigger|taller|longer|first|difference|differ|compare)\b.*\b(?:and|or|than|between)\b|"
    r"\b(?:and|or)\b.*\b(?:both|same|either|more|older|younger|larger|longer|first)\b",
    re.IGNORECASE,
)


@given(st.lists(st.sampled_from(PARTS), max_size=9).map(" ".join))
def test_a_comparison_has_two_words_in_order_on_a_line(question: str) -> None:
    assert (question_type(question) == "comparison") == bool(COMPARISON.search(question))


def test_no_pattern_scans_the_rest_of_a_question() -> None:
    """A wildcard after each of many words takes quadratic time. An atomic group before it leaves only the first one."""
    values: list[object] = []
    for value in vars(questions).values():
        values += [*value.values()] if isinstance(value, dict) else [value]
    patterns = [value.pattern for value in values if isinstance(value, re.Pattern)]
    assert len(patterns) > 5
    for pattern in patterns:
        assert pattern.count(".*") == pattern.count("(?>.*?") + pattern.count(r"\b).*\b")
        assert pattern.count("(?>.*?") == pattern.count("^(?>.*?") + pattern.count("(?m:^)(?>.*?")


def test_sentences_offer_the_wanted_type() -> None:
    assert offers("It has three legs.", "number") and not offers("It has legs.", "number")
    assert offers("Born in 1912.", "time") and offers("In May it rains.", "time") and not offers("Born 12.", "time")
    assert offers("He lived in the Hague.", "place") and not offers("He lived in it.", "place")
    assert not offers("In 1912.", None)


def test_sentences_that_need_the_previous_one() -> None:
    for sentence in ("However, no.", "This gets hot."):
        assert needs_previous(sentence, headed=True) and needs_previous(sentence, headed=False)
    for sentence in ("- an item", "2. second", "| cell |"):  # an index with leads stores the sentences that they need
        assert needs_previous(sentence, headed=True, marks=True) and not needs_previous(sentence, headed=True)
    assert needs_previous("It gets hot.", headed=False) and not needs_previous("It gets hot.", headed=True)
    assert not needs_previous("Items are hot.", headed=False) and not needs_previous("Heat rises.", headed=False)


def test_telling_words_of_relations() -> None:
    assert telling_words(["who", "father"]) == ["daughter", "child", "children", "born", "parents"]
    assert telling_words(["which", "city"]) == telling_words([]) == []
    assert {"daughter", "music"} <= set(telling_words(["mother", "composer"]))


@pytest.mark.parametrize(
    ("question", "asks"),
    [
        ("When was the mill built?", True),
        ("The mill was built when?", True),
        ("In the north, when did the floods begin?", True),
        ("Which came out earlier, the first edition or the second?", True),
        ("Which library is used when I set nothing?", False),
        ("When I upload a file, what does each position mean?", False),
        ("When do leaves become their parent section?", False),
        ("What was it called in earlier versions?", False),
    ],
)
def test_only_an_interrogative_when_asks_for_a_time(question: str, asks: bool) -> None:
    assert (answer_type(question) == "time") is asks
