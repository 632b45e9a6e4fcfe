"""Metrics of answers against slow implementations of their definitions."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mergewise.evaluate.answers import ANSWER_SCORES, prediction_of, score_answer
from mergewise.evaluate.statistics import bootstrap, wilson
from mergewise.evaluate.words import normalise_answer
from mergewise.types import Answer, Context

PUNCTUATION = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"


def squad(text: str) -> list[str]:
    """Normalise a text like SQuAD's script: lower case, no punctuation, no articles, single blanks."""
    letters = [letter for letter in text.lower() if letter not in PUNCTUATION]
    return [word for word in "".join(letters).split() if word not in ("a", "an", "the")]


def longest_common(a: list[str], b: list[str]) -> int:
    if not a or not b:
        return 0
    if a[0] == b[0]:
        return 1 + longest_common(a[1:], b[1:])
    return max(longest_common(a[1:], b), longest_common(a, b[1:]))


def rouge_l(said: str, gold: str) -> float:
    """Follow the steps of rouge-score: blanks for all but ASCII letters and digits, and words at the blanks."""
    ours, theirs = (
        "".join(c if c.isascii() and c.isalnum() else " " for c in text.lower()).split() for text in (said, gold)
    )
    common = longest_common(ours, theirs)
    if not common:
        return 0.0
    precision, recall = common / len(ours), common / len(theirs)
    return 2 * precision * recall / (precision + recall)


def literal(said: str, gold: str) -> dict[str, float]:
    ours, theirs = squad(said), squad(gold)
    left, shared = list(theirs), 0
    for word in ours:
        if word in left:
            left.remove(word)
            shared += 1
    if not ours or not theirs:
        return {**dict.fromkeys(ANSWER_SCORES, float(ours == theirs)), "rouge_l": rouge_l(said, gold)}
    precision, recall = shared / len(ours), shared / len(theirs)
    f1 = 2 * precision * recall / (precision + recall) if shared else 0.0
    runs = [ours[i : i + len(theirs)] for i in range(len(ours))]
    verdicts = (["yes"], ["no"], ["noanswer"])
    is_clear = ours == theirs or not (ours in verdicts or theirs in verdicts)
    held = float(" ".join(theirs) in " ".join(ours))
    return {
        "em": float(ours == theirs),
        "f1": f1,
        "precision": precision,
        "recall": recall,
        "relaxed_em": held,
        "contains_words": float(theirs in runs),
        "accuracy": held,
        "rouge_l": rouge_l(said, gold),
        "hotpot_f1": f1 if is_clear else 0.0,
    }


words = st.lists(
    st.sampled_from(["The", "a", "cat", "Cat's", "U.S.", "1984", "cats", "-", "an", "catalogue", "Zoë", "no", "Yes."]),
    max_size=6,
)
texts = words.map(" ".join)


@given(texts, st.lists(texts, min_size=1, max_size=3))
def test_every_metric_matches_its_definition_for_the_best_gold_answer(said: str, golds: list[str]) -> None:
    found = score_answer(said, golds)
    expected = [literal(said, gold) for gold in golds]
    for name in expected[0].keys() - {"average"}:
        assert abs(getattr(found, name) - max(one[name] for one in expected)) < 1e-12, name
    assert found.average == (found.relaxed_em + found.f1) / 2
    assert found.em <= found.contains_words <= found.relaxed_em
    assert found.hotpot_f1 <= found.f1


def test_a_gold_answer_of_articles_and_no_gold_answer() -> None:
    for said, golds, value in (("no", ["the"], 0), ("", [], 1), ("Paris", [], 0)):
        found = score_answer(said, golds)
        assert (found.em, found.f1, found.relaxed_em, found.contains_words) == (value,) * 4
    assert normalise_answer(" The  Cat-Dog,\nan ox ") == "catdog ox"


def test_a_prediction_has_no_citation_marks_and_is_empty_if_nothing_was_found() -> None:
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
    assert abs(low - 0.402) < 0.015 and abs(high - 0.598) < 0.015  # 0.5 plus and minus 1.96 times 0.05
    assert bootstrap([0.25] * 9) == (0.25, 0.25)
