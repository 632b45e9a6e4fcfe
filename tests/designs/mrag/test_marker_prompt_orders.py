"""The orders of the marker prompt in M-RAG, Table 7."""

from __future__ import annotations

import pytest

from mergewise.designs.mrag.markers.extract import RULES, ordered

GOALS, FORM, RULED = "How many:", "Answer with JSON alone", "Each marker has three parts"


@pytest.mark.parametrize(
    ("order", "parts"),
    [
        ("built-in", (RULED, GOALS, FORM)),
        ("a", (GOALS, FORM, RULED)),
        ("b", (GOALS, RULED, FORM)),
        ("c", (FORM, RULED, GOALS)),
    ],
)
def test_parts_change_places_and_nothing_is_lost(order: str, parts: tuple[str, ...]) -> None:
    text = ordered(order).text
    assert sorted(text.split()) == sorted(RULES.text.split()) and text.endswith("$examples")
    assert [text.index(part) for part in parts] == sorted(text.index(part) for part in parts)
