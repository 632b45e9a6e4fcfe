"""Confidence in quotations."""

from __future__ import annotations

import pytest

from mergewise.generate.confidence import MOST_MARGIN, Signals

QUESTION = "What is the default timeout of the Client of HTTPX?"


def signals(question: str, quoted: str, around: str = "", *, vectors: bool = True, margin: float = 2.0) -> Signals:
    cosine = 0.6 if vectors else None
    nearest = 1.0 if vectors else None
    return Signals.of(question, quoted, around, cosine=cosine, nearest=nearest, missing=0.1, margin=margin)


def test_shares_of_names_and_of_other_terms() -> None:
    known = signals(QUESTION, "The default timeout is five seconds.", "httpx/timeouts.md")
    assert (known.named, known.asked, known.covered) == (0.5, 1.0, 0.75)
    assert signals("Why?", "Because.").named == 1.0


def test_a_leading_sentence_covers_only_the_names() -> None:
    question = "When was the director of Amar Sangi born?"
    first_hop = signals(question, "Amar Sangi is a film directed by Sujit Guha.")
    answer = signals(question, "Sujit Guha was born in 1950.", "Amar Sangi is a film directed by Sujit Guha.", margin=3)
    assert first_hop.lacks_kind and not answer.lacks_kind
    assert first_hop.sure() < 0.6 <= answer.sure()


@pytest.mark.parametrize(
    ("question", "lacks", "has"),
    [
        (
            "Why does mkstemp delete the file?",
            "The user of mkstemp deletes the file.",
            "It deletes it because it leaks.",
        ),
        ("Who wrote the module?", "The module has examples.", "The module was written by Ada Brix."),
        ("How many threads are started?", "Changed in version 3.10: threads are safe.", "It starts four threads."),
        ("What is the maximum depth?", "The maximum depth of recursion.", "The maximum depth is `deep`."),
    ],
)
def test_a_quotation_has_the_form_that_the_question_asks_for(question: str, lacks: str, has: str) -> None:
    assert signals(question, lacks, lacks).sure() == 0 < signals(question, has, has).sure()


@pytest.mark.parametrize("vectors", [True, False])
def test_more_covered_terms_raise_the_confidence(vectors: bool) -> None:
    less = signals(QUESTION, "The timeout is long.", vectors=vectors)
    more = signals(QUESTION, "The default timeout of httpx.Client is five seconds.", vectors=vectors)
    assert 0 < less.found() < more.found() < 1 and 0 <= less.sure() < more.sure() < 1
    assert signals(QUESTION, "The timeout.", margin=99).margin == MOST_MARGIN
