from __future__ import annotations

from mergewise.text.terms import content_terms


def test_stop_words_go_and_inflections_meet() -> None:
    assert content_terms("What is merging a section?") == content_terms("Sections merge.")
    assert content_terms("Is it the of?") == frozenset()


def test_scripts_without_spaces_give_characters() -> None:
    assert content_terms("東京タワー") >= {"東", "京"}
