from __future__ import annotations

import gzip
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from mergewise.text.terms import TermFinder, content_terms, spelled_terms


def test_stop_words_go_and_inflections_meet() -> None:
    assert content_terms("What is merging a section?") == content_terms("Sections merge.")
    assert content_terms("Is it the of?") == frozenset()


def test_scripts_without_spaces_give_characters() -> None:
    assert content_terms("東京タワー") >= {"東", "京"}


@given(st.text(alphabet="abeginorsty' -_.é東", max_size=30), st.text(alphabet="abeginorsty' -_é東", max_size=60))
def test_the_finder_finds_what_the_whole_analysis_finds(question: str, text: str) -> None:
    terms = content_terms(question)
    assert TermFinder(terms).find(text) == terms & content_terms(text)


def test_the_finder_finds_the_inflections_of_real_words(bench: Path) -> None:
    with gzip.open(bench / "squad/corpus.jsonl.gz", "rt", encoding="utf-8") as lines:
        words = sorted({word for line in lines for word in line.split()})
    terms = content_terms(" ".join(words))
    finder = TermFinder(terms)
    assert all(finder.find(word) == content_terms(word) for word in words[::7])


def test_terms_are_spelled_as_the_text_spells_them_first() -> None:
    assert spelled_terms("Does the Handler handle it?") == {"handler": "Handler", "handl": "handle"}
    assert (
        spelled_terms("Runs, running").keys() == content_terms("Runs, running")
        and spelled_terms("Runs, running")["run"] == "Runs"
    )
