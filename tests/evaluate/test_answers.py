"""Metrics of answers against their definitions, written out slowly."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mergewise.evaluate.answers import AnswerScore, prediction_of, score_answer
from mergewise.evaluate.statistics import bootstrap, paired_interval, wilson
from mergewise.evaluate.words import normalise_answer
from mergewise.types import Answer, Context

PUNCTUATION = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"


def squad(text: str) -> list[str]:
    """The words of a text as SQuAD's script leaves them: lower case, no punctuation, no articles, no further white space."""
    letters = [letter for letter in text.lower() if letter not in PUNCTUATION]
    return [word for word in "".join(letters).split() if word not in ("a", "an", "the")]


def literal(said: str, gold: str) -> AnswerScore:
    ours, theirs = squad(said), squad(gold)
    left, shared = list(theirs), 0
    for word in ours:
        if word in left:
            left.remove(word)
            shared += 1
    if not ours or not theirs:
        same = float(ours == theirs)
        return AnswerScore(same, same, same, same)
    precision, recall = shared / len(ours), shared / len(theirs)
    f1 = 2 * precision * recall / (precision + recall) if shared else 0.0
    runs = [ours[i : i + len(theirs)] for i in range(len(ours))]
    return AnswerScore(float(ours == theirs), f1, float(theirs in runs), float(" ".join(theirs) in " ".join(ours)))


words = st.lists(
    st.sampled_from(["The", "a", "cat", "Cat's", "U.S.", "1984", "cats", "-", "an", "catalogue", "Zoë"]), max_size=6
)
texts = words.map(" ".join)


@given(texts, st.lists(texts, min_size=1, max_size=3))
def test_every_metric_is_its_definition_and_the_best_gold_counts(said: str, golds: list[str]) -> None:
    found = score_answer(said, golds)
    expected = [literal(said, gold) for gold in golds]
    for name in ("em", "f1", "relaxed_em", "accuracy"):
        assert abs(getattr(found, name) - max(getattr(one, name) for one in expected)) < 1e-12, name
    assert found.em <= found.relaxed_em <= found.accuracy


def test_scores_worked_out_by_hand() -> None:
    assert score_answer("The U.S. Army.", ["US army"]) == AnswerScore(1, 1, 1, 1)
    assert score_answer("He was born in Paris, France.", ["Paris"]) == AnswerScore(0, 2 * (1 / 6) / (1 / 6 + 1), 1, 1)
    assert score_answer("The Parisians", ["Paris"]) == AnswerScore(0, 0, 0, 1)  # within a word: accuracy alone
    assert score_answer("Paris", ["Paris, France", "Lyon"]).f1 == 2 / 3
    assert score_answer("", ["Paris"]) == AnswerScore(0, 0, 0, 0)
    assert score_answer("no", ["the"]) == AnswerScore(
        0, 0, 0, 0
    )  # a gold answer of articles alone is contained in nothing
    assert score_answer("", []) == AnswerScore(1, 1, 1, 1) and score_answer("Paris", []) == AnswerScore(0, 0, 0, 0)
    assert normalise_answer(" The  Cat-Dog,\nan ox ") == "catdog ox"


def test_marks_are_no_part_of_an_answer_and_what_was_not_found_is_none() -> None:
    context = Context("q", "s", 1, "", 0, ())
    assert prediction_of(Answer("q", "Delft [1][2], in 1984 [3].", (), context)) == "Delft, in 1984."
    assert prediction_of(Answer("q", "Nothing relevant was found.", (), context, found=False)) == ""


def test_intervals() -> None:
    low, high = wilson(0.5, 10)  # the textbook's example of Wilson's interval
    assert (round(low, 4), round(high, 4)) == (0.2366, 0.7634)
    low, high = wilson(0.0, 10)
    assert (low, round(high, 4)) == (0.0, 0.2775)
    assert wilson(1.0, 3)[1] == 1.0
    values = [0.0, 1.0] * 50
    assert bootstrap(values) == bootstrap(values)
    low, high = bootstrap(values)
    assert abs(low - 0.402) < 0.015 and abs(high - 0.598) < 0.015  # 0.5 less and more 1.96 times 0.05
    assert bootstrap([0.25] * 9) == (0.25, 0.25)
    ours, theirs = [0.6, 0.1, 0.9], [0.5, 0.0, 0.8]  # better by the same on every question, however much those differ
    assert all(abs(bound - 0.1) < 1e-9 for bound in paired_interval(ours, theirs))
