from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mergewise.text.terms import content_terms, terms_among


def test_stop_words_go_and_inflections_meet() -> None:
    assert content_terms("What is merging a section?") == content_terms("Sections merge.")
    assert content_terms("Is it the of?") == frozenset()


def test_scripts_without_spaces_give_characters() -> None:
    assert content_terms("東京タワー") >= {"東", "京"}


@given(st.text(max_size=80), st.text(max_size=40))
def test_terms_among_are_the_common_terms(text: str, question: str) -> None:
    wanted = content_terms(question + " Cats naps")
    assert terms_among(text + " cat NAP the", wanted) == content_terms(text + " cat NAP the") & wanted
