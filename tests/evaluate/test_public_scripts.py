"""Our metrics against the rules of the public scripts, worked out by hand: (prediction, gold answers, value).

A fourth item is our value if it differs on purpose.
"""

from __future__ import annotations

import pytest

from mergewise.evaluate.answers import score_answer
from mergewise.evaluate.ranking import ranking_score

Row = tuple[str, list[str], float] | tuple[str, list[str], float, float]

ROWS: dict[tuple[str, str], list[Row]] = {
    # hotpot_evaluate_v1: one gold answer; yes, no and noanswer match completely or not at all
    # the script strips only ASCII punctuation
    ("HotpotQA", "em"): [("Yes, both are.", ["yes"], 0), ("1939–1945", ["1939-1945"], 0, 1)],
    ("HotpotQA", "hotpot_f1"): [
        ("yes they are", ["yes"], 0),
        ("noanswer", ["no answer"], 0),
        ("Chief of Protocol", ["the chief of the protocol"], 1),
        ("the", ["a"], 0, 1),  # both texts become empty: the script finds no common word, SQuAD 2.0 counts a match
    ],
    ("HotpotQA", "precision"): [("Anna Berg of Brook", ["Anna Berg"], 1 / 2), ("", ["Anna"], 0)],
    ("HotpotQA", "recall"): [("Anna", ["Anna Berg"], 1 / 2), ("Berg Anna Berg", ["Anna Berg"], 1)],
    # evaluate-v1.1: the best of the gold answers
    ("SQuAD 1.1", "em"): [
        ("Saint Bernadette", ["Bernadette", "Saint  Bernadette."], 1),
        ("C++", ["C"], 1),  # punctuation goes
        ("a.b", ["ab"], 1),  # without a blank
        ("$5.6 million", ["5.6 million"], 1),
    ],
    ("SQuAD 1.1", "f1"): [
        ("gold helmet", ["a gold helmet", "helmet"], 1),
        ("the gold gold helmet", ["gold helmet of gold"], 6 / 7),
    ],
    # evaluate-v2.0: without gold answers the gold is empty; two empty texts match
    ("SQuAD 2.0", "em"): [("", [], 1), ("Brook", [], 0), ("", ["Brook"], 0), ("", ["The"], 1)],
    ("SQuAD 2.0", "f1"): [("", [], 1), ("Brook", [], 0), ("", ["Brook"], 0), ("an", ["the"], 1)],
    # MuSiQue's answer metric: SQuAD 2.0's, over the answer and its aliases
    ("MuSiQue", "em"): [("G. Stanley Hall", ["Granville Hall", "G Stanley Hall"], 1), ("Hall", ["Stanley Hall"], 0)],
    ("MuSiQue", "f1"): [("Hall", ["Stanley Hall", "G. Stanley Hall"], 2 / 3), ("", ["Hall"], 0)],
    # LongBench's qa_f1_score: no rule for yes and no
    ("LongBench", "f1"): [
        ("yes they are", ["yes"], 1 / 2),
        ("In 1612, by Anna Berg", ["1612", "Anna Berg"], 4 / 7),
    ],
    # GainRAG: re.search(normalised gold, normalised prediction)
    ("GainRAG", "relaxed_em"): [
        ("The Parisians did.", ["Paris"], 1),  # also within words
        ("anything", ["C++ (language)"], 0),
        ("the language C (or so)", ["c++"], 1),  # punctuation is removed before the search
        ("a.b", ["a*b"], 1),
        ("anything", ["The"], 1, 0),  # an empty pattern matches everywhere
        ("", ["Paris"], 0),
    ],
    # Self-RAG's match: the raw gold answer in the raw prediction
    ("Self-RAG", "relaxed_em"): [
        ("The Parisians did.", ["Paris"], 1),
        ("paris", ["Paris"], 0, 1),  # upper and lower case count there
        ("U.S. Army", ["US Army"], 0, 1),
    ],
    # MergeRAG, section 4.1: the gold answer as a substring
    ("MergeRAG", "accuracy"): [("the Parisians", ["Paris"], 1), ("Lyon", ["Paris"], 0), ("", ["Paris"], 0)],
    ("whole words", "contains_words"): [
        ("The Parisians did.", ["Paris"], 0),
        ("in Paris, France", ["Paris"], 1),
    ],
    # rouge-score 0.1.2, rougeL, without a stemmer
    ("ROUGE-L", "rouge_l"): [
        ("police killed gunman", ["police kill gunman"], 2 / 3),
        ("gunman kill police", ["police kill gunman"], 1 / 3),
        ("the cat's hat", ["a cat s hat"], 0.75),
        ("The cat", ["cat"], 2 / 3),  # articles count
        ("Zoë Berg", ["Zoe Berg"], 0.5),  # a letter beyond ASCII separates words
        ("foo_bar", ["foo bar"], 1),
        ("", ["x"], 0),
        ("", [""], 0),
        ("东京", ["东京"], 0),
    ],
    # AED-RAG: the mean of its EM, a substring, and F1
    ("AED-RAG", "average"): [("Anna Berg of Brook", ["Anna Berg"], (1 + 2 / 3) / 2)],
}  # fmt: skip


@pytest.mark.parametrize(("script", "metric"), ROWS)
def test_metrics_match_the_public_scripts(script: str, metric: str) -> None:
    for said, golds, value, *ours in ROWS[script, metric]:
        expected = ours[0] if ours else value
        assert getattr(score_answer(said, golds), metric) == pytest.approx(expected), (script, said, golds)


def test_recall_of_hipporag() -> None:
    """Recall is the share of gold passages among the first k. Our rankings have no repeats, which HippoRAG counts once."""
    ranked = ["7", "4", "2", "5"]
    assert [ranking_score(f"recall@{k}", ranked, {"4": 1, "5": 1}) for k in (1, 2, 5)] == [0, 1 / 2, 1]
