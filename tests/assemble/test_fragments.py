from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mergewise.assemble.fragments import Fragment, uncovered_parts

TEXT = "# Pumps\n\nPumps press.  Rings turn.\n"
WHOLE = Fragment("d", "D", ("Pumps",), 0, len(TEXT), TEXT.index("Pumps press"), TEXT)


def test_visible_leaves_out_headings_and_white_space() -> None:
    assert WHOLE.visible == (9, 34, "Pumps press.  Rings turn.")
    assert WHOLE.cut(0, 9).visible[2] == ""


def test_a_cut_is_the_text_at_its_offsets() -> None:
    cut = WHOLE.cut(9, 23)
    assert (cut.start, cut.end, cut.body, cut.text) == (9, 23, 9, TEXT[9:23])


def test_fragments_of_other_documents_cover_nothing() -> None:
    other = Fragment("e", "E", (), 0, len(TEXT), 0, TEXT)
    assert uncovered_parts(WHOLE, [other]) == [WHOLE]


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 20)), max_size=4))
def test_what_is_uncovered_is_every_visible_character_that_nothing_holds(cuts: list[tuple[int, int]]) -> None:
    taken = [WHOLE.cut(start, min(start + size, len(TEXT))) for start, size in cuts]
    held = {i for fragment in taken for i in range(fragment.start, fragment.end)}
    rest = [i for part in uncovered_parts(WHOLE, taken) for i in range(part.start, part.end)]
    assert len(rest) == len(set(rest)) and not held.intersection(rest)
    lost = set(range(WHOLE.body, len(TEXT))) - held - set(rest)
    assert all(TEXT[i].isspace() for i in lost)
